# SPDX-License-Identifier: Apache-2.0
"""
A metadata topic that brokers of the next Kafka write and compact (KIP-1266), on a stock broker and its log cleaner.

The recorded events get keys of both designs, older ones stay without, finished segments are asked to be forgotten; then the
policy becomes ``compact``. What is read is what the model of the log cleaner leaves, nothing is written, and nothing is
planned that would not be planned without keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import LogEraError, TopicInDoubtError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.in_process import InProcessOffsetStore
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.log.topic_state import TopicState
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.columnar import ErrorCode, decode
from airflow_provider_rlmm.core.records.era import Era, LogEra
from airflow_provider_rlmm.core.records.records import topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.runs.floors import floored
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.effects import RealEffects
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, RealMarkerEffects
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner, Plan
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import FindingKind, Severity
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from tests.integration.compacting_topic import (
    COMPACTED_SOON,
    PARTITIONS,
    QUICK_CLEANER,
    answer_to_keyless,
    await_cleaned,
    recorded,
    updated,
    with_markers,
    write,
)
from tests.integration.kafka_topics import METADATA_SETTINGS, config_of, create_topic, set_policy
from tests.integration.lifecycle_runs import NO_WAIT, planned_of
from tests.roots import KNOWN_FROM_THE_BEGINNING, naming
from tests.simulation.compaction import KeyForm, Records, compacted, records_of
from tests.unit.core.records.recorded import DATA

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

CLEAN = ("clean", "--min-absence-ms", "0", "--override", "short_min_absence", "--max-share", "1")

Segments = frozenset[tuple[bytes, int, bytes]]
"""Topic id, partition, segment id."""


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalKafka]:
    """A broker that compacts at once."""
    with LocalKafka(properties=QUICK_CLEANER) as broker:
        yield broker


@dataclass
class Topic:
    """
    A metadata topic of a name of its own, whose user partitions all are of deleted topics.

    :param kafka: its broker.
    :param name: its name.
    :param folder: where its runs and its remote storage have a folder each.
    """

    kafka: LocalKafka
    name: str
    folder: Path

    def open(self) -> KafkaMetadataEventLog:
        return KafkaMetadataEventLog(config_of(self.kafka), self.name)

    @cached_property
    def topics(self) -> KafkaClusterTopics:
        return KafkaClusterTopics(config_of(self.kafka), self.name)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    def lay_objects(self) -> None:
        """Lay down what the recorded broker had in remote storage, names and sizes."""
        for line in (DATA / "real_remote_listing.txt").read_text().splitlines():
            path, size = line.rsplit(" ", 1)
            (self.storage / path).parent.mkdir(parents=True, exist_ok=True)
            (self.storage / path).write_bytes(bytes(int(size)))

    @property
    def objects(self) -> set[Path]:
        return {path for path in (self.storage / "kafka-tiered-storage").rglob("*") if path.is_file()}

    def records(self) -> list[Records]:
        with self.open() as log:
            return [records_of(log, number) for number in range(log.partition_count)]

    def ends(self) -> dict[int, int]:
        with self.open() as log:
            return dict(log.high_water_marks())

    def unfinished(self) -> tuple[Segments, Segments]:
        """Return the segments that are not finished, and which of them have an incomplete history."""
        with self.open() as log:
            state = TopicState(log, self.topics)
            state.advance()
            return _ids(state.state.segments), _ids(state.state.unresolved)

    def plan(self) -> Plan:
        with self.open() as log:
            topic = TopicReplay(log, self.topics, system_clock)
            return CleanupPlanner(topic, limits=NO_WAIT, clock=system_clock).plan("test", expires_in_ms=60_000)

    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str, storage: bool = True) -> tuple[int, str]:
        """Run a command as somebody types it; return its exit code and all that it said."""
        capsys.readouterr()
        where = ["--bootstrap-server", self.kafka.bootstrap_servers, "--metadata-topic", self.name]
        where += ["--work-dir", str(self.work), "--cluster-id", self.kafka.cluster_id]
        if storage:
            where += ["--storage", self.storage.as_uri(), "--expected-root", expected_root_of(self.storage)]
        code = command.run([*arguments, *where])
        said = capsys.readouterr()
        return code, said.out + said.err

    @property
    def work_of_cluster(self) -> str:
        """The folder of what runs of the work folder remember of the cluster."""
        return str(self.work / cluster_folder(self.kafka.cluster_id))

    def era(self, *, dry_run: bool = True) -> LogEra:
        """Return the era as a run of the work folder sees it that has read everything."""
        with self.open() as log, floored(log, self.work_of_cluster, dry_run=dry_run, clock=system_clock) as known:
            for number, end in known.high_water_marks().items():
                for _ in known.read(number, 0, end):
                    pass
            return known.era


def _ids(table: Any) -> Segments:
    columns = (table.column(name).to_pylist() for name in ("topic_id", "partition", "segment_id"))
    return frozenset(zip(*columns, strict=True))


def create(kafka: LocalKafka, folder: Path, settings: dict[str, str], partitions: Sequence[Records]) -> Topic:
    """Create a metadata topic with these records, and its remote storage."""
    topic = Topic(kafka, create_topic(kafka, PARTITIONS, settings=settings), folder)
    write(kafka, topic.name, partitions)
    topic.lay_objects()
    return topic


@dataclass(frozen=True)
class Compacted:
    """
    The same events twice.

    :param plain: without keys, and nothing was removed.
    :param topic: with keys, and compacted.
    :param left: what the model of the log cleaner leaves of the latter, per metadata partition.
    :param asked_twice: whether the log cleaner came twice, so that it has reached the markers, and what it was asked first.
    """

    plain: Topic
    topic: Topic
    left: Sequence[Records]
    asked_twice: bool


@pytest.fixture(scope="module", params=[KeyForm.STATE, KeyForm.END_OFFSET], ids=lambda form: form.name)
def form(request: pytest.FixtureRequest) -> KeyForm:
    """What keys name."""
    found: KeyForm = request.param
    return found


def same_events(kafka: LocalKafka, form: KeyForm, folder: Path) -> tuple[Topic, Topic, list[Records]]:
    """Write a topic without keys, and one with them; return both, and the records of the latter."""
    events = recorded()
    written = [with_markers(updated(records, form), records) for records in events]
    plain = create(kafka, folder / "plain", METADATA_SETTINGS, [with_markers(records, records) for records in events])
    return plain, create(kafka, folder / "keyed", COMPACTED_SOON, written), written


@pytest.fixture(scope="module", params=[False, True], ids=["once", "twice"])
def world(
    request: pytest.FixtureRequest, kafka: LocalKafka, form: KeyForm, tmp_path_factory: pytest.TempPathFactory
) -> Compacted:
    """A compacted topic beside a plain one; nothing that a test does changes them."""
    plain, topic, written = same_events(kafka, form, tmp_path_factory.mktemp("topics"))
    set_policy(kafka, topic.name, "compact")
    dirty = await_cleaned(kafka, topic.name)
    left = [compacted(records, offset, 0) for records, offset in zip(written, dirty, strict=True)]
    if request.param:
        left = compact_again(topic, left, dirty)
    return Compacted(plain, topic, left, asked_twice=request.param)


def compact_again(topic: Topic, left: Sequence[Records], before: Sequence[int]) -> list[Records]:
    """Say something once more, which closes the last segments, and return what the log cleaner leaves then."""
    repeated = []
    for records in left:
        # As many as a batch may hold: a second one would close the segment of the first.
        keyed = [record for record in records if record.key is not None]
        asked = [record for record in keyed if record.value is None][-4:] or keyed[-1:]
        end, now_ms = records[-1].offset + 1, system_clock()
        repeated.append([replace(record, offset=end + i, timestamp_ms=now_ms) for i, record in enumerate(asked)])
    write(topic.kafka, topic.name, repeated, batch_num_messages=1000, linger_ms=1000)
    dirty = await_cleaned(topic.kafka, topic.name)
    return [
        compacted([*records, *more], offset, horizon)
        for records, more, offset, horizon in zip(left, repeated, dirty, before, strict=True)
    ]


def test_a_topic_with_keys_is_read_as_one_without_and_only_keys_stand_against_cleaning(
    kafka: LocalKafka, form: KeyForm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, keyed, written = same_events(kafka, form, tmp_path)
    assert keyed.records() == written
    assert keyed.unfinished() == plain.unfinished()
    assert planned(keyed) == planned(plain) != frozenset()
    assert keyed.era().era is Era.KEYED
    nothing_is_written(keyed, "keyed", capsys)
    code, text = plain.run(capsys, *CLEAN, "--execute")
    assert (code, plain.objects) == (ExitCode.DONE, set()), text


def test_a_topic_that_was_compacted_stays_so_for_whoever_has_seen_it(
    kafka: LocalKafka, form: KeyForm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, topic, written = same_events(kafka, form, tmp_path)
    assert topic.era(dry_run=False).era is Era.KEYED
    value = written[0][-1].value or b""
    assert answer_to_keyless(kafka, topic.name, value) == ""
    set_policy(kafka, topic.name, "compact")
    assert answer_to_keyless(kafka, topic.name, value) == "INVALID_RECORD"
    await_cleaned(kafka, topic.name)
    assert topic.era(dry_run=False).era is Era.COMPACTED
    set_policy(kafka, topic.name, "delete")
    assert topic.era().era is Era.COMPACTED
    nothing_is_written(topic, "compacted", capsys)


def test_what_is_read_is_what_the_log_cleaner_leaves(world: Compacted) -> None:
    topic, ends = world.topic, world.topic.ends()
    assert topic.records() == world.left
    holes = [(number, start, end) for number, found in enumerate(world.left) for start, end in missing(found)]
    widest = {number: (start, end) for number, start, end in sorted(holes, key=lambda hole: hole[2] - hole[1])}
    assert len(widest) >= PARTITIONS - 1, "the last of them is smaller than a segment"
    with topic.open() as log:
        for number, (start, end) in widest.items():
            offsets = [record.offset for record in world.left[number]]
            inside = (start + end) // 2
            assert offsets_of(log, number, start, end) == []
            assert offsets_of(log, number, 0, inside) == [offset for offset in offsets if offset < inside]
            assert offsets_of(log, number, inside, ends[number]) == [offset for offset in offsets if offset >= inside]


def missing(records: Records) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets below the last record that hold none."""
    start = 0
    for record in records:
        if record.offset > start:
            yield start, record.offset
        start = record.offset + 1


def offsets_of(log: KafkaMetadataEventLog, number: int, start: int, end: int) -> list[int]:
    return [offset for batch in log.read(number, start, end) for offset in batch.column("offset").to_pylist()]


def test_all_that_is_left_is_good_or_asks_to_forget(world: Compacted) -> None:
    assert world.topic.era() == LogEra(Era.COMPACTED, "its cleanup.policy is compact")
    for number, records in enumerate(world.topic.records()):
        values, keys = [record.value for record in records], [record.key for record in records]
        found = decode(values, keys=keys, metadata_partition=number, num_partitions=PARTITIONS)
        expected = [ErrorCode.FORGOTTEN if value is None else ErrorCode.GOOD for value in values]
        assert found.column("error_code").to_pylist() == expected
    # Only what lies in the last segments may be without a key; where the log cleaner came twice it closed some.
    keyless = [[record for record in records if record.key is None] for records in world.left]
    assert all(
        records == list(found[len(found) - len(records) :]) for records, found in zip(keyless, world.left, strict=True)
    )
    assert any(record.value is None for records in world.left for record in records)


def test_nothing_is_written_and_nothing_deleted(world: Compacted, capsys: pytest.CaptureFixture[str]) -> None:
    nothing_is_written(world.topic, "compacted", capsys)


def test_no_more_is_planned_than_without_keys(world: Compacted) -> None:
    unfinished, incomplete = world.topic.unfinished()
    assert unfinished - incomplete <= world.plain.unfinished()[0]
    assert planned(world.topic) <= planned(world.plain)
    assert planned(world.topic) or world.asked_twice, "the markers are there until the log cleaner comes again"


def planned(topic: Topic) -> Segments:
    return frozenset((key[0].bytes, key[1], i.bytes) for key, ids in planned_of(topic.plan()).items() for i in ids)


def test_the_doctor_says_the_era_and_calls_nothing_a_poison_pill(
    world: Compacted, capsys: pytest.CaptureFixture[str]
) -> None:
    with world.topic.open() as log:
        diagnosis = examine(log, world.topic.topics)
    assert diagnosis.era == LogEra(Era.COMPACTED, "its cleanup.policy is compact")
    forgotten = [(n, r.offset) for n, records in enumerate(world.left) for r in records if r.value is None]
    found = [finding for finding in diagnosis.findings if finding.kind is FindingKind.FORGOTTEN]
    assert {(f.metadata_partition, f.offset) for f in found} <= {*forgotten}
    assert diagnosis.counts[FindingKind.FORGOTTEN] == len(forgotten)
    assert {finding.severity for finding in found} == {Severity.WARNING}
    # Its configuration is not that of Kafka up to 4.4, and nobody has said that this is meant.
    critical = {finding.kind for finding in diagnosis.findings if finding.severity is Severity.CRITICAL}
    assert (critical, diagnosis.recoveries) == ({FindingKind.TOPIC_SETTINGS}, ())
    no_faults = {FindingKind.TOMBSTONE, FindingKind.KEYED, FindingKind.MALFORMED, FindingKind.ILLEGAL_TRANSITION}
    assert not diagnosis.counts.keys() & no_faults
    code, text = world.topic.run(capsys, "doctor", storage=False)
    assert (code, "The metadata topic is compacted: its cleanup.policy is compact." in text) == (
        ExitCode.NEEDS_A_PERSON,
        True,
    ), text


def test_readers_call_nothing_whole(world: Compacted) -> None:
    for records in recorded():
        for tip in dict.fromkeys(topic_id_partition_of(deserialize(record.value or b"")) for record in records):
            with world.topic.open() as log, pytest.raises(TopicInDoubtError, match="the metadata topic is compacted"):
                PartitionSegments(log, [tip])
            with world.plain.open() as log:
                PartitionSegments(log, [tip])


def nothing_is_written(topic: Topic, era: str, capsys: pytest.CaptureFixture[str]) -> None:
    """See the command, a marker and a cleaner be refused for the era, whoever remembers it."""
    ends, objects = topic.ends(), topic.objects
    code, text = topic.run(capsys, *CLEAN, "--execute")
    assert code in (ExitCode.FAILED, ExitCode.NEEDS_A_PERSON), text
    whys = [text]
    with topic.open() as log, floored(log, topic.work_of_cluster, dry_run=False, clock=system_clock) as known:
        for number, end in ends.items():
            offsets_of(known, number, 0, end)
        whys += refusals(topic, known, GuardedPublisher(log, allow_writes=True, memory=known))
        if log.era.era is Era.COMPACTED:
            whys += refusals(topic, log, GuardedPublisher(log, allow_writes=True))
    assert len(whys) > 1
    assert all(f"the metadata topic is {era}: " in " ".join(why.split()) for why in whys), whys
    assert (topic.ends(), topic.objects) == (ends, objects)


def refusals(topic: Topic, log: MetadataLogReader, publisher: GuardedPublisher) -> Iterator[str]:
    """Mark and clean for real; yield why each step was refused for the era of the log. One has to be."""
    marker = DeletedPartitionMarker(
        TopicReplay(log, topic.topics, system_clock), RealMarkerEffects(publisher), clock=system_clock
    )
    storage = ObjectStoreRemoteStorageManager(topic.storage.as_uri(), LocalTieredStorageLayout())
    audit, plan = InMemoryAuditLog(), topic.plan()
    cleaner = RemoteLogCleaner(
        log,
        RealEffects(publisher, storage, InProcessOffsetStore(), audit),
        InProcessOffsetStore(),
        topic.topics,
        storage,
        limits=NO_WAIT,
        audit=audit,
        expected_cluster_id=topic.kafka.cluster_id,
        root=naming(storage, topic.kafka.cluster_id),
        ledger=KNOWN_FROM_THE_BEGINNING,
    )
    steps: list[Callable[[], object]] = [marker.mark]
    steps += [partial(cleaner.clean, number, planned_of(plan)) for number in sorted(plan.summary.by_metadata_partition)]
    for step in steps:
        try:
            step()
        except LogEraError as e:
            yield str(e)
