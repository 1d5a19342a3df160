# SPDX-License-Identifier: Apache-2.0
"""The commands of ``docs/how-to/spark-submit.md`` are some that the job, ``rlmm`` and ``spark-submit`` understand."""

from __future__ import annotations

import re
import shlex

import pytest

from airflow_provider_rlmm.cli.main import rlmm
from airflow_provider_rlmm.features.retention.spark.package import PY_FILES_NAME
from dev.spark_job import load_job
from tests.unit.docs.pages import DOCS, EXAMPLES, Example

PAGE = DOCS / "how-to" / "spark-submit.md"
OURS = [e for e in EXAMPLES if e.page == "how-to/spark-submit.md"]
SUBMITTED = [e for e in OURS if "segment_retention.py" in e.text and e.language == "bash"]
RUN = "Local"
PLACES = [RUN, "A standalone cluster", "YARN", "Kubernetes", "Amazon EMR", "Google Dataproc"]
OPTIONS = {
    "--master", "--deploy-mode", "--queue", "--packages", "--archives", "--files", "--conf", "--py-files", "--num-executors",
    "--executor-cores", "--executor-memory",
}  # fmt: skip
"""Options of spark-submit, each with a value."""
COORDINATES = re.compile(r"org\.apache\.spark:spark-sql-kafka-0-10_(2\.1[23]):(3\.5|4\.[0-2])\.\d+")


def parts_of(example: Example) -> tuple[dict[str, list[str]], list[str]]:
    """Return option → values of whoever submits, and the arguments of the job."""
    words = shlex.split(example.text.replace("\\\n", ""))
    (job,) = (number for number, word in enumerate(words) if word.endswith("segment_retention.py"))
    if words[0] == "gcloud":
        end = words.index("--")
        options = (word.partition("=") for word in words[job + 1 : end])
        return {name: [value] for name, _, value in options}, words[end + 1 :]
    assert words[0] == "spark-submit"
    found: dict[str, list[str]] = {}
    for name, value in zip(words[1:job:2], words[2:job:2], strict=True):
        found.setdefault(name, []).append(value)
    assert found.keys() <= OPTIONS
    return found, words[job + 1 :]


def test_every_place_has_a_command_and_only_what_a_test_runs_is_called_run() -> None:
    assert list(dict.fromkeys(e.section for e in SUBMITTED)) == PLACES
    said = dict(re.findall(r"^## (.+)\n\n\*(Run|Read)[.*,]", PAGE.read_text(), re.MULTILINE))
    assert said == {place: "Run" if place == RUN else "Read" for place in PLACES}


@pytest.mark.parametrize("example", SUBMITTED, ids=str)
def test_the_job_understands_its_arguments(example: Example) -> None:
    options, arguments = parts_of(example)
    told = load_job().parse_arguments(arguments)
    assert told.cluster_state.rpartition("/")[2] == "cluster-state.json"
    assert told.data_set is not None
    (archive,) = options["--py-files"]
    assert archive.endswith(f"/{PY_FILES_NAME}") or archive == PY_FILES_NAME
    assert told.output.endswith(told.plan_id)


@pytest.mark.parametrize("example", SUBMITTED, ids=str)
def test_executors_get_a_connector_and_a_python(example: Example) -> None:
    options, _ = parts_of(example)
    said = " ".join(value for values in options.values() for value in values)
    assert bool(COORDINATES.search(said)) != (example.section == "Kubernetes"), "there the image brings the jars"
    assert ("spark.pyspark.python=" in said) == (example.section != RUN)


def test_the_other_commands_are_those_of_rlmm() -> None:
    others = [e for e in OURS if e.language == "bash" and e not in SUBMITTED]
    lines = [line for e in others for line in e.text.splitlines() if line.startswith("rlmm ")]
    assert [shlex.split(line)[1] for line in lines] == ["spark-files", "cluster-state", "what-if"]
    for line in lines:
        name, *words = shlex.split(line)[1:]
        rlmm.commands[name].make_context(name, words)
