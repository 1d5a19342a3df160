# SPDX-License-Identifier: Apache-2.0
"""Every example of the documentation parses, defines what its page says, and does it: on fakes behind the hooks."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import redirect_stdout
from datetime import datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Connection, Variable
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.core.runs.attention import FIELDS, read_acknowledgements
from airflow_provider_rlmm.core.storage.handed_store import HandedStore
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.hooks.connection import RlmmConnection
from airflow_provider_rlmm.hooks.kill_switch import stop_variables
from airflow_provider_rlmm.operators.cleaner import CleanMetadataPartitionOperator
from airflow_provider_rlmm.operators.scrub import DeleteScrubbedObjectsOperator
from airflow_provider_rlmm.resources import dags_folder
from tests.unit.docs.pages import EXAMPLES, Example, output_of
from tests.unit.docs.world import DAY_MS, FORGOTTEN, ORDERS, PAYMENTS, UNMARKED, World, run_dag

DAGS = [e for e in EXAMPLES if e.is_dag]
ELSEWHERE = ("how-to/archive.md", "how-to/spark-data-frames.md")
"""Pages whose programs need a broker's encrypted segments or Spark: tests/integration/test_encrypted_archive.py and
tests/spark/test_frames.py run them."""
PROGRAMS = [e for e in EXAMPLES if e.language == "python" and not e.is_dag and e.page not in ELSEWHERE]
DOCUMENTS = [e for e in EXAMPLES if e.language == "json"]
COMMANDS = [
    (example, line) for example in EXAMPLES if example.language == "console"
    for line in example.text.splitlines() if line.startswith("airflow ")
]  # fmt: skip
NOT_RUN = frozenset(
    {
        "SegmentRetentionOperator", "PublishRetentionPlanOperator", "TriggerDagRunOperator", "RemoteLogGoneSensor",
        "RestoreRemoteLogOperator", "CopyLogSegmentsOperator", "LeaderRetentionOperator",
        "RecoverRemoteLogOperator",
    }
)  # fmt: skip
"""What needs Spark, a broker or a scheduler, or waits; tests/system and tests/spark run the shipped ones."""


def load(text: str, folder: Path) -> DAG:
    """Return the one DAG that a file defines, as Airflow reads it."""
    file = folder / "dags" / "example.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text.replace("s3://my-bucket", (folder / "bucket").as_uri()))
    bag = DagBag(dag_folder=str(file), safe_mode=False)
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    return dag


@pytest.fixture(scope="module")
def shipped() -> dict[str, DAG]:
    bag = DagBag(dag_folder=dags_folder(), safe_mode=False)
    assert bag.import_errors == {}
    return dict(bag.dags)


def check_run(dag: DAG, conf: dict[str, Any]) -> None:
    """Check what a run is triggered with by the parameters of its DAG."""
    assert conf.keys() <= set(dag.params)
    for name, value in conf.items():
        if "{{" not in str(value):
            dag.params.get_param(name).resolve(value=value)


def test_there_are_examples_of_every_kind() -> None:
    assert len(DAGS) > 20
    assert len(PROGRAMS) >= 3
    assert len(COMMANDS) > 10
    assert len(DOCUMENTS) >= 4


@pytest.mark.parametrize("example", DAGS, ids=str)
def test_a_dag_defines_what_its_page_says(example: Example, tmp_path: Path, shipped: dict[str, DAG]) -> None:
    dag = load(example.text, tmp_path)
    assert (dag.dag_id, [task.task_id for task in dag.topological_sort()]) == example.says
    for task in dag.tasks:
        if task.task_type == "TriggerDagRunOperator":
            check_run(shipped[task.trigger_dag_id], task.conf)


@pytest.mark.parametrize("example", DAGS, ids=str)
def test_a_dag_does_what_its_page_says(example: Example, tmp_path: Path, world: World) -> None:
    dag = load(example.text, tmp_path)
    events = world.events
    run_dag(dag, frozenset(task.task_id for task in dag.tasks if task.task_type in NOT_RUN))
    assert {world.objects_of(tip) for tip in PAYMENTS} == {50}
    kinds = {task.task_type for task in dag.tasks}
    dry_run = dag.params.get("dry_run", False) or dag.dag_id.startswith("what_")
    cleaned, scrubbed = (
        kind.__name__ in kinds and not dry_run
        for kind in (CleanMetadataPartitionOperator, DeleteScrubbedObjectsOperator)
    )
    assert world.objects_of(ORDERS) == (0 if cleaned else 10)
    assert world.objects_of(FORGOTTEN) == (0 if scrubbed else 5)
    assert world.objects_of(UNMARKED) == 5
    writes = kinds & {"MarkDeletedPartitionsOperator", "PublishRemoteLogMetadataOperator"} and not dry_run
    assert (world.events > events) == bool(writes)


def test_the_dry_run_of_ones_own_dag_is_switched_off_by_its_parameter(tmp_path: Path, world: World) -> None:
    (example,) = [e for e in DAGS if e.says[0] == "kafka_cleanup"]
    returned = run_dag(load(example.text, tmp_path), dry_run=False)
    assert world.objects_of(ORDERS) == 0
    assert (returned["report"]["segments_deleted"], returned["report"]["dry_run"]) == (2, False)


def test_after_a_rejection_the_report_is_red_and_nothing_is_deleted(tmp_path: Path, world: World) -> None:
    """No task behind a rejected approval runs but the report, whose trigger rule is another."""
    (example,) = [e for e in DAGS if e.says[0] == "approved_cleanup"]
    with pytest.raises(AirflowFailException, match="were planned and not cleaned: their tasks were skipped"):
        run_dag(load(example.text, tmp_path), frozenset({"approve", "clean"}))
    assert world.objects_of(ORDERS) == 10


def test_a_run_of_two_reads_finds_only_what_is_new(tmp_path: Path, world: World) -> None:
    (example,) = [e for e in DAGS if e.says[0] == "read_remote_log_metadata"]
    returned = run_dag(load(example.text, tmp_path))
    assert (returned["whole"]["rows"], returned["since"]["rows"]) == (world.events, 0)


def test_a_day_is_read_up_to_where_the_sensor_says(tmp_path: Path, world: World) -> None:
    (example,) = [e for e in DAGS if e.says[0] == "payments_of_a_day"]
    returned = run_dag(load(example.text, tmp_path))
    # One record an hour: the day begins with offset 6, and the next one with offset 30.
    assert returned["copied"]["end_offsets"] == {"0": 30, "1": 30}
    assert {number: p["records"] for number, p in returned["read"]["partitions"].items()} == {"0": 24, "1": 24}
    read = pq.read_table(returned["read"]["partitions"]["1"]["file"])
    assert read.column("value").to_pylist() == [b"%d EUR" % offset for offset in range(6, 30)]


def test_segments_are_counted_as_the_page_says(tmp_path: Path, world: World) -> None:
    (example,) = [e for e in DAGS if e.says[0] == "count_remote_segments"]
    assert run_dag(load(example.text, tmp_path)) == {"count": {"orders": 3, "payments": 20}}


def test_the_news_of_a_cleanup_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [e for e in DAGS if e.says[0] == "after_remote_cleanup"]
    run_dag(load(example.text, tmp_path))
    assert "2 segments, 120 bytes deleted\n" in capsys.readouterr().out


@pytest.mark.parametrize("example", [e for e in DAGS if "on_failure_callback" in e.text], ids=str)
def test_an_alarm_says_what_failed(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(httpx, "post", lambda url, json, timeout: sent.append((url, json["text"])))
    monkeypatch.setattr(Variable, "get", lambda name: f"https://example.com/{name}")
    dag = load(example.text, tmp_path)
    (alarm,) = [call for node in (dag, *dag.tasks) for call in as_list(node.on_failure_callback)]
    ti = SimpleNamespace(dag_id=dag.dag_id, task_id="t", run_id="r")
    alarm({"dag": dag, "run_id": "r", "ti": ti, "exception": AirflowFailException("2 things need a person")})
    ((url, text),) = sent
    assert url == "https://example.com/alarm_url"
    assert "2 things need a person" in text


def as_list(callbacks: Any) -> list[Any]:
    return callbacks if isinstance(callbacks, list) else [callbacks] if callbacks else []


@pytest.mark.parametrize("example", PROGRAMS, ids=str)
def test_a_program_prints_what_its_page_shows(example: Example, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(example.text, str(example), "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == (output_of(example) or "")


@pytest.mark.parametrize("example", DOCUMENTS, ids=str)
def test_a_document_is_understood(example: Example) -> None:
    document = json.loads(example.text)
    if isinstance(document, list):
        signed_ms = int(datetime.fromisoformat(document[0]["until"]).timestamp() * 1000) - 30 * DAY_MS
        read = read_acknowledgements(example.text, signed_ms, "the page")
        assert (read.problems, len(read.known)) == ((), len(document))
        assert document[0].keys() <= set(FIELDS)
        return
    if "options" in document:
        assert HandedStore.from_json(example.text, "the page").options == document["options"]
        return
    check_connection(document)


def check_connection(document: dict[str, Any]) -> None:
    assert document["conn_type"] in {"rlmm", "kafka", "spark"}
    if document["conn_type"] == "rlmm":
        extra = json.dumps(document["extra"])
        settings = RlmmConnection.from_connection(Connection(conn_id="c", conn_type="rlmm", extra=extra))
        settings.check_writable()
        Hold.of(settings.hold)


@pytest.mark.parametrize(("example", "line"), COMMANDS, ids=str)
def test_a_command_names_what_there_is(example: Example, line: str, shipped: dict[str, DAG]) -> None:
    words = shlex.split(re.sub(r'"\$\(.*?\)"', "value", line))
    match words[1:]:
        case ["dags", "trigger", dag_id]:
            assert dag_id in shipped
        case ["dags", "trigger", dag_id, "--conf", conf]:
            check_run(shipped[dag_id], json.loads(conf))
        case ["connections", "add", _, "--conn-json", document]:
            check_connection(json.loads(document))
        case ["variables", "set", "rlmm_acknowledgements", _]:
            pass
        case ["variables", "set", name, _] | ["variables", "delete", name]:
            assert name in stop_variables("rlmm_default")
        case _:
            raise AssertionError(f"{example}: no test knows {line!r}")
