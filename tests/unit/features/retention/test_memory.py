# SPDX-License-Identifier: Apache-2.0
"""What a task takes beside the state of its metadata partition, and what is said of it before it is started."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationFile, GenerationPart
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.features.retention.spark.memory import (
    MIB,
    OVERHEAD,
    PYTHON_BYTES,
    ExecutorMemory,
    TaskMemory,
    say_memory,
)
from tests.unit.features.retention import memory_of_a_task

EVENTS = 2_000_000
"""Of some 600,000 segments, 200,000 of which live."""
MOST_BYTES = 400
"""Per living segment, beside the state: what the evaluation takes, and the writing of rows and state."""
PYSPARK_BYTES = 24 * MIB
"""Of the modules that a worker of Spark has and the measured process has not."""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    child(folder, str(EVENTS), "write")
    return folder


def child(folder: Path, *arguments: str) -> str:
    """Run the program of :mod:`memory_of_a_task`; return what it prints."""
    command = [sys.executable, "-m", memory_of_a_task.__name__, str(folder), *arguments]
    root = Path(__file__).parents[4]
    return subprocess.run(command, check=True, cwd=root, capture_output=True, text=True, timeout=600).stdout


@pytest.mark.rare
@pytest.mark.slow
def test_a_task_takes_little_beside_its_state(records: Path) -> None:
    found: dict[str, Any] = json.loads(child(records, "0", "traced"))
    assert found["segments"] > 200_000
    taken = (found["above_state"] + found["arrow"]) / found["segments"]
    assert taken < MOST_BYTES, f"{taken:.0f} bytes per living segment"


@pytest.mark.rare
@pytest.mark.slow
def test_what_is_said_before_is_enough_and_not_twice_too_much(records: Path) -> None:
    found: dict[str, Any] = json.loads(child(records, "0", "as it is"))
    part = GenerationPart(7, found["segments"], state=GenerationFile("s", found["state"], ""))
    said = TaskMemory.of({0: 0}, {0: 7}, generation_of(part)).bytes
    assert found["resident"] + PYSPARK_BYTES < said < 2 * found["resident"]
    # What nobody has read yet is not known, so it may be more.
    assert said < TaskMemory.of({0: 0}, {0: EVENTS}, None).bytes < 6 * found["resident"]


def generation_of(*parts: GenerationPart) -> Generation:
    return Generation(4, "cluster", "AAAAAAAAAAAAAAAAAAAACA", 3, 1, 1, dict(enumerate(parts)), PLAIN_ERA.told())


KNOWN = generation_of(
    GenerationPart(1_000, 20, state=GenerationFile("a", 3 * MIB, "")),
    GenerationPart(9_000, 500_000, state=GenerationFile("b", 60 * MIB, "")),
    GenerationPart(5),
)


def test_the_metadata_partition_that_needs_most_decides() -> None:
    begin, end = dict.fromkeys(range(3), 0), {0: 1_000, 1: 9_000, 2: 5}
    found = TaskMemory.of(begin, end, KNOWN)
    assert (found.metadata_partition, found.why) == (
        1,
        "500,000 segments lived in generation 4, and 0 offsets are new",
    )
    assert found.bytes == PYTHON_BYTES + round(2.75 * 60 * MIB) + 50_000_000
    later = TaskMemory.of(begin, end | {2: 4_000_005}, KNOWN)
    assert (later.metadata_partition, later.why) == (
        2,
        "0 segments lived in generation 4, and 4,000,000 offsets are new",
    )
    first = TaskMemory.of(begin | {1: 8_000}, end, None)
    assert (first.metadata_partition, first.why) == (
        0,
        "at most: as if its 1,000 offsets were 500 segments that all live",
    )
    assert TaskMemory.of({0: 0, 7: 0}, {0: 1_000, 7: 10}, KNOWN).metadata_partition == 0, "a partition that is new"


NEED = TaskMemory(500 * MIB, 3, "for a reason")


@pytest.mark.parametrize(
    ("master", "conf", "for_python", "asked"),
    [
        ("yarn", {}, 256, "640m"),
        ("yarn", {"spark.executor.memory": "20g"}, 2048 - 128, None),
        ("yarn", {"spark.executor.cores": "2"}, 256, "1152m"),
        ("yarn", {"spark.executor.cores": "4", "spark.task.cpus": "2"}, 256, "1152m"),
        ("k8s://https://h:1", {}, round(0.4 * 1024) - 128, "640m"),
        ("k8s://https://h:1", {"spark.executor.memory": "4g"}, round(0.4 * 4096) - 128, None),
        ("yarn", {OVERHEAD: "500"}, 372, None),
        ("yarn", {"spark.executor.memoryOverheadFactor": "0.3", "spark.executor.memory": "2g"}, 614 - 128, None),
        ("yarn", {"spark.executor.minMemoryOverhead": "512m"}, 384, None),
        ("yarn", {"spark.executor.pyspark.memory": "400m"}, 400, None),
        ("yarn", {"spark.executor.memory": "nonsense", "spark.executor.cores": "many"}, 256, "640m"),
        ("spark://h:7077", {}, 256, None),
        ("local[2]", {}, 256, None),
    ],
)
def test_an_overhead_is_asked_for_where_nobody_has_said_how_much_and_it_is_too_little(
    master: str, conf: dict[str, str], for_python: int, asked: str | None
) -> None:
    executors = ExecutorMemory(master, conf)
    assert round(executors.for_python / MIB) == for_python
    assert executors.to_ask(NEED) == ({} if asked is None else {OVERHEAD: asked})
    if asked is not None:
        enough = ExecutorMemory(master, conf | {OVERHEAD: asked})
        assert (executors.lacks(NEED), enough.lacks(NEED)) == (True, False)


@pytest.mark.parametrize(
    ("master", "conf", "level", "said"),
    [
        (
            "yarn",
            {},
            "WARNING",
            "may be killed for taking more: submit the job with --conf spark.executor.memoryOverhead=640m",
        ),
        ("yarn", {OVERHEAD: "300m"}, "WARNING", "executors have 172 MiB for 1 at once, and may be killed"),
        (
            "yarn",
            {"spark.executor.pyspark.memory": "400m"},
            "WARNING",
            "submit the job with --conf spark.executor.pyspark.memory=512m",
        ),
        ("yarn", {OVERHEAD: "1g"}, "INFO", "executors have 896 MiB for 1 at once"),
        ("spark://h:7077", {}, "INFO", "nothing limits it here"),
    ],
)
def test_what_is_lacking_is_said_with_what_to_type(
    master: str, conf: dict[str, str], level: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    say_memory(ExecutorMemory(master, conf), NEED)
    (record,) = caplog.records
    assert record.levelname == level
    assert "for metadata partition 3 a task's Python needs 500 MiB (for a reason); " in record.message
    assert said in record.message
    assert ("killed" in record.message) == (level == "WARNING")
