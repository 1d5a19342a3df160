# SPDX-License-Identifier: Apache-2.0
"""
### Remote storage scrub

Compares what lies in remote storage with the metadata topic, and deletes what both have forgotten, in five steps:

1. **scrub** lists all places, reads the log, and says of each object what it is: `docs/storage.md` has the classes.
2. **plan** writes down which objects may go: those of segments that the log calls finished, and those of deleted topics that
   no record has named at two scrubs, 72 hours apart by default.
3. **approve** asks a person before a real run deletes more than `approve_above_segments` or `approve_above_bytes`.
4. **delete** looks at each of them, at the cluster and at the log once more, right before it deletes it. No event is written.
5. **report** fails the run as long as something needs a person and is not acknowledged (Airflow variable
   `rlmm_acknowledgements`): missing objects, objects of living topics that no record names, folders that could not be listed,
   objects of which nothing can be told.

Nothing is deleted unless the `rlmm` connection allows writes and `dry_run`, which is **on** by default, is switched off for
the run. A run by the schedule is a dry run: the connection does not change that.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.runs.installation_options import SCRUB_SCHEDULE
from airflow_provider_rlmm.dag_factory import params
from airflow_provider_rlmm.dag_factory.schedules import schedule
from airflow_provider_rlmm.dag_factory.shipped import shipped_dag
from airflow_provider_rlmm.operators.approval import ApproveRemoteStorageScrubOperator
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retrying import RETRY_WHAT_MAY_PASS
from airflow_provider_rlmm.operators.scrub import (
    DeleteScrubbedObjectsOperator,
    PlanRemoteStorageScrubOperator,
    RemoteStorageScrubOperator,
    ReportRemoteStorageScrubOperator,
)

__all__ = ["remote_storage_scrub"]

LIMITS = params.filled_in(limits.SCRUB)


def remote_storage_scrub(conn_id: str) -> DAG:
    """
    Build the DAG ``remote_storage_scrub`` of a connection.

    :param conn_id: connection of type ``rlmm``.
    :raises ConfigurationError: naming the setting, if ``[rlmm] scrub_schedule`` is none.
    """
    with shipped_dag(
        "remote_storage_scrub",
        conn_id,
        schedule=schedule(SCRUB_SCHEDULE, conn_id),
        render_template_as_native_obj=True,
        doc_md=__doc__,
        params=_params(conn_id),
    ) as dag:
        _tasks()
    return dag


def _tasks() -> None:
    scrub = RemoteStorageScrubOperator(
        task_id="scrub",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        max_copy_ms="{{ params.max_copy_ms }}",
        price_per_gb_month="{{ params.price_per_gb_month }}",
        # The last task does that, when the healthy rest is done.
        fail_on_problems=False,
        overrides="{{ params.overrides }}",
        confirm_lost_records="{{ params.confirm_lost_records }}",
        confirm_metadata_topic_id="{{ params.confirm_metadata_topic_id }}",
        pre_execute=refuse_unknown_params,
        execution_timeout=timedelta(hours=24),
        **RETRY_WHAT_MAY_PASS,
    )
    plan = PlanRemoteStorageScrubOperator(
        task_id="plan",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        limits=LIMITS,
        blast_radius=params.RADIUS,
        hold="{{ params.hold }}",
        only="{{ params.only }}",
        max_segments_this_run="{{ params.max_segments_this_run }}",
        dry_run_only="{{ params.dry_run }}",
        # The first task is always a dry run, which records no confirmation: this one does.
        confirm_lost_records="{{ params.confirm_lost_records }}",
        confirm_metadata_topic_id="{{ params.confirm_metadata_topic_id }}",
        execution_timeout=timedelta(hours=6),
    )
    approve = ApproveRemoteStorageScrubOperator(
        task_id="approve",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        approve_above=params.APPROVE_ABOVE,
        answer_within="{{ params.answer_within }}",
        dry_run_only="{{ params.dry_run }}",
    )
    delete = DeleteScrubbedObjectsOperator(
        task_id="delete",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        limits=LIMITS,
        hold="{{ params.hold }}",
        dry_run_only="{{ params.dry_run }}",
        approve_above=params.APPROVE_ABOVE,
        confirm_lost_records="{{ params.confirm_lost_records }}",
        confirm_metadata_topic_id="{{ params.confirm_metadata_topic_id }}",
        execution_timeout=timedelta(hours=24),
        **RETRY_WHAT_MAY_PASS,
    )
    report = ReportRemoteStorageScrubOperator(
        task_id="report",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        trigger_rule="all_done",
        execution_timeout=timedelta(hours=1),
    )
    scrub >> plan >> approve >> delete >> report


def _params(conn_id: str) -> dict[str, Param]:
    return {
        **params.of_connection(conn_id),
        **params.of_dry_run("Say what would be deleted, do nothing; off: do it"),
        **params.of(
            limits.MAX_SEGMENTS_THIS_RUN,
            params.WHAT,
            "Take the objects of no more segments than these, a canary",
        ),
        **params.of(limits.MAX_COPY, params.PROTECTIONS),
        "price_per_gb_month": Param(
            None,
            type=["null", "number"],
            title="Price per GiB and month",
            section=params.WHAT,
            minimum=0,
            description="What storing 2^30 bytes costs in a month; empty: what the connection says",
        ),
        **params.of(limits.MIN_UNREFERENCED, params.PROTECTIONS),
        **params.of(
            limits.MIN_ABSENCE,
            params.PROTECTIONS,
            "The topic of such an object was marked as deleted so long ago",
            title="Wait after the marker",
        ),
        **params.of_deletion("Segments whose objects are looked at and deleted together"),
        **params.of_approval(),
        **params.of_lost_records(),
        **params.of_blast_radius(
            "The most that one run may delete objects of", "Of all listed segments, the most that one run may take"
        ),
    }
