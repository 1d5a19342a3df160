# SPDX-License-Identifier: Apache-2.0
"""A metadata partition, replayed from its beginning."""

from __future__ import annotations

from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from tests.builders import Cluster, tip

GONE = tip()


def test_it_stops_where_it_is_told_to_and_goes_on_there() -> None:
    cluster = Cluster()
    cluster.segments(GONE, 3)
    replay = MetadataPartitionReplay(cluster.log, 0, frozenset({GONE.topic_id}))
    known = []
    for until in (4, 4, 2):
        replay.advance(until)
        known.append((replay.end, len(replay.histories[GONE].known_segments), replay.records_read))
    assert known == [(4, 1, 4)] * 3
    cluster.segment(GONE, 7)
    replay.advance()
    assert (replay.end, len(replay.histories[GONE].known_segments), replay.records_read) == (10, 4, 10)


def test_a_log_that_begins_behind_where_it_is_to_stop_is_not_read() -> None:
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.log.truncate(0, 6)
    replay = MetadataPartitionReplay(cluster.log, 0)
    replay.advance(4)
    assert (replay.begin, replay.end, replay.records_read) == (6, 6, 0)
    replay.advance()
    assert (replay.end, replay.records_read) == (8, 2)
