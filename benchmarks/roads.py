# SPDX-License-Identifier: Apache-2.0
"""
How long the road of ``docs/getting-started.md`` takes in a terminal, from the installed wheel on: to a finding, and to the
first deletion.

Each run types the page's commands into a shell of its own, with an empty environment, at a real broker: one whose log has few
orphaned segments, and one that is full of them. Prints one line per budget; ends with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from benchmarks.measuring import Budget
from benchmarks.orphans import Shape, absent_tips, lay_objects, publish_copies, segments_of
from benchmarks.reporting import add_option, report
from dev.broker import LocalKafka
from dev.tiering import create_tiered_topic, produce_until_remote
from tests.page_commands import IN_A_TERMINAL, blocks, build, exports, type_in

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
            roads = [_walked(shape, built) for _ in range(runs)]
            for name, budget, taken in zip(
                ("a finding", "the first deletion"), (A_FINDING_S, A_DELETION_S), zip(*roads, strict=True), strict=True
            ):
                yield Budget(
                    f"to {name}: {shape}",
                    statistics.median(taken) / budget,
                    1.0,
                    False,
                    [f"{statistics.median(taken):.1f} s of {budget:.0f}"],
                    taken,
                )


def _walked(shape: Shape, built: Path) -> tuple[float, float]:
    """Return how many seconds after the installation something is found, and how many until all is deleted."""
    with LocalKafka() as kafka, tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        create_tiered_topic(kafka, "living", 2)
        produce_until_remote(kafka, "living", 1)
        metadatas = segments_of(absent_tips(kafka.metadata_partitions, shape), shape.segments)
        lay_objects(kafka.remote_dir, LAYOUT, metadatas)
        publish_copies(KafkaClientConfig(kafka.client_config()), metadatas)
        cluster = {"BOOTSTRAP": kafka.bootstrap_servers, "STORAGE": kafka.remote_dir.as_uri()}
        script = [exports({**cluster, "LAYOUT": LAYOUT.name, "KEY_PREFIX": ""}), *_stamped(blocks(IN_A_TERMINAL))]
        said = type_in(script, folder=Path(folder), built=built)
    installed, found, deleted = (float(at) for at in re.findall(rf"^{_STAMP} ([0-9.]+)$", said, re.MULTILINE))
    return found - installed, deleted - installed


def _stamped(commands: Sequence[str]) -> Iterator[str]:
    """Have the time printed behind the installation, the first look for orphans, and the first deletion."""
    awaited = ["pip install", "rlmm orphans", "--execute"]
    for block in commands:
        yield block
        if awaited and awaited[0] in block:
            awaited.pop(0)
            yield f"echo {_STAMP} $EPOCHREALTIME"


if __name__ == "__main__":
    sys.exit(main())
