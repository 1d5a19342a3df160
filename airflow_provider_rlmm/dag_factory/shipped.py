# SPDX-License-Identifier: Apache-2.0
"""What all shipped DAGs have in common: name and schedule by connection, one run at a time, and who is told of red runs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.notifications.configured import of_tasks, on_failure

TAGS = ("kafka", "tiered-storage", "rlmm")


def shipped_dag(name: str, conn_id: str, tags: tuple[str, ...] = (), **named: Any) -> DAG:
    """
    Return a shipped DAG of a connection, without tasks.

    :param name: of the DAG; that of a connection which is not the default one has its id behind it.
    :param conn_id: connection of type ``rlmm``.
    :param tags: besides :data:`TAGS`.
    :param named: what Airflow is told besides, such as its schedule.
    """
    return DAG(
        dag_id=of_connection(name, conn_id),
        catchup=False,
        max_active_runs=1,
        on_failure_callback=on_failure(),
        default_args=of_tasks(),
        tags=[*TAGS, *tags],
        **named,
    )
