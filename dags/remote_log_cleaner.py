# SPDX-License-Identifier: Apache-2.0
"""
### Remote log cleaner

Deletes the remote log segments of deleted topics (KIP-405's RemoteLogCleaner), in five steps:

0. **check** finds everything that can be known to be wrong before anything is written, and says which cluster, clock and
   storage root it has verified, and how.
1. **mark** writes `DELETE_PARTITION_MARKED` for partitions whose topic id is gone: the first observation of absence.
2. **plan** finds the markers that are older than `min_absence` and writes down every segment that would go.
3. **clean**, one task per metadata partition that has work: start, delete in batches, confirm by listing, finish.
4. **report** puts it all into one document, what needs a person first. As long as there is such a thing that nobody has
   acknowledged (Airflow variable `rlmm_acknowledgements`), it fails the run, after the healthy rest is done. A run that
   succeeds emits the asset `remote_log_cleanup` with the counts.

Nothing is written unless the `rlmm` connection allows writes and `dry_run`, which is **on** by default, is switched off for
the run. A cleaning task tries again on errors that may pass; a refusal to go on fails it at once, and before
Airflow 3.3 after two more tries.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, Param

from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import (
    CleanMetadataPartitionOperator,
    MarkDeletedPartitionsOperator,
    PlanRemoteLogCleanupOperator,
    ReportRemoteLogCleanupOperator,
)
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retrying import RETRY_WHAT_MAY_PASS
from airflow_provider_rlmm.policy.guards import DEFAULT_BATCH_SEGMENTS, MAX_BATCH_SEGMENTS, OVERRIDES, QUARANTINE_KINDS

LIMITS = {
    "min_absence_ms": "{{ params.min_absence_ms }}",
    "batch_segments": "{{ params.batch_segments }}",
    "max_missing_segments": "{{ params.max_missing_segments }}",
    "allowed_quarantine": "{{ params.allowed_quarantine }}",
    "overrides": "{{ params.overrides }}",
    "objects_per_second": "{{ params.objects_per_second }}",
    "deletion_window": "{{ params.deletion_window }}",
}

RADIUS = {
    "max_segments": "{{ params.max_segments }}",
    "max_bytes": "{{ params.max_bytes }}",
    "max_share": "{{ params.max_share }}",
}

with DAG(
    dag_id="remote_log_cleaner",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=True,
    doc_md=__doc__,
    tags=["kafka", "tiered-storage", "rlmm"],
    params={
        "rlmm_conn_id": Param("rlmm_default", type="string", description="Connection of type rlmm"),
        "source_plan": Param(
            None,
            type=["null", "string"],
            description="Plan of remote_log_retention to take work from: its name, or a URI below [rlmm] allowed_plan_roots",
        ),
        "dry_run": Param(
            True, type="boolean", description="Say what would be written and deleted, do nothing; off: do it"
        ),
        "min_absence_ms": Param(
            86_400_000, type="integer", minimum=0, description="Two observations of absence are this far apart, ms"
        ),
        "batch_segments": Param(
            DEFAULT_BATCH_SEGMENTS,
            type="integer",
            minimum=1,
            maximum=MAX_BATCH_SEGMENTS,
            description="Segments started and deleted together",
        ),
        "max_missing_segments": Param(
            10, type="integer", minimum=0, description="Segments without any object that are tolerated"
        ),
        "allowed_quarantine": Param(
            [],
            type="array",
            items={"type": "string", "enum": sorted(QUARANTINE_KINDS)},
            examples=sorted(QUARANTINE_KINDS),
            description="Kinds of unusable records that stop nothing",
        ),
        "overrides": Param(
            [],
            type="array",
            items={"type": "string", "enum": sorted(OVERRIDES)},
            examples=sorted(OVERRIDES),
            values_display=OVERRIDES,
            description="Named overrides; they need expected_cluster_id in the connection",
        ),
        "hold": Param(
            [],
            type="array",
            items={"type": "string"},
            description="Topics that this run must not touch: names, patterns with * and ?, topic ids; see the connection",
        ),
        "max_segments_this_run": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            description="Take no more segments than these, a canary; empty: all",
        ),
        "objects_per_second": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            description="The most that each cleaning task deletes; empty: as many as the store allows",
        ),
        "deletion_window": Param(
            None,
            type=["null", "string"],
            examples=["22:00-06:00 Europe/Berlin"],
            description="Time of day at which deletion may run; what is left then is for the next run; empty: any",
        ),
        "max_segments": Param(100_000, type="integer", minimum=0, description="The most one run may delete"),
        "max_bytes": Param(10 * 2**40, type="integer", minimum=0, description="The most bytes one run may delete"),
        "max_share": Param(
            0.5, type="number", minimum=0, maximum=1, description="Of all known segments, the most one run may delete"
        ),
    },
) as dag:
    check = CheckRemoteLogCleanupOperator(
        task_id="check",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        limits=LIMITS,
        blast_radius=RADIUS,
        hold="{{ params.hold }}",
        max_segments_this_run="{{ params.max_segments_this_run }}",
        dry_run_only="{{ params.dry_run }}",
        pre_execute=refuse_unknown_params,
        execution_timeout=timedelta(hours=6),
    )
    mark = MarkDeletedPartitionsOperator(
        task_id="mark",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        source_plan="{{ params.source_plan }}",
        limits=LIMITS,
        dry_run_only="{{ params.dry_run }}",
        execution_timeout=timedelta(hours=6),
    )
    plan = PlanRemoteLogCleanupOperator(
        task_id="plan",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        source_plan="{{ params.source_plan }}",
        limits=LIMITS,
        blast_radius=RADIUS,
        hold="{{ params.hold }}",
        max_segments_this_run="{{ params.max_segments_this_run }}",
        dry_run_only="{{ params.dry_run }}",
        execution_timeout=timedelta(hours=6),
    )
    clean = CleanMetadataPartitionOperator.partial(
        task_id="clean",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        limits=LIMITS,
        hold="{{ params.hold }}",
        dry_run_only="{{ params.dry_run }}",
        execution_timeout=timedelta(hours=24),
        map_index_template="metadata partition {{ task.metadata_partition }}{{ rlmm_counts | default('') }}",
        max_active_tis_per_dagrun=4,
        **RETRY_WHAT_MAY_PASS,
    ).expand(metadata_partition=plan.output)
    report = ReportRemoteLogCleanupOperator(
        task_id="report",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        dry_run_only="{{ params.dry_run }}",
        trigger_rule="all_done",
        execution_timeout=timedelta(hours=1),
        outlets=[Asset("remote_log_cleanup")],
    )
    check >> mark >> plan >> clean >> report
