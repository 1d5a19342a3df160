# SPDX-License-Identifier: Apache-2.0
"""Random segments with planted damage: all of it is found, and nothing else; what nothing covers is counted."""

from __future__ import annotations

import random

import pytest

from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields, Surroundings
from airflow_provider_rlmm.core.segments.proof.proving import prove_segment
from airflow_provider_rlmm.core.storage.index_type import IndexType
from tests.examples import examples
from tests.remote_log_world import random_world
from tests.segment_damage import Contents, Planter, cannot_be_told, flipped, proof_of

CHUNKS = (100, 700, 1 << 20)


@pytest.mark.slow
def test_what_a_broker_wrote_is_right() -> None:
    for seed in range(examples(40)):
        world, rng = random_world(f"right {seed}"), random.Random(f"right {seed}")
        for number in range(len(world.segments)):
            for alone in (False, True):
                proof = proof_of(world, number, chunk_bytes=rng.choice(CHUNKS), alone=alone)
                assert proof.findings.kept == [], f"seed {seed}, segment {number}"
                assert proof.seen.last_offset == world.segments[number].metadata.end_offset
                assert not proof.lost_bytes


@pytest.mark.slow
def test_every_planted_damage_is_found() -> None:
    found = 0
    for seed in range(examples(100)):
        rng = random.Random(f"damage {seed}")
        world = random_world(f"damage {seed}", batches=30)
        number = rng.randrange(len(world.segments))
        kind, contents = Planter(rng, world, number).plant()
        proof = proof_of(world, number, contents, chunk_bytes=rng.choice(CHUNKS))
        assert not proof.is_right, f"seed {seed}: {kind}"
        found += 1
        for other in range(len(world.segments)):
            if other != number:
                assert proof_of(world, other).is_right, f"seed {seed}"
    assert found == examples(100)


@pytest.mark.slow
def test_of_every_flipped_bit_only_those_that_nothing_covers_go_unseen() -> None:
    unseen = dict.fromkeys([None, *IndexType], 0)
    tried = dict.fromkeys([None, *IndexType], 0)
    for seed in range(examples(30)):
        rng = random.Random(f"bits {seed}")
        world = random_world(f"bits {seed}", batches=25)
        number = rng.randrange(len(world.segments))
        segment, contents = world.segments[number], Contents.of(world.segments[number])
        for part in (None, *segment.indexes):
            data = contents.part(part)
            for bit in rng.sample(range(len(data) * 8), min(len(data) * 8, 25)):
                changed = flipped(data, bit)
                proof = proof_of(world, number, contents.with_part(part, changed), chunk_bytes=rng.choice(CHUNKS))
                tried[part] += 1
                told = cannot_be_told(segment, part, changed)
                assert proof.is_right == told, f"seed {seed}, segment {number}, {part or 'log'}: bit {bit}"
                unseen[part] += told
    assert not unseen[None]
    assert not unseen[IndexType.PRODUCER_SNAPSHOT]
    assert not unseen[IndexType.TRANSACTION]
    in_indexes = (IndexType.OFFSET, IndexType.TIMESTAMP)
    assert sum(unseen[part] for part in in_indexes) <= sum(tried[part] for part in in_indexes) // 20


@pytest.mark.slow
def test_a_topic_that_was_compacted_once_is_right_where_gaps_are_allowed() -> None:
    refused = 0
    for seed in range(examples(20)):
        world = random_world(f"gaps {seed}", gaps=True)
        for segment in world.segments:
            fields, contents = SegmentFields.of(segment.metadata), Contents.of(segment)
            assert prove_segment(fields, contents, Surroundings(may_have_gaps=True)).is_right, f"seed {seed}"
            refused += not prove_segment(fields, contents).is_right
    assert refused
