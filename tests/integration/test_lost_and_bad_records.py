# SPDX-License-Identifier: Apache-2.0
"""
A metadata partition that loses its beginning in the middle of a run, and one with a record that nobody can read.

What the log does not say all of is left alone and named in red; the rest is cleaned.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka import Message, Producer

from airflow_provider_rlmm.core.base.errors import OffsetOutOfRangeError, RlmmError
from airflow_provider_rlmm.core.log.kafka import event_log as kafka_event_log
from airflow_provider_rlmm.core.log.kafka.event_log import (
    KafkaMetadataEventLog,
    KafkaMetadataLogReader,
    KafkaMetadataLogWriter,
)
from airflow_provider_rlmm.core.log.protocol import PublishOutcome
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadataSnapshot,
    TopicIdPartition,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.failing import ACKNOWLEDGEMENTS_VARIABLE
from dev import formatter, tiering
from dev.broker import METADATA_TOPIC, LocalKafka
from tests.integration.kafka_topics import TIMEOUT_S, config_of, delete_records
from tests.integration.operators import NOW, DagRun, TaskInstance, connect
from tests.integration.scenarios.orphans import clone_orphans, clone_unnamed
from tests.scrub import Place, scrub, unfinished_segments

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

LIVING = "orders"
OBJECTS = 5
"""Of each segment: its log, three indexes, the leader epochs."""

FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
SEGMENT_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


# -- a run of the DAG's operators -------------------------------------------------------------------------------------


class CountingTaskInstance(TaskInstance):
    """Knows how many tasks failed, as a running task instance does."""

    def __init__(self, failed: int) -> None:
        super().__init__()
        self._failed = failed

    def get_ti_count(self, **_: Any) -> int:
        return self._failed


@dataclass(frozen=True)
class Run:
    """
    A run from its marker to its report.

    :param errors: metadata partition → what ended its cleaning.
    :param report: the report's document.
    :param red: whether the last task failed.
    """

    errors: Mapping[int, RlmmError]
    report: Mapping[str, Any]
    red: bool

    @property
    def outcomes(self) -> dict[tuple[str, int], str]:
        """(topic, partition) → what became of it."""
        parts = self.report["metadata_partitions"]
        return {(p["topic"], p["partition"]): p["outcome"] for part in parts for p in part["partitions"]}

    def needing(self, kind: str, entries: str = "needs_person") -> list[Mapping[str, Any]]:
        return [entry for entry in self.report[entries] if entry["kind"] == kind]


def run_cleaner(work: Path, run_id: str, batch_segments: int = 2) -> Run:
    """Run all tasks; a cleaning task that fails keeps none of the others from their work."""

    def context(failed: int = 0) -> Any:
        return {"ti": CountingTaskInstance(failed), "dag_run": DagRun(run_id)}

    limits = {**NOW, "batch_segments": batch_segments}
    with DAG(DagRun.dag_id):
        mark = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False, limits=limits)
        plan = PlanRemoteLogCleanupOperator(task_id="plan", limits=limits, blast_radius={"max_share": 1.0})
        report = ReportRemoteLogCleanupOperator(task_id="report")
        mark >> plan >> report
    mark.execute(context())
    errors: dict[int, RlmmError] = {}
    for number in plan.execute(context()):
        clean = CleanMetadataPartitionOperator(
            task_id="clean", dry_run_only=False, metadata_partition=number, limits=limits
        )
        try:
            clean.execute(context())
        except RlmmError as e:
            errors[number] = e
    red = True
    with suppress(AirflowFailException):
        report.execute(context(len(errors)))
        red = False
    return Run(errors, json.loads((work / f"{DagRun.dag_id}.{run_id}" / "report.json").read_text()), red)


# -- what log and storage hold ----------------------------------------------------------------------------------------


def home_of(kafka: LocalKafka, tip: TopicIdPartition) -> int:
    return metadata_partition_for(tip, kafka.metadata_partitions)


def events(kafka: LocalKafka, metadata_partition: int) -> Iterator[tuple[int, RemoteLogMetadata]]:
    """Offset and event of every record that is there."""
    with KafkaMetadataEventLog(config_of(kafka)) as log:
        begin, end = log.beginning_offsets()[metadata_partition], log.high_water_marks()[metadata_partition]
        for batch in log.read(metadata_partition, begin, end):
            for offset, value in zip(
                batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True
            ):
                yield offset, deserialize(value)


def first_offset_of(kafka: LocalKafka, tip: TopicIdPartition) -> int:
    return next(offset for offset, event in events(kafka, home_of(kafka, tip)) if _subject(event) == tip)


def _subject(event: RemoteLogMetadata) -> TopicIdPartition:
    assert not isinstance(event, RemoteLogSegmentMetadataSnapshot)
    return topic_id_partition_of(event)


def objects_of(kafka: LocalKafka, tip: TopicIdPartition) -> set[str]:
    folder = f"{tip.topic}-{tip.partition}-{kafka_uuid_str(tip.topic_id)}/"
    return {path for path in tiering.remote_listing(kafka) if path.startswith(folder)}


def unreferenced(kafka: LocalKafka, paths: Iterable[str]) -> list[str]:
    """What the scrub says of objects that the log does not name."""
    return [f"unreferenced object {kafka.remote_root.name}/{path}" for path in sorted(paths)]


# -- records that vanish ----------------------------------------------------------------------------------------------


@dataclass
class Loss:
    """
    Records that are deleted once, at a moment of the cleaning of their metadata partition.

    :param before_offset: of the first record that stays.
    :param reads: right before this read of the whole metadata partition.
    :param starts: right after this batch of DELETE_SEGMENT_STARTED was acked, before it is read back.
    """

    before_offset: int
    reads: int = 0
    starts: int = 0
    done: bool = False
    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def note(self, moment: str, happen: Callable[[int], None]) -> None:
        self.seen[moment] += 1
        if not self.done and self.seen[moment] == {"reads": self.reads, "starts": self.starts}[moment]:
            self.done = True
            happen(self.before_offset)


def lose_in_mid_run(monkeypatch: pytest.MonkeyPatch, kafka: LocalKafka, losses: Mapping[int, Loss]) -> None:
    """Let metadata partitions lose their beginning while they are cleaned, by DeleteRecords on the real broker."""
    cleaning = [False]

    def note(metadata_partition: int, moment: str) -> None:
        if cleaning[0] and metadata_partition in losses:
            losses[metadata_partition].note(
                moment, lambda before: delete_records(kafka, METADATA_TOPIC, metadata_partition, before)
            )

    class LosingReader(KafkaMetadataLogReader):
        def read_many(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, Any]]:
            for number, (start, _) in ranges.items():
                if start == 0:
                    note(number, "reads")
            return super().read_many(ranges)

    class LosingWriter(KafkaMetadataLogWriter):
        def publish(self, records: Sequence[tuple[int, bytes]]) -> list[PublishOutcome]:
            outcomes = super().publish(records)
            for number in {n for n, value in records if getattr(deserialize(value), "state", None) is SEGMENT_STARTED}:
                note(number, "starts")
            return outcomes

    clean = RemoteLogCleaner.clean

    def clean_noted(*args: Any, **kwargs: Any) -> Any:
        cleaning[0] = True
        try:
            return clean(*args, **kwargs)
        finally:
            cleaning[0] = False

    monkeypatch.setattr(kafka_event_log, "KafkaMetadataLogReader", LosingReader)
    monkeypatch.setattr(kafka_event_log, "KafkaMetadataLogWriter", LosingWriter)
    monkeypatch.setattr(RemoteLogCleaner, "clean", clean_noted)


@dataclass(frozen=True)
class Orphans:
    """
    User partitions of one deleted topic, with their events in three metadata partitions.

    :param early: two, in different metadata partitions; their events come first there.
    :param late: two, in the same metadata partitions as these.
    :param beside: one, in the metadata partition of the living topic.
    """

    early: tuple[TopicIdPartition, TopicIdPartition]
    late: tuple[TopicIdPartition, TopicIdPartition]
    beside: TopicIdPartition


EARLY_SEGMENTS, LATE_SEGMENTS, BESIDE_SEGMENTS = 6, 2, 3


def orphans_in_three_metadata_partitions(kafka: LocalKafka) -> Orphans:
    """A topic whose ids fall as they must (Kafka chooses them), copied in order, deleted, and left by its broker."""
    living = TopicIdPartition(tiering.create_tiered_topic(kafka, LIVING, 1), LIVING, 0)
    tiering.produce_until_remote(kafka, LIVING, 2)
    for number in count():
        topic = f"clickstream-{number}"
        topic_id = tiering.create_tiered_topic(kafka, topic, 16)
        homes: defaultdict[int, list[TopicIdPartition]] = defaultdict(list)
        for tip in (TopicIdPartition(topic_id, topic, partition) for partition in range(16)):
            homes[home_of(kafka, tip)].append(tip)
        beside = homes.pop(home_of(kafka, living), [])
        if beside and len(homes) == 2 and all(len(tips) >= 2 for tips in homes.values()):
            break
    (early_1, late_1, *_), (early_2, late_2, *_) = homes.values()
    found = Orphans((early_1, early_2), (late_1, late_2), beside[0])
    for segments in (
        dict.fromkeys(found.early, EARLY_SEGMENTS) | {found.beside: BESIDE_SEGMENTS},
        dict.fromkeys(found.late, LATE_SEGMENTS),
    ):
        records = {tip.partition: n * tiering.RECORDS_PER_SEGMENT for tip, n in segments.items()}
        tiering.produce(kafka, topic, records)
        tiering.produce_until_remote(kafka, topic, 0)
    tiering.provoke_scenario_b(kafka, topic)
    return found


def test_records_that_vanish_in_mid_run_end_the_work_on_their_metadata_partition(
    monkeypatch: pytest.MonkeyPatch, work: Path
) -> None:
    """
    One metadata partition loses its beginning when all of it is about to be read, one between two batches; one stays whole.

    Protection: a range that the log no longer has whole is not read (``event_decoding.require_range``), the last records
    tie two reads together (``log_tail.LogTail``), and where a beginning is gone each user partition must be shown to be
    whole (``core.world.wholeness``). Without, a user partition whose segments nobody knows any more is declared deleted,
    or work goes on upon a log that has shrunk.
    """
    with LocalKafka(metadata_partitions=3) as kafka:
        orphans = orphans_in_three_metadata_partitions(kafka)
        connect(monkeypatch, kafka)
        before_the_replay, between_batches = (home_of(kafka, tip) for tip in orphans.early)
        losses = {
            before_the_replay: Loss(first_offset_of(kafka, orphans.late[0]), reads=1),
            between_batches: Loss(first_offset_of(kafka, orphans.late[1]), starts=2),
        }
        living = {p for p in tiering.remote_listing(kafka) if p.startswith(f"{LIVING}-")}
        # A busy broker may have copied a segment twice.
        every = (*orphans.early, *orphans.late, orphans.beside)
        before = {tip: objects_of(kafka, tip) for tip in every}
        with monkeypatch.context() as patches:
            lose_in_mid_run(patches, kafka, losses)
            first = run_cleaner(work, "first")

        assert all(loss.done for loss in losses.values())
        assert {n: type(e) for n, e in first.errors.items()} == dict.fromkeys(losses, OffsetOutOfRangeError)
        assert first.red
        assert first.needing("TASK_FAILED")
        # What was done is in the report: the first batch of two, and all of the metadata partition that is whole.
        name = orphans.beside.topic
        assert first.outcomes == {
            (name, orphans.early[1].partition): "INCOMPLETE",
            (name, orphans.late[1].partition): "REFUSED",
            (name, orphans.beside.partition): "FINISHED",
        }
        left = {tip: objects_of(kafka, tip) for tip in every}
        deleted = {tip: len(before[tip]) - len(left[tip]) for tip in every}
        assert deleted == dict.fromkeys(every, 0) | {
            orphans.early[1]: 2 * OBJECTS, orphans.beside: len(before[orphans.beside])
        }  # fmt: skip
        assert first.report["totals"]["objects_deleted"] == sum(deleted.values()) >= (2 + BESIDE_SEGMENTS) * OBJECTS

        second = run_cleaner(work, "second")
        assert second.errors == {}
        assert second.red
        assert {entry["kind"] for entry in second.report["needs_person"]} == {"LOST_RECORDS", "INCOMPLETE_HISTORY"}
        assert {entry["metadata_partition"]: entry["offset"] for entry in second.needing("LOST_RECORDS")} == {
            number: loss.before_offset for number, loss in losses.items()
        }
        refused = second.needing("INCOMPLETE_HISTORY")
        assert {entry["what"] for entry in refused} == {str(tip) for tip in orphans.early}
        assert all("reconcile storage and metadata" in entry["what_to_do"] for entry in refused)
        finished = {k for k, outcome in second.outcomes.items() if outcome == "FINISHED"}
        assert finished == {(name, tip.partition) for tip in orphans.late}
        assert second.report["totals"]["objects_deleted"] == sum(len(before[tip]) for tip in orphans.late)

        assert [objects_of(kafka, tip) for tip in orphans.late] == [set(), set()]
        assert [objects_of(kafka, tip) for tip in orphans.early] == [left[tip] for tip in orphans.early]
        declared = {_subject(e) for n in range(3) for _, e in events(kafka, n) if getattr(e, "state", None) is FINISHED}
        assert declared == {*orphans.late, orphans.beside}
        assert living <= set(tiering.remote_listing(kafka))

        kafka.restart()
        tiering.tiering_alive(kafka, LIVING)
        assert formatter.formatter_lines(kafka)
        assert scrub(kafka) == unreferenced(kafka, set[str]().union(*(objects_of(kafka, t) for t in orphans.early)))


# -- records that nobody can read -------------------------------------------------------------------------------------


def write_garbage(kafka: LocalKafka, metadata_partition: int) -> Place:
    """Write what no version of Kafka wrote; return where it lies."""
    acked: list[Message] = []
    producer = Producer(kafka.client_config())
    producer.produce(
        METADATA_TOPIC, b"garbage", partition=metadata_partition, on_delivery=lambda _, message: acked.append(message)
    )
    assert producer.flush(TIMEOUT_S) == 0
    (message,) = acked
    assert message.error() is None
    return metadata_partition, message.offset() or 0


def acknowledge(monkeypatch: pytest.MonkeyPatch, entries: Iterable[Mapping[str, Any]]) -> None:
    """Sign what the report suggests and put it where people say that they know of a problem."""
    signed = [{**entry["acknowledge_with"], "by": "Ada", "why": "being looked at"} for entry in entries]
    monkeypatch.setenv(f"AIRFLOW_VAR_{ACKNOWLEDGEMENTS_VARIABLE.upper()}", json.dumps(signed))


def places(entries: Iterable[Mapping[str, Any]]) -> set[tuple[str, int, int]]:
    return {(entry["kind"], entry["metadata_partition"], entry["offset"]) for entry in entries}


def test_beside_a_bad_record_what_is_whole_is_cleaned_and_the_rest_is_red_until_acknowledged(
    monkeypatch: pytest.MonkeyPatch, work: Path
) -> None:
    """
    Garbage in a metadata partition, with a whole topic before it, a whole one behind it, and one that is not whole.

    Protection: a record that cannot be decoded may have been about anybody, so every user partition beside it has to be
    shown whole by log and listing (``core.world.wholeness``); it stays red until exactly it is acknowledged
    (``core.runs.attention``). Without, a user partition is declared deleted while objects stay, or nobody hears of it.
    """
    with LocalKafka(metadata_partitions=2) as kafka:
        living = TopicIdPartition(tiering.create_tiered_topic(kafka, LIVING, 1), LIVING, 0)
        tiering.produce_until_remote(kafka, LIVING, 2)
        model = unfinished_segments(kafka)[0]
        # No user partition of a broker has its events there: garbage in what it reads would end its tiering.
        unread = 1 - home_of(kafka, living)

        def orphaned(topic: str, segments: int) -> TopicIdPartition:
            tips = (TopicIdPartition(uuid4(), topic, 0) for _ in count())
            tip = next(tip for tip in tips if home_of(kafka, tip) == unread)
            clone_orphans(kafka, model, topic, 1, segments, topic_id=tip.topic_id)
            return tip

        before, torn = orphaned("before", 2), orphaned("torn", 2)
        unnamed = kafka_uuid_str(clone_unnamed(kafka, model, torn))
        garbage = write_garbage(kafka, unread)
        behind = orphaned("behind", 3)
        left = objects_of(kafka, torn)
        assert [len(objects_of(kafka, tip)) for tip in (before, torn, behind)] == [
            2 * OBJECTS,
            3 * OBJECTS,
            3 * OBJECTS,
        ]
        connect(monkeypatch, kafka)

        first = run_cleaner(work, "first")
        assert first.errors == {}
        assert first.outcomes == {("before", 0): "FINISHED", ("behind", 0): "FINISHED", ("torn", 0): "REFUSED"}
        assert first.report["totals"]["objects_deleted"] == (2 + 3) * OBJECTS
        assert [objects_of(kafka, tip) for tip in (before, torn, behind)] == [set(), left, set()]
        assert first.red
        assert len(first.report["needs_person"]) == 2
        (bad,), (refused,) = first.needing("QUARANTINED"), first.needing("INCOMPLETE_HISTORY")
        assert (bad["metadata_partition"], bad["offset"]) == garbage
        assert "look at the record" in bad["what_to_do"]
        assert (refused["what"], refused["topic"], refused["offset"]) == (str(torn), "torn", garbage[1])
        assert unnamed in refused["why"]
        assert "reconcile storage and metadata" in refused["what_to_do"]

        acknowledge(monkeypatch, first.report["needs_person"])
        second = run_cleaner(work, "second")
        assert not second.red
        assert second.report["needs_person"] == []
        assert places(second.report["acknowledged"]) == places(first.report["needs_person"])
        assert (second.outcomes, second.report["totals"]["segments_deleted"]) == ({("torn", 0): "REFUSED"}, 0)

        more = write_garbage(kafka, unread)
        third = run_cleaner(work, "third")
        assert third.red
        assert places(third.report["needs_person"]) == {("QUARANTINED", *more)}
        assert places(third.report["acknowledged"]) == places(second.report["acknowledged"])

        kafka.restart()
        tiering.tiering_alive(kafka, LIVING)
        assert objects_of(kafka, torn) == left
        assert scrub(kafka, bad={garbage, more}) == unreferenced(kafka, {path for path in left if unnamed in path})
