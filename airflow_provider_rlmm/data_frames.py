# SPDX-License-Identifier: Apache-2.0
"""
A DataFrame for people's own Spark jobs of the records that remote storage has of a topic.

The driver is told where cluster and storage are as the command ``rlmm`` is, and needs what the command needs. The executors
read segments and nothing else: they open the storage with what their environment or the role of their machine gives.

The package is installed where the driver runs. Executors get its code by ``spark.sparkContext.addPyFile`` from the
``airflow_provider_rlmm.zip`` that ``rlmm spark-files FOLDER`` writes; as ``--py-files`` that zip would come before the
installed package in the driver, too, and it does not hold what only a driver needs. The executors' Python has pyspark,
numpy, pyarrow, obstore and google-crc32c.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.cli.catalogues import open_catalogue
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output, working
from airflow_provider_rlmm.cli.runs import begin_without_cluster, open_session
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.values import moment_ms, refused
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.features.reading.cutting import (
    PIECE_BYTES,
    TopicInPieces,
    cut_catalogued_into_pieces,
    cut_into_pieces,
)
from airflow_provider_rlmm.features.retention.spark.frames import time_of
from airflow_provider_rlmm.features.retention.spark.java_client import require_driver

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked

__all__ = ["remote_log_records"]

_PACKAGE: Final = __name__.partition(".")[0]

_ROWS: Final = (
    "partition int, offset long, timestamp_ms long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""What tasks yield, as Spark has it."""


def remote_log_records(
    spark: SparkSession,
    topic: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    store_options: Mapping[str, str] = MappingProxyType({}),
    partitions: Collection[int] | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    start_time: datetime | str | int | None = None,
    end_time: datetime | str | int | None = None,
    isolation_level: str = ReadIsolation.READ_UNCOMMITTED,
    allow_incomplete: bool = False,
    bytes_per_second: int | None = None,
    piece_bytes: int = PIECE_BYTES,
    catalogue: str | None = None,
    was_not_deleted: Collection[str] = (),
    deleted: str | None = None,
    lineages: Collection[str] = (),
) -> DataFrame:
    """
    Return a DataFrame with one row for each record that remote storage has of a topic, as of now.

    Columns: ``cluster_id``, ``topic_id`` in Kafka's text form and ``topic``, which say of what all of it is; ``partition``,
    ``offset``; ``record_time``, null for a number that is no time, and ``timestamp_ms``, what the record says, ms since the
    epoch; ``key`` and ``value``, bytes, each may be null; ``headers``, an array of ``key``, text, and ``value``, bytes or
    null. Control records have no row, and rows have no order.

    The metadata topic is read when the DataFrame is made: it says which segments there are. Each action then reads them
    anew, a task for each piece of about one segment. A segment that has gone by then, cannot be read or is damaged fails the
    Spark job with an error that names it; no action gives fewer rows. Filters reach no storage: to read less, say so by
    partitions, offsets or times.

    :param spark: the session; the executors have this package's code.
    :param topic: its name, or its id where several topics had the name.
    :param settings: name → value as in the command's configuration file: ``bootstrap_server``, ``command_config``,
        ``storage_uri``, ``layout``, ``expected_cluster_id``, ``work_uri`` and so on. What is not given comes from
        ``RLMM_BOOTSTRAP_SERVER`` and so on in the driver's environment, then from that file, which ``config`` may name.
    :param store_options: options of the object store. One that may hold a secret is refused: it would be sent to executors.
    :param partitions: of the topic; all that the metadata topic names without it.
    :param start_offset: first offset, inclusive, of the one partition that is named.
    :param end_offset: last offset, exclusive, of the one partition that is named.
    :param start_time: instead of an offset: from the first record on whose timestamp is this or later. A time with its zone,
        as ISO 8601 or a ``datetime``, or ms since the epoch.
    :param end_time: up to the first record whose timestamp is this or later, exclusive.
    :param isolation_level: as of Kafka's consumers: ``read_uncommitted`` or ``read_committed``.
    :param allow_incomplete: take what remote storage has of the range; a segment whose history is incomplete is refused all
        the same.
    :param bytes_per_second: the most that each task fetches in a second.
    :param piece_bytes: about how many bytes of segments a task reads.
    :param catalogue: folder of a catalogue, in the place of the cluster, which is not asked then. The setting
        ``allow_catalogue`` must name the topic; what a person should decide is refused.
    :param was_not_deleted: with ``catalogue``: topic ids of which a person knows that they were not deleted.
    :param deleted: with ``catalogue``: file with ids of topics and segments that were erased, one a line; never read.
    :param lineages: with ``catalogue``: ids of segments; a user partition is read by the lineage that its one keeps.
    :raises ConfigurationError: for a session of Spark Connect, executors that lack something, and settings that are missing
        or not understood.
    :raises OffsetNotInRemoteLogError: if some of the range is not in remote storage.
    :raises TopicInDoubtError: if it cannot be told which segments there are: the metadata topic has lost records or is
        compacted, or has some about this topic that cannot be applied.
    :raises RemoteLogError: if the metadata topic names no such topic, or several by that name.
    :raises ClusterMismatchError: if an address belongs to another cluster than the others, or than the expected one.
    :raises EventLogError: if the metadata topic cannot be read.
    :raises StorageError: if the storage refuses the driver, or does not answer it in time.
    """
    require_driver(spark)
    times = (None if t is None else moment_ms(n, t) for n, t in (("start_time", start_time), ("end_time", end_time)))
    wanted = ReadRange(start_offset, end_offset, *times)
    if (start_offset, end_offset) != (None, None) and (partitions is None or len({*partitions}) != 1):
        raise ConfigurationError("an offset is one of a partition: name one in partitions, or give times")
    if partitions is not None and not partitions:
        raise ConfigurationError("partitions names none: name some, or leave it out for all")
    if isolation_level not in list(ReadIsolation):
        raise refused("isolation_level", isolation_level, " or ".join(ReadIsolation))
    for name, number in (("bytes_per_second", bytes_per_second), ("piece_bytes", piece_bytes)):
        if number is not None and number <= 0:
            raise refused(name, number, "a number above 0")
    if catalogue is None and (was_not_deleted or deleted or lineages):
        raise ConfigurationError("was_not_deleted, deleted and lineages are about a catalogue: name it, too")
    require_executors(spark)
    asked = None
    if catalogue is not None:
        from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked

        asked = CatalogueAsked(uri=catalogue, was_not_deleted=was_not_deleted, deleted=deleted, lineages=lineages)
    invocation = Invocation(settings, store_options, Output(as_json=True))
    how = Cutting(wanted, ReadIsolation(isolation_level), allow_incomplete, piece_bytes, bytes_per_second)
    source = cut_topic(invocation, "data-frame", topic, None if partitions is None else (*partitions,), how, asked)
    return frame_of(spark, source)


@dataclass(frozen=True, slots=True)
class Cutting:
    """What is read of each partition, and how; see :func:`remote_log_records`."""

    wanted: ReadRange
    isolation: ReadIsolation
    allow_incomplete: bool
    piece_bytes: int
    bytes_per_second: int | None


def cut_topic(
    invocation: Invocation,
    what: str,
    topic: str,
    partitions: tuple[int, ...] | None,
    how: Cutting,
    catalogue: CatalogueAsked | None,
) -> TopicInPieces:
    """
    Cut what is wanted of a topic into pieces.

    :param invocation: where cluster and storage are.
    :param what: is done with them, for the audit log of reads from a catalogue.
    :param topic: its name or its id.
    :param partitions: of the topic, ``None`` for all.
    :param how: what is read of each.
    :param catalogue: in the place of the cluster; what a person should decide is refused.
    """
    if catalogue is None:
        with working() as shown, open_session(invocation, CleanerLimits(), shown) as session:
            return cut_into_pieces(
                session,
                topic,
                partitions=partitions,
                wanted=how.wanted,
                isolation=how.isolation,
                allow_incomplete=how.allow_incomplete,
                piece_bytes=how.piece_bytes,
                bytes_per_second=how.bytes_per_second,
            )
    log = open_catalogue(
        invocation,
        replace(catalogue, or_doubtful=False),
        begin_without_cluster(invocation, what),
        topic,
        partitions,
        wanted=how.wanted,
        isolation=how.isolation,
    )
    return cut_catalogued_into_pieces(
        invocation.storage_access(),
        log,
        wanted=how.wanted,
        isolation=how.isolation,
        allow_incomplete=how.allow_incomplete,
        piece_bytes=how.piece_bytes,
        bytes_per_second=how.bytes_per_second,
    )


def require_executors(spark: SparkSession) -> None:
    """
    Refuse executors on which no piece could be read, before anything is.

    :param spark: the session; this package's code was given to it.
    :raises ConfigurationError: naming what their Python lacks.
    """

    def missing(_: int) -> str:
        try:
            from airflow_provider_rlmm.features.reading import exporting  # noqa: F401  # its import is what it is for
        except ImportError as e:
            return str(e.name)
        return ""

    slots = spark.sparkContext.defaultParallelism
    answers = sorted(set(spark.sparkContext.parallelize(range(slots), slots).map(missing).collect()) - {""})
    if any(name.partition(".")[0] == _PACKAGE for name in answers):
        raise ConfigurationError(
            "the executors lack this package's code, or have another version's: give the airflow_provider_rlmm.zip that "
            "'rlmm spark-files FOLDER' writes to the session by spark.sparkContext.addPyFile"
        )
    if answers:
        raise ConfigurationError(
            f"the executors' Python lacks {', '.join(answers)}: install there what this package reads segments with, "
            "numpy, pyarrow, obstore and google-crc32c, in the driver's versions"
        )


def frame_of(spark: SparkSession, source: TopicInPieces) -> DataFrame:
    """
    Return the records of a topic that was cut into pieces, a Spark task for each; they are read when they are asked for.

    :param spark: the session.
    :param source: the topic.
    """
    from pyspark.sql import functions as sf

    from airflow_provider_rlmm.features.retention.spark.executor.versions import software

    driver = software()
    # An executor unpickles it once, however many tasks it runs.
    shared = spark.sparkContext.broadcast((source.reader, source.pieces))

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from airflow_provider_rlmm.features.retention.spark.executor.versions import require_one_pyspark

        require_one_pyspark(driver)
        reader, pieces = shared.value
        for batch in batches:
            for index in batch["id"].to_pylist():
                yield from reader.rows(pieces[index])

    tasks = max(1, len(source.pieces))
    rows = spark.range(0, len(source.pieces), 1, tasks).mapInArrow(work, _ROWS)
    # Kafka says -1 where a record has no timestamp.
    has_time = sf.col("timestamp_ms") >= 0
    return rows.select(
        sf.lit(source.cluster_id).alias("cluster_id"),
        sf.lit(source.topic_id).alias("topic_id"),
        sf.lit(source.topic).alias("topic"),
        "partition",
        "offset",
        sf.when(has_time, time_of("timestamp_ms")).alias("record_time"),
        "timestamp_ms",
        "key",
        "value",
        "headers",
    )
