# SPDX-License-Identifier: Apache-2.0
"""
### Remote storage scrub

Compares what lies in remote storage with the metadata topic, and deletes what both have forgotten, in four steps:

1. **scrub** lists all places, reads the log, and says of each object what it is: `docs/storage.md` has the classes.
2. **plan** writes down which objects may go: those of segments that the log calls finished, and those that no record has
   named at two scrubs, 72 hours apart by default.
3. **delete** looks at each of them and at the log once more, right before it deletes it. No event is written.
4. **report** fails the run as long as something needs a person that nobody has acknowledged (Airflow variable
   `rlmm_acknowledgements`): missing objects, folders that could not be listed, objects of which nothing can be told.

Nothing is deleted unless the `rlmm` connection allows writes and `dry_run`, which is **on** by default, is switched off for
the run.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retrying import RETRY_WHAT_MAY_PASS
from airflow_provider_rlmm.operators.scrub import (
    DeleteScrubbedObjectsOperator,
    PlanRemoteStorageScrubOperator,
    RemoteStorageScrubOperator,
    ReportRemoteStorageScrubOperator,
)
from airflow_provider_rlmm.policy.findings import DEFAULT_MAX_COPY_MS
from airflow_provider_rlmm.policy.guards import DEFAULT_BATCH_SEGMENTS, MAX_BATCH_SEGMENTS, OVERRIDES
from airflow_provider_rlmm.policy.scrub_plan import DEFAULT_MIN_UNREFERENCED_MS

LIMITS = {
    "min_unreferenced_ms": "{{ params.min_unreferenced_ms }}",
    "batch_segments": "{{ params.batch_segments }}",
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
    dag_id="remote_storage_scrub",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    render_template_as_native_obj=True,
    doc_md=__doc__,
    tags=["kafka", "tiered-storage", "rlmm"],
    params={
        "rlmm_conn_id": Param("rlmm_default", type="string", description="Connection of type rlmm"),
        "dry_run": Param(True, type="boolean", description="Say what would be deleted, do nothing; off: do it"),
        "max_copy_ms": Param(
            DEFAULT_MAX_COPY_MS, type="integer", minimum=0, description="For how long a copy may be under way, ms"
        ),
        "price_per_gb_month": Param(
            None,
            type=["null", "number"],
            minimum=0,
            description="What storing 2^30 bytes costs in a month; empty: no cost",
        ),
        "min_unreferenced_ms": Param(
            DEFAULT_MIN_UNREFERENCED_MS,
            type="integer",
            minimum=0,
            description="Two scrubs that find an object without a record are this far apart, ms",
        ),
        "batch_segments": Param(
            DEFAULT_BATCH_SEGMENTS,
            type="integer",
            minimum=1,
            maximum=MAX_BATCH_SEGMENTS,
            description="Segments whose objects are looked at and deleted together",
        ),
        "overrides": Param(
            [],
            type="array",
            items={"type": "string", "enum": sorted(OVERRIDES)},
            examples=sorted(OVERRIDES),
            values_display=OVERRIDES,
            description="Named overrides; they need expected_cluster_id in the connection",
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
            description="Take the objects of no more segments than these, a canary; empty: all",
        ),
        "max_segments": Param(100_000, type="integer", minimum=0, description="The most one run may delete objects of"),
        "max_bytes": Param(10 * 2**40, type="integer", minimum=0, description="The most bytes one run may delete"),
        "max_share": Param(
            0.5, type="number", minimum=0, maximum=1, description="Of all listed segments, the most one run may take"
        ),
    },
) as dag:
    scrub = RemoteStorageScrubOperator(
        task_id="scrub",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        max_copy_ms="{{ params.max_copy_ms }}",
        price_per_gb_month="{{ params.price_per_gb_month }}",
        # The last task does that, when the healthy rest is done.
        fail_on_problems=False,
        overrides="{{ params.overrides }}",
        pre_execute=refuse_unknown_params,
        execution_timeout=timedelta(hours=24),
        **RETRY_WHAT_MAY_PASS,
    )
    plan = PlanRemoteStorageScrubOperator(
        task_id="plan",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        limits=LIMITS,
        blast_radius=RADIUS,
        hold="{{ params.hold }}",
        max_segments_this_run="{{ params.max_segments_this_run }}",
        dry_run_only="{{ params.dry_run }}",
        execution_timeout=timedelta(hours=6),
    )
    delete = DeleteScrubbedObjectsOperator(
        task_id="delete",
        rlmm_conn_id="{{ params.rlmm_conn_id }}",
        limits=LIMITS,
        hold="{{ params.hold }}",
        dry_run_only="{{ params.dry_run }}",
        execution_timeout=timedelta(hours=24),
        **RETRY_WHAT_MAY_PASS,
    )
    report = ReportRemoteStorageScrubOperator(
        task_id="report", trigger_rule="all_done", execution_timeout=timedelta(hours=1)
    )
    scrub >> plan >> delete >> report
