# SPDX-License-Identifier: Apache-2.0
"""
From the records of ``__remote_log_metadata`` to the current state of each segment, as DataFrames.

The JVM–Python boundary is the expensive part of such a job, so the values cross it once, to be decoded, and come back as
few narrow columns. What follows is Spark's own aggregation: one group per segment, its events folded in offset order by
the transitions of Kafka's ``RemoteLogMetadataCache``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

EVENT_SCHEMA = (
    "metadata_partition int, offset long, state byte, topic_id binary, topic string, partition int, segment_id binary, "
    "start_offset long, end_offset long, max_timestamp_ms long, event_timestamp_ms long, segment_size_in_bytes long"
)
"""
Spark schema of the decoded events, one row per record about a segment.

``state`` 0 is the record that adds a segment and the only one with offsets, largest timestamp and size; 1 to 3 are
updates. Where ``state`` is null the record cannot be applied and all but its metadata partition and offset is null.
"""

SEGMENT = "segment"
UNRESOLVED = "unresolved"
QUARANTINED = "quarantined"

_SEGMENT_KEY = ("metadata_partition", "topic_id", "topic", "partition", "segment_id")
_ADDED_FIELDS = ("start_offset", "end_offset", "max_timestamp_ms", "segment_size_in_bytes")
_COPY_STARTED, _COPY_FINISHED, _DELETE_STARTED, _DELETE_FINISHED = range(4)


def decode_metadata(records: DataFrame, num_partitions: int) -> DataFrame:
    """
    Decode the values; returns a DataFrame of :data:`EVENT_SCHEMA`.

    Records about a whole partition (``DELETE_PARTITION_*``) are left out: they change no segment's state, and as long as
    a segment is not finished its objects may exist, whatever such a record says.

    :param records: ``metadata_partition`` int, ``offset`` long, ``key`` and ``value`` binary.
    :param num_partitions: how many metadata partitions the topic has; a record where Kafka's partitioner would not have
        put it cannot be applied.
    """
    return records.select("metadata_partition", "offset", "key", "value").mapInArrow(
        _decoder(num_partitions), EVENT_SCHEMA
    )


def _decoder(num_partitions: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from airflow_provider_rlmm.spark.events import segment_events

        for batch in batches:
            yield segment_events(batch, num_partitions)

    return decode_batches


def resolve(events: DataFrame) -> DataFrame:
    """
    Fold the events of each segment; returns what is left to tell, as one DataFrame that is read from the topic once.

    ``kind`` is one of

    * ``segment``: a segment that is not finished, with its state and all columns;
    * ``unresolved``: a segment with updates but without the record that adds it, and not finished by the last of them:
      its history is incomplete, only its ids are known;
    * ``quarantined``: one row per metadata partition with records that cannot be applied, ``events`` of them.

    :param events: what :func:`decode_metadata` returned.
    """
    from pyspark.sql import functions as sf

    # The struct of a record that cannot be applied is null, which collect_list leaves out.
    event = sf.when(sf.col("state").isNotNull(), sf.struct("offset", "state", "event_timestamp_ms", *_ADDED_FIELDS))
    folded = (
        events.groupBy(*_SEGMENT_KEY)
        .agg(
            # Structs sort by their first field, the offset, which is unique within a metadata partition.
            sf.sort_array(sf.collect_list(event)).alias("history"),
            sf.min("state").alias("first_step"),
            sf.count(sf.lit(1)).alias("events"),
        )
        .withColumn("segment", sf.aggregate("history", _no_segment(), _apply))
    )
    incomplete = (sf.col("first_step") > _COPY_STARTED) & (sf.element_at("history", -1)["state"] != _DELETE_FINISHED)
    kind = (
        sf.when(sf.col("segment.state").isNotNull(), SEGMENT)
        .when(sf.col("first_step").isNull(), QUARANTINED)
        .when(incomplete, UNRESOLVED)
    )
    return folded.select(kind.alias("kind"), *_SEGMENT_KEY, "events", "segment.*").where("kind IS NOT NULL")


def segment_states(resolved: DataFrame) -> DataFrame:
    """
    Return the segments that are not finished, with their current state.

    :param resolved: what :func:`resolve` returned.
    """
    from pyspark.sql import functions as sf

    return resolved.where(sf.col("kind") == SEGMENT).drop("kind", "events")


def _no_segment() -> Column:
    from pyspark.sql import functions as sf

    absent = sf.lit(None)
    return sf.struct(
        absent.cast("byte").alias("state"),
        absent.cast("long").alias("event_timestamp_ms"),
        *(absent.cast("long").alias(name) for name in _ADDED_FIELDS),
    )


def _apply(current: Column, event: Column) -> Column:
    """
    Return the segment after one event (Kafka: ``RemoteLogMetadataCache``); an event that does not follow is dropped.

    A segment that is finished is forgotten, so it can be added anew; adding it twice replaces it.

    :param current: the segment, its state null where it is not known.
    :param event: the next event of the segment.
    """
    from pyspark.sql import functions as sf

    state, target = current["state"], event["state"]
    added = sf.struct(
        target.alias("state"),
        event["event_timestamp_ms"].alias("event_timestamp_ms"),
        *(event[name].alias(name) for name in _ADDED_FIELDS),
    )
    updated = sf.struct(
        target.alias("state"),
        event["event_timestamp_ms"].alias("event_timestamp_ms"),
        *(current[name].alias(name) for name in _ADDED_FIELDS),
    )
    can_be_added = (target == _COPY_STARTED) & (state.isNull() | (state == _COPY_STARTED))
    can_go_on = ((target == _COPY_FINISHED) | (target == _DELETE_STARTED)) & (state <= target)
    can_be_finished = (target == _DELETE_FINISHED) & (state == _DELETE_STARTED)
    return sf.when(can_be_added, added).when(can_go_on, updated).when(can_be_finished, _no_segment()).otherwise(current)
