# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import LogReplacedError, OffsetOutOfRangeError
from airflow_provider_rlmm.core.log.event_decoding import event_batch
from airflow_provider_rlmm.core.log.follower import LogFollower
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.log_tail import KEPT, LogTail, is_same_tail, require_tail
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.core.records.read_tail import ReadTail


def batch(offsets: range, *, changed: int | None = None, key: bytes | None = None):
    values = [b"other" if o == changed else f"value {o}".encode() for o in offsets]
    return event_batch(offsets, [1000 + o for o in offsets], [key] * len(offsets), values)


class Log:
    """Answers with some records, whoever wrote them, and notes what it was asked for."""

    era = PLAIN_ERA

    def __init__(self, records) -> None:
        self.records = records
        self.asked: list[tuple[int, int]] = []

    def read_many(self, ranges: Mapping[int, tuple[int, int]]):
        ((number, asked),) = ranges.items()
        self.asked.append(asked)
        if self.records.num_rows:
            yield number, self.records


def read_on(tail: LogTail, log: Log, position: int, end: int) -> list[int]:
    follower = LogFollower(log, {7: position}, tails={7: tail.records})  # type: ignore[arg-type]
    return [offset for _, b in follower.read_on({7: end}) for offset in b.column("offset").to_pylist()]


@pytest.mark.parametrize("count", [1, KEPT - 1, KEPT, KEPT + 1, 3 * KEPT])
def test_the_last_records_are_known_again_and_what_follows_is_read(count: int) -> None:
    tail = LogTail(7)
    tail.note(batch(range(count)))
    first = max(0, count - KEPT)
    log = Log(batch(range(first, count + 3)))
    assert read_on(tail, log, count, count + 3) == [count, count + 1, count + 2]
    assert log.asked == [(first, count + 3)]
    assert read_on(LogTail(7, tail.records), Log(batch(range(first, count))), count, count) == []


def test_several_batches_are_remembered_as_one() -> None:
    tail = LogTail(7)
    for n in range(KEPT + 5):
        tail.note(batch(range(n, n + 1)))
    assert [offset for offset, _ in tail.records] == list(range(5, KEPT + 5))
    assert read_on(tail, Log(batch(range(5, KEPT + 5))), KEPT + 5, KEPT + 5) == []


@pytest.mark.parametrize("further", [0, 2])
@pytest.mark.parametrize(
    "now",
    [batch(range(4), changed=1), batch(range(4), key=b"k"), batch(range(3)), batch(range(1, 4)), batch(range(0))],
    ids=["another value", "a key", "fewer", "other offsets", "none"],
)
def test_other_records_are_another_log(now, further: int) -> None:
    tail = LogTail(7)
    tail.note(batch(range(4)))
    log = Log(pa.concat_batches([now, batch(range(4, 4 + further))]))
    with pytest.raises(LogReplacedError, match="metadata partition 7: offsets 0 to 3 hold other records than before"):
        read_on(tail, log, 4, 4 + further)


@pytest.mark.parametrize(
    ("now", "may_lack", "same"),
    [
        ([(1, b"a"), (2, b"b"), (3, b"c")], False, True),
        ([(1, b"a"), (3, b"c")], True, True),
        ([(3, b"c")], True, True),
        ([(1, b"a"), (3, b"c")], False, False),
        ([(1, b"a"), (2, b"b")], True, False),
        ([], True, False),
        ([(2, b"x"), (3, b"c")], True, False),
        ([(1, b"a"), (3, b"x")], True, False),
        ([(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")], True, False),
    ],
)
def test_where_records_may_be_gone_the_rest_is_the_same_and_the_newest_is_there(
    now: list[tuple[int, bytes]], may_lack: bool, same: bool
) -> None:
    assert is_same_tail([(1, b"a"), (2, b"b"), (3, b"c")], now, lambda: may_lack) is same


def test_nobody_asks_whether_records_may_be_gone_where_none_are() -> None:
    def asked() -> bool:
        raise AssertionError

    assert is_same_tail([(1, b"a")], [(1, b"a")], asked)
    assert is_same_tail([], [], asked)
    assert not is_same_tail([], [(1, b"a")], asked)


def test_without_a_record_there_is_nothing_to_tie() -> None:
    log = Log(batch(range(12, 14)))
    assert read_on(LogTail(7), log, 12, 14) == [12, 13]
    assert log.asked == [(12, 14)]


@pytest.mark.parametrize("count", [1, KEPT + 5])
def test_what_a_plan_was_made_from_is_asked_for_again(count: int) -> None:
    log = InProcessMetadataEventLog(1)
    for n in range(count):
        log.append(0, f"value {n}".encode())
    tail = tail_of(log)
    log.append(0, b"more")
    require_tail(log, 0, tail)
    assert (tail.begin, tail.end) == (max(0, count - KEPT), count)


def test_a_plan_does_not_fit_a_log_with_another_end() -> None:
    log, other = InProcessMetadataEventLog(1), InProcessMetadataEventLog(1)
    for n in range(4):
        log.append(0, b"value")
        other.append(0, b"value" if n else b"another")
    with pytest.raises(LogReplacedError, match="offsets 0 to 3 hold other records than when the plan was made"):
        require_tail(other, 0, tail_of(log))


def test_a_plan_does_not_fit_a_log_that_is_shorter() -> None:
    log, shorter = InProcessMetadataEventLog(1), InProcessMetadataEventLog(1)
    for n in range(4):
        log.append(0, b"value")
        if n:
            shorter.append(0, b"value")
    with pytest.raises(OffsetOutOfRangeError):
        require_tail(shorter, 0, tail_of(log))


def tail_of(log: InProcessMetadataEventLog) -> ReadTail:
    tail = LogTail(0)
    for records in log.read(0, 0, log.high_water_marks()[0]):
        tail.note(records)
    seen = tail.seen()
    assert seen is not None
    return seen
