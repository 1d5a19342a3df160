# SPDX-License-Identifier: Apache-2.0
"""Records of remote storage as a DataFrame: on a real Spark, and by the program of the documentation on a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from confluent_kafka import Producer

import airflow_provider_rlmm
from airflow_provider_rlmm import data_frames
from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError, OffsetNotInRemoteLogError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.data_frames import remote_log_records
from airflow_provider_rlmm.features.reading.pieces import ROWS
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from dev import tiering
from dev.broker import LocalKafka
from tests.catalogued import CLUSTER, ID, CataloguedTopic, files_of
from tests.exporting import Exported
from tests.integration.copying.writing import TIMEOUT_S, read_records
from tests.kafka_log import Batch, Record
from tests.spark.test_frames import RECORDS_BY_DATE, program, written_rows
from tests.tiered_orders import ORDERS, START_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = [
    *("cluster_id", "topic_id", "topic", "partition", "offset", "record_time", "timestamp_ms", "key", "value"),
    "headers",
]


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Exported:
    """A topic on a local disk, to which the DataFrame's session leads."""
    found = Exported(tmp_path)
    monkeypatch.setattr(data_frames, "open_session", lambda *_: nullcontext(found.session()))
    return found


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def as_read(exported: Exported, partition: int, start: int, end: int) -> list[dict[str, Any]]:
    """What the reader says of a range, as rows of the DataFrame, but for the times."""
    of_all = {"cluster_id": "cluster-1", "topic_id": kafka_uuid_str(ORDERS[0].topic_id), "topic": "orders"}
    read = exported.as_read(partition, start, end).to_pylist()
    return [{**of_all, "partition": partition, "timestamp_ms": row.pop("timestamp"), **row} for row in read]


@pytest.mark.spark
def test_a_topic_of_a_lost_cluster_is_read_by_a_catalogue(tmp_path: Path, spark: SparkSession) -> None:
    topic = CataloguedTopic(tmp_path, *(files_of(number, 30 * number) for number in range(3)))
    settings = {
        "storage_uri": topic.storage_uri,
        "layout": "aiven",
        "key_prefix": "kp/",
        "work_uri": str(tmp_path / "work"),
        "allow_catalogue": "orders",
    }
    catalogue = topic.recover()
    frame = remote_log_records(
        spark, ID, settings, catalogue=catalogue, was_not_deleted=[ID], start_time=START_MS + 7_000, piece_bytes=1
    )
    assert [row["offset"] for row in rows_of(frame)] == list(range(7, 90))
    assert {(row["cluster_id"], row["topic_id"]) for row in rows_of(frame)} == {(CLUSTER, ID)}
    assert len(topic.audit()) == 1
    with pytest.raises(CatalogueError, match="may have been deleted: a bucket does not know it"):
        remote_log_records(spark, ID, settings, catalogue=catalogue)
    with pytest.raises(ConfigurationError, match="are about a catalogue"):
        remote_log_records(spark, ID, settings, was_not_deleted=[ID])


@pytest.mark.spark
def test_the_rows_are_what_the_reader_reads(exported: Exported, spark: SparkSession) -> None:
    frame = remote_log_records(spark, "orders", start_time=START_MS + 7_000, end_time=START_MS + 143_000, piece_bytes=1)
    assert frame.columns == COLUMNS
    assert frame.rdd.getNumPartitions() == 2 * 5
    rows = rows_of(frame)
    epoch = datetime.fromtimestamp(0, UTC)
    # Spark gives times without a zone, in that of the machine.
    times = [(row.pop("record_time").astimezone(UTC) - epoch) // timedelta(milliseconds=1) for row in rows]
    assert times == [row["timestamp_ms"] for row in rows]
    assert rows == [*as_read(exported, 0, 7, 143), *as_read(exported, 1, 7, 143)]
    assert frame.where("partition = 1 AND offset >= 140").count() == 3

    of_one = remote_log_records(spark, "orders", partitions=[1], start_offset=29, end_offset=31)
    assert of_one.rdd.getNumPartitions() == 1
    assert [row["offset"] for row in rows_of(of_one)] == [29, 30]
    with pytest.raises(OffsetNotInRemoteLogError, match=r"offset 150 of .*orders-1"):
        remote_log_records(spark, "orders", partitions=[1], start_offset=29, end_offset=151)
    rest = {"partitions": [1], "start_offset": 149, "end_offset": 151, "allow_incomplete": True}
    assert remote_log_records(spark, "orders", **rest).count() == 1
    assert rows_of(remote_log_records(spark, "orders", partitions=[1], start_offset=150)) == []


@pytest.mark.spark
def test_types_are_those_that_tasks_yield(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    assert spark.createDataFrame([], data_frames._ROWS).schema == from_arrow_schema(ROWS)


@pytest.mark.spark
def test_what_has_no_time_has_a_row_and_nulls_stay_nulls(exported: Exported, spark: SparkSession) -> None:
    said = (-1, 2**63 - 1, 0)
    records = [Record(150 + n, ms, None, b"" if n else None, (("a", b"1"), ("a", None))) for n, ms in enumerate(said)]
    exported.world.copy(ORDERS[0], [Batch(tuple(records))])
    rows = rows_of(remote_log_records(spark, "orders", partitions=[0], start_offset=150))
    assert [row["timestamp_ms"] for row in rows] == [*said]
    assert [row["record_time"] is None for row in rows] == [True, True, False]
    assert [(row["key"], row["value"]) for row in rows] == [(None, None), (None, b""), (None, b"")]
    assert [row["headers"] for row in rows] == 3 * [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]]


@pytest.mark.spark
def test_what_cannot_be_read_fails_the_job_and_gives_no_fewer_rows(exported: Exported, spark: SparkSession) -> None:
    frame = remote_log_records(spark, "orders", partitions=[1], piece_bytes=1)
    assert frame.count() == 150
    objects = [path for path in (exported.folder / "storage").rglob("*0000000060*") if "orders-1" in str(path)]
    (log,) = (path for path in objects if path.suffix == ".log")
    whole = log.read_bytes()
    log.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(Exception, match=r"DamagedObjectError: .*00000000000000000060"):
        frame.count()
    # The segment is copied again, and retention takes it between two actions.
    log.write_bytes(whole)
    assert frame.count() == 150
    for path in objects:
        path.unlink()
    with pytest.raises(Exception, match=r"SegmentGoneError: .*offsets 60 to 89"):
        frame.count()
    # Another segment that is copied meanwhile is not half of it.
    exported.world.copy(ORDERS[1], [Batch((Record(150, START_MS, None, b"new"),))])
    with pytest.raises(Exception, match="SegmentGoneError"):
        frame.collect()


HERE = Path(airflow_provider_rlmm.__file__).parents[1]


def run(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Start a program of one's own: the driver has the installed package, without the zip in its place."""
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.pyspark.python={sys.executable}", str(script)),
    ]
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(HERE), "RLMM_WORK_URI": str(folder / "work")}
    return subprocess.run(
        command, cwd=folder, env=os.environ | settings, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.rare
@pytest.mark.timeout(900)
def test_records_of_a_real_topic(tmp_path: Path) -> None:
    with LocalKafka() as kafka:
        topic_id = tiering.create_tiered_topic(kafka, "orders", 2, **{"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})
        day_ms = 86_400_000
        begin_ms = int(datetime.now(UTC).timestamp() * 1000) - 5 * day_ms
        for number in range(6):
            key, headers = (b"", [("a", b"1"), ("a", None)]) if number % 2 else (None, [])
            producer.produce(
                "orders", None, key, number % 2, headers=headers, timestamp=begin_ms + number * day_ms // 2
            )
        assert producer.flush(TIMEOUT_S) == 0
        tiering.produce_until_remote(kafka, "orders", 3)
        script = tmp_path / "records.py"
        places = {
            "broker_9092": kafka.bootstrap_servers,
            "s3___bucket": kafka.remote_dir.as_uri(),
            "data_rlmm_spark_airflow_provider_rlmm_zip": str(build_py_files(tmp_path / "py")),
            "data_orders": str(tmp_path / "orders"),
        }
        text = program(RECORDS_BY_DATE, **places).replace('"aiven"', '"local-tiered-storage"')
        script.write_text(text)
        done = run(script, tmp_path)
        assert done.returncode == 0, done.stdout
        produced = {number: read_records(kafka.bootstrap_servers, "orders", number) for number in range(2)}
    rows = {(row["partition"], row["offset"]): row for row in written_rows(tmp_path / "orders")}
    assert {(row["topic_id"], row["topic"]) for row in rows.values()} == {(kafka_uuid_str(topic_id), "orders")}
    expected = {(partition, record[0]): record for partition, read in produced.items() for record in read}
    assert rows.keys() == expected.keys()
    assert len(rows) == 2 * (3 + 3 * tiering.RECORDS_PER_SEGMENT)
    for place, (_, (_, timestamp_ms), key, value, headers) in expected.items():
        row = rows[place]
        assert (row["timestamp_ms"], row["key"], row["value"]) == (timestamp_ms, key, value)
        assert [(h["key"], h["value"]) for h in row["headers"]] == [*headers]
        time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=timestamp_ms)
        assert (row["record_time"], row["date"]) == (time, str(time.astimezone().date()))
    assert len({row["date"] for row in rows.values()}) >= 3
    assert {row["value"] for row in rows.values() if row["headers"]} == {None}
