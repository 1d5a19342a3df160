# SPDX-License-Identifier: Apache-2.0
"""
What `rlmm retention` tells of leaders that Kafka has elected, cleanly or not, beside what they delete.

Node 1 is the controller and has the metadata topic. Topics lie on nodes 2 and 3; node 2 leads where it can.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaException

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from dev import ensure_jars, tiering
from dev.broker import await_condition
from dev.cluster import ClusterNode, LocalKafkaCluster
from tests.integration.leading import (
    HOUR_MS,
    Ask,
    Leading,
    all_copied,
    asking,
    copied,
    deleted_until_quiet,
    ids,
    leading_of,
    say,
    write,
)
from tests.matrix.test_kafka_versions import NEWEST

pytestmark = [pytest.mark.integration, pytest.mark.cluster, pytest.mark.timeout(2400)]

PASS_MS = 15_000
OLD = 3 * HOUR_MS
REPLICAS = [2, 3]
UNCLEAN = {"unclean.leader.election.enable": "true"}

SHARED = {
    "timed": [OLD, OLD],
    "kept": [OLD, 0],
    "cut": [0, 0],
    "sized": [0, 0],
    "silent": [OLD, OLD],
    "untold": [OLD, OLD],
}
"""Topics whose leader is lost, and the ages of the segments that its follower has as well."""
LOST = dict.fromkeys(SHARED, 3) | {"silent": 2}
"""How many segments only the lost leader had; one of three that are tried is another one's where there are two."""


@dataclass(frozen=True)
class Brokers:
    """Three brokers, and the version of them."""

    cluster: LocalKafkaCluster
    leading: Leading
    version: str

    def node(self, number: int) -> ClusterNode:
        return self.cluster.nodes[number - 1]


@dataclass(frozen=True)
class Elected:
    """
    What the lost leader of a topic has left.

    :param topic_id: of the topic.
    :param begins: the offset from which on the new leader has another history.
    :param lost: the segments that are not of its lineage.
    """

    topic_id: UUID
    begins: int
    lost: frozenset[UUID]


@pytest.fixture(scope="module", params=[None, NEWEST], ids=lambda version: version or "pom")
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    # Nobody leads again but by an election of the tests' own.
    properties = {"remote.log.manager.task.interval.ms": str(PASS_MS), "auto.leader.rebalance.enable": "false"}
    with (
        LocalKafkaCluster(voters=1, properties=properties, with_faults=True, kafka_version=request.param) as cluster,
        leading_of(cluster.nodes[0], cluster.nodes[1].faults) as leading,
    ):
        yield Brokers(cluster, leading, version_of(cluster))


@pytest.fixture
def ask(brokers: Brokers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    return asking(brokers.leading.kafka, monkeypatch, capsys, tmp_path / "work")


@pytest.fixture(scope="module")
def elected(brokers: Brokers) -> dict[str, Elected]:
    """Node 3 leads all these topics without the end of what node 2 has written and copied."""
    leading, topic_ids = brokers.leading, {}
    for topic, ages in SHARED.items():
        topic_ids[topic] = brokers.cluster.create_tiered_topic(topic, [REPLICAS], **UNCLEAN)
        write(leading, topic, ages)
    both = {topic: all_copied(leading, topic, topic_id) for topic, topic_id in topic_ids.items()}
    begins = {topic: leading.end(topic) for topic in topic_ids}
    brokers.node(3).stop()
    for topic, count in LOST.items():
        write(leading, topic, [0] * count)
    with_lost = {topic: all_copied(leading, topic, topic_id) for topic, topic_id in topic_ids.items()}
    brokers.node(2).kill()
    brokers.node(3).start(240)
    for topic in topic_ids:
        await_leads(leading, topic, 3)
        assert await_end(leading, topic) == begins[topic]
    lost = {topic: frozenset(with_lost[topic].keys() - both[topic].keys()) for topic in topic_ids}
    return {topic: Elected(topic_id, begins[topic], lost[topic]) for topic, topic_id in topic_ids.items()}


def version_of(cluster: LocalKafkaCluster) -> str:
    (jar,) = ensure_jars(cluster.kafka_version).glob("kafka-server-[0-9]*.jar")
    return jar.stem.removeprefix("kafka-server-")


def await_end(leading: Leading, topic: str) -> int:
    def end() -> list[int]:
        try:
            return [leading.end(topic)]
        except KafkaException:
            return []

    return await_condition(end, f"the leader of {topic} tells its end", 60)[0]


def watched(
    brokers: Brokers, request: pytest.FixtureRequest, topology: str, topic_id: UUID, before: dict[UUID, int],
    told: list[dict[str, Any]], begun: Collection[UUID] = (),
) -> set[UUID]:  # fmt: skip
    """Return what the leader deletes of the copied segments; none that is told for certain stays."""
    exact = ids([row for row in told if row["exact"]]).difference(begun)
    gone = deleted_until_quiet(brokers.leading, topic_id, before, len(exact), PASS_MS).union(begun)
    say(request, f"{topology}, Kafka {brokers.version}", ids(told), gone)
    assert exact <= gone
    return gone


def reasons(told: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["reason"], row["certainty"]) for row in told]


def await_leads(leading: Leading, topic: str, node: int, partition: int = 0) -> None:
    """Wait until a node leads and serves; no broker is asked about it that may not answer."""

    def leads() -> bool:
        return leading.admin.list_topics(topic, timeout=30).topics[topic].partitions[partition].leader == node

    await_condition(leads, f"node {node} leads {topic}-{partition}", 120, interval=0.5)


def test_after_an_unclean_election_copies_of_the_lost_leader_go_with_what_is_before_them(
    brokers: Brokers, elected: dict[str, Elected], ask: Ask, request: pytest.FixtureRequest
) -> None:
    world, leading = elected["timed"], brokers.leading
    write(leading, "timed", [OLD, 0, 0])
    before = all_copied(leading, "timed", world.topic_id, world.lost)
    leading.set("timed", retention_ms=str(2 * HOUR_MS))
    told = ask("timed", "0", "--segments")
    assert {row["certainty"] for row in told} == {"all"}
    assert world.lost == ids([row for row in told if row["reason"] == "UNREFERENCED_EPOCH"])
    gone = watched(brokers, request, "unclean election, by time", world.topic_id, before, told)
    assert gone == ids(told)


def test_after_an_unclean_election_copies_of_the_lost_leader_stay_behind_what_stays(
    brokers: Brokers, elected: dict[str, Elected], ask: Ask, request: pytest.FixtureRequest
) -> None:
    world, leading = elected["kept"], brokers.leading
    write(leading, "kept", [0, 0])
    before = all_copied(leading, "kept", world.topic_id, world.lost)
    leading.set("kept", retention_ms=str(2 * HOUR_MS))
    told = ask("kept", "0", "--segments")
    assert set(reasons(told)) == {("RETENTION_MS", "all")}
    gone = watched(brokers, request, "foreign copies that stay", world.topic_id, before, told)
    assert gone == ids(told)
    (row,) = ask("kept")
    assert (row["certainty"], row["foreign_segments"]) == ("all", len(world.lost))


def test_a_log_that_begins_in_the_new_epoch_leaves_all_others_unreferenced(
    brokers: Brokers, elected: dict[str, Elected], ask: Ask, request: pytest.FixtureRequest
) -> None:
    world, leading = elected["cut"], brokers.leading
    write(leading, "cut", [0, 0])
    before = all_copied(leading, "cut", world.topic_id, world.lost)
    leading.cut("cut", world.begins + 1)
    told = ask("cut", "0", "--segments")
    assert set(reasons(told)) == {("UNREFERENCED_EPOCH", "all")}
    assert world.lost < ids(told)
    gone = watched(brokers, request, "unreferenced epochs", world.topic_id, before, told)
    assert gone == ids(told)


def test_bytes_of_a_lost_leader_do_not_count(
    brokers: Brokers, elected: dict[str, Elected], ask: Ask, request: pytest.FixtureRequest
) -> None:
    world, leading = elected["sized"], brokers.leading
    write(leading, "sized", [0] * 4)
    before = all_copied(leading, "sized", world.topic_id, world.lost)
    # Six are of the lineage: one goes. With those of the lost leader there were nine.
    leading.set("sized", retention_bytes=str(int(4.6 * tiering.SEGMENT_BYTES)))
    told = ask("sized", "0", "--segments")
    assert set(reasons(told)) == {("RETENTION_BYTES", "at least")}
    gone = watched(brokers, request, "unclean election, by size", world.topic_id, before, told)
    assert gone == ids(told)


def test_before_the_new_leader_has_copied_anything_an_older_segment_tells_its_lineage(
    brokers: Brokers, elected: dict[str, Elected], ask: Ask, request: pytest.FixtureRequest
) -> None:
    world = elected["silent"]
    before = brokers.leading.segments(world.topic_id)
    brokers.leading.set("silent", retention_ms=str(2 * HOUR_MS))
    told = ask("silent", "0", "--segments")
    assert set(reasons(told)) == {("RETENTION_MS", "at least")}
    assert not world.lost & ids(told)
    watched(brokers, request, "unclean election, nothing copied since", world.topic_id, before, told)


def test_behind_three_copies_of_the_lost_leader_nobody_knows_the_lineage(
    brokers: Brokers, elected: dict[str, Elected], ask: Ask
) -> None:
    assert len(elected["untold"].lost) == 3
    (row,) = ask("untold", code=4)
    assert (row["certainty"], row["segments"]) == ("unresolved", 0)
    assert "the leader serves no record from there on" in row["why"][0]


@contextmanager
def lingering_copies(brokers: Brokers, milliseconds: int) -> Iterator[None]:
    """Let copies of node 2 be there before it says so."""
    faults = brokers.node(2).faults
    faults.linger("copy", milliseconds)
    try:
        yield
    finally:
        faults.heal()


def both_are_there(brokers: Brokers) -> None:
    for number in REPLICAS:
        if not brokers.node(number).alive:
            brokers.node(number).start(240)


def objects_of(brokers: Brokers, topic_id: UUID, segments: Collection[UUID]) -> list[str]:
    names = [kafka_uuid_str(segment) for segment in segments]
    return [path for path in tiering.remote_files(brokers.node(2), topic_id) if any(name in path for name in names)]


def await_object(brokers: Brokers, topic_id: UUID, before: set[str]) -> None:
    def there() -> bool:
        return any(path.endswith(".log") for path in tiering.remote_files(brokers.node(2), topic_id) - before)

    await_condition(there, "the object of a copy is there", 120)


def test_the_bytes_on_the_disk_of_a_new_leader_count_twice(
    brokers: Brokers, ask: Ask, request: pytest.FixtureRequest
) -> None:
    """
    KAFKA-20732: in 4.3.1 its first pass may come before it knows how far its log is copied.

    Which of its two tasks is first nobody can tell, so many partitions are tried.
    """
    both_are_there(brokers)
    leading, cluster, partitions = brokers.leading, brokers.cluster, range(12)
    on_disk = {"local.retention.ms": "-2", "local.retention.bytes": "-2"}
    topic_id = cluster.create_tiered_topic("moved", [REPLICAS] * len(partitions), **on_disk)
    for partition in partitions:
        write(leading, "moved", [0] * 7, partition)
    before = {p: copied(leading, "moved", topic_id, 6, p) for p in partitions}
    # All seven fit, and no more than that.
    leading.set("moved", retention_bytes=str(7 * tiering.SEGMENT_BYTES))
    assert ask("moved", "--segments") == []
    brokers.node(2).stop()
    for partition in partitions:
        await_leads(leading, "moved", 3, partition)
    deleted_until_quiet(leading, topic_id, before[0], 0, PASS_MS)
    gone = [before[p].keys() - leading.segments(topic_id, p).keys() for p in partitions]
    say(request, f"retention.bytes after a change of leaders, Kafka {brokers.version}", set(), set().union(*gone))


def test_a_copy_that_its_leader_has_left_begun_goes_too(
    brokers: Brokers, ask: Ask, request: pytest.FixtureRequest
) -> None:
    both_are_there(brokers)
    leading, cluster = brokers.leading, brokers.cluster
    topic_id = cluster.create_tiered_topic("dangling", [REPLICAS])
    write(leading, "dangling", [OLD, OLD])
    all_copied(leading, "dangling", topic_id)
    objects = tiering.remote_files(brokers.node(2), topic_id)
    with lingering_copies(brokers, 600_000):
        write(leading, "dangling", [OLD])
        await_object(brokers, topic_id, objects)
        brokers.node(2).kill()
    await_leads(leading, "dangling", 3)
    write(leading, "dangling", [0, 0])
    before = all_copied(leading, "dangling", topic_id)
    leading.set("dangling", retention_ms=str(2 * HOUR_MS))
    told = ask("dangling", "0", "--segments")
    # The next leader's copy of the same offsets goes, and what was begun before its epoch is unreferenced then.
    assert set(reasons(told)) == {("RETENTION_MS", "at least"), ("UNREFERENCED_EPOCH", "at least")}
    begun = ids(told) - before.keys()
    assert len(begun) == 1
    assert objects_of(brokers, topic_id, begun)
    watched(brokers, request, "a copy left begun", topic_id, before, told, begun=begun)
    await_condition(lambda: not objects_of(brokers, topic_id, begun), "the objects of what was begun are gone", 60)


def test_an_old_leader_counts_what_a_lost_one_has_finished_since(
    brokers: Brokers, ask: Ask, request: pytest.FixtureRequest
) -> None:
    """Node 2 sleeps in the middle of a copy, is voted out, and ends the copy when it wakes up (`isAllSegmentsValid`)."""
    both_are_there(brokers)
    leading, cluster, paused = brokers.leading, brokers.cluster, brokers.node(2)
    topic_id = cluster.create_tiered_topic("late", [REPLICAS], **UNCLEAN)
    write(leading, "late", [0, 0])
    shared = all_copied(leading, "late", topic_id)
    brokers.node(3).stop()
    objects = tiering.remote_files(paused, topic_id)
    with lingering_copies(brokers, PASS_MS):
        write(leading, "late", [0])
        await_object(brokers, topic_id, objects)
        os.kill(paused.pid, signal.SIGSTOP)
        paused_at = time.monotonic()
    try:
        brokers.node(3).start(240)
        await_leads(leading, "late", 3)
        await_end(leading, "late")
        write(leading, "late", [0] * 4)
        own = all_copied(leading, "late", topic_id)
        assert shared.keys() < own.keys()
        # One of six goes: from then on the leader takes every segment for one of its own.
        leading.set("late", retention_bytes=str(int(4.6 * tiering.SEGMENT_BYTES)))
        deleted_until_quiet(leading, topic_id, own, 1, PASS_MS)
        assert time.monotonic() - paused_at > PASS_MS / 1000
        before = leading.segments(topic_id)
    finally:
        os.kill(paused.pid, signal.SIGCONT)
    late = await_condition(lambda: leading.segments(topic_id).keys() - own.keys(), "the late copy is finished", 60)
    told = ask("late", "0", "--segments")
    gone = watched(brokers, request, "an old leader and a late copy of a lost one", topic_id, before, told)
    assert not late & gone
