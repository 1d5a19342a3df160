# SPDX-License-Identifier: Apache-2.0
"""Bytes that are almost a state are refused, or answer everything that can be asked of a state: never a crash."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from airflow_provider_rlmm.core.base.errors import MetadataError
from airflow_provider_rlmm.core.records.columnar import ColumnarState, decode
from tests.property.histories import PARTITIONS, TABLES, Histories

EVENTS, LATER = 300, 100
NUMBERS = (
    b"\xff" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x00" * 8,
    (2**31).to_bytes(8, "little"),
    (2**40).to_bytes(8, "little"),
)
STATES_PER_SEED = 40


@cache
def values() -> list[bytes | None]:
    return Histories(7, 0.2).values(EVENTS + LATER)


@cache
def good(keep_finished: bool) -> bytes:
    state = ColumnarState.empty(keep_finished=keep_finished)
    state, _ = state.apply(decode(values()[:EVENTS], offset=range(EVENTS), metadata_partition=0))
    return state.to_ipc()


def damaged(random: Random) -> bytes:
    data = bytearray(good(random.random() < 0.5))
    for _ in range(random.choice([1, 1, 2, 5, 20])):
        at = random.randrange(len(data))
        if random.random() < 0.3:
            at -= at % 8
            data[at : at + 8] = random.choice(NUMBERS)
        else:
            data[at] ^= 1 << random.randrange(8)
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_state_is_refused_or_answers_everything(seed: int) -> None:
    random, answered = Random(seed), 0
    later = decode(values()[EVENTS:], offset=range(EVENTS, EVENTS + LATER), metadata_partition=0)
    for _ in range(STATES_PER_SEED):
        try:
            state = ColumnarState.from_ipc(damaged(random))
        except MetadataError:
            continue
        for name in TABLES:
            getattr(state, name).validate(full=True)
        state.deletions_under_way()
        state.histories(0, {tip.topic_id for tip in PARTITIONS})
        state, _ = state.apply(later)
        assert ColumnarState.from_ipc(state.to_ipc()).segments.num_rows == state.segments.num_rows
        answered += 1
    assert 0 < answered < STATES_PER_SEED
