# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.errors import LogReplacedError
from airflow_provider_rlmm.manager.event_batch import event_batch
from airflow_provider_rlmm.manager.log_tail import KEPT, LogTail


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
