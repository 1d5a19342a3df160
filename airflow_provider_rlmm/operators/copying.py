# SPDX-License-Identifier: Apache-2.0
"""The operator that copies log directories of brokers that do not copy themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import Context
from airflow.sdk.bases.xcom import BaseXCom

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.observability.stats import send_remote_log_metrics
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.operators.writing import WritingOperator
from airflow_provider_rlmm.settings import artifact_uri

__all__ = ["CopyLogSegmentsOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopyArguments:
    log_dir: str = given.read_by(given.text)
    topic: str = given.read_by(given.text)
    partitions: tuple[int, ...] | None = given.read_by(given.partitions, None)
    snapshot_in: str | None = given.read_by(given.text_or_none, None)
    limits: CopyLimits = given.read_by(given.copy_limits, CopyLimits())
    dry_run_only: bool | None = given.read_by(given.flag_or_unsaid, None)
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")
    confirm_lost_records: tuple[str, ...] = given.declared_as(run_parameters.CONFIRM_LOST_RECORDS)
    confirm_metadata_topic_id: UUID | None = given.declared_as(run_parameters.CONFIRM_METADATA_TOPIC_ID)


class CopyLogSegmentsOperator(WritingOperator[_CopyArguments]):
    """
    Copy the closed segments of a living topic from a disk that no broker runs on into remote storage, for a leader that does
    not copy: ``remote.log.copy.disable`` of the topic is on. Brokers go on from there once it is off.

    It works on a snapshot of the disk that it removes afterwards. The leader is asked again before each segment, and every
    partition ends at the first segment that is missing, damaged or failed. The task runs where the disk is mounted.

    :param log_dir: one of the broker's ``log.dirs``, on the worker's machine; nothing is written there.
    :param topic: name of the topic.
    :param partitions: of the topic; ``None`` for all that lie there.
    :param snapshot_in: folder for the snapshot, on the same file system so that it takes no space; ``None`` for the one above
        ``log_dir``.
    :param limits: fields of :class:`~airflow_provider_rlmm.features.copying.rules.CopyLimits`.
    :param dry_run_only: say what would be copied, change nothing; ``False``: copy. One of the two must be said.
    :param rlmm_conn_id: connection of type ``rlmm``; it must allow writes and copies (``allow_copy``).
    :param confirm_lost_records: names of lost records that a person confirms, as the refusal names them, such as ``3@24``:
        the run goes on, and their metadata partitions are in doubt from then on.
    :param confirm_metadata_topic_id: id of the metadata topic, in Kafka's form, where it was deleted and made anew and a
        person confirms that; ``None`` confirms none.
    :return: ``topic``, ``dry_run``, ``segments``, ``bytes``, ``expiring`` (how many segments were left out, as the leader is
        about to delete them) and ``partitions``: what was copied of each, ``remote_end``, the ``hole`` that brokers would
        pass over, and what stopped it. A task that fails leaves it as XCom, too.
    :raises AirflowFailException: where a partition needs a person, after the others are done; a dry run needs one where the
        copy would.
    :raises AirflowException: where not all was copied, and the next try may go on.
    :raises StoppedError: if the kill switch is on.
    :raises RlmmError: if nothing can be begun; see :func:`~airflow_provider_rlmm.features.copying.steps.copy_topic`.
    """

    template_fields: Sequence[str] = (
        "log_dir",
        "topic",
        "partitions",
        "snapshot_in",
        "limits",
        "dry_run_only",
        "rlmm_conn_id",
        "confirm_lost_records",
        "confirm_metadata_topic_id",
    )
    arguments = _CopyArguments
    ui_color = "#fce5cd"
    touched = Touched(reads=(Place.TOPIC,), writes=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        log_dir: str,
        topic: str,
        partitions: Sequence[int] | str | None = None,
        snapshot_in: str | None = None,
        limits: Mapping[str, Any] | None = None,
        dry_run_only: bool | str | None = None,
        rlmm_conn_id: str = "rlmm_default",
        confirm_lost_records: Sequence[str] | None = None,
        confirm_metadata_topic_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.log_dir = log_dir
        self.topic = topic
        self.partitions = partitions
        self.snapshot_in = snapshot_in
        self.limits = limits
        self.dry_run_only = dry_run_only
        self.rlmm_conn_id = rlmm_conn_id
        self.confirm_lost_records = confirm_lost_records
        self.confirm_metadata_topic_id = confirm_metadata_topic_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
        from airflow_provider_rlmm.features.copying.steps import copy_topic

        read, metrics = self.read_arguments(), RemoteLogMetrics()
        dry_run = self.is_dry(read.dry_run_only)
        opened = session_of(
            context,
            read.rlmm_conn_id,
            CleanerLimits(),
            dry_run=dry_run,
            confirm=read.confirm_lost_records,
            confirm_topic_id=read.confirm_metadata_topic_id,
        )
        with opened as session:
            try:
                done = copy_topic(
                    session,
                    artifact_uri(given.artifact_name(context)),
                    Path(read.log_dir),
                    read.topic,
                    partitions=read.partitions,
                    snapshot_in=None if read.snapshot_in is None else Path(read.snapshot_in),
                    limits=read.limits,
                    metrics=metrics,
                    dry_run=dry_run,
                )
            finally:
                send_remote_log_metrics(metrics.values().items(), session.cluster_id, read.rlmm_conn_id, read.topic)
        self.log.info(
            "%s, %s %s; %s about to expire and left out",
            number_of(done.segments, "segment"),
            human_bytes(done.bytes),
            "would go" if done.dry_run else agreeing(done.segments, "was copied", "were copied"),
            number_of(done.expiring, "segment is", "segments are"),
        )
        result = self.told(done.to_json())
        needs, left = [p for p in done.partitions if p.needs_person], done.unfinished(read.limits)
        if needs or left:
            # Of a task that fails Airflow keeps what it has pushed, not what it would have returned.
            context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=result)
        if needs:
            for one in needs:
                self.log.error("partition %d needs a person: %s", one.partition, one.stopped_by)
            raise AirflowFailException(
                f"{number_of(len(needs), 'partition needs', 'partitions need')} a person, such as: {needs[0].stopped_by}"
            )
        if left:
            raise AirflowException(
                f"{number_of(len(left), 'partition is', 'partitions are')} not done, a later try goes on: "
                f"{left[0].stopped_by}"
            )
        return result
