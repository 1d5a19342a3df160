# SPDX-License-Identifier: Apache-2.0
"""One look at the log: what it holds now, and an error where it has lost what it was asked for."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import OffsetOutOfRangeError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.one_look import held, look, look_at_many, newest


def new_log(*counts: int) -> InProcessMetadataEventLog:
    log = InProcessMetadataEventLog(len(counts))
    for number, count in enumerate(counts):
        for n in range(count):
            log.append(number, f"record {n}".encode())
    return log


def places(batches: list) -> list[tuple[int, int]]:
    return [(row["metadata_partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def test_a_log_holds_what_was_not_deleted_up_to_its_high_watermarks() -> None:
    log = new_log(5, 0, 3)
    log.truncate(0, 2)
    assert held(log) == {0: (2, 5), 1: (0, 0), 2: (0, 3)}


@pytest.mark.parametrize(("most", "of_the_first"), [(2, (3, 5)), (3, (2, 5)), (100, (2, 5))])
def test_the_newest_are_the_last_offsets_that_are_still_held(most: int, of_the_first: tuple[int, int]) -> None:
    log = new_log(5, 0, 3)
    log.truncate(0, 2)
    assert newest(log, most) == {0: of_the_first, 2: (max(0, 3 - most), 3)}


def test_records_come_decoded_with_their_places() -> None:
    log = new_log(5, 4)
    assert places(list(look(log, 0, 1, 3))) == [(0, 1), (0, 2)]
    assert sorted(places(list(look_at_many(log, {0: (4, 5), 1: (0, 2)})))) == [(0, 4), (1, 0), (1, 1)]


def test_what_was_lost_since_it_was_asked_for_is_an_error() -> None:
    log = new_log(5)
    ranges = held(log)
    log.truncate(0, 2)
    with pytest.raises(OffsetOutOfRangeError, match="from offset 0 and begins at 2"):
        list(look(log, 0, *ranges[0]))
    with pytest.raises(OffsetOutOfRangeError, match="from offset 0 and begins at 2"):
        list(look_at_many(log, ranges))
    log.cut_off(0, 4)
    with pytest.raises(OffsetOutOfRangeError, match="up to offset 5 and its high watermark is 4"):
        list(look(log, 0, 2, 5))
