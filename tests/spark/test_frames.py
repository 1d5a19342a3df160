# SPDX-License-Identifier: Apache-2.0
"""DataFrames for people's own jobs, by the programs of ``docs/how-to/spark-data-frames.md``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.features.retention.spark import frames
from airflow_provider_rlmm.features.retention.spark.cluster import SparkCluster
from airflow_provider_rlmm.features.retention.spark.columns import KINDS, SEGMENT, SEGMENT_COLUMNS
from airflow_provider_rlmm.features.retention.spark.generations import next_generation
from dev import tiering
from dev.broker import LocalKafka
from tests.spark.events import UNUSABLE, Segment, random_topic
from tests.spark.plain_evaluation import Record, UnusableError, home_of, parse
from tests.spark.test_plan import (
    CLUSTER,
    DEAD,
    MIN_AGE,
    NOW,
    PARTITIONS,
    FrameReader,
    evaluation_of,
    frame_of,
    range_of,
    rows_of,
)
from tests.spark.test_segment_retention import Cluster, submit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-data-frames.md"
EVENTS_BY_DATE, BYTES_FOR_EACH_TOPIC, RECORDS_BY_DATE = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
)
LIVE = [(t.topic_id.bytes, t.name) for t in CLUSTER.topics]
FOREVER_MS = 2**63 - 1
"""A time that a record may say, and that is none."""


def program(text: str, **places: str) -> str:
    """Return a program of the page, for other places."""
    for place in (
        *("broker:9092", "/data/remote-log-events", "/data/rlmm/segments", "/data/bytes-per-topic"),
        *("/data/rlmm-spark/airflow_provider_rlmm.zip", "s3://bucket", "/data/orders"),
    ):
        text = text.replace(place, places.get(re.sub(r"\W", "_", place).strip("_"), place))
    assert "/data/" not in text
    return text


def text_of(raw: bytes) -> str | None:
    return kafka_uuid_str(UUID(bytes=raw)) if raw else None


def written_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a data set, partitioned or not."""
    table = pads.dataset(folder, partitioning="hive").to_table()
    # Spark's own times in Parquet are moments, which pyarrow gives without a zone.
    types = [pa.timestamp("us", "UTC") if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(zip(table.column_names, types, strict=True))).to_pylist()


def require_events(rows: list[dict[str, Any]], records: list[Record]) -> None:
    """Compare rows with what the records say, in plain Python."""
    found = {(row["metadata_partition"], row["offset"]): row for row in rows}
    assert len(found) == len(rows) == len(records)
    for home, offset, value in records:
        row = found[home, offset]
        try:
            event = parse(value)
        except UnusableError:
            assert row["error_code"] in ErrorCode.__members__
            assert row["error"]
            continue
        states = RemoteLogSegmentState if event.segment_id else RemotePartitionDeleteState
        if row["error_code"] == "MALFORMED":
            # A state that a deletion of a partition does not have.
            assert not event.segment_id
            continue
        assert row["error_code"] == (None if home_of(event, PARTITIONS) == home else "MISROUTED")
        assert (row["error"] is None) == (row["error_code"] is None)
        assert (row["topic_id"], row["segment_id"]) == (text_of(event.topic_id), text_of(event.segment_id))
        assert (row["topic"], row["partition"], row["state"]) == (
            event.topic,
            event.partition,
            states(event.state).name,
        )
        assert row["event_timestamp_ms"] == event.event_timestamp_ms
        ms = event.event_timestamp_ms
        time = None if ms == FOREVER_MS else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)
        assert row["event_time"] == time
        assert {name: row[name] for name in event.added or ()} == (event.added or {})
        kinds = ("RemotePartitionDeleteMetadata", "RemoteLogSegmentMetadataUpdate", "RemoteLogSegmentMetadata")
        assert row["kind"] == kinds[bool(event.segment_id) + (event.added is not None)]


@pytest.mark.spark
def test_events_by_date(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from pyspark.sql import functions as sf

    topic = random_topic(31, [*LIVE, *DEAD], NOW, MIN_AGE, 300, PARTITIONS)
    for number, ms in enumerate((FOREVER_MS, -1)):
        s = Segment(*DEAD[0], 0, bytes(15) + bytes([number]))
        topic.put_home(s, s.add(ms))
    for number, value in enumerate(UNUSABLE):
        topic.put(number % PARTITIONS, value)
    day = timedelta(days=1)
    records = frame_of(spark, topic.records, tmp_path).withColumn(
        "timestamp", sf.timestamp_millis(sf.lit(NOW) + sf.col("offset") % 3 * (day // timedelta(milliseconds=1)))
    )
    topic_range = range_of(records)
    monkeypatch.setattr(frames, "verify_spark_cluster", lambda *_: SparkCluster("cluster", {}))
    monkeypatch.setattr(frames, "find_range", lambda *_: replace(topic_range, begin={**topic_range.begin, 1: 5}))
    monkeypatch.setattr(frames, "MetadataReader", lambda _spark, _cluster, read: FrameReader(records, read))
    exec(program(EVENTS_BY_DATE, data_remote_log_events=str(tmp_path / "events")), {})

    assert "metadata partition 1: it begins at offset 5" in caplog.text
    rows = written_rows(tmp_path / "events")
    require_events(rows, [r for r in topic.records if r[0] != 1 or r[1] >= 5])
    times = Counter(row["record_time"] for row in rows)
    first = datetime.fromtimestamp(NOW / 1000, UTC)
    assert set(times) == {first, first + day, first + 2 * day}
    # The session's time zone is that of the machine.
    assert Counter(row["date"] for row in rows) == {str(time.astimezone().date()): n for time, n in times.items()}
    assert {row["error_code"] for row in rows} >= {None, "TOMBSTONE", "MALFORMED", "MISROUTED", "UNKNOWN_API_KEY"}


@pytest.mark.spark
def test_bytes_for_each_topic(spark: SparkSession, tmp_path: Path) -> None:
    topic = random_topic(32, [*LIVE, *DEAD], NOW, MIN_AGE, 600, PARTITIONS)
    records = frame_of(spark, topic.records, tmp_path)
    reader: Any = FrameReader(records, range_of(records))
    written = next_generation(reader, evaluation_of(), GenerationStore(str(tmp_path / "data")))
    known = rows_of(written.data_set)
    files = [part.rows for part in written.generation.parts.values() if part.rows is not None]
    folder = tmp_path / "data" / "segments"
    (folder / files[0].name).with_name("of-a-lost-attempt.parquet").write_bytes((folder / files[0].name).read_bytes())
    places = {"data_rlmm_segments": str(tmp_path / "data"), "data_bytes_per_topic": str(tmp_path / "bytes")}
    exec(program(BYTES_FOR_EACH_TOPIC, **places), {})

    expected: dict[tuple[str | None, str], list[int]] = {}
    for row in known:
        if row["kind"] == SEGMENT:
            sums = expected.setdefault((text_of(row["topic_id"]), row["topic"]), [0, 0])
            sums[0] += 1
            sums[1] += row["segment_size_in_bytes"]
    found = written_rows(tmp_path / "bytes")
    assert {(row["topic_id"], row["topic"]): [row["segments"], row["bytes"]] for row in found} == expected
    assert len(expected) == len(found) == len({*LIVE, *DEAD})
    assert {(row["cluster_id"], row["generation_time"]) for row in found} == {
        (CLUSTER.cluster_id, datetime.fromtimestamp(NOW / 1000, UTC))
    }

    of_all_kinds = frames.remote_log_segments(spark, str(tmp_path / "data"), 1, kinds=KINDS)
    assert of_all_kinds.columns == ["generation", "cluster_id", "generation_time", *(n for n, _ in SEGMENT_COLUMNS)]
    rows = [row.asDict(recursive=True) for row in of_all_kinds.collect()]
    assert Counter(row["kind"] for row in rows) == Counter(row["kind"] for row in known)
    assert len({row["kind"] for row in rows}) == len(KINDS)
    states = Counter(None if row["state"] is None else RemoteLogSegmentState(row["state"]).name for row in known)
    assert Counter(row["state"] for row in rows) == states
    assert {row["generation"] for row in rows} == {1}
    with pytest.raises(PlanError, match=r"has the generations \[1\]"):
        frames.remote_log_segments(spark, str(tmp_path / "data"), 2)
    (folder / files[1].name).write_bytes((folder / files[0].name).read_bytes())
    with pytest.raises(Exception, match="is not the file that its manifest names"):
        of_all_kinds.count()


@pytest.mark.rare
@pytest.mark.timeout(900)
def test_events_of_a_real_topic(tmp_path: Path) -> None:
    with LocalKafka() as kafka:
        tiering.create_tiered_topic(kafka, "orders", 2)
        tiering.produce_until_remote(kafka, "orders", 3)
        script = tmp_path / "events.py"
        places = {"broker_9092": kafka.bootstrap_servers, "data_remote_log_events": str(tmp_path / "events")}
        script.write_text(program(EVENTS_BY_DATE, **places))
        done = submit(script, tmp_path)
        assert done.returncode == 0, done.stdout
        records = Cluster(kafka, CLUSTER, UUID(int=0)).records
    rows = written_rows(tmp_path / "events")
    assert rows
    read = {(row["metadata_partition"], row["offset"]) for row in rows}
    # What was written since is no part of it.
    require_events(rows, [record for record in records if record[:2] in read])
    ends = Counter(partition for partition, _ in read)
    assert read == {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    assert {row["topic"] for row in rows} == {"orders"}
    now = datetime.now(UTC)
    assert all(now - timedelta(hours=1) < row["record_time"] <= now for row in rows)
