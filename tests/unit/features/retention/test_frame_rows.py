# SPDX-License-Identifier: Apache-2.0
"""What the tasks behind people's DataFrames yield, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, SnapshotRefusedError
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.features.retention.spark.columns import KINDS, QUARANTINED, SEGMENT, UNRESOLVED
from airflow_provider_rlmm.features.retention.spark.executor.files import new_file
from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import event_rows, segment_rows
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.frames import remote_log_events, remote_log_segments
from airflow_provider_rlmm.features.retention.spark.generation import GenerationFile
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
        batch.append_column("timestamp_ms", pa.array(range(batch.num_rows), pa.int64()))
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


def generation_of(folder: Path) -> tuple[GenerationFile, dict[str, list[dict[str, Any]]]]:
    """A file with rows of each kind, and the rows."""
    topic = Topic(PARTITIONS)
    known, lost = Segment(*DEAD, 0, bytes(16)), Segment(*DEAD, 0, bytes(15) + b"\1")
    topic.put_home(known, known.add(1), b"garbage", known.update(2, COPIED))
    topic.put_home(lost, lost.update(3, COPIED))
    reports = told(batches_of(without_keys(topic)), GenerationOrder(str(folder), ENDS))
    (file,) = [report.part.rows for report in reports]
    assert file is not None
    return file, rows_of(str(folder), reports)


@pytest.mark.parametrize("kinds", [(SEGMENT,), (UNRESOLVED,), (QUARANTINED,), KINDS])
def test_the_rows_of_a_file_are_those_of_the_kinds_that_are_asked_for(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    file, rows = generation_of(tmp_path)
    assert all(rows[kind] for kind in KINDS)
    found = [row for batch in segment_rows(str(tmp_path), file, kinds) for row in batch.to_pylist()]
    assert found == [row for kind in KINDS if kind in kinds for row in rows[kind]]


def test_another_file_than_the_manifest_names_gives_no_rows(tmp_path: Path) -> None:
    file, _ = generation_of(tmp_path)
    with pytest.raises(SnapshotRefusedError, match="its size or checksum differs"):
        list(segment_rows(str(tmp_path), replace(file, sha256="0" * 64), KINDS))
    with pytest.raises(SnapshotRefusedError, match="cannot be read"):
        list(segment_rows(str(tmp_path), replace(file, name=file.name + "x"), KINDS))


def test_a_file_of_other_columns_or_no_parquet_gives_no_rows(tmp_path: Path) -> None:
    with new_file(str(tmp_path), "a") as file, pq.ParquetWriter(pa.PythonFile(file, "w"), pa.schema([])) as writer:
        writer.write_table(pa.table({}))
    with pytest.raises(SnapshotRefusedError, match="has other columns than this version writes"):
        list(segment_rows(str(tmp_path), file.described(), KINDS))
    with new_file(str(tmp_path), "b") as file:
        file.write(b"not Parquet")
    with pytest.raises(SnapshotRefusedError, match=r"b cannot be used"):
        list(segment_rows(str(tmp_path), file.described(), KINDS))


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
