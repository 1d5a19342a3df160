# SPDX-License-Identifier: Apache-2.0
"""The checksums of many batches at once: they say what each by itself says, and which batch is damaged."""

from __future__ import annotations

import random

import numpy as np
import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.record_batches.checksums import MOST_BYTES, all_agree
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from tests.kafka_log import Batch, Record, log_of

NAME = "t-0/00000000000000000000.log"
CHECKSUM_AT, COVERED_AT = 17, 21
LOG = log_of([Batch((Record(number, value=b"v" * (number * number % 397)),)) for number in range(2500)])
HEADERS, _ = BatchHeaders.find(LOG, location=NAME, position=0)


def agree(log: bytes, rows: slice = slice(None)) -> bool:
    some = HEADERS[rows]
    begin, end = some.position + COVERED_AT, some.position + some.size_in_bytes
    checksum = [int.from_bytes(log[at + CHECKSUM_AT : at + COVERED_AT], "big") for at in some.position.tolist()]
    return all_agree(log, begin, end, np.array(checksum))


def flipped(log: bytes, *bits: int) -> bytes:
    data = bytearray(log)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


@pytest.mark.parametrize("rows", [slice(None), slice(0, 2), slice(3, 400), slice(2000, 2500)], ids=str)
def test_batches_as_they_were_written_agree(rows: slice) -> None:
    assert agree(LOG, rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_every_flipped_bit_is_seen(seed: int) -> None:
    rng = random.Random(seed)
    row = rng.choice((0, 1, 2498, 2499, rng.randrange(2500)))
    at, size = int(HEADERS.position[row]), int(HEADERS.size_in_bytes[row])
    assert not agree(flipped(LOG, rng.randrange(8 * (at + CHECKSUM_AT), 8 * (at + COVERED_AT))))
    damaged = flipped(LOG, rng.randrange(8 * (at + COVERED_AT), 8 * (at + size)))
    assert not agree(damaged)
    with pytest.raises(DamagedObjectError, match="its checksum is") as error:
        HEADERS.verify_checksums(damaged)
    assert (error.value.location, error.value.position) == (NAME, at)


@pytest.mark.parametrize("seed", range(50))
def test_the_first_of_several_damaged_batches_is_named(seed: int) -> None:
    rng = random.Random(seed)
    rows = sorted(rng.sample(range(2500), rng.randint(2, 9)))
    # The same bit of each: what is equal must not cancel out.
    damaged = flipped(LOG, *(8 * (int(HEADERS.position[row]) + COVERED_AT + 30) for row in rows))
    headers, _ = BatchHeaders.find(damaged, location=NAME, position=0)
    with pytest.raises(DamagedObjectError) as error:
        headers.verify_checksums(damaged)
    assert error.value.position == int(HEADERS.position[rows[0]])


def test_batches_that_do_not_lie_side_by_side_are_compared_one_by_one() -> None:
    damaged = flipped(LOG, 8 * (int(HEADERS.position[7]) + COVERED_AT))
    headers, _ = BatchHeaders.find(damaged, location=NAME, position=0)
    headers[np.arange(2500) != 7].verify_checksums(damaged)
    with pytest.raises(DamagedObjectError):
        headers[np.arange(2500) != 8].verify_checksums(damaged)


def test_more_bytes_than_the_tables_reach_are_compared_one_by_one() -> None:
    log = log_of([Batch((Record(number, value=bytes(8000)),)) for number in range(2200)])
    assert len(log) > MOST_BYTES
    headers, _ = BatchHeaders.find(log, location=NAME, position=0)
    headers.verify_checksums(log)
    with pytest.raises(DamagedObjectError):
        headers.verify_checksums(flipped(log, 8 * len(log) - 3))
