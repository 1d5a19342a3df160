# SPDX-License-Identifier: Apache-2.0
"""``allow_writes`` off: nothing is written, and nothing is deleted either, however far an earlier run got."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_rlmm.errors import StorageAccessError, WritesNotAllowedError
from airflow_provider_rlmm.manager.write_guard import GuardedPublisher
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.metadata.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.storage.layout_storage import STAMP_KEY
from tests.unit.lifecycle.builders import START_MS, Cluster, deletion, tip


@pytest.mark.parametrize("stamped", [False, True])
def test_a_deletion_that_is_started_already_deletes_nothing(stamped: bool) -> None:
    cluster = Cluster()
    gone = tip()
    cluster.segment(gone, 0, S.DELETE_SEGMENT_STARTED)
    for state in (P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED):
        cluster.foreign(deletion(gone, state, START_MS))
    if stamped:
        cluster.storage.stamp_root(cluster.topics.cluster_id())
    cluster.now_ms += 2 * 86_400_000
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=False)
    before = cluster.storage.keys
    with pytest.raises(WritesNotAllowedError, match="allow_writes is off"):
        cluster.clean()
    assert cluster.storage.keys == before


def test_a_stamp_that_may_not_be_written_does_not_stop_the_work(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    gone = tip()
    cluster.segment(gone, 0)
    cluster.mark()
    cluster.now_ms += 2 * 86_400_000

    def refuse_put(effect: str, key: str) -> None:
        if effect == "put":
            raise StorageAccessError(f"not allowed to put {key}")

    cluster.storage.on_effect = refuse_put
    with caplog.at_level(logging.WARNING):
        (report,) = cluster.clean().partitions
    assert report.outcome == "FINISHED"
    assert STAMP_KEY not in cluster.storage.keys
    assert "stamp cannot be written" in caplog.text
