# SPDX-License-Identifier: Apache-2.0
"""
### Remote log cleaner

Deletes the remote log segments of deleted topics (KIP-405's RemoteLogCleaner), in eight steps:

0. **check** finds everything that can be known to be wrong before anything is written, and says which cluster, clock and
   storage root it has verified, and how.
1. **mark** writes `DELETE_PARTITION_MARKED` for partitions whose topic id is gone: the first observation of absence.
2. **plan** finds the markers that are older than `min_absence` and writes down every segment that would go.
3. **approve** asks a person before a real run deletes more than `approve_above_segments` or `approve_above_bytes`.
4. **archive**, where the run or the connection asks for it, copies every planned segment and its records to `archive_uri` of
   the connection, reads them back and compares. What does not compare is not deleted.
5. **clean**, one task per metadata partition that has work: start, delete in batches, confirm by listing, finish.
6. **survey** judges every topic that has remote segments and writes the inventory that the pages show, even where
   steps before failed; nothing that deletes reads it.
7. **report** puts it all into one document, what needs a person first. As long as there is such a thing that is not
   acknowledged (Airflow variable `rlmm_acknowledgements`), it fails the run, after the healthy rest is done. A run that
   succeeds emits the asset `remote_log_cleanup` with the counts.

Nothing is written unless the `rlmm` connection allows writes and `dry_run`, which is **on** by default, is switched off for
the run. A run that the schedule or an asset has started is dry until the connection's field `scheduled_runs` says `real`.

A cleaning task tries again on errors that may pass; a refusal to go on fails it at once, and before Airflow 3.3 after two
more tries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, Param

from airflow_provider_rlmm.assets.by_connection import cleanup_asset
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.runs import run_parameters
from airflow_provider_rlmm.core.runs.installation_options import CLEANER_SCHEDULE
from airflow_provider_rlmm.dag_factory import params
from airflow_provider_rlmm.dag_factory.schedules import WORDS_OF_THE_CLEANER, schedule
from airflow_provider_rlmm.dag_factory.shipped import shipped_dag
from airflow_provider_rlmm.operators.approval import ApproveRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.archive import ArchivePlannedSegmentsOperator
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.decision import AS_CHECKED
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retrying import RETRY_WHAT_MAY_PASS
from airflow_provider_rlmm.operators.survey import SurveyRemoteLogOperator

__all__ = ["remote_log_cleaner"]

LIMITS = params.filled_in(limits.CLEANER)


def remote_log_cleaner(conn_id: str) -> DAG:
    """
    Build the DAG ``remote_log_cleaner`` of a connection.

    :param conn_id: connection of type ``rlmm``.
    :raises ConfigurationError: naming the setting, if ``[rlmm] cleaner_schedule`` is none.
    """
    with shipped_dag(
        "remote_log_cleaner",
        conn_id,
        schedule=schedule(CLEANER_SCHEDULE, conn_id, WORDS_OF_THE_CLEANER),
        render_template_as_native_obj=True,
        doc_md=__doc__,
        params=_params(conn_id),
    ) as dag:
        _tasks(conn_id)
    return dag


def _tasks(conn_id: str) -> None:
    cleanup_tasks(
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        dry_run_only="{{ params.dry_run }}",
        limits=LIMITS,
        blast_radius=params.RADIUS,
        hold="{{ params.hold }}",
        only="{{ params.only }}",
        max_segments_this_run="{{ params.max_segments_this_run }}",
        source_plan="{{ params.source_plan }}",
        archive_first="{{ params.archive }}",
        approve_above=params.APPROVE_ABOVE,
        answer_within="{{ params.answer_within }}",
        confirm_lost_records="{{ params.confirm_lost_records }}",
        confirm_metadata_topic_id="{{ params.confirm_metadata_topic_id }}",
        scheduled_by_connection=True,
        first={"pre_execute": refuse_unknown_params},
        outlets=[cleanup_asset(conn_id)],
    )


def cleanup_tasks(
    *,
    rlmm_conn_id: str,
    dry_run_only: bool | str,
    limits: Mapping[str, Any] | None,
    blast_radius: Mapping[str, Any] | None,
    hold: Any,
    only: Any,
    max_segments_this_run: int | str | None,
    archive_first: bool | str,
    approve_above: Mapping[str, Any],
    answer_within: int | str,
    source_plan: str | None = None,
    confirm_lost_records: Any = None,
    confirm_metadata_topic_id: str | None = None,
    scheduled_by_connection: bool = False,
    tasks_at_once: int = 4,
    first: Mapping[str, Any] | None = None,
    outlets: Sequence[Asset] = (),
) -> None:
    """
    Make the tasks of a cleanup, one after another, in the DAG and the group that are open.

    What the operators of these tasks say of an argument holds here: :class:`CheckRemoteLogCleanupOperator` has most of them.

    :param tasks_at_once: how many metadata partitions are cleaned at once.
    :param first: what Airflow is told of the first task besides.
    :param outlets: assets of which the last task emits an event.
    """
    check = CheckRemoteLogCleanupOperator(
        task_id="check",
        rlmm_conn_id=rlmm_conn_id,
        limits=limits,
        blast_radius=blast_radius,
        hold=hold,
        only=only,
        max_segments_this_run=max_segments_this_run,
        dry_run_only=dry_run_only,
        source_plan=source_plan,
        archive_first=archive_first,
        scheduled_by_connection=scheduled_by_connection,
        confirm_lost_records=confirm_lost_records,
        confirm_metadata_topic_id=confirm_metadata_topic_id,
        execution_timeout=timedelta(hours=6),
        **(first or {}),
    )
    mark = MarkDeletedPartitionsOperator(
        task_id="mark",
        rlmm_conn_id=rlmm_conn_id,
        source_plan=AS_CHECKED,
        limits=limits,
        hold=hold,
        only=only,
        dry_run_only=AS_CHECKED,
        execution_timeout=timedelta(hours=6),
    )
    plan = PlanRemoteLogCleanupOperator(
        task_id="plan",
        rlmm_conn_id=rlmm_conn_id,
        source_plan=AS_CHECKED,
        limits=limits,
        blast_radius=blast_radius,
        hold=hold,
        only=only,
        max_segments_this_run=max_segments_this_run,
        dry_run_only=AS_CHECKED,
        execution_timeout=timedelta(hours=6),
    )
    approve = ApproveRemoteLogCleanupOperator(
        task_id="approve",
        rlmm_conn_id=rlmm_conn_id,
        approve_above=approve_above,
        answer_within=answer_within,
        dry_run_only=AS_CHECKED,
    )
    archive = ArchivePlannedSegmentsOperator(
        task_id="archive",
        rlmm_conn_id=rlmm_conn_id,
        limits=limits,
        archive_first=archive_first,
        dry_run_only=AS_CHECKED,
        execution_timeout=timedelta(hours=24),
        **RETRY_WHAT_MAY_PASS,
    )
    clean = CleanMetadataPartitionOperator.partial(
        task_id="clean",
        rlmm_conn_id=rlmm_conn_id,
        limits=limits,
        hold=hold,
        dry_run_only=AS_CHECKED,
        archive_first=archive_first,
        approve_above=approve_above,
        execution_timeout=timedelta(hours=24),
        map_index_template="metadata partition {{ task.metadata_partition }}{{ rlmm_counts | default('') }}",
        max_active_tis_per_dagrun=tasks_at_once,
        **RETRY_WHAT_MAY_PASS,
    ).expand(metadata_partition=plan.output)
    survey = SurveyRemoteLogOperator(
        task_id="survey",
        rlmm_conn_id=rlmm_conn_id,
        limits=limits,
        hold=hold,
        dry_run_only=dry_run_only,
        trigger_rule="all_done",
        execution_timeout=timedelta(hours=6),
        **RETRY_WHAT_MAY_PASS,
    )
    report = ReportRemoteLogCleanupOperator(
        task_id="report",
        rlmm_conn_id=rlmm_conn_id,
        dry_run_only=AS_CHECKED,
        trigger_rule="all_done",
        execution_timeout=timedelta(hours=1),
        outlets=list(outlets),
    )
    check >> mark >> plan >> approve >> archive >> clean >> [survey, report]
    # The report counts the failures of the tasks right before it: those of the cleaning must be among them.
    survey >> report


def _params(conn_id: str) -> dict[str, Param]:
    return {
        **params.of_connection(conn_id),
        **params.of(run_parameters.SOURCE_PLAN, params.WHAT),
        **params.of_dry_run("Say what would be written and deleted, do nothing; off: do it"),
        **params.of(limits.MAX_SEGMENTS_THIS_RUN, params.WHAT),
        **params.of(limits.MIN_ABSENCE, params.PROTECTIONS),
        **params.of(limits.MAX_MISSING_SEGMENTS, params.PROTECTIONS),
        **params.of(limits.ALLOWED_QUARANTINE, params.PROTECTIONS),
        "archive": Param(
            False,
            type="boolean",
            title="Archive before deletion",
            section=params.PROTECTIONS,
            description="Copy segments and records to archive_uri of the connection, and delete only what compares",
        ),
        **params.of_deletion(),
        **params.of(limits.MAX_MINUTES, params.PACE),
        **params.of_approval(),
        **params.of_lost_records(),
        **params.of_blast_radius(),
    }
