# SPDX-License-Identifier: Apache-2.0
"""One loop for everybody who follows the log: what counts as read, and what it means that something is gone."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import (
    EventLogUnavailableError,
    LogReplacedError,
    OffsetOutOfRangeError,
    TopicInDoubtError,
)
from airflow_provider_rlmm.core.log.event_decoding import BATCH_ROWS
from airflow_provider_rlmm.core.log.follower import LogFollower, Lost
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, LostRecords

OPEN = LostRecords(1, 24, 12)


def new_log(*counts: int) -> InProcessMetadataEventLog:
    log = InProcessMetadataEventLog(len(counts))
    for number, count in enumerate(counts):
        write(log, count, number)
    return log


def write(log: InProcessMetadataEventLog, count: int, number: int = 0, word: str = "record") -> None:
    for n in range(count):
        log.append(number, f"{word} {n}".encode())


class Reader:
    """Follows, and keeps the offsets that were applied; fails once at the first batch from an offset on."""

    def __init__(self, follower: LogFollower) -> None:
        self.follower = follower
        self.seen: dict[int, list[int]] = {}
        self.fails_from: int | None = None

    def apply(self, decoded: Any) -> None:
        offsets = decoded.column("offset").to_pylist()
        if self.fails_from is not None and offsets[-1] >= self.fails_from:
            self.fails_from = None
            raise ZeroDivisionError
        self.seen.setdefault(decoded.column("metadata_partition")[0].as_py(), []).extend(offsets)

    def advance(self) -> None:
        self.follower.advance(self.apply)


def test_it_reads_up_to_the_high_watermarks_and_goes_on_there() -> None:
    log = new_log(3, 0, 2)
    reader = Reader(LogFollower.from_beginning(log, [0, 1, 2]))
    reader.advance()
    assert (reader.seen, reader.follower.positions) == ({0: [0, 1, 2], 2: [0, 1]}, {0: 3, 1: 0, 2: 2})
    write(log, 1, 1)
    write(log, 2)
    reader.advance()
    assert (reader.seen, reader.follower.positions) == ({0: [0, 1, 2, 3, 4], 1: [0], 2: [0, 1]}, {0: 5, 1: 1, 2: 2})


def test_it_follows_only_what_it_was_told_to() -> None:
    reader = Reader(LogFollower.from_beginning(new_log(3, 4), [1]))
    reader.advance()
    assert (reader.seen, reader.follower.positions) == ({1: [0, 1, 2, 3]}, {1: 4})


def test_it_stops_where_it_is_told_to_and_goes_on_there() -> None:
    reader = Reader(LogFollower.from_beginning(new_log(5), [0]))
    for most, end in ((2, 2), (0, 2), (1, 3)):
        reader.follower.advance(reader.apply, most)
        assert (reader.seen, reader.follower.positions) == ({0: list(range(end))}, {0: end})
    reader.advance()
    assert reader.seen == {0: [0, 1, 2, 3, 4]}


@pytest.mark.slow
def test_what_could_not_be_applied_is_read_again_and_what_was_before_it_is_not() -> None:
    log = new_log(2 * BATCH_ROWS + 1)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.fails_from = BATCH_ROWS
    with pytest.raises(ZeroDivisionError):
        reader.advance()
    assert (reader.follower.positions, len(reader.seen[0])) == ({0: BATCH_ROWS}, BATCH_ROWS)
    reader.advance()
    assert reader.seen[0] == list(range(2 * BATCH_ROWS + 1))


def test_a_read_that_breaks_off_goes_on_where_it_stopped() -> None:
    log = new_log(BATCH_ROWS + 5)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    log.on_effect = lambda name, _: BATCH_ROWS + 2 if name == "read" else None
    with pytest.raises(EventLogUnavailableError):
        reader.advance()
    assert reader.follower.positions == {0: BATCH_ROWS + 2}
    log.on_effect = lambda *_: None
    reader.advance()
    assert reader.seen[0] == list(range(BATCH_ROWS + 5))


@pytest.mark.parametrize("grown", [0, 1, 5])
def test_what_was_read_has_to_come_first_in_the_next_read(grown: int) -> None:
    log = new_log(6)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.advance()
    log.cut_off(0, 4)
    write(log, 2 + grown, word="another")
    with pytest.raises(LogReplacedError, match="metadata partition 0: offsets 0 to 5 hold other records than before"):
        reader.advance()
    assert (reader.seen, reader.follower.positions) == ({0: [0, 1, 2, 3, 4, 5]}, {0: 6})


@pytest.mark.parametrize("end", [0, 5])
def test_a_log_that_ends_before_what_was_read_is_refused(end: int) -> None:
    log = new_log(6)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.advance()
    log.cut_off(0, end)
    with pytest.raises(
        OffsetOutOfRangeError, match=f"up to offset 6 and its high watermark is {end}: the log has lost"
    ):
        reader.advance()
    assert reader.follower.positions == {0: 6}


def test_a_log_that_ends_before_its_position_is_refused_where_no_record_was_read_either() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="up to offset 6 and its high watermark is 5"):
        Reader(LogFollower(new_log(5), {0: 6})).advance()


def test_a_beginning_that_goes_before_it_was_read_is_refused() -> None:
    log = new_log(6)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    log.truncate(0, 3)
    with pytest.raises(OffsetOutOfRangeError, match="from offset 0 and begins at 3"):
        reader.advance()
    assert (reader.seen, reader.follower.positions) == ({}, {0: 0})


def test_who_needs_a_whole_history_refuses_one_that_is_not() -> None:
    log = new_log(3, 3, 3)
    LogFollower.from_beginning(log, [0, 1, 2]).require_whole("so nothing is done")
    log.truncate(0, 2)
    with pytest.raises(TopicInDoubtError, match=r"^metadata partition 0 begins at offset 2; so nothing is done$"):
        LogFollower.from_beginning(log, [1, 0]).require_whole("so nothing is done")
    log.losses = {1: OPEN}
    with pytest.raises(
        TopicInDoubtError, match=r"up to offset 24 by .*; so nothing is done\. What to do: find out how"
    ):
        LogFollower.from_beginning(log, [1, 2]).require_whole("so nothing is done")
    LogFollower.from_beginning(log, [2]).require_whole("so nothing is done")


def recording(log: InProcessMetadataEventLog, positions: dict[int, int]) -> Reader:
    return Reader(LogFollower(log, positions, lost=Lost.RECORDED))


def test_what_was_gone_before_it_was_read_is_recorded_once() -> None:
    log = new_log(6, 6)
    log.truncate(0, 4)
    reader = recording(log, {0: 1, 1: 0})
    reader.advance()
    assert reader.follower.gaps == (HistoryGap(0, 1, 4),)
    assert (reader.seen, reader.follower.positions) == ({0: [4, 5], 1: [0, 1, 2, 3, 4, 5]}, {0: 6, 1: 6})
    write(log, 1)
    reader.advance()
    assert (reader.follower.gaps, reader.seen[0]) == ((HistoryGap(0, 1, 4),), [4, 5, 6])


def test_nothing_is_recorded_of_a_chunk_that_was_not_taken() -> None:
    log = new_log(6)
    log.truncate(0, 4)
    reader = recording(log, {0: 0})
    reader.fails_from = 0
    with pytest.raises(ZeroDivisionError):
        reader.advance()
    assert (reader.follower.gaps, reader.follower.positions) == ((), {0: 0})
    reader.advance()
    assert (reader.follower.gaps, reader.seen) == ((HistoryGap(0, 0, 4),), {0: [4, 5]})


def test_what_goes_after_it_was_read_is_refused_where_a_lost_beginning_is_recorded_too() -> None:
    log, shorter = new_log(20), new_log(20)
    reader = recording(log, {0: 0})
    reader.advance()
    log.truncate(0, 20)
    with pytest.raises(OffsetOutOfRangeError, match="from offset 4 and begins at 20"):
        reader.advance()
    reader = recording(shorter, {0: 0})
    reader.advance()
    shorter.cut_off(0, 19)
    with pytest.raises(EventLogUnavailableError, match="its high watermark is 19, and 20 records were read already"):
        reader.advance()


def test_a_chunk_may_hold_several_metadata_partitions() -> None:
    follower = LogFollower(new_log(3, 4, 5), dict.fromkeys(range(3), 0), lost=Lost.RECORDED)
    rows = []
    for chunk in follower.chunks(follower.ends(), rows=6):
        decoded = chunk.decode(3) if chunk.rows else None
        rows.append([] if decoded is None else decoded.column("metadata_partition").to_pylist())
        follower.take(chunk)
    assert rows == [[0] * 3 + [1] * 4, [2] * 5]
    assert follower.positions == {0: 3, 1: 4, 2: 5}


def test_who_waits_for_news_passes_over_what_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(6, 6)
    follower = LogFollower(log, {0: 9, 1: 2}, lost=Lost.SKIPPED)
    assert follower.ends() == {0: 6, 1: 6}
    assert follower.positions == {0: 6, 1: 2}
    assert "cannot be followed from offset 9 on, it is followed from 6 on: its high watermark is lower" in caplog.text
    log.truncate(1, 4)
    with pytest.raises(OffsetOutOfRangeError):
        list(follower.read_on(follower.ends()))
    assert follower.positions == {0: 6, 1: 6}
    assert "metadata partition 1 cannot be followed from offset 2 on, it is followed from 6 on" in caplog.text


def test_no_more_is_read_than_was_asked_for() -> None:
    follower = LogFollower(new_log(3, 4, 5), {0: 0, 1: 1, 2: 0}, lost=Lost.SKIPPED)
    assert follower.ends(most=4) == {0: 3, 1: 2, 2: 0}
    assert follower.ends(only={2}) == {2: 5}


def removed(log: InProcessMetadataEventLog, *offsets: int, number: int = 0) -> InProcessMetadataEventLog:
    log.remove(number, offsets)
    return log


@pytest.mark.parametrize("lost", [Lost.REFUSED, Lost.RECORDED])
def test_offsets_without_a_record_are_holes_wherever_they_lie(lost: Lost) -> None:
    log = removed(new_log(10, 4), 0, 3, 4, 9)
    log.remove(1, [2])
    reader = Reader(LogFollower(log, {0: 0, 1: 0}, lost=lost))
    reader.advance()
    assert sorted(hole.name for hole in reader.follower.holes) == ["0@0-0", "0@3-4", "0@9-9", "1@2-2"]
    assert reader.follower.open_holes() == reader.follower.holes
    assert reader.follower.gaps == ()
    write(log, 2)
    reader.advance()
    assert len(reader.follower.holes) == 4, "they were seen once"
    assert (reader.seen[0], reader.follower.positions) == ([1, 2, 5, 6, 7, 8, 10, 11], {0: 12, 1: 4})


@pytest.mark.slow
def test_holes_at_the_edges_of_what_is_read_at_once_are_seen() -> None:
    log = removed(new_log(2 * BATCH_ROWS + 2), BATCH_ROWS - 1, BATCH_ROWS, 2 * BATCH_ROWS)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.advance()
    holes = [(hole.start, hole.end) for hole in reader.follower.holes]
    assert holes == [(BATCH_ROWS - 1, BATCH_ROWS + 1), (2 * BATCH_ROWS, 2 * BATCH_ROWS + 1)]


def test_a_hole_is_kept_only_with_what_was_taken() -> None:
    log = removed(new_log(4), 1)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.fails_from = 0
    with pytest.raises(ZeroDivisionError):
        reader.advance()
    assert reader.follower.holes == ()
    reader.advance()
    assert [hole.name for hole in reader.follower.holes] == ["0@1-1"]


def test_what_is_gone_at_the_beginning_is_a_gap_and_what_is_missing_behind_it_a_hole() -> None:
    log = removed(new_log(10), 2, 6)
    log.truncate(0, 4)
    reader = Reader(LogFollower(log, {0: 0}, lost=Lost.RECORDED))
    reader.advance()
    assert reader.follower.gaps == (HistoryGap(0, 0, 4),)
    assert reader.follower.holes == (HistoryGap(0, 6, 7),)


def test_who_only_waits_for_news_looks_for_no_holes() -> None:
    reader = Reader(LogFollower(removed(new_log(4), 1), {0: 0}, lost=Lost.SKIPPED))
    reader.advance()
    assert reader.follower.holes == ()


def test_holes_of_which_somebody_has_said_why_are_no_open_ones() -> None:
    log = removed(new_log(10), 2, 3, 7)
    log.explained_gaps = {0: [(2, 3), (7, 8)], 1: [(2, 4)]}
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.advance()
    assert [hole.name for hole in reader.follower.open_holes()] == ["0@2-3"], "half of it is not enough"
    log.explained_gaps = {0: [(2, 4), (7, 8)]}
    assert reader.follower.open_holes() == ()


def test_who_goes_on_knows_a_compacted_log_by_the_newest_record() -> None:
    log = new_log(5)
    reader = Reader(LogFollower.from_beginning(log, [0]))
    reader.advance()
    write(log, 1)
    log.remove(0, [1, 3])
    with pytest.raises(LogReplacedError):
        reader.advance()
    log.policy = frozenset({"compact"})
    reader.advance()
    assert reader.seen[0] == [0, 1, 2, 3, 4, 5]
    log.remove(0, [5])
    with pytest.raises(LogReplacedError, match="hold other records than before"):
        reader.advance()


def test_who_needs_a_whole_history_does_not_follow_a_compacted_log() -> None:
    log = InProcessMetadataEventLog(1)
    log.policy = frozenset({"compact"})
    with pytest.raises(
        TopicInDoubtError, match="records may be gone from anywhere, as the metadata topic is compacted"
    ):
        LogFollower.from_beginning(log, [0]).require_whole("so nothing is done")


def test_who_needs_a_whole_history_is_told_of_each_hole_that_comes() -> None:
    log = new_log(3)
    follower = LogFollower.from_beginning(log, [0])
    follower.require_whole("so nothing is done")
    follower.advance(lambda _: None)
    write(log, 3)
    removed(log, 4)
    for _ in range(2):
        with pytest.raises(
            TopicInDoubtError, match=r"no record at offsets 4 to 4: .*; so nothing is done\. What to do: find"
        ):
            follower.advance(lambda _: None)
    log.explained_gaps = {0: [(4, 5)]}
    follower.advance(lambda _: None)
