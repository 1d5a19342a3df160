# SPDX-License-Identifier: Apache-2.0
"""
How long the roads of ``docs/getting-started.md`` take, in a terminal and in Airflow, from the installed wheel on: to a
finding, and to the first deletion.

Each run types the page's commands into a shell of its own, with an empty environment, at a real broker: one whose log has few
orphaned segments, and one that is full of them. What Airflow takes itself, to import connections and to run a DAG of as many
empty tasks, is measured in the same shell and told apart. Prints one line per budget; ends with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from benchmarks.measuring import Budget
from benchmarks.orphans import Shape, absent_tips, lay_objects, publish_copies, segments_of
from benchmarks.reporting import add_option, report
from dev.broker import LocalKafka
from dev.tiering import create_tiered_topic, produce_until_remote
from tests.page_commands import IN_A_TERMINAL, IN_AIRFLOW, blocks, build, exports, type_in

LAYOUT = LocalTieredStorageLayout()
A_FINDING_S = 20.0
A_DELETION_S = 60.0
_STAMP = "stamp"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--partitions", type=int, default=300, help="orphaned ones of ten segments (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each road (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    return report(_measured(Shape(arguments.partitions, 10), arguments.runs), arguments.figures)


def _measured(many: Shape, runs: int) -> Iterator[Budget]:
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        built = build(Path(folder, "dist"))
        for shape in (Shape(2, 10), many):
            yield from _told(f"{shape}", [_in_a_terminal(shape, built) for _ in range(runs)])
        for shape in (Shape(2, 10), many):
            yield from _told(f"in Airflow, {shape}", [_in_airflow(shape, built) for _ in range(runs)])


@dataclass(frozen=True, slots=True)
class Road:
    """
    What a road took, in seconds from the installation on.

    :param found: until something was found.
    :param deleted: until all was deleted.
    :param own: of the first and of the second, what Airflow takes itself.
    """

    found: float
    deleted: float
    own: tuple[float, float] = (0.0, 0.0)


def _told(where: str, roads: Sequence[Road]) -> Iterator[Budget]:
    taken = (
        ("a finding", A_FINDING_S, [road.found for road in roads], [road.own[0] for road in roads]),
        ("the first deletion", A_DELETION_S, [road.deleted for road in roads], [road.own[1] for road in roads]),
    )
    for name, budget, seconds, own in taken:
        median, airflows = statistics.median(seconds), statistics.median(own)
        apart = f", and {airflows:.1f} s that Airflow takes itself" if airflows else ""
        yield Budget(
            f"to {name}: {where}", median / budget, 1.0, False, [f"{median:.1f} s of {budget:.0f}{apart}"], seconds
        )


def _in_a_terminal(shape: Shape, built: Path) -> Road:
    with _orphans(shape) as (folder, exported):
        stamps = ["pip install", "rlmm orphans", "--execute"]
        said = type_in([exported, *_stamped(blocks(IN_A_TERMINAL), stamps)], folder=folder, built=built)
    installed, found, deleted = _times(said)
    return Road(found - installed, deleted - installed)


def _in_airflow(shape: Shape, built: Path) -> Road:
    with _orphans(shape) as (folder, exported):
        install, *road = blocks(IN_AIRFLOW)
        empty = folder / "empty.py"
        empty.write_text(_EMPTY)
        script = [exported, install, f"cp {empty} $AIRFLOW_HOME/dags", "echo {} > none.json"]
        # Once before, so that none of it compiles what it imports.
        script += ["airflow dags test empty", _echo(), "airflow connections import none.json", _echo()]
        script += ["airflow dags test empty", _echo(), *_stamped(road, ["airflow dags test", "--conf"])]
        said = type_in(script, folder=folder, built=built)
    began, imported, empty_ended, found, deleted = _times(said)
    # To a finding: connections imported once, a DAG run once. Behind it, both once more.
    own = empty_ended - began
    assert imported < empty_ended
    return Road(found - empty_ended - own, deleted - empty_ended - 2 * own, (own, 2 * own))


_EMPTY = """
from airflow.sdk import DAG, task

with DAG("empty", schedule=None):
    before = None
    for number in range(8):

        @task(task_id=f"nothing_{number}")
        def nothing():
            return None

        now = nothing()
        if before is not None:
            before >> now
        before = now
"""
"""A DAG of as many tasks as the cleaner has."""


@contextmanager
def _orphans(shape: Shape) -> Iterator[tuple[Path, str]]:
    """A broker with orphans and a living topic: a folder to type in, and what names the cluster."""
    with LocalKafka() as kafka, tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        create_tiered_topic(kafka, "living", 2)
        produce_until_remote(kafka, "living", 1)
        metadatas = segments_of(absent_tips(kafka.metadata_partitions, shape), shape.segments)
        lay_objects(kafka.remote_dir, LAYOUT, metadatas)
        publish_copies(KafkaClientConfig(kafka.client_config()), metadatas)
        cluster = {"BOOTSTRAP": kafka.bootstrap_servers, "STORAGE": kafka.remote_dir.as_uri()}
        yield Path(folder), exports({**cluster, "LAYOUT": LAYOUT.name, "KEY_PREFIX": ""})


def _stamped(commands: Sequence[str], signs: Sequence[str]) -> Iterator[str]:
    """Have the time printed behind the first block with each sign, one after the other."""
    awaited = list(signs)
    for block in commands:
        yield block
        if awaited and awaited[0] in block:
            awaited.pop(0)
            yield _echo()


def _echo() -> str:
    return f"echo {_STAMP} $EPOCHREALTIME"


def _times(said: str) -> tuple[float, ...]:
    return tuple(float(at) for at in re.findall(rf"^{_STAMP} ([0-9.]+)$", said, re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main())
