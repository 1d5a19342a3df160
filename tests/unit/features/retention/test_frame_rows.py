# SPDX-License-Identifier: Apache-2.0
"""What the tasks behind people's DataFrames yield, without Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, SnapshotRefusedError
from airflow_provider_rlmm.core.generations.files import new_file
from airflow_provider_rlmm.core.generations.manifest import GenerationPart, NumberedPart
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.features.retention.spark.columns import KINDS, QUARANTINED, SEGMENT, UNRESOLVED
from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import event_rows, segment_rows
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.frames import remote_log_events, remote_log_segments
from tests.spark.events import Segment, Topic, random_topic
from tests.spark.plain_evaluation import COPIED, UnusableError, home_of, parse
from tests.unit.features.retention.test_metadata_partition import (
    CLUSTER,
    DEAD,
    ENDS,
    MIN_AGE,
    NOW,
    PARTITIONS,
    batches_of,
    rows_of,
    told,
    without_keys,
)

NAMES = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]


def events_of(topic: Topic, largest_batch: int) -> list[dict[str, Any]]:
    batches = (
        batch.set_column(
            batch.schema.get_field_index("timestamp_ms"), "timestamp_ms", pa.array(range(batch.num_rows), pa.int64())
        )
        for batch in batches_of(without_keys(topic), largest_batch)
    )
    return [row for batch in event_rows(batches, PARTITIONS) for row in batch.to_pylist()]


def test_each_record_has_one_row_that_says_what_it_says() -> None:
    topic = random_topic(9, [*NAMES, DEAD], NOW, MIN_AGE, 400, PARTITIONS)
    rows = events_of(topic, 97)
    assert [row["timestamp_ms"] for row in rows[:194]] == [*range(97)] * 2
    good = 0
    for row, (home, offset, value) in zip(rows, sorted(topic.records, key=lambda r: r[:2]), strict=True):
        assert (row["metadata_partition"], row["offset"]) == (home, offset)
        assert (row["error"] is None) == (row["error_code"] == ErrorCode.GOOD)
        try:
            event = parse(value)
        except UnusableError:
            assert row["error_code"] != ErrorCode.GOOD
            continue
        if row["error_code"] not in (ErrorCode.GOOD, ErrorCode.MISROUTED):
            continue
        good += 1
        assert (row["error_code"] == ErrorCode.GOOD) == (home_of(event, PARTITIONS) == home)
        assert (row["topic_id"], row["topic"], row["partition"]) == (event.topic_id, event.topic, event.partition)
        assert (row["segment_id"] or b"", row["state"]) == (event.segment_id, event.state)
        assert row["event_timestamp_ms"] == event.event_timestamp_ms
        said = {name: row[name] for name in event.added or ()}
        assert said == (event.added or {})
    assert good > 500
    assert {row["error_code"] for row in rows} >= {ErrorCode.TOMBSTONE, ErrorCode.MALFORMED, ErrorCode.MISROUTED}


def generation_of(folder: Path) -> tuple[NumberedPart, dict[str, list[dict[str, Any]]]]:
    """What is known of a metadata partition that has rows of each kind, and the rows."""
    topic = Topic(PARTITIONS)
    known, lost = Segment(*DEAD, 0, bytes(16)), Segment(*DEAD, 0, bytes(15) + b"\1")
    topic.put_home(known, known.add(1), b"garbage", known.update(2, COPIED))
    topic.put_home(lost, lost.update(3, COPIED))
    (report,) = told(batches_of(without_keys(topic)), GenerationOrder(str(folder), 1, ENDS))
    return (report.metadata_partition, report.part), rows_of(str(folder), [report])


def rows_in(folder: Path, numbered: NumberedPart, kinds: Collection[str] = KINDS) -> list[dict[str, Any]]:
    return [row for batch in segment_rows(str(folder), numbered, PARTITIONS, kinds) for row in batch.to_pylist()]


@pytest.mark.parametrize("kinds", [(SEGMENT,), (UNRESOLVED,), (QUARANTINED,), KINDS])
def test_the_rows_are_those_of_the_kinds_that_are_asked_for(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    numbered, rows = generation_of(tmp_path)
    assert all(rows[kind] for kind in KINDS)
    assert rows_in(tmp_path, numbered, kinds) == [row for kind in KINDS if kind in kinds for row in rows[kind]]
    assert rows_in(tmp_path, (0, GenerationPart(5))) == [], "no record was ever read"


def test_a_file_holds_only_what_there_is_to_say_and_segments_without_a_row_in_it_have_one_all_the_same(
    tmp_path: Path,
) -> None:
    topic = random_topic(9, [*NAMES, DEAD], NOW, MIN_AGE, 400, PARTITIONS)
    reports = told(batches_of(without_keys(topic)), GenerationOrder(str(tmp_path), 1, ENDS))
    for report in reports:
        assert report.part.rows is not None
        written = pq.read_table(tmp_path / report.part.rows.name, partitioning=None).to_pylist()
        rows = rows_in(tmp_path, (report.metadata_partition, report.part))
        said = [row for row in rows if row["kind"] != SEGMENT or row["reason"] or not row["listed"]]
        assert written == said
        others = [row for row in rows if row not in said]
        assert {(row["kind"], row["listed"], row["may_be_orphaned"], row["exact"], row["error"]) for row in others} == {
            (SEGMENT, True, False, False, None)
        }
    # In the place of its own, the rows of another metadata partition.
    first, second = reports[:2]
    mixed = replace(first.part, rows=second.part.rows)
    with pytest.raises(SnapshotRefusedError, match="name segments that its state does not have"):
        rows_in(tmp_path, (first.metadata_partition, mixed))


def test_another_file_than_the_manifest_names_gives_no_rows(tmp_path: Path) -> None:
    (number, part), _ = generation_of(tmp_path)
    assert part.rows is not None
    assert part.state is not None
    for files in (
        {"rows": replace(part.rows, sha256="0" * 64)},
        {"state": replace(part.state, sha256="0" * 64)},
        {"changes": replace(part.state, sha256="0" * 64)},
    ):
        with pytest.raises(SnapshotRefusedError, match="its size or checksum differs"):
            rows_in(tmp_path, (number, replace(part, **files)))
    with pytest.raises(SnapshotRefusedError, match="cannot be read"):
        rows_in(tmp_path, (number, replace(part, rows=replace(part.rows, name=part.rows.name + "x"))))


def test_a_file_of_other_columns_or_no_parquet_gives_no_rows(tmp_path: Path) -> None:
    (number, part), _ = generation_of(tmp_path)
    with new_file(str(tmp_path), "a") as file, pq.ParquetWriter(pa.PythonFile(file, "w"), pa.schema([])) as writer:
        writer.write_table(pa.table({}))
    with pytest.raises(SnapshotRefusedError, match="has other columns than this version writes"):
        rows_in(tmp_path, (number, replace(part, rows=file.described())))
    with new_file(str(tmp_path), "b") as file:
        file.write(b"not Parquet")
    with pytest.raises(SnapshotRefusedError, match=r"b cannot be used"):
        rows_in(tmp_path, (number, replace(part, rows=file.described())))


class Session:
    """A session of which nothing is asked but whether it has a driver's JVM."""

    _jvm = None


@pytest.mark.parametrize("kinds", ["segment", (), ("segment", "finished")])
def test_kinds_that_there_are_not_are_refused(tmp_path: Path, kinds: Any) -> None:
    session: Any = Session()
    with pytest.raises(ConfigurationError, match=r"give some of \['segment', 'unresolved', 'quarantined'\]"):
        remote_log_segments(session, str(tmp_path), kinds=kinds)


@pytest.mark.parametrize("servers", [{}, {"bootstrap.servers": " , "}, {"kafka.bootstrap.servers": "broker:9092"}])
def test_properties_without_brokers_are_refused(servers: dict[str, str]) -> None:
    session: Any = Session()
    with pytest.raises(ConfigurationError, match=r"have no bootstrap.servers; .* without 'kafka.'"):
        remote_log_events(session, servers)


def test_a_session_of_spark_connect_is_refused(tmp_path: Path) -> None:
    session: Any = object()
    with pytest.raises(ConfigurationError, match="this is a Spark Connect session"):
        remote_log_events(session, {"bootstrap.servers": "broker:9092"})
    with pytest.raises(ConfigurationError, match="this is a Spark Connect session"):
        remote_log_segments(session, str(tmp_path))
