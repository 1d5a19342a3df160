# SPDX-License-Identifier: Apache-2.0
"""Operators that wrap the consumer and the producer of ``__remote_log_metadata``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import LostRecordsError
from airflow_provider_rlmm.core.log.write_guard import WritableEvent
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.storage.root import UNKNOWN_ROOT
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators.arguments import cleaner_limits, events, folder, offsets, read_by, text
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.settings import work_uri

__all__ = ["PublishRemoteLogMetadataOperator", "ReadRemoteLogMetadataOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadArguments:
    output_uri: str = read_by(folder)
    start_offsets: Mapping[int, int] = read_by(offsets, {})
    end_offsets: Mapping[int, int] = read_by(offsets, {})
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class ReadRemoteLogMetadataOperator(CheckedOperator[_ReadArguments]):
    """
    Read a range of the metadata topic into Parquet, decoded, one file per metadata partition.

    :param output_uri: directory for the files.
    :param start_offsets: metadata partition → first offset, inclusive; missing ones begin at the beginning. The
        ``next_offsets`` that an earlier run returned fit here.
    :param end_offsets: metadata partition → last offset, exclusive; missing ones end at the high watermark of now.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: ``uri``, ``rows``, ``quarantined`` and ``next_offsets``.
    :raises LostRecordsError: once the files are written, if the topic does not hold what earlier runs of the work folder have
        read of it, and that is not confirmed.
    :raises LogBehindError: if the topic ends below what was read of it, and is growing.
    :raises EventLogError: if the topic cannot be read.
    """

    template_fields: Sequence[str] = ("output_uri", "start_offsets", "end_offsets", "rlmm_conn_id")
    arguments = _ReadArguments
    ui_color = "#dcd3ee"

    def __init__(
        self,
        *,
        output_uri: str,
        start_offsets: Mapping[Any, Any] | None = None,
        end_offsets: Mapping[Any, Any] | None = None,
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_uri = output_uri
        self.start_offsets = start_offsets
        self.end_offsets = end_offsets
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.core.runs.floors import reading
        from airflow_provider_rlmm.features.reading.metadata_reader import read_to_parquet

        read = self.read_arguments()
        uri, starts, ends = read.output_uri, read.start_offsets, read.end_offsets
        with reading(RemoteLogMetadataHook(read.rlmm_conn_id), work_uri()) as log:
            report = read_to_parquet(log, uri, start_offsets=starts, end_offsets=ends)
        self.log.info("%s read, %d of them quarantined", number_of(report.rows, "record"), report.quarantined)
        if lost := [f"{loss.why}. What to do: {loss.what_to_do}" for loss in log.losses.values() if loss.is_open]:
            said = "; ".join(dict.fromkeys(lost))
            raise LostRecordsError(
                f"{number_of(report.rows, 'record is', 'records are')} in {uri}, and more were there once: {said}"
            )
        # An XCom's keys are strings.
        next_offsets = {str(k): v for k, v in report.next_offsets.items()}
        return self.told(
            {"uri": uri, "rows": report.rows, "quarantined": report.quarantined, "next_offsets": next_offsets}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PublishArguments:
    limits: CleanerLimits = read_by(cleaner_limits, CleanerLimits())
    events: Sequence[WritableEvent] = read_by(events)
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class PublishRemoteLogMetadataOperator(CheckedOperator[_PublishArguments]):
    """
    Publish events through the write guard, under the conditions of marker and cleaner.

    Each event of the list is judged anew right before it is written: DELETE_PARTITION_MARKED where the marker
    would write it; DELETE_PARTITION_STARTED where the topic id has been absent for ``min_absence_ms``;
    DELETE_SEGMENT_STARTED where storage also lists the segment; DELETE_SEGMENT_FINISHED and DELETE_PARTITION_FINISHED where
    storage shows that nothing is left. All but the first and the third need the override ``events_by_hand``; the end of a
    copied segment of which the audit log has no deletion that found an object also ``settle_missing``. What is held is not
    written about, and the time is proven, as for the cleaner.

    :param events: each with ``topic_id``, ``topic``, ``partition``, ``state`` by name, and for a segment event
        ``segment_id`` (ids in Kafka's base64 form) and ``custom_metadata`` (hex), in the order of writing.
    :param limits: fields of :class:`~airflow_provider_rlmm.core.plans.guards.CleanerLimits`, ``overrides`` among them.
    :param rlmm_conn_id: connection of type ``rlmm``; it must allow writes.
    :return: the offset of each event in its metadata partition.
    :raises StoppedError: if the kill switch is on.
    :raises WriteRefusedError: if an event is refused; those before it are written.
    """

    template_fields: Sequence[str] = ("events", "limits", "rlmm_conn_id")
    arguments = _PublishArguments
    ui_color = "#f7d6e6"
    touched = Touched(reads=(Place.TOPIC,), writes=(Place.TOPIC,))

    def __init__(
        self,
        *,
        events: Sequence[Mapping[str, Any]],
        limits: Mapping[str, Any] | None = None,
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.events = events
        self.limits = limits
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> list[int]:
        from airflow_provider_rlmm.features.cleanup.publishing import needs_storage, publish_events

        read = self.read_arguments()
        limits = read.limits
        with session_of(context, read.rlmm_conn_id, limits, dry_run=False) as session:
            session.require_running(dry_run=False)
            with_storage = needs_storage(read.events)
            written = publish_events(
                read.events,
                log=session.log,
                publisher=session.access.get_publisher(session.log),
                topics=session.topics,
                limits=limits,
                storage=session.storage.get_storage_manager() if with_storage else None,
                root=session.root_expectation(limits) if with_storage else UNKNOWN_ROOT,
                ledger=session.root_ledger,
                hold=session.hold,
                expected_cluster_id=session.access.get_connection_settings().expected_cluster_id,
                clock=session.clock,
                snapshots=session.snapshots,
                deletions=session.earlier_deletions,
            )
        self.log.info("%s written", number_of(len(written), "event"))
        self.told({"events": len(written), "dry_run": False})
        return written
