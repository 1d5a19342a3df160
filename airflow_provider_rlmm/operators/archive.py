# SPDX-License-Identifier: Apache-2.0
"""Operators that archive: the step of the DAG ``remote_log_cleaner``, a topic by its id; and one that restores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.archiving.restore_rules import Undecided
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.links.artifacts import PlanLink
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.decision import flag_or_as_checked, mode_of
from airflow_provider_rlmm.operators.session import run_identity, session_of
from airflow_provider_rlmm.operators.writing import WritingOperator
from airflow_provider_rlmm.settings import artifact_uri, work_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition
    from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueToRestore

__all__ = ["ArchivePlannedSegmentsOperator", "ArchiveRemoteLogOperator", "RestoreRemoteLogOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArchivePlannedArguments:
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    archive_first: bool = given.read_by(given.flag, True)
    dry_run_only: bool | str | None = given.read_by(flag_or_as_checked, None)


class ArchivePlannedSegmentsOperator(CheckedOperator[_ArchivePlannedArguments]):
    """
    Archive every segment that the run's plan would delete, read it back and compare it, before the cleaning tasks run.

    The archive lies below ``archive_uri`` of the connection: for each user partition its raw segments, its records as
    Parquet, and a manifest with counts and checksums. ``archive.json`` in the folder of the run names it, bound to the plan
    by its checksum; cleaning tasks delete nothing that it does not name. A topic that does not compare is left as a whole,
    and the report of the run is red.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`; its overrides count here.
    :param archive_first: whether anything is archived; the connection's field ``archive_before_deletion`` may ask for it.
    :param dry_run_only: nothing is archived, as nothing is deleted; ``None``: what the plan of the run says; ``"as
        checked"``: what the task ``check`` of the run has decided.
    :return: ``archived`` (whether anything was to be), and, where it was, ``partitions``, ``segments``, ``not_whole``,
        ``as_is``, ``records``, ``bytes``, ``refused_topics`` and the ``archive_uri``.
    :raises ConfigurationError: if the connection names no ``archive_uri``.
    :raises ArchiveError: if the archive cannot be written or read.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises RlmmError: if cluster, log or storage cannot be read.
    """

    template_fields: Sequence[str] = ("rlmm_conn_id", "limits", "archive_first", "dry_run_only")
    arguments = _ArchivePlannedArguments
    operator_extra_links = (PlanLink(),)
    ui_color = "#d5e8d4"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        archive_first: bool | str = True,
        dry_run_only: bool | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.archive_first = archive_first
        self.dry_run_only = dry_run_only
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.archiving.steps import archive_plan, archive_wanted

        read, name = self.read_arguments(), given.artifact_name(context)
        # Also where nothing is archived: Airflow asks for the link of every task, and logs an error where it leads nowhere.
        PlanLink.persist(context, name)
        settings = RemoteLogMetadataHook(read.rlmm_conn_id).get_connection_settings()
        if not archive_wanted(settings, read.archive_first):
            self.log.info("nothing is archived: neither the run nor the connection asks for it")
            return self.told({"archived": False})
        uri = artifact_uri(name)
        summary = read_plan(uri)
        if mode_of(self, context, read.rlmm_conn_id, read.dry_run_only, plan=summary).dry_run:
            self.log.info("a dry run deletes nothing, and archives nothing")
            return self.told({"archived": False})
        with session_of(context, read.rlmm_conn_id, read.limits, dry_run=False) as session:
            archive = archive_plan(session, uri, name, summary)
        return self.told({"archived": True, **archive.counts(), "archive_uri": archive.archive_uri})


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArchiveArguments:
    topic_id: UUID = given.read_by(given.topic_id)
    partitions: tuple[int, ...] | None = given.read_by(given.partitions, None)
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    limits: CleanerLimits = given.read_by(given.cleaner_limits, CleanerLimits())
    catalogue: str | None = given.read_by(given.text_or_none, None)
    was_not_deleted: tuple[str, ...] = given.read_by(given.kafka_ids, ())
    deleted: str | None = given.read_by(given.text_or_none, None)


class ArchiveRemoteLogOperator(CheckedOperator[_ArchiveArguments]):
    """
    Archive all remote segments of a topic id, or of some of its partitions: raw segments, records as Parquet, and a manifest
    with counts and checksums for each user partition. Nothing is deleted, and the topic may live.

    :param topic_id: of the topic, in Kafka's form.
    :param partitions: user partitions, ``None`` or an empty list for all.
    :param rlmm_conn_id: connection of type ``rlmm``; its field ``archive_uri`` names the folder of the archives.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`; ``allowed_quarantine``
        counts here, without a ``catalogue``.
    :param catalogue: folder of a catalogue, in the place of the cluster, which is not asked then. The connection's field
        ``allow_catalogue`` must name the topic. Segments of all lineages are archived; what a person should decide fails the
        task before anything is written.
    :param was_not_deleted: with ``catalogue``: topic ids of which a person knows that they were not deleted.
    :param deleted: with ``catalogue``: file with ids of topics and segments that were erased, one a line; never read.
    :return: the ``archive`` (its name), and for each user partition in ``partitions``: ``partition``, ``segments``,
        ``not_whole``, ``as_is`` (encrypted ones), ``records``, ``records_sha256``, ``bytes``, ``manifest``,
        ``manifest_sha256``.
    :raises ConfigurationError: if the connection names no ``archive_uri``.
    :raises TopicNeverNamedError: if the metadata topic has never named the topic id.
    :raises CatalogueError: if the topic may not be read by the catalogue, or a person should decide by what.
    :raises OffsetNotInRemoteLogError: if some of what the catalogue names cannot be read, or offsets are missing between.
    :raises ArchiveError: if something does not compare, or the archive cannot be written or read.
    :raises RlmmError: if cluster, log or storage cannot be read.
    """

    template_fields: Sequence[str] = (
        "topic_id", "partitions", "rlmm_conn_id", "limits", "catalogue", "was_not_deleted", "deleted",
    )  # fmt: skip
    arguments = _ArchiveArguments
    ui_color = "#d5e8d4"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        topic_id: str,
        partitions: Sequence[int] | str | None = None,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        catalogue: str | None = None,
        was_not_deleted: Sequence[str] | str = (),
        deleted: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic_id = topic_id
        self.partitions = partitions
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.catalogue = catalogue
        self.was_not_deleted = was_not_deleted
        self.deleted = deleted
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        read, name = self.read_arguments(), given.artifact_name(context)
        if read.catalogue is not None:
            archived = self._archive_by_catalogue(read, read.catalogue, name, context)
        elif read.was_not_deleted or read.deleted:
            raise ConfigurationError("was_not_deleted and deleted are about a catalogue: name it, too")
        else:
            archived = self._archive(read, name, context)
        return self.told({"archive": name, "partitions": [found.to_report() for found in archived]})

    def _archive_by_catalogue(
        self, read: _ArchiveArguments, catalogue: str, name: str, context: Context
    ) -> list[ArchivedUserPartition]:
        """Archive what a catalogue has of the topic; no broker is asked."""
        from airflow_provider_rlmm.features.archiving.catalogued_archives import archive_by_catalogue
        from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked, CatalogueReader

        archived, decided = archive_by_catalogue(
            RemoteStorageHook(read.rlmm_conn_id),
            CatalogueAsked(uri=catalogue, was_not_deleted=read.was_not_deleted, deleted=read.deleted),
            CatalogueReader(run=run_identity(context), work_uri=work_uri(), what="ArchiveRemoteLogOperator"),
            read.topic_id,
            name,
            partitions=read.partitions,
        )
        for said in decided:
            self.log.info("%s", said)
        return archived

    def _archive(self, read: _ArchiveArguments, name: str, context: Context) -> list[ArchivedUserPartition]:
        from airflow_provider_rlmm.features.archiving.steps import archive_topic

        with session_of(context, read.rlmm_conn_id, read.limits, dry_run=True, must_know_floors=True) as session:
            return archive_topic(
                session,
                read.topic_id,
                name,
                partitions=read.partitions,
                allowed_quarantine=read.limits.allowed_quarantine,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RestoreArguments:
    topic_id: UUID = given.read_by(given.topic_id)
    topic: str = given.read_by(given.text)
    archived_cluster_id: str | None = given.read_by(given.text_or_none, None)
    overrides: frozenset[str] = given.read_by(given.restore_overrides, frozenset())
    catalogue: str | None = given.read_by(given.text_or_none, None)
    was_not_deleted: tuple[str, ...] = given.read_by(given.kafka_ids, ())
    deleted: str | None = given.read_by(given.text_or_none, None)
    lineages: tuple[str, ...] = given.read_by(given.kafka_ids, ())
    from_beginning: bool = given.read_by(given.flag, False)
    start_time: int | None = given.read_by(given.moment_or_none, None)
    start_offsets: Mapping[int, int] = given.read_by(given.partition_offsets, {})
    end_offsets: Mapping[int, int] = given.read_by(given.partition_offsets, {})
    bytes_per_second: int | None = given.read_by(partial(given.optional_integer, minimum=1), None)
    undecided: Undecided | None = given.read_by(given.undecided, None)
    offset_header: bool = given.read_by(given.flag, False)
    dry_run_only: bool | None = given.read_by(given.flag_or_unsaid, None)
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")


class RestoreRemoteLogOperator(WritingOperator[_RestoreArguments]):
    """
    Write the committed records of an archived topic into an empty one: each into its partition, in its order, with its time,
    key, value and headers; only its offset is another one. What was written is read back and compared.

    Whether the topic can hold them as they were is asked before: enough partitions, ``message.timestamp.type=CreateTime``,
    the limits of timestamps and sizes, a retention that does not delete them at once. The connection must allow writes.

    :param topic_id: of the archived topic, in Kafka's form.
    :param topic: name of the topic that is written to; it exists, and was never written to.
    :param archived_cluster_id: the cluster that the records are of, ``None`` or empty for the one that the catalogue names,
        or of an archive the one of the connection.
    :param overrides: ``incomplete_archive`` restores what there is of an archive that is not whole, ``incomplete_catalogue``
        what there is of a catalogue round holes and round what cannot be read; the task fails after it has written that.
    :param catalogue: folder of a catalogue: the records come from the bucket of a cluster that is gone, which storage and
        prefix of the connection name; its field ``allow_catalogue`` must name the topic. ``None`` or empty takes an
        archive.
    :param was_not_deleted: with ``catalogue``: topic ids of which a person knows that they were not deleted.
    :param deleted: with ``catalogue``: file with ids of topics and segments that were erased, one a line; never read.
    :param lineages: with ``catalogue``: ids of segments; a user partition is read by the lineage that its one keeps.
    :param from_beginning: with ``catalogue``: restore all that the bucket has.
    :param start_time: with ``catalogue``: from the first record on whose timestamp is this or later. A time with its zone, or
        ms since the epoch.
    :param start_offsets: with ``catalogue``: partition → first offset, inclusive; it wins over the other two.
    :param end_offsets: with ``catalogue``: partition → last offset, exclusive; a missing one ends where the bucket does.
    :param bytes_per_second: with ``catalogue``: the most that is fetched in a second; ``None`` for no limit.
    :param undecided: ``abort`` or ``keep``: what becomes of transactions whose end the source does not have. Without it they
        count as aborted, and where there are any the task fails after it has written the rest.
    :param offset_header: say in a header of each record, ``rlmm.source.offset``, which offset it had.
    :param dry_run_only: read and compare the archive, check the topic, write nothing; ``False``: write. One of the two must
        be said.
    :param rlmm_conn_id: connection of type ``rlmm``; its field ``archive_uri`` names the folder of the archives.
    :return: what :class:`~airflow_provider_rlmm.features.archiving.restore_steps.RestoreReport` holds: per partition
        ``count``, ``content_sha256``, ``left_out``, ``gaps`` and ``first_offset``, and the sums ``records`` and
        ``left_out``.
    :raises ArchiveError: if the archive is not as it was written, or lacks anything that its runs have named.
    :raises AirflowFailException: if a source was restored that is not whole, or a transaction without an end was in it, and
        it was not said what becomes of it.
    :raises CatalogueError: if the topic may not be read by the catalogue, or a person should decide by what.
    :raises RestoreError: if the topic cannot hold the records as they were, or does not hold them afterwards.
    :raises WritesNotAllowedError: if the connection does not allow writes.
    :raises StoppedError: if the kill switch is on.
    :raises RlmmError: if the cluster cannot be asked.
    """

    template_fields: Sequence[str] = (
        "topic_id", "topic", "archived_cluster_id", "overrides", "catalogue", "was_not_deleted", "deleted", "lineages",
        "from_beginning", "start_time", "start_offsets", "end_offsets", "bytes_per_second", "undecided", "offset_header",
        "dry_run_only", "rlmm_conn_id",
    )  # fmt: skip
    arguments = _RestoreArguments
    ui_color = "#d5e8d4"
    touched = Touched()

    def __init__(
        self,
        *,
        topic_id: str,
        topic: str,
        archived_cluster_id: str | None = None,
        overrides: Sequence[str] | None = None,
        catalogue: str | None = None,
        was_not_deleted: Sequence[str] | str = (),
        deleted: str | None = None,
        lineages: Sequence[str] | str = (),
        from_beginning: bool | str = False,
        start_time: Any = None,
        start_offsets: Mapping[Any, Any] | None = None,
        end_offsets: Mapping[Any, Any] | None = None,
        bytes_per_second: int | str | None = None,
        undecided: str | None = None,
        offset_header: bool | str = False,
        dry_run_only: bool | str | None = None,
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic_id = topic_id
        self.topic = topic
        self.archived_cluster_id = archived_cluster_id
        self.overrides = overrides
        self.catalogue = catalogue
        self.was_not_deleted = was_not_deleted
        self.deleted = deleted
        self.lineages = lineages
        self.from_beginning = from_beginning
        self.start_time = start_time
        self.start_offsets = start_offsets
        self.end_offsets = end_offsets
        self.bytes_per_second = bytes_per_second
        self.undecided = undecided
        self.offset_header = offset_header
        self.dry_run_only = dry_run_only
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
        from airflow_provider_rlmm.features.archiving.restore_steps import restore

        read = self.read_arguments()
        report = restore(
            RemoteLogMetadataHook(read.rlmm_conn_id),
            kafka_uuid_str(read.topic_id),
            read.topic,
            by=RestoreRun(run_identity(context), work_uri()),
            archived_cluster_id=read.archived_cluster_id,
            catalogue=_catalogue_to_restore(read),
            overrides=read.overrides,
            undecided=read.undecided,
            offset_header=read.offset_header,
            dry_run=self.is_dry(read.dry_run_only),
        )
        for said in (*report.reaches, *report.beginnings, *report.transactions, *report.said):
            self.log.info("%s", said)
        told = self.told(json.loads(json.dumps(report.to_dict())))
        if report.needs_person:
            for said in report.problems:
                self.log.error("%s", said)
            raise AirflowFailException(
                f"{number_of(report.records, 'record')} {'would be' if report.dry_run else 'were'} restored from a "
                f"source that needs a person: {report.problems[0]}"
            )
        return told


def _catalogue_to_restore(read: _RestoreArguments) -> CatalogueToRestore | None:
    """Return what is restored from a bucket, ``None`` where an archive is."""
    from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueToRestore
    from airflow_provider_rlmm.features.archiving.restore_rules import RestoreRange
    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked

    if read.catalogue is None:
        ranges = (read.from_beginning, read.start_offsets, read.end_offsets)
        named = (read.was_not_deleted, read.deleted, read.lineages, *ranges)
        if any(named) or read.start_time is not None or read.bytes_per_second is not None:
            raise ConfigurationError(
                "was_not_deleted, deleted, lineages, a start, an end and bytes_per_second are about a catalogue: name it, too"
            )
        return None
    asked = CatalogueAsked(
        uri=read.catalogue, was_not_deleted=read.was_not_deleted, deleted=read.deleted, lineages=read.lineages
    )
    wanted = RestoreRange(read.from_beginning, read.start_time, read.start_offsets, read.end_offsets)
    return CatalogueToRestore(asked=asked, wanted=wanted, bytes_per_second=read.bytes_per_second)
