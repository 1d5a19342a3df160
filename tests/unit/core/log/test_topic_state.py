# SPDX-License-Identifier: Apache-2.0
"""The replay of the whole topic: where it stops, how it goes on, and what it says of records that are gone."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    EventLogUnavailableError,
    MetadataTopicNotFoundError,
    SnapshotRefusedError,
)
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.topic_state import Progress, TopicState
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from tests.examples import examples
from tests.unit.core.records.events import copied, deleted, deleting, partition_delete, started
from tests.unit.library.topics import new_log, put, tables, topic_state, topics, user_partition_of

HERE, THERE = user_partition_of(0), user_partition_of(1)


@pytest.fixture
def log() -> InProcessMetadataEventLog:
    """Five records in metadata partition 0, two in 1."""
    log = new_log()
    put(log, started(1, partition=HERE), copied(1, HERE), started(2, 100, 199, partition=HERE))
    put(log, started(3, partition=THERE), copied(3, THERE), copied(2, HERE), deleting(1, HERE))
    return log


def test_it_reads_all_partitions_up_to_the_high_watermarks(log: InProcessMetadataEventLog) -> None:
    state = topic_state(log)
    seen: list[Progress] = []
    state.advance(seen.append)
    assert state.next_offsets == {0: 5, 1: 2}
    assert state.state.segments.num_rows == 3
    assert (seen, state.gaps, state.refusal) == ([Progress(7, 0)], (), None)
    put(log, deleted(1, HERE))
    state.advance()
    assert (state.next_offsets, state.state.segments.num_rows) == ({0: 6, 1: 2}, 2)


def test_chunks_end_anywhere_and_change_nothing(log: InProcessMetadataEventLog) -> None:
    whole, pieces = topic_state(log), topic_state(log, chunk_rows=1)
    whole.advance()
    pieces.advance()
    assert tables(pieces.state) == tables(whole.state)


def test_without_a_metadata_topic_there_is_nothing_to_read(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(MetadataTopicNotFoundError, match="'__remote_log_metadata' does not exist"):
        TopicState(log, InProcessClusterTopics(metadata_topic_id=None))


def test_the_topics_of_another_cluster_than_the_logs_are_refused(log: InProcessMetadataEventLog) -> None:
    with pytest.raises(ClusterMismatchError, match="two clusters, or the topic was replaced"):
        TopicState(log, topics(topic_id=UUID(int=3)))


def test_a_read_that_breaks_off_goes_on_where_it_stopped(log: InProcessMetadataEventLog) -> None:
    state = topic_state(log, chunk_rows=1)
    log.on_effect = lambda name, effect: 0 if name == "read" and effect.metadata_partition == 1 else None
    with pytest.raises(EventLogUnavailableError):
        state.advance()
    assert state.next_offsets == {0: 5, 1: 0}
    log.on_effect = lambda *_: None
    state.advance()
    fresh = topic_state(log)
    fresh.advance()
    assert tables(state.state) == tables(fresh.state)


def test_a_log_that_ends_before_what_was_read_is_not_read_on(log: InProcessMetadataEventLog) -> None:
    state = topic_state(log)
    state.advance()
    state._follower._log = new_log()
    with pytest.raises(EventLogUnavailableError, match="metadata partition 0: its high watermark is 0, and 5 records"):
        state.advance()


def resumed(log: InProcessMetadataEventLog, path: Path, **changes: object) -> TopicState:
    return TopicState.resume(SnapshotFile(str(path)), log, topics(**changes))  # type: ignore[arg-type]


@pytest.fixture
def path(log: InProcessMetadataEventLog, tmp_path: Path) -> Path:
    state = topic_state(log)
    state.advance()
    SnapshotFile(str(tmp_path / "snapshot")).write(state.snapshot())
    return tmp_path / "snapshot"


def test_a_restart_reads_on_at_the_next_offset(log: InProcessMetadataEventLog, path: Path) -> None:
    put(log, deleted(1, HERE))
    reads: list[tuple[int, int]] = []

    def note(name: str, effect: object) -> None:
        if name == "read":
            reads.append((effect.metadata_partition, effect.start))  # type: ignore[attr-defined]

    log.on_effect = note
    state = resumed(log, path)
    state.advance()
    # What was read last is asked for again, when it resumes and when it reads on.
    assert (state.refusal, reads) == (None, [(0, 0), (1, 0)] * 2)
    assert state.state.segments.num_rows == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"cluster_id": "other"}, "of cluster 'cluster-1'"), ({"topic_id": UUID(int=3)}, "of topic id")],
)
def test_another_topic_is_replayed_whole(
    log: InProcessMetadataEventLog, path: Path, changes: dict[str, object], words: str
) -> None:
    if "topic_id" in changes:
        log.topic_id = UUID(int=3)
    state = resumed(log, path, **changes)
    assert words in (state.refusal or "")
    assert (state.next_offsets, state.state.segments.num_rows) == ({0: 0, 1: 0}, 0)
    state.advance()
    assert state.state.segments.num_rows == 3


def test_another_partition_count_and_a_shorter_log_are_replayed_whole(path: Path) -> None:
    assert "partition count 2" in (resumed(new_log(3), path).refusal or "")
    assert "ahead of the log" in (resumed(new_log(), path).refusal or "")


def test_a_corrupt_one_is_refused_and_a_full_replay_follows(log: InProcessMetadataEventLog, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])
    state = resumed(log, path)
    assert "corrupt" in (state.refusal or "")
    state.advance()
    assert (state.next_offsets, state.state.segments.num_rows) == ({0: 5, 1: 2}, 3)


def test_a_topic_replaced_while_it_was_read_is_not_kept(log: InProcessMetadataEventLog) -> None:
    cluster = topics()
    state = TopicState(log, cluster)
    state.advance()
    cluster.metadata_topic_id = UUID(int=4)
    with pytest.raises(SnapshotRefusedError, match="replay it anew"):
        state.snapshot()


def test_records_gone_since_the_snapshot_are_incomplete_history(log: InProcessMetadataEventLog, path: Path) -> None:
    for _ in range(3):
        put(log, started(9, 900, 999, partition=HERE))
    log.truncate(0, 7)
    state = resumed(log, path)
    assert "read up to offset 5, and begins at 7 now" in (state.refusal or "")
    state.advance()
    assert state.gaps == (HistoryGap(0, 0, 7),)
    named = state.incomplete_history().to_pylist()
    assert [(row["metadata_partition"], row["topic"], row["partition"]) for row in named] == [
        (0, "orders", HERE.partition)
    ]
    # The next snapshot remembers it.
    SnapshotFile(str(path)).write(state.snapshot())
    again = resumed(log, path)
    again.advance()
    assert (again.refusal, again.gaps) == (None, (HistoryGap(0, 0, 7),))


def test_a_snapshot_remembers_the_holes_that_were_read(log: InProcessMetadataEventLog, path: Path) -> None:
    log.remove(0, [2])
    first = TopicState(log, topics())
    first.advance()
    SnapshotFile(str(path)).write(first.snapshot())
    put(log, started(9, 900, 999, partition=HERE))
    again = resumed(log, path)
    again.advance()
    assert again.refusal is None
    assert first.holes == again.holes == (HistoryGap(0, 2, 3),)
    log.explained_gaps = {0: [(2, 3)]}
    assert again.holes == ()


def test_where_the_last_records_of_a_snapshot_are_gone_nothing_ties_it_to_the_log(
    log: InProcessMetadataEventLog, path: Path
) -> None:
    log.truncate(0, 3)
    state = resumed(log, path)
    assert "metadata partition 0" in (state.refusal or "")
    state.advance()
    assert state.gaps == (HistoryGap(0, 0, 3),)


def test_a_log_that_lost_its_end_and_has_regrown_is_replayed_whole(path: Path) -> None:
    other = new_log()
    put(other, *(started(number, partition=HERE) for number in range(9)), started(9, partition=THERE))
    put(other, started(10, partition=THERE))
    state = resumed(other, path)
    assert "hold other records than before" in (state.refusal or "")
    state.advance()
    assert state.state.segments.num_rows == 11


def test_what_was_quarantined_and_routed_outlives_a_snapshot(log: InProcessMetadataEventLog, path: Path) -> None:
    log.append(0, b"garbage")
    log.append(1, serialize(started(5, partition=HERE)))
    state = resumed(log, path)
    state.advance()
    assert [(q.metadata_partition, q.offset) for q in state.quarantined] == [(0, 5), (1, 2)]
    assert (state.quarantined[1].code, state.quarantined[1].topic_id_partition) == ("MISROUTED", HERE)
    assert dict(state.routed) == {0: 5, 1: 2}
    SnapshotFile(str(path)).write(state.snapshot())
    again = resumed(log, path)
    assert (again.quarantined, again.routed, again.refusal) == (state.quarantined, state.routed, None)


def test_a_partition_of_which_nothing_is_left_is_incomplete(log: InProcessMetadataEventLog) -> None:
    log.truncate(0, 5)
    put(log, partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, THERE))
    state = topic_state(log)
    state.advance()
    assert (state.next_offsets, state.gaps) == ({0: 5, 1: 3}, (HistoryGap(0, 0, 5),))


garbage = st.sampled_from([None, b"", b"\1\t\0", b"\1\0", b"garbage", b"\0"])
events = st.builds(
    lambda make, number, tip: (tip, serialize(make(number, tip))),
    st.sampled_from([lambda n, tip: started(n, partition=tip), copied, deleting, deleted]),
    st.integers(1, 4),
    st.sampled_from([HERE, THERE]),
)
records = st.lists(
    st.tuples(st.integers(0, 1), st.none() | st.just(b"key"), garbage | events.map(lambda pair: pair[1]))
    | events.map(lambda pair: (0 if pair[0] == HERE else 1, None, pair[1])),
    max_size=40,
)


@pytest.mark.slow
@patch("airflow_provider_rlmm.core.base.file_systems.os.fsync", lambda _: None)
@settings(max_examples=examples(), deadline=None)
@given(records, records, st.integers(1, 5))
def test_a_snapshot_at_any_point_and_the_rest_are_the_full_replay(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[int, bytes | None, bytes | None]],
    after: list[tuple[int, bytes | None, bytes | None]],
    chunk_rows: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-point"
    log = new_log()
    for metadata_partition, key, value in before:
        log.append(metadata_partition, value, key)
    first = topic_state(log, chunk_rows=chunk_rows)
    # The last one is the end; those before lie in the middle of the replay.
    first.advance(lambda _: SnapshotFile(str(path)).write(first.snapshot()))
    for metadata_partition, key, value in after:
        log.append(metadata_partition, value, key)
    second = resumed(log, path)
    second.advance()
    fresh = topic_state(log)
    fresh.advance()
    assert second.refusal is None
    assert tables(second.state) == tables(fresh.state)
    assert second.next_offsets == fresh.next_offsets == log.high_water_marks()
    assert (set(second.quarantined), second.routed) == (set(fresh.quarantined), fresh.routed)


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize(("survived", "words"), [(0, "there is none yet"), (5, None)])
def test_a_replay_cut_short_goes_on_from_its_last_snapshot(
    log: InProcessMetadataEventLog, tmp_path: Path, survived: int, words: str | None
) -> None:
    # A batch of the log is never cut: metadata partition 0 is read at once, then 1.
    victim = topic_state(log, chunk_rows=1)

    def keep(progress: Progress) -> None:
        if progress.records > survived:
            raise KilledError
        SnapshotFile(str(tmp_path / "snapshot")).write(victim.snapshot())

    with pytest.raises(KilledError):
        victim.advance(keep)
    state, fresh = resumed(log, tmp_path / "snapshot"), topic_state(log)
    assert (state.refusal, sum(state.next_offsets.values())) == (words, survived)
    state.advance()
    fresh.advance()
    assert tables(state.state) == tables(fresh.state)
