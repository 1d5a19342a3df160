# SPDX-License-Identifier: Apache-2.0
"""Operators that read remote log segments without a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.observability.stats import send_remote_log_metrics
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.session import run_identity, session_of
from airflow_provider_rlmm.settings import work_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.reading.steps import PartitionRead, RemoteLogOfTopic

__all__ = ["RemoteLogReadOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadArguments:
    topic: str = given.read_by(given.text)
    output_uri: str = given.read_by(given.folder)
    partitions: tuple[int, ...] | None = given.read_by(given.partitions, None)
    start_offsets: Mapping[int, int] = given.read_by(given.partition_offsets, {})
    end_offsets: Mapping[int, int] = given.read_by(given.partition_offsets, {})
    start_time: int | None = given.read_by(given.moment_or_none, None)
    end_time: int | None = given.read_by(given.moment_or_none, None)
    isolation_level: ReadIsolation = given.read_by(given.isolation, ReadIsolation.READ_UNCOMMITTED)
    allow_incomplete: bool = given.read_by(given.flag, False)
    bytes_per_second: int | None = given.read_by(partial(given.optional_integer, minimum=1), None)
    catalogue: str | None = given.read_by(given.text_or_none, None)
    was_not_deleted: tuple[str, ...] = given.read_by(given.kafka_ids, ())
    deleted: str | None = given.read_by(given.text_or_none, None)
    lineages: tuple[str, ...] = given.read_by(given.kafka_ids, ())
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")

    def range_of(self, partition: int) -> ReadRange:
        """Return what is wanted of a user partition."""
        start, end = self.start_offsets.get(partition), self.end_offsets.get(partition)
        return ReadRange(start, end, self.start_time, self.end_time)


class RemoteLogReadOperator(CheckedOperator[_ReadArguments]):
    """
    Read records of a topic from remote storage into Parquet, one file per user partition, without loading a broker.

    Each file ``partition-<n>.parquet`` has the columns ``offset``, ``timestamp`` (ms since the epoch), ``key``, ``value`` and
    ``headers``. What is not in remote storage cannot be read: a range of which some is missing fails the task before anything
    is written.

    :param topic: its name, or its id in Kafka's text form where several topics have had the name.
    :param output_uri: directory for the files; those of an earlier read are replaced.
    :param partitions: of the topic; ``None`` for all that have ever been copied.
    :param start_offsets: partition → first offset, inclusive; a missing one begins where remote storage does;
        the ``next_offsets`` that an earlier read returned fit here.
    :param end_offsets: partition → last offset, exclusive; a missing one ends where remote storage does.
    :param start_time: instead of ``start_offsets``: from the first record on whose timestamp is this or later. A time with
        its zone, such as ``2026-03-01T22:30:00Z``, or ms since the epoch.
    :param end_time: instead of ``end_offsets``: up to the first record whose timestamp is this or later, exclusive.
    :param isolation_level: as of Kafka's consumers: ``read_uncommitted`` or ``read_committed``.
    :param allow_incomplete: take what there is of a range.
    :param bytes_per_second: the most that is fetched in a second; ``None`` for as much as the store gives.
    :param catalogue: folder of a catalogue, in the place of the cluster, which is not asked then. The connection's field
        ``allow_catalogue`` must name the topic; what a person should decide fails the task before anything is written.
    :param was_not_deleted: with ``catalogue``: topic ids of which a person knows that they were not deleted.
    :param deleted: with ``catalogue``: file with ids of topics and segments that were erased, one a line; never read.
    :param lineages: with ``catalogue``: ids of segments; a user partition is read by the lineage that its one keeps.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: ``uri``, ``records``, ``bytes`` before compression, ``next_offsets``, and ``partitions``: for each of them its
        ``file``, ``records``, ``start_offset`` and ``end_offset``.
    :raises OffsetNotInRemoteLogError: if some of a range is not in remote storage.
    :raises CatalogueError: if the catalogue, or something in it, may not or cannot be read.
    :raises RlmmError: if metadata topic or storage cannot be read, or an object is damaged.
    """

    template_fields: Sequence[str] = (
        "topic",
        "output_uri",
        "partitions",
        "start_offsets",
        "end_offsets",
        "start_time",
        "end_time",
        "isolation_level",
        "allow_incomplete",
        "bytes_per_second",
        "catalogue",
        "was_not_deleted",
        "deleted",
        "lineages",
        "rlmm_conn_id",
    )
    arguments = _ReadArguments
    ui_color = "#cfe2f3"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        topic: str,
        output_uri: str,
        partitions: Sequence[int] | str | None = None,
        start_offsets: Mapping[Any, Any] | None = None,
        end_offsets: Mapping[Any, Any] | None = None,
        start_time: Any = None,
        end_time: Any = None,
        isolation_level: str = ReadIsolation.READ_UNCOMMITTED,
        allow_incomplete: bool | str = False,
        bytes_per_second: int | str | None = None,
        catalogue: str | None = None,
        was_not_deleted: Sequence[str] | str = (),
        deleted: str | None = None,
        lineages: Sequence[str] | str = (),
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.output_uri = output_uri
        self.partitions = partitions
        self.start_offsets = start_offsets
        self.end_offsets = end_offsets
        self.start_time = start_time
        self.end_time = end_time
        self.isolation_level = isolation_level
        self.allow_incomplete = allow_incomplete
        self.bytes_per_second = bytes_per_second
        self.catalogue = catalogue
        self.was_not_deleted = was_not_deleted
        self.deleted = deleted
        self.lineages = lineages
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        read = self.read_arguments()
        ReadRange(start_ms=read.start_time, end_ms=read.end_time)  # refused before anything is opened
        if read.catalogue is not None:
            return self._result(read, self._read_by_catalogue(read, read.catalogue, context))
        if read.was_not_deleted or read.deleted or read.lineages:
            raise ConfigurationError("was_not_deleted, deleted and lineages are about a catalogue: name it, too")
        from airflow_provider_rlmm.features.reading.steps import open_remote_log

        with session_of(context, read.rlmm_conn_id, CleanerLimits(), dry_run=True) as session:
            log = open_remote_log(session, read.topic, read.partitions, bytes_per_second=read.bytes_per_second)
            return self._result(read, self._read(read, log, session.cluster_id))

    def _read_by_catalogue(self, read: _ReadArguments, catalogue: str, context: Context) -> list[PartitionRead]:
        """Read what a catalogue has of the topic; no broker is asked."""
        from airflow_provider_rlmm.features.reading.catalogue_steps import (
            CatalogueAsked,
            CatalogueReader,
            open_catalogued_log,
        )

        log = open_catalogued_log(
            RemoteStorageHook(read.rlmm_conn_id),
            CatalogueAsked(
                uri=catalogue, was_not_deleted=read.was_not_deleted, deleted=read.deleted, lineages=read.lineages
            ),
            CatalogueReader(run=run_identity(context), work_uri=work_uri(), what="RemoteLogReadOperator"),
            read.topic,
            read.partitions,
            wanted=read.range_of,
            isolation=read.isolation_level,
            bytes_per_second=read.bytes_per_second,
        )
        try:
            return self._read(read, log, log.cluster_id)
        finally:
            for said in log.said:
                self.log.info("%s", said)

    def _read(self, read: _ReadArguments, log: RemoteLogOfTopic, cluster_id: str) -> list[PartitionRead]:
        from airflow_provider_rlmm.features.reading.steps import read_into_parquet

        numbers = [tip.partition for tip in log.partitions]
        for name in ("start_offsets", "end_offsets"):
            if strangers := sorted(getattr(read, name).keys() - set(numbers)):
                raise ConfigurationError(f"{name} names partitions {strangers}, which are not read")
        wanted = {number: read.range_of(number) for number in numbers}
        try:
            return read_into_parquet(
                log, read.output_uri, wanted, read.isolation_level, allow_incomplete=read.allow_incomplete
            )
        finally:
            fetched = log.reader.metrics.values().items()
            send_remote_log_metrics(fetched, cluster_id, read.rlmm_conn_id, log.partitions[0].topic)

    def _result(self, read: _ReadArguments, done: list[PartitionRead]) -> dict[str, Any]:
        records = sum(one.written.records for one in done)
        self.log.info("%s of %s read", number_of(records, "record"), number_of(len(done), "user partition"))
        return self.told(
            {
                "uri": read.output_uri,
                "records": records,
                "bytes": sum(one.written.bytes for one in done),
                # An XCom's keys are strings.
                "next_offsets": {str(one.partition): one.range.end for one in done},
                "partitions": {
                    str(one.partition): {
                        "file": one.uri,
                        "records": one.written.records,
                        "start_offset": one.range.start,
                        "end_offset": one.range.end,
                    }
                    for one in done
                },
            }
        )
