# SPDX-License-Identifier: Apache-2.0
"""Whoever replays the metadata topic says the same of it: what lives, what is not certain, what is bad, what may go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.outcomes import EventFate
from airflow_provider_rlmm.core.records.records import RemoteLogMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.absence import refusal_of
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.cluster_state import ListedTopic
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import Diagnosis, FindingKind
from airflow_provider_rlmm.features.retention.spark.columns import SEGMENT
from tests.builders import Cluster
from tests.contracts.folds import (
    FOLDS,
    FORGETFUL,
    LIMITS,
    SILENT_ABOUT_BAD_RECORDS,
    SILENT_ABOUT_KEYS,
    STARTED,
    SegmentKey,
    Told,
    ToldByScalar,
    key_of_row,
    listing,
    scalar,
    spark_rows,
)
from tests.examples import examples
from tests.property.broker_lives import broker_lives
from tests.property.written_topics import NOW_MS, Record, WrittenTopic, any_events, home_of
from tests.unit.core.records.events import PARTITION, copied, deleted, deleting, partition_delete, started, update
from tests.unit.features.retention.reference import expected_rows, in_order
from tests.unit.library.topics import TieredTopics, topics

pytestmark = pytest.mark.slow

GENERATORS: dict[str, Callable[[int], WrittenTopic]] = {"event by event": any_events, "broker lives": broker_lives}
generators = pytest.mark.parametrize("written", GENERATORS.values(), ids=GENERATORS.keys())
folds = pytest.mark.parametrize("fold", FOLDS)
SEEDS = st.integers(0, 2**32)
EXAMPLES = 15


# -- the same, whatever was written ------------------------------------------------------------------------------------


@pytest.mark.slow
@generators
@given(seed=SEEDS)
@settings(max_examples=examples(EXAMPLES), deadline=None)
def test_live_unresolved_and_quarantined_are_the_same(written: Callable[[int], WrittenTopic], seed: int) -> None:
    topic = written(seed)
    expected = scalar(topic)
    for name, fold in FOLDS.items():
        require_same(name, fold(topic, Random(seed)), expected)


def require_same(name: str, told: Told, expected: ToldByScalar) -> None:
    assert told.live == expected.live, name
    if told.offsets is not None:
        assert told.offsets == expected.offsets, name
    if told.deletions is not None:
        assert told.deletions == expected.deletions, name
    unresolved = told.unresolved
    if name in FORGETFUL:
        assert told.unresolved.keys() - expected.unresolved.keys() <= expected.finished, name
        unresolved = {key: offset for key, offset in unresolved.items() if key in expected.unresolved}
    assert unresolved == expected.unresolved, name
    left_out = {"KEYED"} if name in SILENT_ABOUT_KEYS else set()
    if name in SILENT_ABOUT_BAD_RECORDS:
        assert told.quarantined == {}, name
        return
    assert told.quarantined == {p: code for p, code in expected.quarantined.items() if code not in left_out}, name


@pytest.mark.slow
@generators
@given(seed=SEEDS)
@settings(max_examples=examples(EXAMPLES), deadline=None)
def test_the_doctor_counts_and_places_the_same(written: Callable[[int], WrittenTopic], seed: int) -> None:
    topic, random = written(seed), Random(seed)
    expected = scalar(topic)
    diagnosis = diagnosed(topic, random)
    assert diagnosis.segments == len(expected.live)
    assert diagnosis.records == sum(1 for _ in topic.left())
    codes = {kind.name for kind in FindingKind}
    assert {p for p, _ in places(diagnosis, [FindingKind.FORGOTTEN])} == expected.forgotten
    readable = {place: code for place, code in expected.quarantined.items() if code in codes}
    kinds = {FindingKind(code) for code in readable.values()}
    assert {p: kind.value for p, kind in places(diagnosis, kinds)} == readable
    unreadable = (FindingKind.MALFORMED, FindingKind.NEWER_VERSION, FindingKind.UNKNOWN_API_KEY)
    assert {p for p, _ in places(diagnosis, unreadable)} == expected.quarantined.keys() - readable.keys()
    assert {p: FATES[kind] for p, kind in places(diagnosis, FATES, of_segments=True)} == expected.fates
    assert expected.offsets is not None
    assert {p for p, _ in places(diagnosis, [FindingKind.STUCK_SEGMENT])} == {
        (key[0], expected.offsets[key][1])
        for key, (state, _, _, _, event_ms, *_) in expected.live.items()
        if state in STARTED and event_ms <= NOW_MS
    }
    for recovery in diagnosis.recoveries:
        lost = [
            key
            for key, (added, _) in expected.offsets.items()
            if key[0] == recovery.metadata_partition and added < recovery.delete_before_offset
        ]
        assert (recovery.segments, recovery.user_partitions) == (len(lost), len({key[1] for key in lost}))


FATES = {
    FindingKind.ADD_IN_OTHER_STATE: EventFate.THROWN,
    FindingKind.UPDATE_TO_COPY_STARTED: EventFate.THROWN,
    FindingKind.EVENT_AFTER_FINISHED: EventFate.AFTER_FINISHED,
    FindingKind.ILLEGAL_TRANSITION: EventFate.DROPPED_INVALID_TRANSITION,
    FindingKind.UPDATE_WITHOUT_BASE: EventFate.DROPPED_UNKNOWN_SEGMENT,
}


def diagnosed(topic: WrittenTopic, random: Random, living: Iterable[TopicIdPartition] = ()) -> Diagnosis:
    return examine(
        topic.log(),
        cluster_of(living),
        min_age_ms=0,
        limit_per_kind=1_000_000,
        clock=lambda: NOW_MS,
        chunk_rows=random.choice([3, 30, 1_000]),
    )


def cluster_of(living: Iterable[TopicIdPartition]) -> TieredTopics:
    cluster = topics(METADATA_TOPIC_ID)
    for tip in living:
        cluster.topics[tip.topic] = tip.topic_id
    return cluster


def places(
    diagnosis: Diagnosis, kinds: Iterable[FindingKind], *, of_segments: bool = False
) -> list[tuple[tuple[int, int], FindingKind]]:
    found = []
    for finding in diagnosis.findings:
        if finding.kind in set(kinds) and (finding.segment_id is not None or not of_segments):
            assert finding.metadata_partition is not None
            assert finding.offset is not None
            found.append(((finding.metadata_partition, finding.offset), finding.kind))
    assert len(found) == len(dict(found)), "each place once"
    return found


@pytest.mark.slow
@generators
@given(seed=SEEDS)
@settings(max_examples=examples(EXAMPLES), deadline=None)
def test_what_may_go_is_the_same(written: Callable[[int], WrittenTopic], seed: int) -> None:
    topic, random = written(seed), Random(seed)
    expected = scalar(topic)
    named = sorted({tip for histories in expected.histories.values() for tip in histories}, key=repr)
    # One name has one id at a time, and one id one name.
    by_name = {tip.topic: tip for tip in named if random.random() < 0.4}
    living = list({tip.topic_id: tip for tip in by_name.values()}.values())
    cluster = listing([listed(tip, random) for tip in living])
    rows = [row for row in spark_rows(topic, random, cluster) if row["kind"] == SEGMENT]
    values = [(number, offset, record.value, record.key) for number, offset, record in topic.left()]
    reference = in_order(expected_rows(values, topic.partition_count, cluster, LIMITS).segments)
    assert [{name: row[name] for name in reference[0]} for row in rows] == reference
    planned = planned_by_lifecycle(topic, living)
    assert planned.keys() == planned_by_scalar(topic, expected, living)
    spark = {key_of_row(row): row for row in rows}
    for key, exact in planned.items():
        # Spark plans nothing that is younger than its listing.
        assert spark[key]["may_be_orphaned"] or spark[key]["event_timestamp_ms"] >= NOW_MS
        assert exact == spark[key]["exact"]


def listed(tip: TopicIdPartition, random: Random) -> ListedTopic:
    limits = random.choice([-1, 0, 50_000]), random.choice([-1, 0, 4_000])
    starts = {number: random.choice([0, 10, 40]) for number in range(3)}
    return ListedTopic(tip.topic_id, tip.topic, *limits, starts)


def planned_by_lifecycle(topic: WrittenTopic, living: Iterable[TopicIdPartition]) -> dict[SegmentKey, bool]:
    cluster = Cluster(living_topic=False)
    cluster.log, cluster.topics, cluster.now_ms = topic.log(), cluster_of(living), NOW_MS
    return {key_of_row(row): row["exact"] for row in cluster.plan().rows.to_pylist()}


def planned_by_scalar(
    topic: WrittenTopic, expected: ToldByScalar, living: Iterable[TopicIdPartition]
) -> set[SegmentKey]:
    planned, log, cluster = set(), topic.log(), cluster_of(living)
    for number, histories in expected.histories.items():
        names: dict[UUID, frozenset[str]] = {}
        for tip in histories:
            names[tip.topic_id] = names.get(tip.topic_id, frozenset()) | {tip.topic}
        observations = look(cluster, log, names).observations
        for tip, history in histories.items():
            if refusal_of(history, observations[tip.topic_id], NOW_MS, CleanerLimits()) is None:
                planned |= {(number, tip, segment.remote_log_segment_id.id) for segment in history.unfinished()}
    return planned


@pytest.mark.slow
@generators
def test_the_topics_have_everything_in_them(written: Callable[[int], WrittenTopic]) -> None:
    """A property that holds of nothing holds: every code, every fate, segments in every state, some to go, some not."""
    told = [(topic, scalar(topic)) for topic in map(written, range(150))]
    codes = {code for _, t in told for code in t.quarantined.values()}
    assert codes == {"TOMBSTONE", "UNREADABLE", "MISROUTED", "KEYED"} | (
        {"SNAPSHOT"} if written is broker_lives else set()
    )
    assert {fate for _, t in told for fate in t.fates.values()} == {
        EventFate.DROPPED_INVALID_TRANSITION,
        EventFate.DROPPED_UNKNOWN_SEGMENT,
        EventFate.THROWN,
        EventFate.AFTER_FINISHED,
    }
    assert {facts[0] for _, t in told for facts in t.live.values()} == set(S) - {S.DELETE_SEGMENT_FINISHED}
    assert any(t.unresolved for _, t in told)
    asked = [(key in t.live, (key[0], offset) in t.forgotten) for _, t in told for key, offset in t.unresolved.items()]
    assert set(asked) >= {(True, True), (False, False)}
    assert any(topic.beginnings for topic, _ in told)
    assert any(planned_by_scalar(topic, t, ()) for topic, t in told)


# -- the right answers, written down -----------------------------------------------------------------------------------

OTHER = replace(PARTITION, partition=1)


def topic_of(*events: RemoteLogMetadata | Record, misrouted: Iterable[int] = ()) -> WrittenTopic:
    """
    A topic with some events, each where it belongs.

    :param events: events, or records as they are.
    :param misrouted: numbers of the events that lie in the next metadata partition instead.
    """
    topic = WrittenTopic()
    for number, event in enumerate(events):
        record = event if isinstance(event, Record) else Record(serialize(event), None, NOW_MS - 10**9)
        home = home_of(record.value)
        home = HOME if home is None else home
        topic.partitions[(home + (number in misrouted)) % topic.partition_count].append(record)
    return topic


HOME = home_of(serialize(started(1)))


def answer(fold: str, *events: RemoteLogMetadata | Record, misrouted: Iterable[int] = ()) -> Told:
    return FOLDS[fold](topic_of(*events, misrouted=misrouted), Random(1))


def states(told: Told) -> dict[int, S]:
    """Number of the segment → its state."""
    return {key[2].int: facts[0] for key, facts in told.live.items()}


def uncertain(told: Told) -> dict[int, int]:
    return {key[2].int: offset for key, offset in told.unresolved.items()}


@folds
def test_a_record_with_a_key_is_applied(fold: str) -> None:
    told = answer(
        fold, started(1), Record(serialize(copied(1)), b"key"), started(2), Record(serialize(deleting(2)), b"")
    )
    assert states(told) == {1: S.COPY_SEGMENT_FINISHED, 2: S.DELETE_SEGMENT_STARTED}
    assert (told.unresolved, set(told.quarantined.values()) - {"KEYED"}) == ({}, set())


@folds
def test_what_is_unfinished_below_the_end_of_a_deletion_stays(fold: str) -> None:
    told = answer(fold, started(1), copied(1), started(2), *(partition_delete(state) for state in P), deleting(2))
    assert states(told) == {1: S.COPY_SEGMENT_FINISHED, 2: S.DELETE_SEGMENT_STARTED}


@folds
@pytest.mark.parametrize("before", [(), (copied(1),), (copied(1), deleting(1))])
def test_an_update_to_copy_started_of_a_segment_that_is_being_copied_leaves_it_unresolved(
    fold: str, before: tuple[RemoteLogMetadata, ...]
) -> None:
    told = answer(fold, started(1), *before, update(1, S.COPY_SEGMENT_STARTED), started(2))
    # Any other segment's is dropped, as brokers drop it.
    assert uncertain(told) == ({} if before else {1: 1})
    assert states(told) == {1: S(len(before)), 2: S.COPY_SEGMENT_STARTED}


@folds
@pytest.mark.parametrize("state", list(S)[1:])
def test_a_first_event_in_another_state_leaves_its_segment_unresolved(fold: str, state: S) -> None:
    told = answer(fold, started(1, state=state), started(2))
    assert (states(told), uncertain(told)) == ({2: S.COPY_SEGMENT_STARTED}, {1: 0})


@folds
def test_misrouted_records_are_not_applied_whatever_their_key(fold: str) -> None:
    away = [deleting(1), Record(serialize(deleted(1)), b"key"), started(2)]
    told = answer(fold, started(1), copied(1), *away, misrouted=[2, 3, 4])
    assert states(told) == {1: S.COPY_SEGMENT_FINISHED}
    assert list(told.quarantined.values()) == ["MISROUTED"] * (0 if fold in SILENT_ABOUT_BAD_RECORDS else 3)
    assert told.unresolved == {}


@folds
def test_a_segment_that_is_announced_again_is_what_it_was_called_last(fold: str) -> None:
    told = answer(fold, started(1, 0, 9), started(1, 100, 109), copied(1), started(1, 500, 509))
    [(state, start, end, *_)] = told.live.values()
    assert (state, start, end) == (S.COPY_SEGMENT_FINISHED, 100, 109)
    assert told.unresolved == {}


@folds
def test_updates_without_their_add(fold: str) -> None:
    told = answer(fold, copied(1), deleting(2), started(3), copied(4), started(4), deleting(5), deleted(5), copied(4))
    # What is deleted leaves nothing to resolve; an add that comes late explains nothing that came before it.
    assert uncertain(told) == {1: 0, 2: 1, 4: 3}
    assert states(told) == {3: S.COPY_SEGMENT_STARTED, 4: S.COPY_SEGMENT_FINISHED}


@folds
def test_an_update_after_the_end_of_its_segment_is_no_doubt_to_whoever_remembers(fold: str) -> None:
    told = answer(fold, started(1), copied(1), deleting(1), deleted(1), deleting(1))
    assert told.live == {}
    assert uncertain(told) == ({1: 4} if fold in FORGETFUL else {})


@folds
def test_a_segment_that_lives_again(fold: str) -> None:
    told = answer(fold, started(1), copied(1), deleting(1), deleted(1), started(1, 100, 109))
    [(state, start, *_)] = told.live.values()
    assert (state, start, told.unresolved) == (S.COPY_SEGMENT_STARTED, 100, {})


@folds
def test_illegal_transitions_are_dropped(fold: str) -> None:
    told = answer(fold, started(1), deleted(1), deleting(1), copied(1), started(2), copied(2), deleted(2))
    assert states(told) == {1: S.DELETE_SEGMENT_STARTED, 2: S.COPY_SEGMENT_FINISHED}
    assert told.unresolved == {}


@folds
def test_a_lost_beginning(fold: str) -> None:
    topic = topic_of(started(1), copied(1), started(2), copied(2), started(3), deleting(1), deleting(2))
    topic.beginnings[HOME] = 3
    told = FOLDS[fold](topic, Random(1))
    assert states(told) == {3: S.COPY_SEGMENT_STARTED}
    assert uncertain(told) == {1: 5, 2: 6}


@folds
def test_a_topic_id_under_two_names_is_two_user_partitions(fold: str) -> None:
    other = replace(PARTITION, topic="another")
    told = answer(fold, started(1), started(1, partition=other), copied(1, other))
    assert {key[1].topic: facts[0] for key, facts in told.live.items()} == {
        "orders": S.COPY_SEGMENT_STARTED,
        "another": S.COPY_SEGMENT_FINISHED,
    }


GONE = [started(1), copied(1), partition_delete(P.DELETE_PARTITION_MARKED)]
"""A deleted topic with a segment to go; its marker is old enough."""


@pytest.mark.parametrize(
    ("record", "exact"),
    [
        (None, True),
        (Record(serialize(started(2)), b"key"), True),
        (Record(None), False),
        (Record(b""), False),
        (Record(b"\1\x09\0"), False),
    ],
)
def test_nothing_is_exact_beside_a_record_that_cannot_be_applied(record: Record | None, exact: bool) -> None:
    topic = topic_of(*([record] if record else []), *GONE)
    [planned, *_] = planned_by_lifecycle(topic, ()).values()
    [told, *_] = [row["exact"] for row in spark_rows(topic, Random(1), listing([])) if row["kind"] == SEGMENT]
    assert (planned, told) == (exact, exact)
    elsewhere = topic_of(*GONE)
    elsewhere.partitions[(HOME + 1) % elsewhere.partition_count].append(Record(b"junk"))
    assert set(planned_by_lifecycle(elsewhere, ()).values()) == {True}


def test_nothing_is_exact_beside_a_record_that_lies_elsewhere_than_it_belongs() -> None:
    values = (serialize(started(9, partition=replace(PARTITION, partition=number))) for number in range(50))
    topic = topic_of(*GONE)
    topic.partitions[HOME].append(Record(next(value for value in values if home_of(value) != HOME)))
    assert set(planned_by_lifecycle(topic, ()).values()) == {False}
    assert {row["exact"] for row in spark_rows(topic, Random(1), listing([])) if row["kind"] == SEGMENT} == {False}
