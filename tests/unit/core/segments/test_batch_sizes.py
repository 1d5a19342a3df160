# SPDX-License-Identifier: Apache-2.0
"""Where batches begin: small ones are followed from many places at once, and those are found that single steps find."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError, RemoteLogError, UnsupportedMessageFormatError
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import batch_positions
from tests.kafka_log import Batch, Record, log_of

NAME = "t-0/00000000000000000000.log"
BATCHES = 2000


def found(log: bytes) -> list[int]:
    return list(batch_positions(log, location=NAME, position=0))


def one_at_a_time(log: bytes) -> list[int]:
    """The positions by the plainest loop that there is."""
    positions = [0]
    while positions[-1] + 12 <= len(log):
        (length,) = struct.unpack_from(">i", log, positions[-1] + 8)
        if positions[-1] + 12 + length > len(log):
            break
        positions.append(positions[-1] + 12 + length)
    return positions


def of_one_record(sizes: Sequence[int], *, first: int = 0, leader_epoch: int = 0) -> list[Batch]:
    return [
        Batch((Record(first + number, value=b"v" * size),), leader_epoch=leader_epoch)
        for number, size in enumerate(sizes)
    ]


EVEN = of_one_record([100] * BATCHES)
UNEVEN = of_one_record([number * number % 397 for number in range(BATCHES)])


def two_batches(number: int) -> bytes:
    """Two batches for a value, some bytes behind its beginning."""
    return b"x" * (number % 13) + log_of([Batch((Record(number + 1),)), Batch((Record(number + 2),))])


WITH_BATCHES_FOR_VALUES = [Batch((Record(number, value=two_batches(number)),)) for number in range(BATCHES)]
WITH_MARKS_FOR_VALUES = [Batch((Record(number, value=bytes(4) + b"\2" + bytes(40)),)) for number in range(BATCHES)]
LOGS = {
    "even": EVEN,
    "uneven": UNEVEN,
    "batches for values": WITH_BATCHES_FOR_VALUES,
    "marks for values": WITH_MARKS_FOR_VALUES,
    "marks in offsets": of_one_record([50] * BATCHES, first=0x20000),
    "a later leader": [*of_one_record([50] * 700), *of_one_record([50] * 700, first=700, leader_epoch=1)],
    "large ones between": [
        Batch((Record(number, value=b"v" * (20_000 if number % 300 == 299 else 30)),)) for number in range(BATCHES)
    ],
    "small ones behind a large one": of_one_record([30_000, *[10] * BATCHES]),
    "a long stretch of another leader": [
        *of_one_record([50] * 700),
        *of_one_record([50] * 700, first=700, leader_epoch=1),
        *of_one_record([50] * 700, first=1400),
    ],
}


@pytest.mark.parametrize("name", LOGS)
def test_all_are_found(name: str) -> None:
    log = log_of(LOGS[name])
    assert found(log) == one_at_a_time(log)
    assert len(found(log)) == len(LOGS[name]) + 1


@pytest.mark.parametrize("name", LOGS)
def test_one_that_is_cut_ends_what_is_found(name: str) -> None:
    log, last = log_of(LOGS[name]), len(LOGS[name][-1].to_bytes())
    for cut in (1, 2, last - 17, last - 16, last - 1, last, last + 1, last + 60):
        assert found(log[:-cut]) == one_at_a_time(log[:-cut])


@pytest.mark.parametrize("data", [bytes, bytearray, memoryview])
def test_any_buffer(data: type) -> None:
    log = log_of(UNEVEN)
    assert list(batch_positions(data(log), location=NAME, position=0)) == one_at_a_time(log)


@pytest.mark.parametrize("number", [0, 1, 31, 32, 33, 1000, BATCHES - 1])
@pytest.mark.parametrize("log", [EVEN, UNEVEN, WITH_BATCHES_FOR_VALUES], ids=["even", "uneven", "batches for values"])
def test_where_none_begins_is_said(log: list[Batch], number: int) -> None:
    data = bytearray(log_of(log))
    at = one_at_a_time(bytes(data))[number]
    data[at + 16] = 7
    with pytest.raises(DamagedObjectError, match="no message format has the number 7") as error:
        batch_positions(bytes(data), location=NAME, position=5000)
    assert (error.value.location, error.value.position) == (NAME, 5000 + at)
    data[at + 16] = 1
    with pytest.raises(UnsupportedMessageFormatError, match=f"byte {5000 + at} has message format v1"):
        batch_positions(bytes(data), location=NAME, position=5000)
    data[at + 8 : at + 17] = struct.pack(">iib", 48, 0, 2)
    with pytest.raises(DamagedObjectError, match="48 bytes are too few") as error:
        batch_positions(bytes(data), location=NAME, position=5000)
    assert error.value.position == 5000 + at


@pytest.mark.parametrize("number", [1, 40, 999])
def test_a_size_that_is_wrong_leads_elsewhere(number: int) -> None:
    """A place that the damaged batch does not lead to counts no more."""
    data = bytearray(log_of(WITH_BATCHES_FOR_VALUES))
    at = one_at_a_time(bytes(data))[number]
    # The first of the two batches in the value of the batch behind this one: behind the second no batch begins.
    inner = Batch((Record(number + 2),)).to_bytes()
    to = bytes(data).index(inner, at + len(WITH_BATCHES_FOR_VALUES[number].to_bytes()))
    struct.pack_into(">i", data, at + 8, to - at - 12)
    with pytest.raises(RemoteLogError, match=f"the record batch at byte {to + 2 * len(inner)} "):
        batch_positions(bytes(data), location=NAME, position=0)
