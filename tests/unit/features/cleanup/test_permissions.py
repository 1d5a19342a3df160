# SPDX-License-Identifier: Apache-2.0
"""What is not allowed: without ``allow_writes`` nothing happens at all; a missing permission elsewhere loses no work."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogAccessError, StorageAccessError, WritesNotAllowedError
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from tests.builders import STAMP_KEY, START_MS, Cluster, deletion, tip


@pytest.mark.parametrize("stamped", [False, True])
def test_a_deletion_that_is_started_already_deletes_nothing(stamped: bool) -> None:
    cluster = Cluster()
    gone = tip()
    cluster.segment(gone, 0, S.DELETE_SEGMENT_STARTED)
    for state in (P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED):
        cluster.foreign(deletion(gone, state, START_MS))
    if stamped:
        cluster.stamp_root()
    cluster.now_ms += 2 * 86_400_000
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=False)
    before = cluster.storage.keys
    with pytest.raises(WritesNotAllowedError, match="allow_writes is off"):
        cluster.clean()
    assert cluster.storage.keys == before


@pytest.fixture
def cluster_with_work() -> Cluster:
    cluster = Cluster()
    cluster.segment(tip(), 0)
    cluster.mark_and_wait()
    return cluster


def test_a_stamp_that_may_not_be_written_does_not_stop_the_work(
    cluster_with_work: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_with_work

    def refuse_put(effect: str, key: str) -> None:
        if effect == "put":
            raise StorageAccessError(f"not allowed to put {key}")

    cluster.storage.on_effect = refuse_put
    with caplog.at_level(logging.WARNING):
        (report,) = cluster.clean().partitions
    assert report.outcome == "FINISHED"
    assert STAMP_KEY not in cluster.storage.keys
    assert f"stamp {STAMP_KEY} cannot be written: not allowed to put" in caplog.text


def test_an_offset_that_cannot_be_committed_does_not_lose_the_report(cluster_with_work: Cluster) -> None:
    def refuse(name: str, detail: object) -> None:
        if name == "commit":
            raise EventLogAccessError("not allowed to use the group")

    cluster_with_work.offsets.on_effect = refuse
    report = cluster_with_work.clean()
    assert [p.outcome for p in report.partitions] == ["FINISHED"]
    assert report.committed_offset is None
