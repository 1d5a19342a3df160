# SPDX-License-Identifier: Apache-2.0
"""Of records whose key contradicts their value a sample is kept, and every question about them is answered as if all were."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.log import event_decoding
from airflow_provider_rlmm.core.log.event_decoding import (
    Quarantine,
    QuarantinedRecord,
    decode_records,
    event_batch,
    quarantined_records,
)
from airflow_provider_rlmm.core.log.snapshot_file import _quarantined_of_json, _quarantined_to_json
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.world.replay import MetadataPartitionView
from airflow_provider_rlmm.library import metadata_store
from tests.builders import Cluster, add, tip
from tests.examples import examples
from tests.unit.core.records.events import PARTITION, copied
from tests.unit.features.survey.test_survey import surveyed

ANYBODY = tuple(replace(PARTITION, partition=number) for number in range(4))
MISROUTED = replace(PARTITION, partition=4)
CODES = frozenset({"KEYED", "TOMBSTONE", "MALFORMED", "MISROUTED"})

Row = tuple[bytes | None, bytes | None]


@pytest.fixture(autouse=True, scope="module")
def few_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_decoding, "KEYED_KEPT", 2)
        yield


def row(chance: random.Random) -> Row:
    return chance.choice(
        [(b"key", serialize(copied(1, of))) for of in ANYBODY] * 3
        + [(None, serialize(copied(1, ANYBODY[0]))), (None, None), (None, b"\1\0\0garbage")]
    )


def read(rows: list[Row], first: int) -> list[QuarantinedRecord]:
    """One batch: what is quarantined of it."""
    keys, values = zip(*rows, strict=True)
    offsets = range(first, first + len(rows))
    batch = event_batch(offsets, [1] * len(rows), keys, values)
    return quarantined_records(decode_records(batch, 0, 1))


def all_of(rows: list[Row]) -> list[QuarantinedRecord]:
    """All records, none of them left out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_decoding, "KEYED_KEPT", len(rows))
        return read(rows, 0)


def in_batches(rows: list[Row], chance: random.Random) -> Quarantine:
    """Read in batches of whatever size, with a snapshot now and then."""
    quarantine, first = Quarantine(), 0
    while first < len(rows):
        size = chance.randrange(1, 30)
        quarantine.take(read(rows[first : first + size], first))
        first += size
        if chance.random() < 0.3:
            quarantine = Quarantine(_quarantined_of_json(_quarantined_to_json(r)) for r in quarantine.records())
    return quarantine


def answers(
    records: list[QuarantinedRecord], end: int, allowed: frozenset[str]
) -> dict[tuple[TopicIdPartition, int], bool]:
    view = MetadataPartitionView(0, 0, end, quarantined=records)
    return {
        (of, start): view.first_quarantined(of, allowed, start) is not None
        for of in (*ANYBODY, MISROUTED)
        for start in range(end + 1)
    }


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_what_is_asked_of_the_sample_is_answered_as_if_all_were_kept(seed: int) -> None:
    chance = random.Random(seed)
    rows = [row(chance) for _ in range(chance.randrange(1, 80))]
    expected, kept = all_of(rows), in_batches(rows, chance).records()
    for allowed in (frozenset[str](), frozenset({"KEYED"}), CODES - {"KEYED"}, CODES):
        assert answers(kept, len(rows), allowed) == answers(expected, len(rows), allowed)
    assert {r.place: r for r in reversed(kept) if r.code == "KEYED"} == {
        r.place: r for r in reversed(expected) if r.code == "KEYED"
    }
    sums: Counter[tuple[str, object]] = Counter()
    for record in kept:
        sums[record.code, record.topic_id_partition] += 1 + record.alike
    assert sums == Counter((r.code, r.topic_id_partition) for r in expected)
    assert [r for r in kept if r.code != "KEYED"] == [r for r in expected if r.code != "KEYED"]
    # Those that are kept in any case, and of each user partition the first and the last.
    assert sum(r.code == "KEYED" for r in kept) <= 2 + 2 * len(ANYBODY)
    assert [r.offset for r in kept] == sorted({r.offset for r in kept})


def test_plan_and_survey_count_all_and_the_rest_of_the_list_is_said() -> None:
    cluster = Cluster()
    for number in range(30):
        cluster.foreign(add(tip("gone", number % 2, 7), number), key=b"key")
    plan, totals = cluster.plan().summary, surveyed(cluster).totals
    assert (plan.quarantined, totals.quarantined_records) == ({0: 30}, 30)
    assert len({r.offset for r in plan.refusals if r.offset is not None}) < 30


def test_a_consumer_counts_all() -> None:
    quarantine = metadata_store.Quarantine()
    rows: list[Row] = [(b"key", serialize(copied(1, ANYBODY[0])))] * 20
    quarantine.take(read(rows, 0), 0, 20)
    quarantine.take(read(rows, 20), 0, 40)
    assert (quarantine.total, quarantine.misrouted) == (40, 0)
    assert len(quarantine.records) < 20
