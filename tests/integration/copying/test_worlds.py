# SPDX-License-Identifier: Apache-2.0
"""The world that the copier is tried in: it holds what it promises, and its directory what a broker copies of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from airflow_provider_rlmm.features.copying.log_directory.partition import LogDirectory
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot
from dev.broker import LocalKafka
from tests.integration.copying.adopting import read_everything
from tests.integration.copying.copies import check_hard, copied_by_a_broker, copies_of
from tests.integration.copying.world import make_world, not_copied_topic, to_be_copied

pytestmark = [pytest.mark.integration, pytest.mark.copying]

TOPIC = "uncopied"


def test_a_broker_copies_of_a_disk_what_its_snapshot_has(tmp_path: Path) -> None:
    with LocalKafka() as kafka:
        not_copied_topic(kafka, TOPIC)
        world = make_world(kafka, TOPIC, kafka.restart)
        expected = to_be_copied(kafka.bootstrap_servers, kafka.log_dir / f"{TOPIC}-0", TOPIC)
        everything = read_everything(kafka, TOPIC)
        assert copies_of(kafka, world.tip).segments == ()
        kafka.stop()
        take_snapshot(kafka.log_dir, tmp_path / "snapshot")
        copies = copied_by_a_broker(kafka.log_dir, tmp_path / "other", world.tip, expected)

    check_hard(copies, everything)
    directory = LogDirectory.open(LogDisk.open(tmp_path / "snapshot"), TopicPartition(TOPIC, 0))
    assert directory.topic_id_partition == world.tip
    assert len(directory.closed_segments) > len(copies.segments)
    for segment, copied in zip(directory.closed_segments, copies.segments, strict=False):
        ours = directory.local_segment(segment)
        assert (ours.base_offset, ours.end_offset) == (copied.start_offset, copied.end_offset)
        assert ours.size_in_bytes == copied.segment_size_in_bytes
        assert ours.max_timestamp_ms == copied.max_timestamp_ms
        assert ours.leader_epochs == copied.segment_leader_epochs
        assert ours.txn_index_empty == copied.txn_idx_empty
        objects = {suffix: content for (start, suffix), content in copies.objects.items() if start == ours.base_offset}
        assert contents(directory.log_segment_data(segment)) == objects


def contents(data: LogSegmentData) -> dict[str, bytes]:
    """Return what is copied of a segment, by the suffixes of ``LocalTieredStorage``."""
    files = {
        ".log": data.log_segment,
        ".index": data.offset_index,
        ".timeindex": data.time_index,
        ".snapshot": data.producer_snapshot_index,
    }
    if data.transaction_index is not None:
        files[".txnindex"] = data.transaction_index
    return {suffix: path.read_bytes() for suffix, path in files.items()} | {
        ".leader_epoch_checkpoint": data.leader_epoch_index
    }
