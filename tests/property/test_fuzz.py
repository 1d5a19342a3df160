# SPDX-License-Identifier: Apache-2.0
"""Damaged values: the scalar serde raises one kind of error only, and ``columnar.decode`` agrees with it on every value."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError, NewerVersionError, UnknownApiKeyError
from airflow_provider_rlmm.core.records.columnar import ErrorCode, decode, iter_events
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadataSnapshot
from airflow_provider_rlmm.core.records.serde import read_value
from airflow_provider_rlmm.core.records.wire import Reader
from tests.examples import examples, some
from tests.property import strategies
from tests.unit.core.records.recorded import GOLDEN_VALUES, REAL_VALUES

pytestmark = pytest.mark.slow

# Long leader epoch lists are mostly alike inside: shorter values put the damage where it matters.
SHORT = [value for value in GOLDEN_VALUES if len(value) < 250]
SEEDS = SHORT + REAL_VALUES
SPECIAL_BYTES = (0x00, 0x01, 0x02, 0x03, 0x7F, 0x80, 0xFF)
TAGS = (b"\1\5\2ab", b"\2\0\1\1\7\0", b"\1\0\1\0", b"\1\0\5\7", b"\x80\x80\x80\x80\x08")
CODES = {
    MalformedMetadataError: ErrorCode.MALFORMED,
    NewerVersionError: ErrorCode.NEWER_VERSION,
    UnknownApiKeyError: ErrorCode.UNKNOWN_API_KEY,
}


def scalar(value):
    """Return the code and the record that the scalar serde says a value deserves."""
    if value is None:
        return ErrorCode.TOMBSTONE, None
    reader = Reader(value)
    try:
        event = read_value(reader)
    except MalformedMetadataError as e:
        return CODES[type(e)], None
    if isinstance(event, RemoteLogSegmentMetadataSnapshot):
        return ErrorCode.SNAPSHOT, event
    return ErrorCode.GOOD if reader.beyond_limits is None else ErrorCode.BEYOND_LIMITS, event


def check_agreement(values):
    """Compare both decoders on every value and count what became of them."""
    batch = decode(values)
    batch.validate(full=True)
    codes, errors = batch.column("error_code").to_pylist(), batch.column("error").to_pylist()
    for value, code, error, event in zip(values, codes, errors, iter_events(batch), strict=True):
        assert (code, event) == scalar(value), value and value.hex()
        assert (error is None) == (code == ErrorCode.GOOD)
    return Counter(map(ErrorCode, codes))


def flip(rnd, value):
    at = rnd.randrange(len(value))
    return value[:at] + bytes([value[at] ^ 1 << rnd.randrange(8)]) + value[at + 1 :]


def special_byte(rnd, value):
    at = rnd.randrange(len(value))
    return value[:at] + bytes([rnd.choice(SPECIAL_BYTES)]) + value[at + 1 :]


def truncate(rnd, value):
    return value[: rnd.randrange(len(value))]


def insert(rnd, value):
    at = rnd.randrange(len(value) + 1)
    return value[:at] + rnd.randbytes(rnd.randrange(1, 4)) + value[at:]


def remove(rnd, value):
    at = rnd.randrange(len(value))
    return value[:at] + value[at + rnd.randrange(1, 4) :]


def lengthen_varint(rnd, value):
    at = rnd.randrange(len(value))
    groups = [value[at] | 0x80, *[0x80] * rnd.randrange(4), rnd.choice((0, 0, 0, 1, 8, 15, 127))]
    return value[:at] + bytes(groups) + value[at + 1 :]


def add_tags(rnd, value):
    at = rnd.choice([index for index, byte in enumerate(value) if byte == 0])
    return value[:at] + rnd.choice(TAGS) + value[at + 1 :]


DAMAGES = (flip, special_byte, truncate, insert, remove, lengthen_varint, add_tags)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damage_each(damage):
    rnd = random.Random(f"seed of {damage.__name__}")
    values = [damage(rnd, rnd.choice(SEEDS)) for _ in range(examples(6_000))]
    counts = check_agreement(values)
    assert counts[ErrorCode.MALFORMED] > examples(500)
    assert (counts[ErrorCode.GOOD] > 0) == (damage not in (truncate, remove))


@pytest.mark.slow
def test_several_damages_between_good_values():
    rnd = random.Random(405)
    for _ in range(examples(15)):
        values = []
        for _ in range(800):
            value = rnd.choice(SEEDS)
            for damage in rnd.choices(DAMAGES, k=rnd.choice((0, 0, 1, 2, 3))):
                value = damage(rnd, value) if 0 in value else value
            values.append(value if rnd.random() < 0.99 else None)
        counts = check_agreement(values)
        # Too many tagged fields are rare among damages.
        assert len(counts.keys() - {ErrorCode.BEYOND_LIMITS}) == 6, counts


@pytest.mark.slow
def test_every_flip_of_every_bit_of_some_values():
    for value in (min(SHORT, key=len), max(SHORT, key=len), REAL_VALUES[0], REAL_VALUES[2]):
        flipped = []
        for bit in range(len(value) * 8):
            damaged = bytearray(value)
            damaged[bit // 8] ^= 1 << bit % 8
            flipped.append(bytes(damaged))
        assert check_agreement(flipped)[ErrorCode.MALFORMED] > 0


@pytest.mark.slow
def test_every_truncation_of_some_values():
    for value in (*SHORT[:20], *REAL_VALUES[:10]):
        counts = check_agreement([value[:size] for size in range(len(value))])
        assert counts.keys() <= {ErrorCode.MALFORMED, ErrorCode.UNKNOWN_API_KEY}


@pytest.mark.slow
def test_every_truncation_at_the_end_of_all_bytes():
    for value in (*SHORT[:8], *REAL_VALUES[:4]):
        for size in some(range(len(value))):
            check_agreement([value, value[:size]])


@given(st.lists(st.none() | st.binary(max_size=200), max_size=20))
@settings(max_examples=examples(100), deadline=None)
def test_any_bytes(values):
    check_agreement(values)


@given(strategies.names.map(lambda name: name.encode()), st.binary(max_size=8), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_topics_that_are_almost_text(name, garbage, data):
    at = data.draw(st.integers(0, len(name)))
    topic = (name[:at] + garbage + name[at:])[:100]
    body = bytes([len(topic) + 1]) + topic + bytes(16) + bytes(4) + b"\0" + bytes(4) + bytes(8) + b"\0\0"
    check_agreement([b"\1\2\0" + body] * 2)
