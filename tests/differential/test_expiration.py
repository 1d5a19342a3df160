# SPDX-License-Identifier: Apache-2.0
"""What a leader deletes in one pass of its expiration task, compared with Kafka's own on random user partitions."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.plans.plan import Reason
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.retention.expiration import ExpirationPass, LeaderView, first_pass, known_up_to
from dev.peers import SHORT_LIFE, peer_command
from tests.differential.expiration_worlds import ALL, KINDS, WORLDS_PER_ROUND, ExpirationWorld, expiration_world
from tests.leader_views import RECORDED, leader_view
from tests.matrix.test_kafka_versions import NEWEST

VERSIONS = (None, NEWEST)
"""The Kafka of ``dev/pom.xml``, and the newest."""
ASKED_SEGMENTS = 3
"""How many segments the leader is asked for, one after the other, until it has the last offset of one."""


class KafkaExpiration:
    """The Python end of ``dev/java/peers/ExpirationPeer.java``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def deleted(self, partition: dict[str, Any]) -> list[str]:
        """Return the segment ids that Kafka deletes of a partition, in that order, in hex."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{json.dumps(partition)}\n")
        self._process.stdin.flush()
        found: list[str] = json.loads(self._process.stdout.readline())
        return found


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: version or "pom")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaExpiration]:
    command = peer_command("ExpirationPeer", options=SHORT_LIFE, kafka_version=request.param)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield KafkaExpiration(process)


def test_a_leader_deletes_what_kafkas_task_deletes(
    kafka: KafkaExpiration, differential_seed: int, expiration_round: int, counted: Counter[str]
) -> None:
    kinds, reasons, numbers = Counter[str](), Counter[Reason](), Counter[str]()
    for number in range(expiration_round * WORLDS_PER_ROUND, (expiration_round + 1) * WORLDS_PER_ROUND):
        world = expiration_world(differential_seed, number)
        leader, theirs = leader_view(world.partition), kafka.deleted(world.partition)
        ours, where = first_pass(leader), f"world {number}, {world.kind}, of seed {differential_seed}"
        compare(ours, leader, theirs, where)
        kinds[world.kind] += len(theirs)
        reasons.update(finding.reason for finding in ours.expired)
        numbers.update({"user partitions expired": 1, "of them in an order that is known": int(ours.exact)})
        if not world.traits & {"local", "forged"}:
            numbers += by_leader_epoch_index(world, leader, theirs, where)
    counted.update(numbers)
    assert all(kinds[kind] for kind in (*KINDS, ALL)), kinds
    assert reasons.keys() == {reason for reason in Reason if reason.is_of_leaders}
    known = numbers["of them in an order that is known"]
    assert 0.8 * WORLDS_PER_ROUND < known < WORLDS_PER_ROUND


@pytest.mark.parametrize("world", RECORDED, ids=lambda world: world["kind"])
def test_what_was_recorded_is_what_kafkas_task_deletes(kafka: KafkaExpiration, world: dict[str, Any]) -> None:
    assert kafka.deleted(world) == [segment_id for segment_id, _ in world["deleted"]]


def compare(ours: ExpirationPass, leader: LeaderView, theirs: Sequence[str], where: str) -> None:
    segments = {s.remote_log_segment_id.id.hex: s for s in leader.cache.list_remote_log_segments()}
    found = [finding.segment.remote_log_segment_id.id.hex for finding in ours.expired]
    assert certain(ours) <= set(theirs), where
    assert {*found, *(k.segment.remote_log_segment_id.id.hex for k in ours.kept)} == segments.keys(), where
    assert len(found) + len(ours.kept) == len(segments), where
    if ours.exact:
        assert set(found) == set(theirs), where
        # Segments with one start offset are in any order.
        assert [segments[i].start_offset for i in found] == [segments[i].start_offset for i in theirs], where


def certain(found: ExpirationPass) -> set[str]:
    return {finding.segment.remote_log_segment_id.id.hex for finding in found.expired if finding.exact}


def by_leader_epoch_index(
    world: ExpirationWorld, leader: LeaderView, theirs: Sequence[str], where: str
) -> Counter[str]:
    """Tell the same without the leader's lineage, but for its answer whether it has the last offset of a segment."""
    numbers = Counter({"rows without local bytes": len(theirs)})
    indexes = {copy.segment_id: copy.leader_epoch_index for copy in world.copies}
    segment = next(filter(lambda s: confirms(leader, s), newest_copied(leader)), None)
    if segment is None:
        return numbers
    lineage = indexes[segment.remote_log_segment_id.id]
    known = replace(leader, leader_epochs=lineage)
    if lineage.entries[-1][0] == leader.leader_epochs.entries[-1][0]:
        numbers["of them by an index that knows the leader's own epoch"] = len(theirs)
    else:
        known = known_up_to(known, segment.segment_leader_epochs[-1][0], segment.end_offset)
    ours = first_pass(known)
    assert certain(ours) <= set(theirs), where
    if ours.exact:
        assert certain(ours) == set(theirs), where
    return numbers + Counter({"of them by a segment's leader epoch index": len(certain(ours))})


def newest_copied(leader: LeaderView) -> list[RemoteLogSegmentMetadata]:
    copied = [
        s for s in leader.cache.list_remote_log_segments() if s.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    ]
    copied.sort(key=lambda s: (s.segment_leader_epochs[-1][0], s.end_offset), reverse=True)
    return copied[:ASKED_SEGMENTS]


def confirms(leader: LeaderView, segment: RemoteLogSegmentMetadata) -> bool:
    lineage = leader.leader_epochs.truncate_from_start(leader.log_start_offset)
    last_epoch = segment.segment_leader_epochs[-1][0]
    return segment.end_offset < leader.log_end_offset and lineage.epoch_for_offset(segment.end_offset) == last_epoch
