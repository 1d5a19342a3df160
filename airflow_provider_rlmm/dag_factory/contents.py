# SPDX-License-Identifier: Apache-2.0
"""
### Remote log contents

Reads a sample of the copied segments and proves log, indexes and metadata by each other, in one step:

1. **verify** takes a share of each topic's segments, those first that were not looked at for the longest time, and reads
   them at the pace of `bytes_per_second`. With the default share all segments were looked at after twenty runs.

It writes nothing to Kafka and nothing to the storage. A run is red where a segment is damaged or missing and the metadata
topic, read again since, still calls it copied, where the storage refused to hand one out, and where nothing could be looked
at; the error says first what to type. What is damaged or missing can be acknowledged (Airflow variable
`rlmm_acknowledgements`).

The report is `contents.json` in the folder of the run. Reading costs money in most stores, so the DAG runs by itself only
where `[rlmm] contents_schedule` says when.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_rlmm.core.runs.installation_options import CONTENTS_SCHEDULE
from airflow_provider_rlmm.dag_factory import params
from airflow_provider_rlmm.dag_factory.schedules import schedule
from airflow_provider_rlmm.dag_factory.shipped import shipped_dag
from airflow_provider_rlmm.operators.contents import VerifyRemoteSegmentsOperator
from airflow_provider_rlmm.operators.failing import refuse_unknown_params
from airflow_provider_rlmm.operators.retrying import RETRY_WHAT_MAY_PASS

__all__ = ["remote_log_contents"]


def remote_log_contents(conn_id: str) -> DAG:
    """
    Build the DAG ``remote_log_contents`` of a connection.

    :param conn_id: connection of type ``rlmm``.
    :raises ConfigurationError: naming the setting, if ``[rlmm] contents_schedule`` is none.
    """
    with shipped_dag(
        "remote_log_contents",
        conn_id,
        schedule=schedule(CONTENTS_SCHEDULE, conn_id),
        doc_md=__doc__,
        params=_params(conn_id),
    ) as dag:
        VerifyRemoteSegmentsOperator(
            task_id="verify",
            rlmm_conn_id="{{ params.rlmm_conn_id }}",
            topic="{{ params.topic }}",
            share="{{ params.share }}",
            allow_gaps="{{ params.allow_gaps }}",
            bytes_per_second="{{ params.bytes_per_second }}",
            pre_execute=refuse_unknown_params,
            execution_timeout=timedelta(hours=24),
            **RETRY_WHAT_MAY_PASS,
        )
    return dag


def _params(conn_id: str) -> dict[str, Param]:
    return {
        **params.of_connection(conn_id),
        "topic": Param(
            "",
            type="string",
            title="Topic",
            section=params.WHAT,
            description="Only this one, by name or id; empty: all",
        ),
        "share": Param(
            0.05,
            type="number",
            minimum=0,
            exclusiveMinimum=0,
            maximum=1,
            title="Share of the segments",
            section=params.WHAT,
            description="Of each topic's segments, one at least: those first that were not looked at for longest; more "
            "than 0, and 1 for all",
        ),
        "allow_gaps": Param(
            False,
            type="boolean",
            title="Offsets may be missing",
            section=params.PROTECTIONS,
            description="For topics that were compacted once; off: a gap is damage",
        ),
        "bytes_per_second": Param(
            50_000_000,
            type=["null", "integer"],
            minimum=1,
            title="Bytes per second",
            section=params.PACE,
            description="The most that is fetched; empty: as much as the store gives",
        ),
    }
