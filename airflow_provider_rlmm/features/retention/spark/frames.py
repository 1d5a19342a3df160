# SPDX-License-Identifier: Apache-2.0
"""
DataFrames for people's own Spark jobs: the events of the metadata topic, and the segments that the Spark job has found.

Both are lazy. What they hold is settled when they are made, and it is read anew each time that something is computed
from them: ``cache()`` saves that. Driver and executors need this package's code: give the ``airflow_provider_rlmm.zip``
that ``rlmm spark-files FOLDER`` writes as ``spark-submit --py-files``, or to a session that runs already by
``spark.sparkContext.addPyFile``. The executors' Python has pyspark, pyarrow and numpy, and obstore where the data set lies
in an object store, which the environment or the role of each machine opens.

Ids are in Kafka's text form, 22 letters, as Kafka's tools and this package's command print them: dashboards show them,
and both DataFrames join by them. The Parquet files of this package have the 16 bytes, which
``unbase64(translate(topic_id, '-_', '+/'))`` makes of the text.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.generations.manifest import Generation, NumberedPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.core.records.serde import (
    PARTITION_DELETE_API_KEY,
    SEGMENT_API_KEY,
    SEGMENT_UPDATE_API_KEY,
    SNAPSHOT_API_KEY,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.features.retention.spark.cluster import verify_spark_cluster
from airflow_provider_rlmm.features.retention.spark.columns import (
    EVENT_COLUMNS,
    KINDS,
    SEGMENT,
    SEGMENT_COLUMNS,
    spark_schema,
)
from airflow_provider_rlmm.features.retention.spark.generations import tasks_for
from airflow_provider_rlmm.features.retention.spark.java_client import BOOTSTRAP_SERVERS, require_driver
from airflow_provider_rlmm.features.retention.spark.segments import frame_per_piece
from airflow_provider_rlmm.features.retention.spark.source import MetadataReader, find_range
from airflow_provider_rlmm.features.retention.spark.what_if import choose_generation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["remote_log_events", "remote_log_segments"]

log = logging.getLogger(__name__)

_KINDS = {
    SEGMENT_API_KEY: "RemoteLogSegmentMetadata",
    SEGMENT_UPDATE_API_KEY: "RemoteLogSegmentMetadataUpdate",
    PARTITION_DELETE_API_KEY: "RemotePartitionDeleteMetadata",
    SNAPSHOT_API_KEY: "RemoteLogSegmentMetadataSnapshot",
}
"""Kafka's names of the kinds of record."""

_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: a record may say any number, and Spark ends a job at one that it cannot turn into a time."""


def remote_log_events(
    spark: SparkSession,
    properties: Mapping[str, str],
    *,
    topic: str = "__remote_log_metadata",
    expected_cluster_id: str | None = None,
) -> DataFrame:
    """
    Return a DataFrame with one row for each record of the metadata topic, up to the high watermarks of now.

    Columns: ``metadata_partition``, ``offset``, ``record_time``; ``kind``, Kafka's name of it, such as
    ``RemotePartitionDeleteMetadata``; ``state`` by name; ``topic_id``, ``topic``, ``partition``, ``segment_id``;
    ``start_offset`` and ``end_offset``, inclusive; ``max_timestamp_ms``, ``segment_size_in_bytes``,
    ``segment_leader_epochs``, ``broker_id``, ``broker_leader_epoch``, ``event_timestamp_ms``; ``event_time``, null for a
    number that is no time; ``custom_metadata``, ``txn_idx_empty``; ``error_code``, the name of an
    :class:`~airflow_provider_rlmm.core.records.columnar.ErrorCode`, and ``error``, both null for a good record. What a
    record does not have is null.

    Nothing is folded: a row says what a record says, not what became of it. All addresses must belong to one cluster. A
    record that is gone when it is to be read fails the Spark job (``failOnDataLoss``). What is written meanwhile is not
    in the DataFrame; nor is what the log had lost before, of which a line in the driver's log tells. Later
    actions know the topic by its name alone: they do not tell one that was deleted and made anew from it.

    :param spark: the session; its classpath holds Spark's Kafka connector.
    :param properties: Kafka client properties, by the names of Kafka's client, with ``bootstrap.servers``.
    :param topic: the metadata topic.
    :param expected_cluster_id: id of the cluster that must answer; any one will do without it.
    :raises ClusterMismatchError: if an address belongs to another cluster.
    :raises MetadataTopicNotFoundError: if the topic does not exist; it is never created.
    :raises EventLogUnavailableError: if the brokers do not answer in time.
    :raises EventLogAccessError: if authentication fails or an ACL forbids it.
    :raises ConfigurationError: for a session of Spark Connect or without the connector, and for properties that lack
        ``bootstrap.servers``, are not valid or would split a metadata partition.
    """
    require_driver(spark)
    if not properties.get(BOOTSTRAP_SERVERS, "").strip(", "):
        raise ConfigurationError(
            f"the Kafka properties have no {BOOTSTRAP_SERVERS}; they go by the names of Kafka's client, without 'kafka.'"
        )
    cluster = verify_spark_cluster(spark, properties, topic, expected_cluster_id)
    topic_range = find_range(spark, cluster, topic)
    for lost in topic_range.lost_beginnings():
        log.warning("%s: %s", lost.what, lost.why)
    return _events_of(MetadataReader(spark, cluster, topic_range))


def _events_of(reader: MetadataReader) -> DataFrame:
    from pyspark.sql import functions as sf

    from airflow_provider_rlmm.features.retention.spark.executor.versions import software

    driver, topic_range = software(), reader.topic_range
    num_partitions = topic_range.num_partitions

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import event_rows
        from airflow_provider_rlmm.features.retention.spark.executor.versions import require_one_pyspark

        require_one_pyspark(driver)
        yield from event_rows(batches, num_partitions)

    read = {number: begin for number, begin in topic_range.begin.items() if topic_range.end[number] > begin}
    records = reader.read(topic_range.begin).coalesce(tasks_for(reader, read))
    timed = records.withColumn("timestamp_ms", sf.unix_millis("timestamp"))
    columns = timed.select("metadata_partition", "offset", "timestamp_ms", "key", "value")
    return _readable(columns.mapInArrow(work, spark_schema(EVENT_COLUMNS)))


def _readable(rows: DataFrame) -> DataFrame:
    """Return rows of EVENT_COLUMNS with names for numbers, times, and ids as text."""
    from pyspark.sql import functions as sf

    is_of_a_partition = sf.col("api_key") == PARTITION_DELETE_API_KEY
    of_a_partition, of_a_segment = _named("state", RemotePartitionDeleteState), _named("state", RemoteLogSegmentState)
    # The code of a good record has no name here: it is no error.
    errors = {int(code): code.name for code in ErrorCode if code is not ErrorCode.GOOD}
    return rows.select(
        "metadata_partition",
        "offset",
        time_of("timestamp_ms").alias("record_time"),
        _among("api_key", _KINDS).alias("kind"),
        sf.when(is_of_a_partition, of_a_partition).otherwise(of_a_segment).alias("state"),
        _text_of_id("topic_id"),
        "topic",
        "partition",
        _text_of_id("segment_id"),
        "start_offset",
        "end_offset",
        "max_timestamp_ms",
        "segment_size_in_bytes",
        "segment_leader_epochs",
        "broker_id",
        "broker_leader_epoch",
        "event_timestamp_ms",
        time_of("event_timestamp_ms").alias("event_time"),
        "custom_metadata",
        "txn_idx_empty",
        _among("error_code", errors).alias("error_code"),
        "error",
    )


def remote_log_segments(
    spark: SparkSession, data_set: str, generation: int | None = None, *, kinds: Collection[str] = (SEGMENT,)
) -> DataFrame:
    """
    Return a DataFrame of the segments that are not finished, as a generation of the Spark job has them.

    Kafka is not asked. Columns: ``generation``, ``cluster_id`` and ``generation_time``, which say of what and of when all
    of it is; ``kind``; ``metadata_partition``, ``topic_id``, ``topic``, ``partition``, ``segment_id``, ``state`` by name,
    ``start_offset`` and ``end_offset``, inclusive, ``max_timestamp_ms``, ``event_timestamp_ms``,
    ``segment_size_in_bytes``, ``segment_leader_epochs``; ``added_offset`` and ``event_offset``, of the records that added
    and last changed it; ``listed``, ``may_be_orphaned``, ``reason`` and ``exact``, the job's judgement at that time, which
    allows no deletion; ``error``.

    The files are those that the generation's manifest names, no others in its folder. Each is compared with the size and
    the SHA-256 that stand there when it is read: over another file the Spark job fails with ``SnapshotRefusedError``. It
    fails so, too, once the generation is gone: ``segment_retention.py`` keeps the newest two.

    :param spark: the session.
    :param data_set: URI or path of the folder that ``segment_retention.py`` has as ``--data-set``; driver and executors
        reach it by that name.
    :param generation: its number, the newest without it.
    :param kinds: the kinds of rows: ``segment``; ``unresolved``, a segment whose state is not certain, with its ids and
        ``event_offset`` alone; ``quarantined``, a record that cannot be applied, at ``event_offset``, with ``error``. A
        segment may have a row as ``segment`` and one as ``unresolved``, so a count takes one kind at a time.
    :raises PlanError: if there is no such generation.
    :raises SnapshotRefusedError: if its manifest cannot be read.
    :raises ConfigurationError: for a session of Spark Connect, a folder that is not understood, or an unknown kind.
    """
    from pyspark.sql import functions as sf

    require_driver(spark)
    if isinstance(kinds, str) or not kinds or not {*kinds} <= {*KINDS}:
        raise ConfigurationError(f"kinds is {kinds!r}: give some of {list(KINDS)}")
    store, wanted = GenerationStore(data_set), tuple(kinds)
    manifest = choose_generation(store, generation)
    rows = _rows_of(spark, store.root, manifest, wanted)
    made = {"state": _named("state", RemoteLogSegmentState).alias("state")}
    made |= {name: _text_of_id(name) for name in ("topic_id", "segment_id")}
    return rows.select(
        sf.lit(manifest.number).cast("long").alias("generation"),
        sf.lit(manifest.cluster_id).alias("cluster_id"),
        sf.timestamp_millis(sf.lit(manifest.created_at_ms)).alias("generation_time"),
        *(made.get(name, sf.col(name)) for name, _ in SEGMENT_COLUMNS),
    )


def _rows_of(spark: SparkSession, folder: str, manifest: Generation, kinds: Collection[str]) -> DataFrame:
    num_partitions = len(manifest.parts)

    def task(numbered: NumberedPart) -> Iterable[pa.RecordBatch]:
        from airflow_provider_rlmm.features.retention.spark.executor.frame_rows import segment_rows

        return segment_rows(folder, numbered, num_partitions, kinds)

    return frame_per_piece(spark, manifest.known, task, SEGMENT_COLUMNS)


def _named(column: str, names: type[IntEnum]) -> Column:
    """Return the names of the numbers in a column."""
    return _among(column, {int(member): member.name for member in names})


def _among(column: str, names: Mapping[int, str]) -> Column:
    """Return the names of the numbers in a column; null where it has none of them."""
    from pyspark.sql import functions as sf

    return sf.coalesce(*(sf.when(sf.col(column) == number, sf.lit(name)) for number, name in names.items()))


def time_of(column: str) -> Column:
    """
    Return the times of numbers of milliseconds since the epoch; null where that is no time.

    :param column: name of the numbers' column.
    """
    from pyspark.sql import functions as sf

    number = sf.col(column)
    return sf.when(number.between(_EARLIEST_MS, _LATEST_MS), sf.timestamp_millis(number))


def _text_of_id(column: str) -> Column:
    """Return ids of 16 bytes in Kafka's text form, under the column's name."""
    from pyspark.sql import functions as sf

    # What has no counterpart is left out: the padding.
    return sf.translate(sf.base64(sf.col(column)), "+/=", "-_").alias(column)
