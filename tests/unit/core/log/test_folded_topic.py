# SPDX-License-Identifier: Apache-2.0
"""What the Spark job has folded: the same as reading the log, taken where it knows more, refused where it may not be so."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.generations.folding import joined
from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.log.folded_topic import MAX_FOLD_AGE_MS, FoldedTopic
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.records.era import COMPACT, era_of_policy
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from tests.generations import written
from tests.property.histories import Histories
from tests.property.routed_records import routed
from tests.unit.core.records.events import copied, deleted, partition_delete, started
from tests.unit.library.topics import NOW_MS, new_log, put, topic_state, topics, user_partition_of

HERE, THERE = user_partition_of(0), user_partition_of(1)


@pytest.fixture
def log() -> InProcessMetadataEventLog:
    """Two segments of which one is finished, a deletion that began, a record that is none."""
    log = new_log()
    put(log, started(1, partition=HERE), copied(1, HERE), started(2, 100, 199, partition=HERE), deleted(1, HERE))
    put(log, started(3, partition=THERE), copied(3, THERE))
    put(log, partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_MARKED, HERE))
    log.append(1, b"no record")
    return log


def folded(uri: Path, now_ms: int = NOW_MS) -> FoldedTopic:
    return FoldedTopic(str(uri), lambda: now_ms)


def replace_manifest(uri: Path, generation: Generation, **changes: Any) -> None:
    manifest = uri / "segments" / f"generation={generation.number}" / "_manifest.json"
    manifest.unlink()
    GenerationStore(str(uri)).create(replace(generation, **changes))


def require_same(log: InProcessMetadataEventLog, uri: Path) -> None:
    """What is read from a data set is what a reader of the log would leave."""
    own = TopicState(log, topics(), clock=lambda: NOW_MS, keep_finished=True)
    own.advance()
    expected, found = own.snapshot(), folded(uri).read(beyond=-1)
    assert found.state.digest() == expected.state.digest()
    assert (found.identity, found.next_offsets, found.gaps) == (expected.identity, expected.next_offsets, expected.gaps)
    assert (found.tails, found.quarantined, found.routed) == (expected.tails, expected.quarantined, expected.routed)
    by_partition = {n: joined(h for h in expected.holes if h.metadata_partition == n) for n in expected.next_offsets}
    assert {n: joined(h for h in found.holes if h.metadata_partition == n) for n in found.next_offsets} == by_partition


@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_a_reader_of_the_log_knows(seed: int, tmp_path: Path) -> None:
    """In one reading or several, whatever the records are, and where some of the log are gone."""
    log, history = new_log(3), Histories(seed, seed % 4 / 10)
    for record in routed(history, 300, 3, keyed=False):
        log.append(record.metadata_partition, record.value, None, record.timestamp_ms)
    marks = dict(log.high_water_marks())
    if seed % 3 == 1:
        log.truncate(0, marks[0] // 4)
    if seed % 3 == 2:
        log.remove(1, [2, 3, marks[1] // 2])
    before = None
    for share in history.random.choice([(1.0,), (0.5, 1.0), (0.0, 0.9, 0.95, 1.0)]):
        begin = log.beginning_offsets()
        ends = {p: max(begin[p], int(end * share)) for p, end in marks.items()}
        before, _ = written(str(tmp_path), log, NOW_MS, before=before, ends=ends)
    require_same(log, tmp_path)


def test_a_reader_takes_what_knows_more(log: InProcessMetadataEventLog, tmp_path: Path) -> None:
    own = topic_state(log, keep_finished=True)
    own.advance()
    file = SnapshotFile(str(tmp_path / "snapshot"))
    written(str(tmp_path / "g"), log, NOW_MS - HOUR_MS)
    taken = TopicState.resume(file, log, topics(), folded=folded(tmp_path / "g"))
    assert taken.folded is not None
    assert (taken.folded.generation, taken.folded.offsets, taken.folded.created_at_ms) == (1, 8, NOW_MS - HOUR_MS)
    assert taken.known_from == f"{tmp_path / 'g'}/segments"
    file.write(own.snapshot())
    of_a_task = TopicState.resume(file, log, topics(), folded=folded(tmp_path / "g"))
    assert (of_a_task.folded, of_a_task.known_from) == (None, str(file)), "as much is no more"
    put(log, deleted(3, THERE))
    written(str(tmp_path / "g"), log, NOW_MS, before=GenerationStore(str(tmp_path / "g")).read(1))
    taken = TopicState.resume(file, log, topics(), folded=folded(tmp_path / "g"))
    assert taken.folded is not None
    assert taken.folded.generation == 2


def test_what_began_with_it_reads_on_says_so_and_leaves_no_snapshot(
    log: InProcessMetadataEventLog, tmp_path: Path
) -> None:
    file = SnapshotFile(str(tmp_path / "snapshot"))
    written(str(tmp_path / "g"), log, NOW_MS - HOUR_MS)
    put(log, deleted(3, THERE))
    replay = TopicReplay(log, topics(), lambda: NOW_MS, file, folded=folded(tmp_path / "g"))
    replay.advance()
    replay.keep()
    assert (replay.records_read, dict(replay.resumed_at)) == (1, {0: 5, 1: 3})
    assert replay.what_was_read == (
        "1 record was read; 8 offsets were known from generation 1 of the Spark job, which is 1 h 0 min old and was folded "
        "from the beginning of the log 1 h 0 min before"
    )
    with pytest.raises(SnapshotRefusedError, match="there is none yet"):
        file.read()
    own = TopicReplay(log, topics(), lambda: NOW_MS, file)
    own.advance()
    assert own.segments.equals(replay.segments)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"folded_at_ms": NOW_MS - MAX_FOLD_AGE_MS - 1}, r"26\.0 hours ago, and counts for 26 hours"),
        ({"folded_at_ms": NOW_MS + HOUR_MS + 1}, r"-1\.0 hours ago"),
        ({"fold_version": 1}, "was folded by version 1"),
        ({"era": era_of_policy({COMPACT}).told()}, "is of a log that is compacted"),
        ({"cluster_id": "another"}, "it is of cluster 'another'"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAACA"}, "it is of topic id"),
    ],
)
def test_it_is_refused_where_it_may_not_be_so(
    changes: dict[str, Any],
    words: str,
    log: InProcessMetadataEventLog,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    generation, _ = written(str(tmp_path / "g"), log, NOW_MS)
    replace_manifest(tmp_path / "g", generation, **changes)
    file = SnapshotFile(str(tmp_path / "snapshot"))
    with caplog.at_level(logging.WARNING):
        state = TopicState.resume(file, log, topics(), folded=folded(tmp_path / "g"))
    assert (state.folded, state.known_from, state.next_offsets) == (None, None, {0: 0, 1: 0})
    assert len([m for m in caplog.messages if m.startswith("what the Spark job has folded below")]) == 1
    assert re.search(words, caplog.text)


@pytest.mark.parametrize("change", [{"more_holes": 1}, {"keyed": 1}])
def test_what_is_only_counted_is_in_doubt(
    change: dict[str, Any], log: InProcessMetadataEventLog, tmp_path: Path
) -> None:
    generation, _ = written(str(tmp_path), log, NOW_MS)
    parts = {**generation.parts, 1: replace(generation.parts[1], **change)}
    replace_manifest(tmp_path, generation, parts=parts)
    with pytest.raises(SnapshotRefusedError, match="does not name all that is doubtful in metadata partition 1"):
        folded(tmp_path).read(beyond=0)


def test_of_another_log_nothing_is_taken(
    log: InProcessMetadataEventLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(str(tmp_path / "g"), log, NOW_MS)
    other = new_log()
    for _ in range(9):
        for number in (0, 1):
            other.append(number, serialize(started(1, partition=(HERE, THERE)[number])), timestamp_ms=5)
    file = SnapshotFile(str(tmp_path / "snapshot"))
    state = TopicState.resume(file, other, topics(), folded=folded(tmp_path / "g"))
    assert (state.folded, state.known_from) == (None, None)
    assert "hold other records than before" in caplog.text


def test_a_damaged_file_is_not_taken(log: InProcessMetadataEventLog, tmp_path: Path) -> None:
    written(str(tmp_path), log, NOW_MS)
    (state,) = tmp_path.glob("segments/generation=1/metadata_partition=0/*.state")
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(SnapshotRefusedError, match="is not the file that its manifest names"):
        folded(tmp_path).read(beyond=0)


def test_where_there_is_none_nothing_is_wrong(
    log: InProcessMetadataEventLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        state = TopicState.resume(SnapshotFile(str(tmp_path / "s")), log, topics(), folded=folded(tmp_path / "g"))
    assert (state.folded, caplog.messages) == (None, [])
