# SPDX-License-Identifier: Apache-2.0
"""The job's DataFrame functions against the evaluation in plain Python, row by row."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.file_systems import remove_folder
from airflow_provider_rlmm.core.generations.manifest import GenerationPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan import (
    PLAN_COLUMNS,
    SUMMARY_NAME,
    PlanFile,
    PlanSummary,
    Reason,
    plan_file_name,
)
from airflow_provider_rlmm.core.plans.plan_files import planned_segments, read_plan
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.world.absence import OrphanCandidate
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.rules import EvaluationLimits
from airflow_provider_rlmm.features.retention.spark import plan
from airflow_provider_rlmm.features.retention.spark.columns import KINDS, SEGMENT
from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import segment_rows
from airflow_provider_rlmm.features.retention.spark.executor.judging import Evaluation
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import REASONS
from airflow_provider_rlmm.features.retention.spark.generations import write_generation
from airflow_provider_rlmm.features.retention.spark.orphans import orphan_candidates
from airflow_provider_rlmm.features.retention.spark.plan import PlanHeader, save_plan
from airflow_provider_rlmm.features.retention.spark.plan_folder import PlanFolder
from airflow_provider_rlmm.features.retention.spark.segments import SegmentDataSet, run_tasks
from airflow_provider_rlmm.features.retention.spark.source import TopicRange
from tests.spark.events import UNUSABLE, Segment, Topic, random_topic
from tests.spark.plain_evaluation import COPIED, COPYING, DELETED, DELETING, Record, evaluate_plan, replay
from tests.unit.features.retention.reference import expected_rows, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = 1_800_000_000_000
MIN_AGE = 100_000
PARTITIONS = 5
NAMES = [name for name, _ in PLAN_COLUMNS]
LIMITS = EvaluationLimits(NOW, MIN_AGE, allow_low_min_age=True)
RECORDS = pa.schema({"metadata_partition": "int32", "offset": "int64", "key": "binary", "value": "binary"})

RECORDS_SCHEMA = "metadata_partition int, offset long, timestamp timestamp, key binary, value binary"

FOREVER = ListedTopic(UUID(int=1), "forever", -1, -1, {0: 0, 1: 0, 2: 0})
TIMED = ListedTopic(UUID(int=2), "timed", 4_000, -1, {0: 0, 1: 0})
SIZED = ListedTopic(UUID(int=3), "sized", -1, 5_000, {0: 0, 1: 0, 2: 0})
TRIMMED = ListedTopic(UUID(int=4), "trimmed", -1, -1, {0: 120, 1: 200})
TIGHT = ListedTopic(UUID(int=5), "tight", 45_000, 3_000, {0: 30, 1: 0, 2: 0})
CLUSTER = ClusterState("cluster", NOW - 600, (FOREVER, TIMED, SIZED, TRIMMED, TIGHT))
DEAD = [(UUID(int=90).bytes, "dead"), (UUID(int=91).bytes, "timed")]
ABSENT = frozenset((UUID(bytes=topic_id), name) for topic_id, name in DEAD)
ENDS = dict.fromkeys(range(PARTITIONS), 1_000_000)
HEADER = PlanHeader("p-1", CLUSTER.cluster_id, NOW, NOW + 1, {0: 7})


def frame_of(spark: SparkSession, records: list[Record], folder: Path) -> DataFrame:
    """Return the records as a Parquet data set of one file per metadata partition, standing for the topic."""
    (folder / "records").mkdir(parents=True, exist_ok=True)
    by_partition: dict[int, list[tuple[int, int, bytes | None, bytes | None]]] = {}
    for partition, offset, value in sorted(records, key=lambda record: record[:2]):
        by_partition.setdefault(partition, []).append((partition, offset, None, value))
    for partition, rows in by_partition.items():
        write_records(rows, folder / "records" / f"{partition}.parquet")
    return spark.read.schema(RECORDS_SCHEMA).parquet(str(folder / "records"))


def write_records(rows: list[tuple[int, int, bytes | None, bytes | None]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in RECORDS]
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(RECORDS)]
    times = pa.array([row[1] * 1_000 for row in rows], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table([*columns, times], names=[*names, "timestamp"]), path)


def written_rows(output: Path) -> list[dict[str, Any]]:
    """Rows in the order of the files, which is that of the cleaner's work."""
    files = sorted(output.glob("*.parquet"), key=lambda file: int(file.stem.rpartition("-")[2]))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def range_of(records: DataFrame) -> TopicRange:
    """What Kafka would answer about records that begin at offset 0."""
    from pyspark.sql import functions as sf

    ends = {row[0]: row[1] + 1 for row in records.groupBy("metadata_partition").agg(sf.max("offset")).collect()}
    everything = range(PARTITIONS)
    return TopicRange(
        "__remote_log_metadata", UUID(int=8), dict.fromkeys(everything, 0), {p: ends.get(p, 0) for p in everything}
    )


def evaluation_of(cluster: ClusterState = CLUSTER) -> Evaluation:
    return Evaluation(PARTITIONS, cluster, LIMITS)


@dataclass(frozen=True)
class FrameReader:
    """Reads as Spark's Kafka connector does: from given offsets on, each metadata partition by one task."""

    records: DataFrame
    topic_range: TopicRange
    empty: frozenset[int] = frozenset()  # metadata partitions that hold no record, as the brokers say

    @property
    def spark(self) -> SparkSession:
        return self.records.sparkSession

    def read(self, begins: Mapping[int, int]) -> DataFrame:
        wanted = " OR ".join(f"(metadata_partition = {p} AND offset >= {begin})" for p, begin in begins.items())
        return self.records.where(wanted)

    def without_records(self, begins: Mapping[int, int]) -> frozenset[int]:
        return self.empty & begins.keys()


def segments_of(records: DataFrame, output: Path, cluster: ClusterState = CLUSTER) -> SegmentDataSet:
    """What one pass over the records comes to, written below ``output``."""
    store = GenerationStore(str(output / "rows-once.tmp"))
    reader: Any = FrameReader(records, range_of(records))
    written = write_generation(reader, evaluation_of(cluster), store, why_all="a test")
    return written.data_set


def rows_of(segments: SegmentDataSet) -> list[dict[str, Any]]:
    """The rows of the data set."""
    known = (numbered for numbered in segments.parts.items() if numbered[1].rows is not None)
    tables = (segment_rows(segments.folder, numbered, PARTITIONS, KINDS) for numbered in known)
    return [row for batches in tables for batch in batches for row in batch.to_pylist()]


def make_plan(
    records: DataFrame,
    output: Path,
    cluster: ClusterState = CLUSTER,
    absent: frozenset[tuple[UUID, str]] = ABSENT,
) -> PlanSummary:
    folder = PlanFolder(str(output))
    folder.clear()
    segments = segments_of(records, output, cluster)
    try:
        return save_plan(records.sparkSession, segments, absent, folder, HEADER)
    finally:
        remove_folder(f"{folder.uri}/rows-once.tmp")


@pytest.fixture(scope="module", params=[-1, 2**20], ids=["by tasks", "by the driver"])
def random_history(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Topic, PlanSummary, Path]:
    folder = tmp_path_factory.mktemp("random")
    live = [(t.topic_id.bytes, t.name) for t in CLUSTER.topics]
    topic = random_topic(20405, live + DEAD, NOW, MIN_AGE, segments=3_000, num_partitions=PARTITIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SMALL_BYTES", request.param)
        summary = make_plan(frame_of(spark, topic.records, folder), folder / "plan")
    return topic, summary, folder / "plan"


MANY = tuple(ListedTopic(UUID(int=100 + n), f"many-{n}", 4_000, 5_000, {0: 30, 1: 0, 2: 0}) for n in range(40))


def test_these_tests_run_with_the_settings_of_users(spark: SparkSession) -> None:
    names = (
        "spark.sql.shuffle.partitions",
        "spark.sql.adaptive.enabled",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
    )
    assert [spark.conf.get(name) for name in names] == ["200", "true", "10000"]


def test_the_plan_of_many_topics_equals_the_plain_evaluation(spark: SparkSession, tmp_path: Path) -> None:
    cluster = replace(CLUSTER, topics=MANY)
    topic = random_topic(
        7, [(t.topic_id.bytes, t.name) for t in MANY] + DEAD, NOW, MIN_AGE, segments=1_200, num_partitions=PARTITIONS
    )
    summary = make_plan(frame_of(spark, topic.records, tmp_path), tmp_path / "plan", cluster)
    expected = evaluate_plan(topic.records, json.loads(cluster.to_json()), NOW, MIN_AGE, PARTITIONS)
    assert written_rows(tmp_path / "plan") == [{name: row[name] for name in NAMES} for row in expected]
    assert sum(file.rows for file in summary.files.values()) == len(expected)


def test_a_user_partition_of_many_batches_equals_the_rules_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    """Rows reach Python in batches; the walk of one partition must not begin anew with each of them."""
    rng, topic = random.Random(3), Topic(PARTITIONS)
    sized = replace(SIZED, retention_bytes=500_000, log_start_offsets={0: 20_000})
    cluster = replace(CLUSTER, topics=(FOREVER, TIMED, sized))
    for number in rng.sample(range(20_000), 20_000):
        size = rng.choice((50, 100, 150))
        s = segment(number, sized, start_offset=number * 10, end_offset=number * 10 + 9, size=size)
        topic.put_home(s, s.add(NOW), s.update(NOW, COPIED))
        if number % 50 == 0:
            topic.put_home(s, s.update(NOW, DELETING))
        if number % 100 == 0:
            topic.put_home(s, s.update(NOW, DELETED))
    expected = expected_rows(topic.records, PARTITIONS, cluster, LIMITS)
    due = [row for row in in_order(expected.segments) if row["reason"]]
    assert Counter(row["reason"] for row in due).keys() == {"LOG_START_OFFSET", "RETENTION_BYTES"}
    assert 10_000 < len(due) < 19_000

    summary = make_plan(frame_of(spark, topic.records, tmp_path), tmp_path / "plan", cluster)
    assert written_rows(tmp_path / "plan") == [{name: row[name] for name in NAMES} for row in due]
    assert summary.known.segments == len(expected.segments) == 19_800


def test_a_topic_that_is_read_in_pieces_gives_no_plan(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    for number in range(40):
        topic.put_home(segment(number), segment(number).add(1))
    records = frame_of(spark, topic.records, tmp_path)
    for pieces in (records.repartition(2), records.orderBy("offset", ascending=False).coalesce(1)):
        with pytest.raises(PlanError, match=r"was not read by one task in the order of its offsets"):
            segments_of(pieces, tmp_path / "plan")


def test_the_data_set_says_what_was_read(spark: SparkSession, tmp_path: Path) -> None:
    topic = random_topic(11, [(TIMED.topic_id.bytes, "timed"), *DEAD], NOW, MIN_AGE, 200, PARTITIONS)
    expected = expected_rows(topic.records, PARTITIONS, CLUSTER, LIMITS)
    segments = segments_of(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    rows = [row for row in rows_of(segments) if row["kind"] == SEGMENT]
    assert in_order({name: row[name] for name in expected.segments[0]} for row in rows) == in_order(expected.segments)
    assert segments.known == count(expected.segments)
    assert segments.unresolved == len(expected.unresolved) > 0
    assert segments.quarantined == Counter(partition for partition, _ in expected.quarantined)


def test_a_metadata_partition_that_nobody_read_is_found_out_unless_it_holds_no_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = frame_of(spark, one_orphan().records, tmp_path)
    found = range_of(records)
    (home,) = [number for number, end in found.end.items() if end]
    other = (home + 1) % PARTITIONS
    reader: Any = FrameReader(records, replace(found, end={**found.end, other: 3}))
    store = GenerationStore(str(tmp_path / "g"))
    with pytest.raises(PlanError, match=rf"metadata partition {other} was not read by one task .* \(0 pieces\)"):
        write_generation(reader, evaluation_of(), store)
    written = write_generation(replace(reader, empty=frozenset({other})), evaluation_of(), store).generation
    assert written.parts[other] == GenerationPart(3, holes=(HistoryGap(other, 0, 3),))
    assert written.parts[home].segments == 1


def test_a_task_reads_several_metadata_partitions_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import DataFrame

    topic = random_topic(12, [(TIMED.topic_id.bytes, "timed"), *DEAD], NOW, MIN_AGE, 300, PARTITIONS)
    records = frame_of(spark, topic.records, tmp_path)
    # As Kafka's connector has them: at least one partition of the frame for each metadata partition.
    records = reduce(DataFrame.union, (records.where(f"metadata_partition = {p}") for p in range(PARTITIONS)))
    order = GenerationOrder(str(tmp_path / "g"), 1, range_of(records).end)
    for tasks in (1, 2, PARTITIONS):
        reports = run_tasks(records, evaluation_of(), order, tasks).reports
        assert [report.records for report in reports] == [end for _, end in sorted(range_of(records).end.items())]


def test_plan_equals_the_plain_evaluation(random_history: tuple[Topic, PlanSummary, Path]) -> None:
    topic, _, output = random_history
    expected = evaluate_plan(topic.records, json.loads(CLUSTER.to_json()), NOW, MIN_AGE, PARTITIONS)
    # Nobody has asked the leaders: what they try again, and which epochs are theirs, is not told.
    of_leaders = {Reason.DELETION_RETRIED, Reason.UNREFERENCED_EPOCH}
    assert {row["reason"] for row in expected} == {Reason.ORPHANED, *REASONS} - of_leaders
    assert written_rows(output) == [{name: row[name] for name in NAMES} for row in expected]


def test_summary_equals_the_plain_evaluation(random_history: tuple[Topic, PlanSummary, Path]) -> None:
    topic, summary, output = random_history
    history = replay(topic.records, PARTITIONS)
    expected = evaluate_plan(topic.records, json.loads(CLUSTER.to_json()), NOW, MIN_AGE, PARTITIONS)
    assert PlanSummary.from_json((output / SUMMARY_NAME).read_text()) == summary
    assert summary.known == count(list(history.segments.values()))
    assert summary.quarantined == history.quarantined
    assert summary.unresolved == len(history.unresolved) > 0
    for name, counts in (("reason", summary.by_reason), ("metadata_partition", summary.by_metadata_partition)):
        keys = Counter(row[name] for row in expected)
        assert counts == {key: count([row for row in expected if row[name] == key]) for key in keys}
    assert (summary.plan_id, summary.cluster_id, summary.read_until) == ("p-1", "cluster", {0: 7})


def count(rows: list[dict[str, Any]]) -> Count:
    return Count(len(rows), sum(row["segment_size_in_bytes"] for row in rows))


def test_files_have_the_columns_of_the_contract_and_no_nulls(random_history: tuple[Topic, PlanSummary, Path]) -> None:
    _, summary, output = random_history
    assert len(summary.files) > 1
    for file in summary.files.values():
        table = pq.read_table(output / file.name)
        assert [(f.name, str(f.type)) for f in table.schema] == list(PLAN_COLUMNS)
        assert {name: table[name].null_count for name in NAMES} == dict.fromkeys(NAMES, 0)


def test_each_metadata_partition_lies_in_the_one_file_that_the_summary_names(
    random_history: tuple[Topic, PlanSummary, Path],
) -> None:
    _, summary, output = random_history
    found = {path.name for path in output.iterdir() if not path.name.startswith(".")}
    assert found == {SUMMARY_NAME, *(file.name for file in summary.files.values())}
    for home, file in summary.files.items():
        data = (output / file.name).read_bytes()
        assert file == PlanFile.of(plan_file_name(home), pq.read_table(output / file.name).num_rows, data)
        assert pq.read_table(output / file.name)["metadata_partition"].unique().to_pylist() == [home]


def test_the_cleaners_reader_takes_the_orphaned_rows(random_history: tuple[Topic, PlanSummary, Path]) -> None:
    _, summary, output = random_history
    assert read_plan(str(output)) == summary
    for home in summary.files:
        orphaned = [r for r in written_rows(output) if (r["metadata_partition"], r["reason"]) == (home, "ORPHANED")]
        expected: dict[tuple[UUID, int], set[UUID]] = {}
        for row in orphaned:
            key = (UUID(bytes=row["topic_id"]), row["partition"])
            expected.setdefault(key, set()).add(UUID(bytes=row["segment_id"]))
        assert planned_segments(str(output), summary, home) == expected


# One segment each, told by its number; where no state is given, the history must leave none.
HISTORIES: list[tuple[list[int], int | None]] = [
    ([COPYING], COPYING),
    ([COPYING, COPYING], COPYING),
    ([COPYING, COPIED], COPIED),
    ([COPYING, DELETING], DELETING),
    ([COPYING, COPIED, COPYING], COPIED),
    ([COPYING, DELETED], COPYING),
    ([COPYING, COPIED, DELETED], COPIED),
    ([COPYING, COPIED, DELETING, COPIED], DELETING),
    ([COPYING, COPIED, DELETING, COPYING], DELETING),
    ([COPYING, COPIED, DELETING, DELETED], None),
    ([COPYING, DELETING, DELETED, DELETED, COPIED], None),
    ([COPYING, DELETING, DELETED, COPYING], COPYING),
    ([COPYING, DELETING, DELETED, COPYING, COPIED], COPIED),
]
UNRESOLVED = [
    ([COPIED], None),
    ([COPIED, DELETING], None),
    ([DELETED, DELETING], None),
    ([COPIED, COPYING], COPYING),
    ([DELETED, DELETING, COPYING, DELETING, DELETED], None),
]
SETTLED = [[DELETED], [COPIED, DELETING, DELETED]]


def segment(number: int, topic: ListedTopic = FOREVER, **fields: Any) -> Segment:
    return Segment(topic.topic_id.bytes, topic.name, 0, number.to_bytes(16, "big"), **fields)


def test_states_follow_kafkas_state_machine(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    cases = [(number, steps) for number, (steps, _) in enumerate(HISTORIES)]
    cases += [(100 + number, steps) for number, (steps, _) in enumerate(UNRESOLVED)]
    cases += [(200 + number, steps) for number, steps in enumerate(SETTLED)]
    for number, steps in cases:
        s = segment(number)
        topic.put_home(s, *(s.update(i, step) if step else s.add(i) for i, step in enumerate(steps)))
    segments = segments_of(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    rows = rows_of(segments)
    states = {int.from_bytes(r["segment_id"], "big"): r["state"] for r in rows if r["kind"] == "segment"}
    expected = {number: state for number, (_, state) in enumerate(HISTORIES)}
    expected |= {100 + number: state for number, (_, state) in enumerate(UNRESOLVED)}
    assert states == {number: state for number, state in expected.items() if state is not None}
    unresolved = {int.from_bytes(r["segment_id"], "big") for r in rows if r["kind"] == "unresolved"}
    assert unresolved == {100 + number for number in range(len(UNRESOLVED))}


def test_adding_again_replaces_the_segment(spark: SparkSession, tmp_path: Path) -> None:
    first, again = segment(1, size=10, end_offset=5), segment(1, size=77, end_offset=8)
    topic = Topic(PARTITIONS)
    topic.put_home(first, first.add(1), again.add(2), again.update(3, COPIED))
    segments = segments_of(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    [row] = [row for row in rows_of(segments) if row["kind"] == SEGMENT]
    assert (row["segment_size_in_bytes"], row["end_offset"], row["event_timestamp_ms"]) == (77, 8, 3)


def test_records_that_cannot_be_applied_are_counted_where_they_lie(spark: SparkSession, tmp_path: Path) -> None:
    s = segment(1)
    home, other = s.metadata_partition(PARTITIONS), (s.metadata_partition(PARTITIONS) + 1) % PARTITIONS
    topic = Topic(PARTITIONS)
    topic.put_home(s, s.add(1))
    unfit = [b"\1\3\0" + bytes(80), *UNUSABLE]
    for value in unfit:
        topic.put(home, value)
    topic.put(other, s.update(4, COPIED))
    topic.put_home(s, s.partition_delete(5, 0))
    segments = segments_of(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    rows = rows_of(segments)
    assert segments.quarantined == {home: len(unfit), other: 1}
    at = sorted((r["metadata_partition"], r["event_offset"]) for r in rows if r["kind"] == "quarantined")
    assert at == sorted([*((home, 1 + number) for number in range(len(unfit))), (other, 0)])
    assert all(row["error"] for row in rows if row["kind"] == "quarantined")
    assert [r["state"] for r in rows if r["kind"] == "segment"] == [COPYING]


def test_what_records_with_keys_have_finished_is_not_planned(spark: SparkSession, tmp_path: Path) -> None:
    """Brokers apply them, so the objects are gone: a plan that dropped them would call the segments orphaned."""
    gone, left = (Segment(*DEAD[0], 0, bytes(15) + last) for last in (b"\1", b"\2"))
    home = gone.metadata_partition(PARTITIONS)
    values = [left.add(1), gone.add(1), gone.update(2, DELETING), gone.update(3, DELETED)]
    write_records([(home, n, b"key", value) for n, value in enumerate(values)], tmp_path / "records" / "0.parquet")
    records = spark.read.schema(RECORDS_SCHEMA).parquet(str(tmp_path / "records"))
    summary = make_plan(records, tmp_path / "plan")
    assert [(r["segment_id"], r["reason"], r["exact"]) for r in written_rows(tmp_path / "plan")] == [
        (left.segment_id, "ORPHANED", True)
    ]
    assert (summary.known, summary.quarantined) == (Count(1, 100), {})


def test_orphans_beside_quarantined_records_are_planned_and_not_called_exact(
    spark: SparkSession, tmp_path: Path
) -> None:
    s = Segment(*DEAD[0], 0, bytes(16))
    topic = Topic(PARTITIONS)
    topic.put_home(s, s.add(1), b"garbage")
    summary = make_plan(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    assert summary.by_reason == {"ORPHANED": Count(1, 100)}
    assert summary.quarantined == {s.metadata_partition(PARTITIONS): 1}
    assert [row["exact"] for row in written_rows(tmp_path / "plan")] == [False]


def test_an_empty_topic_gives_an_empty_plan_that_replaces_an_older_one(spark: SparkSession, tmp_path: Path) -> None:
    assert make_plan(frame_of(spark, one_orphan().records, tmp_path), tmp_path / "plan").planned == Count(1, 100)
    summary = make_plan(frame_of(spark, [], tmp_path / "empty"), tmp_path / "plan")
    assert (summary.planned, summary.known, summary.quarantined, summary.unresolved) == (
        Count(0, 0),
        Count(0, 0),
        {},
        0,
    )
    assert read_plan(str(tmp_path / "plan")) == summary
    assert summary.files == {}
    assert json.loads((tmp_path / "plan" / SUMMARY_NAME).read_text())["known"] == {"bytes": 0, "segments": 0}


def one_orphan() -> Topic:
    s = Segment(*DEAD[0], 0, bytes(16))
    topic = Topic(PARTITIONS)
    topic.put_home(s, s.add(1))
    return topic


def test_what_a_killed_try_left_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """A try that was killed at its worst: files half written, and those of another plan under the final names."""
    output = tmp_path / "plan"
    (output / "rows-0123.tmp" / "home=1").mkdir(parents=True)
    (output / "rows-0123.tmp" / "home=1" / "part-0.parquet").write_bytes(b"half a file")
    for partition in range(PARTITIONS):
        (output / plan_file_name(partition)).write_bytes(b"of another plan")
    (output / "notes.txt").write_text("somebody's")
    summary = make_plan(frame_of(spark, one_orphan().records, tmp_path), output)
    (home,) = summary.files
    assert read_plan(str(output)) == summary
    assert sum(map(len, planned_segments(str(output), summary, home).values())) == 1
    left = {path.name for path in output.iterdir()}
    assert left == {"summary.json", summary.files[home].name, "notes.txt"}
    with pytest.raises(PlanError, match="has no metadata partition"):
        planned_segments(str(output), summary, (home + 1) % PARTITIONS)


def test_of_two_tries_at_once_one_fails_and_the_other_has_the_plan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, records, output = PlanFolder.take, frame_of(spark, one_orphan().records, tmp_path), tmp_path / "plan"
    other: list[PlanSummary] = []

    def take_late(folder: PlanFolder, rows: str, name: str) -> None:
        monkeypatch.setattr(PlanFolder, "take", take)
        take(folder, rows, name)
        other.append(make_plan(records, output))

    monkeypatch.setattr(PlanFolder, "take", take_late)
    with pytest.raises(PlanError, match=r"summary.json exists already: another try"):
        make_plan(records, output)
    assert [read_plan(str(output))] == other
    assert list(output.glob(".summary*")) == []


def test_topic_ids_in_doubt_are_those_that_the_listing_lacks(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    dead, timed = (Segment(*named, 0, bytes(15) + b"\1", size=70) for named in DEAD)
    topic.put_home(dead, dead.add(1), dead.update(2, COPIED))
    more = Segment(*DEAD[0], 1, bytes(15) + b"\2", size=30)
    topic.put_home(more, more.add(1))
    topic.put_home(timed, timed.add(1), timed.update(2, DELETING), timed.update(3, DELETED))
    lives = segment(3)
    topic.put_home(lives, lives.add(1), b"garbage")
    first, second = (Segment(UUID(int=92).bytes, name, 0, bytes(15) + b"\4", size=5) for name in ("b", "a"))
    topic.put_home(first, first.add(1))
    topic.put_home(second, second.update(1, COPIED))
    newer = Segment(UUID(int=93).bytes, "newer", 0, bytes(15) + b"\5")
    topic.put_home(newer, newer.add(CLUSTER.observed_at_ms))
    segments = segments_of(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    candidates = orphan_candidates(segments.unlisted)
    assert candidates == [
        OrphanCandidate(UUID(bytes=DEAD[0][0]), frozenset({"dead"}), Count(2, 100)),
        OrphanCandidate(UUID(int=92), frozenset({"a", "b"}), Count(1, 5)),
    ], "names of incomplete histories count; finished segments and those newer than the listing do not"


def test_only_what_was_proven_absent_is_orphaned(spark: SparkSession, tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    for number, (topic_id, name) in enumerate([DEAD[0], (DEAD[0][0], "alias"), DEAD[1]]):
        s = Segment(topic_id, name, 0, number.to_bytes(16, "big"))
        topic.put_home(s, s.add(1))
    proven = (UUID(bytes=DEAD[0][0]), DEAD[0][1])
    records = frame_of(spark, topic.records, tmp_path)
    make_plan(records, tmp_path / "plan", absent=frozenset({proven}))
    assert [(UUID(bytes=row["topic_id"]), row["topic"], row["reason"]) for row in written_rows(tmp_path / "plan")] == [
        (*proven, "ORPHANED")
    ]
    make_plan(records, tmp_path / "nothing", absent=frozenset())
    assert written_rows(tmp_path / "nothing") == []


def test_bad_records_and_incomplete_histories_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    lost = Segment(*DEAD[0], 4, bytes(16))
    home = lost.metadata_partition(PARTITIONS)
    topic = Topic(PARTITIONS)
    topic.put_home(lost, lost.update(1, COPIED), b"garbage", b"")
    summary = make_plan(frame_of(spark, topic.records, tmp_path), tmp_path / "plan")
    assert [(r.kind, r.metadata_partition, r.topic) for r in summary.refusals] == [
        (RefusalKind.QUARANTINED, home, None),
        (RefusalKind.INCOMPLETE_HISTORY, home, "dead"),
    ]
    assert summary.refusals[0].what == f"2 records of metadata partition {home}"
    assert summary.refusals[1].what == "partition 4 of topic dead, id AAAAAAAAAAAAAAAAAAAAWg"


def test_a_failed_run_leaves_no_summary(spark: SparkSession, tmp_path: Path) -> None:
    """A summary that stays from an earlier run would vouch for data that it does not describe."""
    make_plan(frame_of(spark, [], tmp_path / "empty"), tmp_path / "plan")
    assert (tmp_path / "plan" / SUMMARY_NAME).exists()
    folder = PlanFolder(str(tmp_path / "plan"))
    folder.clear()
    segments = segments_of(frame_of(spark, one_orphan().records, tmp_path), tmp_path / "data")
    # What the tasks have written is less than they told.
    [file] = segments.files
    path = Path(segments.folder.removeprefix("file://")) / file.name
    pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)
    with pytest.raises(Exception, match="is not the file that its manifest names"):
        save_plan(spark, segments, ABSENT, folder, HEADER)
    assert [path.name for path in (tmp_path / "plan").iterdir()] == []
