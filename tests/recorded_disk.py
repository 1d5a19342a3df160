# SPDX-License-Identifier: Apache-2.0
"""
A disk that a real broker (Kafka 4.3.1) left when it was killed: ``tests/data/log_disk.tar.xz``.

It holds a snapshot of one user partition that nobody has copied: several leader epochs, transactions that were committed,
aborted in another segment, and left open, and a log start offset within the first segment. ``python -m tests.recorded_disk``
records it anew.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot

ARCHIVE = Path(__file__).parent / "data" / "log_disk.tar.xz"
PARTITION = TopicPartition("uncopied", 0)

_PROPERTIES = {
    # The checkpoints of what was written last, and small indexes.
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.index.size.max.bytes": "4096",
}


def unpack(folder: Path) -> Path:
    """Unpack the disk into a folder, with its modification times, and return where it is."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "disk"


def main() -> None:
    """Record."""
    from dev.broker import LocalKafka, await_condition
    from tests.integration.copying.world import make_world, not_copied_topic

    with tempfile.TemporaryDirectory() as folder, LocalKafka(properties=_PROPERTIES) as kafka:
        not_copied_topic(kafka, PARTITION.topic)
        make_world(kafka, PARTITION.topic, kafka.restart)
        checkpoint = kafka.log_dir / "log-start-offset-checkpoint"
        await_condition(lambda: PARTITION.topic in checkpoint.read_text(), "the log start offset is written down", 30)
        kafka.kill()
        take_snapshot(kafka.log_dir, Path(folder, "disk"), partitions=[PARTITION])
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(Path(folder, "disk"), "disk", filter=_nobody_s)


def _nobody_s(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
