# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.errors import LogReplacedError, OffsetOutOfRangeError
from airflow_provider_rlmm.event_log.event_batch import event_batch
from airflow_provider_rlmm.event_log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.event_log.log_tail import KEPT, LogTail, require_tail
from airflow_provider_rlmm.metadata.read_tail import ReadTail


def batch(offsets: range, *, changed: int | None = None, key: bytes | None = None):
    values = [b"other" if o == changed else f"value {o}".encode() for o in offsets]
    return event_batch(offsets, [1000 + o for o in offsets], [key] * len(offsets), values)


@pytest.mark.parametrize("count", [1, KEPT - 1, KEPT, KEPT + 1, 3 * KEPT])
def test_the_last_records_are_known_again(count: int) -> None:
    tail = LogTail(7)
    tail.note(batch(range(count)))
    start = tail.start(count)
    assert start == max(0, count - KEPT)
    tail.check(batch(range(start, count)))


def test_several_batches_are_remembered_as_one() -> None:
    tail = LogTail(7)
    for n in range(KEPT + 5):
        tail.note(batch(range(n, n + 1)))
    assert tail.start(0) == 5
    tail.check(batch(range(5, KEPT + 5)))


@pytest.mark.parametrize(
    "now",
    [batch(range(4), changed=1), batch(range(4), key=b"k"), batch(range(3)), batch(range(1, 5)), batch(range(0))],
    ids=["another value", "a key", "fewer", "other offsets", "none"],
)
def test_other_records_are_another_log(now) -> None:
    tail = LogTail(7)
    tail.note(batch(range(4)))
    with pytest.raises(LogReplacedError, match="metadata partition 7: offsets 0 to 3 hold other records than before"):
        tail.check(now)


def test_without_a_record_there_is_nothing_to_tie() -> None:
    assert LogTail(7).start(12) == 12


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
