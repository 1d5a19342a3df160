# SPDX-License-Identifier: Apache-2.0
"""What ``docs/how-to/spark-submit.md`` says of this machine, word for word, on a real broker with orphans."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from dev import ensure_spark_jars, tiering
from dev.broker import LocalKafka

pytestmark = [pytest.mark.rare, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-submit.md"
SECTIONS = ("What the job is given", "Local")
SEGMENTS = 3


def blocks() -> list[str]:
    """Return the commands of this machine's sections."""
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE))
    return [
        block
        for section in SECTIONS
        for block in re.findall(r"^```bash\n(.*?)^```$", parts[section], re.DOTALL | re.MULTILINE)
    ]


def test_the_page_on_this_machine(tmp_path: Path) -> None:
    with LocalKafka() as kafka:
        for topic in ("living", "deleted"):
            tiering.create_tiered_topic(kafka, topic, 1)
            tiering.produce_until_remote(kafka, topic, SEGMENTS)
        tiering.provoke_scenario_b(kafka, "deleted")
        broker, *commands = blocks()
        assert broker == "export RLMM_BOOTSTRAP_SERVER=broker:9092\n"
        # No repository of Java's has to be in reach: what --jars is for.
        jars = ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar")))
        script = re.sub(r"--packages \S+", f"--jars {jars}", "\n".join(commands))
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(tmp_path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "RLMM_BOOTSTRAP_SERVER": kafka.bootstrap_servers,
            **{name: value for name, value in os.environ.items() if name.startswith("JAVA_")},
        }
        done = subprocess.run(
            ["bash", "-eux", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, f"{done.stdout[-10_000:]}\n{done.stderr[-10_000:]}"
    summary = read_plan(str(tmp_path / "rlmm-spark" / "plan-1"))
    assert summary.by_reason[Reason.ORPHANED].segments >= SEGMENTS
    assert "generation 1 of cluster " in done.stdout, "what rlmm what-if says first"
