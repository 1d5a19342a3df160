# SPDX-License-Identifier: Apache-2.0
"""The archive of a run: made from its plan, kept as ``archive.json`` in its folder, asked for before anything is deleted."""

from __future__ import annotations

import logging
from collections.abc import Collection
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ArchiveError, PlanError, TopicNeverNamedError
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import ARCHIVE_DOCUMENT, ArchivedUserPartition, PlanArchive
from airflow_provider_rlmm.core.plans.plan_files import planned_segments, read_document, write_document
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.connection_fields import AS_IS
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.features.archiving.archive_guard import NO_ARCHIVE, ArchivedPlan, ArchiveGuard

logger = logging.getLogger(__name__)


def archive_wanted(settings: RemoteLogSettings, archive_first: bool) -> bool:
    """
    Tell whether a run must archive what it deletes.

    :param settings: those of the connection may ask for it even if the run does not.
    :param archive_first: what the run is told.
    """
    return archive_first or settings.archive_before_deletion


def archive_plan(session: CleanerSession, uri: str, name: str, summary: PlanSummary) -> PlanArchive:
    """
    Archive what a plan would delete, read it back and compare it.

    :param session: of the run.
    :param uri: of the folder of the run.
    :param name: of the run.
    :param summary: of its plan.
    :raises StoppedError: if the kill switch is on.
    :raises PlanError: if the plan is not as it was written, has expired or was made for another cluster.
    :raises BlastRadiusError: if the plan is larger than the limit that it was judged by.
    :raises ConfigurationError: if no folder for archives is named.
    :raises ArchiveError: if the archive cannot be written or read.
    :raises RlmmError: if cluster, log or storage cannot be read.
    """
    from airflow_provider_rlmm.features.archiving.archive_documents import named_by_log
    from airflow_provider_rlmm.features.archiving.archiver import PlanArchiver

    session.require_running(dry_run=False)
    summary.check_valid(session.cluster_id, session.clock())
    summary.check_blast_radius()
    settings = session.access.get_connection_settings()
    root = settings.required_archive_uri()
    planned = {number: planned_segments(uri, summary, number) for number in summary.by_metadata_partition}
    storage = session.storage.get_storage_manager()
    with step(uri, "archive"):
        with session.topic() as topic:
            topic.advance()
            named = named_by_log(topic, {topic_id for segments in planned.values() for topic_id, _ in segments})
        archiver = PlanArchiver(
            session.log, storage, root, named, clock=session.clock, should_stop=session.should_stop,
            encrypted_as_is=settings.archive_encrypted == AS_IS,
        )  # fmt: skip
        archive = archiver.archive(name, summary, planned)
    write_document(uri, ARCHIVE_DOCUMENT, archive.to_json())
    return archive


def archive_topic(
    session: CleanerSession,
    topic_id: UUID,
    name: str,
    *,
    partitions: Collection[int] | None = None,
    allowed_quarantine: frozenset[str] = frozenset(),
) -> list[ArchivedUserPartition]:
    """
    Archive all remote segments of a topic id, whether the topic lives or not; nothing is deleted.

    :param session: of the run.
    :param topic_id: the topic.
    :param name: of the archive.
    :param partitions: only these user partitions, ``None`` for all.
    :param allowed_quarantine: kinds of unusable records that raise no doubt.
    :return: what was archived, by partition.
    :raises ConfigurationError: if no folder for archives is named.
    :raises TopicNeverNamedError: if the log has never named the topic id, or one of the partitions.
    :raises ArchiveError: if something does not compare, or the log may not name all segments.
    :raises RlmmError: if cluster, log or storage cannot be read.
    """
    from airflow_provider_rlmm.features.archiving.archive_documents import named_by_log
    from airflow_provider_rlmm.features.archiving.archiver import archive_user_partitions

    settings = session.access.get_connection_settings()
    root = settings.required_archive_uri()
    with session.topic() as topic:
        topic.advance()
        named = [tip for tip in topic.partitions() if tip.topic_id == topic_id]
        segments = named_by_log(topic, {topic_id})[topic_id]
    wanted = [tip for tip in named if partitions is None or tip.partition in partitions]
    missing = sorted(set(partitions or ()) - {tip.partition for tip in wanted})
    if not wanted or missing:
        what = f"partitions {missing} of topic id" if missing and named else "topic id"
        raise TopicNeverNamedError(
            f"the metadata topic has never named {what} {kafka_uuid_str(topic_id)}: check the id"
        )
    storage = session.storage.get_storage_manager()
    return archive_user_partitions(
        session.log, storage, root, wanted, segments, cluster_id=session.cluster_id, name=name, clock=session.clock,
        allowed_quarantine=allowed_quarantine, encrypted_as_is=settings.archive_encrypted == AS_IS,
    )  # fmt: skip


def read_archive(uri: str) -> PlanArchive | None:
    """
    Return what a run has archived, ``None`` where it has archived nothing.

    :param uri: of the folder of the run.
    :raises ArchiveError: if the document is there and cannot be read.
    """
    try:
        return PlanArchive.from_json(read_document(uri, ARCHIVE_DOCUMENT))
    except PlanError as e:
        if isinstance(e.__cause__, FileNotFoundError):
            return None
        raise ArchiveError(str(e)) from e


def guard_of(uri: str, summary: PlanSummary, metadata_partition: int, *, wanted: bool) -> ArchiveGuard:
    """
    Return what stands between a plan and the deletion of what is not archived.

    :param uri: of the folder of the run.
    :param summary: of its plan.
    :param metadata_partition: which part of it is to be cleaned.
    :param wanted: whether it must be archived.
    :raises ArchiveError: if it must be, and no archive of exactly this plan is there.
    """
    if not wanted:
        return NO_ARCHIVE
    archive = read_archive(uri)
    if archive is None:
        raise ArchiveError(
            f"plan {summary.plan_id} is to be archived before anything of it is deleted, and the run has no "
            f"{ARCHIVE_DOCUMENT}: a task that was skipped or marked as successful has archived nothing; clear the task "
            "archive to try again"
        )
    return ArchivedPlan(archive, summary, metadata_partition)
