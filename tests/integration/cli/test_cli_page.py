# SPDX-License-Identifier: Apache-2.0
"""The commands of ``docs/cli.md``, one after another as they stand there, on a real broker with orphans."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_rlmm.cli.main import rlmm
from dev import tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from tests.scrub import scrub

pytestmark = pytest.mark.integration

NOT_RUN_HERE = ("rlmm copy ", "rlmm what-if ", "rlmm recover ")
"""They need a stopped broker, what a Spark job has read, and objects of Aiven's plugin."""
PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def examples() -> list[tuple[str, str]]:
    """Return the page's blocks of commands, each with the heading above it."""
    found, heading = [], ""
    for part in re.split(r"^(#+ [^\n]*|```bash\n.*?^```)$", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE):
        if part.startswith("#"):
            heading = part.strip("# ")
        elif part.startswith("```bash"):
            found.append((heading, part.removeprefix("```bash\n").removesuffix("```")))
    return found


def test_each_command_has_a_section_with_an_example_of_its_own() -> None:
    with_example = {heading.strip("`") for heading, block in examples() if f"{heading.strip('`')}" in block}
    assert with_example == {f"rlmm {name}" for name in rlmm.commands}


@pytest.mark.rare
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    with LocalKafka() as kafka:
        for topic in ("orders", "payments"):
            tiering.create_tiered_topic(kafka, topic, 2)
            tiering.produce_until_remote(kafka, topic, 3)
        orphan = tiering.provoke_scenario_b(kafka, "payments")
        # The page restores what was archived of the deleted topic into this one.
        tiering.create_tiered_topic(kafka, "payments-restored", 2, **{"retention.ms": "-1", "local.retention.ms": "-2"})
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(tmp_path),
            "RLMM_BOOTSTRAP_SERVER": kafka.bootstrap_servers,
            "RLMM_STORAGE_URI": kafka.remote_dir.as_uri(),
            "RLMM_EXPECTED_ROOT": expected_root_of(kafka.remote_dir),
            "CLUSTER_ID": kafka.cluster_id,
        }
        (settings, *blocks) = [block for _, block in examples()]
        assert re.findall(r"^export (\w+)=", settings, re.MULTILINE) == [
            "RLMM_BOOTSTRAP_SERVER", "RLMM_STORAGE_URI", "RLMM_LAYOUT", "RLMM_EXPECTED_ROOT",
        ]  # fmt: skip
        said = ""
        for block in (b for b in blocks if not b.startswith(NOT_RUN_HERE)):
            done = subprocess.run(
                ["bash", "-eu", "-c", block], env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
            assert done.stdout or ">" in block, "what is not printed is written into a file"
            said += done.stdout
        assert tiering.remote_files(kafka, orphan) == set()
        assert "DELETE_PARTITION_MARKED" in said
        assert scrub(kafka) == []
