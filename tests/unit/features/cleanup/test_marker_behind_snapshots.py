# SPDX-License-Identifier: Apache-2.0
"""What an earlier task has left tells the marker where to look; what is written follows from the log itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_provider_rlmm.core.log.in_process import no_effect_hook
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import RemotePartitionDeleteMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.only import Chosen
from tests.builders import DAY_MS, START_MS, Cluster, SnapshotInMemory, add, deletion, tip
from tests.unit.features.cleanup.forging import GONE, MADE_UP, Records, beside, finished, without

MARKED = f"DELETE_PARTITION_MARKED {GONE}"
STARTED = f"DELETE_PARTITION_STARTED {GONE}"

TAIL = 16
"""Records that are read once more wherever a log is read on."""


@pytest.fixture
def cluster() -> Cluster:
    return orphaned()


def orphaned() -> Cluster:
    """A deleted topic with two segments, and a snapshot of all that the log says."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    return with_snapshot(cluster)


def marked() -> Cluster:
    """The same, marked an hour ago."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    cluster.mark()
    cluster.now_ms += DAY_MS // 24
    return with_snapshot(cluster)


def started_and_voided() -> Cluster:
    """A deletion that was started, and a leader that has copied since: the start has to be repeated."""
    cluster = marked()
    cluster.foreign(deletion(GONE, P.DELETE_PARTITION_STARTED, cluster.now_ms))
    cluster.foreign(add(GONE, 5))
    return with_snapshot(cluster)


def marked_and_voided() -> Cluster:
    """A marked deletion, and a leader that has copied since: the marker has to be repeated."""
    cluster = marked()
    cluster.foreign(add(GONE, 5))
    return with_snapshot(cluster)


def with_snapshot(cluster: Cluster) -> Cluster:
    """Leave a snapshot of all that the log says, behind more records than it is tied to the log by."""
    living = [tip("alive", n, cluster.alive.topic_id.int) for n in range(20)]
    at_home = {cluster.metadata_partition_of(partition): partition for partition in living}
    assert len(at_home) == cluster.log.partition_count
    for partition in at_home.values():
        for number in range(20, 20 + TAIL):
            cluster.foreign(add(partition, number))
    cluster.snapshots = SnapshotInMemory()
    topic = cluster.topic()
    topic.advance()
    topic.keep()
    assert cluster.topic().known_from is not None
    return cluster


def forge(cluster: Cluster, rewrite: Callable[[Records], Records], **others: Any) -> None:
    """Leave a snapshot that fits the log in everything that can be checked, and is of other records."""
    truth = TopicState(cluster.log, cluster.topics, clock=cluster.clock)
    truth.advance()
    (batch,) = cluster.log.read(0, 0, truth.next_offsets[0])
    other = Cluster(living_topic=False)
    for value in rewrite(batch.column("value").to_pylist()):
        other.log.append(0, value)
    told = TopicState(other.log, other.topics, clock=cluster.clock)
    told.advance()
    assert cluster.snapshots is not None
    cluster.snapshots.write(replace(truth.snapshot(), state=told.state, **others))
    assert cluster.topic().resumed_at == truth.next_offsets


def with_deletions(change: Callable[[RemotePartitionDeleteMetadata], list[Any]]) -> Callable[[Records], Records]:
    def rewrite(records: Records) -> Records:
        events: list[Any] = list(map(deserialize, records))
        changed = [change(e) if isinstance(e, RemotePartitionDeleteMetadata) else [e] for e in events]
        return [serialize(event) for told in changed for event in told]

    return rewrite


@dataclass(frozen=True)
class Forgery:
    """
    :param log: what the log says.
    :param rewrite: what the snapshot says instead.
    :param events: what may be written.
    :param standing: number of observations that stand, as far as the marker can see.
    :param told: the user partitions in which the snapshot is found to be wrong.
    """

    log: Callable[[], Cluster]
    rewrite: Callable[[Records], Records]
    events: tuple[str, ...] = ()
    standing: int = 0
    told: tuple[TopicIdPartition, ...] = ()


FORGERIES = {
    "all segments left out": Forgery(orphaned, without(0, 1)),
    "one of two segments left out": Forgery(orphaned, without(0), (MARKED,)),
    "an orphan called finished": Forgery(orphaned, beside(*finished(0), *finished(1))),
    "a segment invented": Forgery(orphaned, beside(add(MADE_UP, 3)), (MARKED,), told=(MADE_UP,)),
    "a segment of a finished partition invented": Forgery(
        orphaned, beside(add(tip("gone", 1), 3)), (MARKED,), told=(tip("gone", 1),)
    ),
    "a living topic's segment under an absent id": Forgery(
        marked, beside(add(tip("alive", 0, 77), 3)), standing=1, told=(tip("alive", 0, 77),)
    ),
    "a marker left out": Forgery(marked, with_deletions(lambda e: []), standing=1, told=(GONE,)),
    "a marker invented": Forgery(
        orphaned, beside(deletion(GONE, P.DELETE_PARTITION_MARKED, START_MS - DAY_MS)), standing=1
    ),
    "a marker made older": Forgery(
        marked, with_deletions(lambda e: [replace(e, event_timestamp_ms=START_MS - 9 * DAY_MS)]), standing=1
    ),
    "a marker put into the future": Forgery(
        marked,
        with_deletions(lambda e: [replace(e, event_timestamp_ms=START_MS + 9 * DAY_MS)]),
        standing=1,
        told=(GONE,),
    ),
    "a marker voided": Forgery(marked, beside(add(GONE, 5)), standing=1, told=(GONE,)),
    "a void marker said to stand": Forgery(
        marked_and_voided, beside(deletion(GONE, P.DELETE_PARTITION_MARKED, START_MS)), standing=1
    ),
    "a started deletion said to be marked": Forgery(
        started_and_voided,
        with_deletions(lambda e: [] if e.state is P.DELETE_PARTITION_STARTED else [e]),
        (STARTED,),
        told=(GONE,),
    ),
    "a marked deletion said to be started": Forgery(
        marked_and_voided,
        with_deletions(lambda e: [e, replace(e, state=P.DELETE_PARTITION_STARTED)]),
        (MARKED,),
        told=(GONE,),
    ),
    "a deletion under way said to be finished": Forgery(
        started_and_voided,
        with_deletions(lambda e: [replace(e, state=P.DELETE_PARTITION_FINISHED)]),
        (STARTED,),
        told=(GONE,),
    ),
}


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_snapshot_leads_to_no_event_that_the_log_does_not(name: str, dry_run: bool) -> None:
    forgery = FORGERIES[name]
    cluster = forgery.log()
    forge(cluster, forgery.rewrite)
    before = cluster.ours()
    report = cluster.mark(dry_run=dry_run)
    assert (report.marked, report.already_marked) == (forgery.events, forgery.standing)
    assert cluster.ours() == [*before, *(() if dry_run else forgery.events)]
    honest = forgery.log()
    honest.snapshots = None
    assert set(report.marked) <= set(honest.mark().marked)
    told = [r for r in report.refusals if r.kind is RefusalKind.OTHER]
    assert len(told) == len(report.refusals) == bool(forgery.told)
    for refusal, partition in zip(told, forgery.told, strict=True):
        assert str(partition) in refusal.why
        assert (refusal.what, refusal.metadata_partition, refusal.offset) == ("metadata partition 0", 0, None)


def test_what_was_invented_alone_is_said_and_leads_to_no_event_at_all(cluster: Cluster) -> None:
    invented = [tip("made-up", n, 77) for n in range(7)]
    forge(cluster, lambda records: [*without(0, 1)(records), *(serialize(add(t, 3)) for t in invented)])
    first = cluster.mark()
    (refusal,) = first.refusals
    assert (first.marked, cluster.ours()) == ((), [])
    assert f"about {', '.join(map(str, invented[:5]))} and 2 more: they are marked as the log says" in refusal.why
    assert str(cluster.snapshots) in refusal.why
    assert f"remove {cluster.snapshots}" in refusal.what_to_do
    cluster.segment(cluster.alive, 3)
    assert cluster.mark().refusals == first.refusals, "it needs the same words to be acknowledged"
    cluster.snapshots = None
    assert (cluster.mark().marked, cluster.mark().refusals) == ((MARKED,), ())


def test_a_partition_of_strangers_is_refused_whatever_a_snapshot_says_of_its_routing() -> None:
    cluster = Cluster(metadata_partitions=2)
    here = cluster.metadata_partition_of(GONE)
    cluster.segment(GONE, 0)
    with_snapshot(cluster)
    strangers = [t for i in range(40) if cluster.metadata_partition_of(t := tip("x", 0, 200 + i)) != here]
    for stranger in strangers[:9]:
        cluster.log.append(here, serialize(add(stranger, 0)))
    truth = TopicState(cluster.log, cluster.topics, clock=cluster.clock)
    truth.advance()
    assert cluster.snapshots is not None
    cluster.snapshots.write(replace(truth.snapshot(), routed={here: 1000}, quarantined=()))
    report = cluster.mark()
    assert (report.marked, cluster.ours(here)) == ((), [])
    assert [r.kind for r in report.refusals] == [RefusalKind.MISROUTED]


class Reads:
    """The metadata partitions that are read from their beginning, one by one."""

    def __init__(self, cluster: Cluster) -> None:
        self.from_the_beginning: list[int] = []
        cluster.log.on_effect = self._note

    def _note(self, name: str, detail: Any) -> None:
        if name == "read" and detail.start == 0:
            self.from_the_beginning.append(detail.metadata_partition)


def test_a_run_that_has_nothing_to_write_reads_nothing_twice() -> None:
    cluster = marked()
    cluster.segment(cluster.alive, 3)
    reads = Reads(cluster)
    report = cluster.mark()
    assert (report.marked, report.already_marked, report.records_read) == ((), 1, 2)
    assert reads.from_the_beginning == []


def test_a_run_that_has_read_everything_itself_reads_nothing_twice(cluster: Cluster) -> None:
    cluster.snapshots = SnapshotInMemory()
    reads = Reads(cluster)
    report = cluster.mark()
    assert (report.marked, report.records_read) == ((MARKED,), 6 + TAIL)
    assert reads.from_the_beginning == [0]


def test_what_is_read_anew_is_counted_and_read_once_for_all_that_is_due(cluster: Cluster) -> None:
    cluster.segment(tip("gone", 1), 3)
    cluster.segment(tip("lost", 0, 8), 3)
    reads = Reads(cluster)
    report = cluster.mark()
    assert (len(report.marked), report.records_read) == (3, 4 + 6 + TAIL + 4)
    assert reads.from_the_beginning == [0]


def test_only_the_metadata_partitions_that_are_written_to_are_read_anew() -> None:
    cluster = Cluster(metadata_partitions=3)
    partitions = [tip("gone", n) for n in range(6)]
    for partition in partitions:
        cluster.segment(partition, 0)
    cluster.mark()
    with_snapshot(cluster)
    late = tip("late", 0, 9)
    cluster.segment(late, 0)
    reads = Reads(cluster)
    assert cluster.mark().marked == (f"DELETE_PARTITION_MARKED {late}",)
    assert reads.from_the_beginning == [cluster.metadata_partition_of(late)]


@pytest.mark.parametrize("log", [orphaned, marked, marked_and_voided, started_and_voided])
def test_what_is_written_is_the_same_with_a_snapshot_and_without(log: Callable[[], Cluster]) -> None:
    def written(*, snapshot: bool) -> tuple[object, ...]:
        cluster = log()
        if not snapshot:
            cluster.snapshots = None
        report = cluster.mark()
        end = cluster.log.high_water_marks()[0]
        (batch,) = cluster.log.read(0, 0, end)
        return batch.to_pylist(), replace(report, records_read=0)

    assert written(snapshot=True) == written(snapshot=False)


def meanwhile(cluster: Cluster, happens: Callable[[], object]) -> None:
    """Let something happen once the metadata partition is read anew: what was due has been decided by then."""

    def note(name: str, detail: Any) -> None:
        if name == "read" and detail.start == 0:
            cluster.log.on_effect = no_effect_hook
            happens()

    cluster.log.on_effect = note


def test_what_others_write_while_it_is_read_anew_counts_and_contradicts_nobody(cluster: Cluster) -> None:
    def leader_deletes() -> None:
        for number in range(2):
            for event in finished(number):
                cluster.foreign(event)

    meanwhile(cluster, leader_deletes)
    report = cluster.mark()
    assert (report.marked, report.refusals, cluster.ours()) == ((), (), [])


def test_a_name_that_comes_while_it_is_read_anew_is_asked_for(cluster: Cluster) -> None:
    meanwhile(cluster, lambda: cluster.foreign(add(tip("other-name", 1), 5)))
    report = cluster.mark()
    assert (report.marked, cluster.ours()) == ((), [])
    assert {r.kind for r in report.refusals} == {RefusalKind.AMBIGUOUS}


def test_a_topic_that_is_made_while_it_is_read_anew_is_not_marked(cluster: Cluster) -> None:
    meanwhile(cluster, lambda: cluster.topics.create(GONE.topic, GONE.topic_id))
    report = cluster.mark()
    assert (report.marked, cluster.ours()) == ((), [])
    assert {r.kind for r in report.refusals} == {RefusalKind.TOPIC_PRESENT}


def test_only_what_a_plan_names_is_marked_by_the_log_too(cluster: Cluster) -> None:
    other = tip("gone", 1)
    cluster.segment(other, 5)
    assert cluster.mark(chosen=Chosen(planned=frozenset({(GONE.topic_id, 1)}))).marked == (
        f"DELETE_PARTITION_MARKED {other}",
    )


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_log_has_lost_since_is_said_and_not_marked(cluster: Cluster, dry_run: bool) -> None:
    other = tip("other", 0, 9)
    cluster.segment(other, 3)
    with_snapshot(cluster)
    cluster.log.truncate(0, 6)
    report = cluster.mark(dry_run=dry_run)
    assert report.marked == (f"DELETE_PARTITION_MARKED {other}",)
    (refusal,) = report.refusals
    assert (refusal.kind, refusal.metadata_partition, refusal.offset) == (RefusalKind.LOST_RECORDS, 0, 6)
    assert f"about {GONE}: " in refusal.why
    assert "begins at offset 6" in refusal.why


def test_what_a_log_has_lost_in_its_midst_since_is_said_and_not_marked(cluster: Cluster) -> None:
    cluster.segment(cluster.alive, 3)
    with_snapshot(cluster)
    cluster.log.remove(0, range(2, 6))
    report = cluster.mark()
    assert (report.marked, cluster.ours()) == ((), [])
    assert [r.kind for r in report.refusals] == [RefusalKind.LOST_RECORDS]
