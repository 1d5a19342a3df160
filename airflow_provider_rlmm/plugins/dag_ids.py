# SPDX-License-Identifier: Apache-2.0
"""Ids of DAGs: those of this package, and those whose runs may have written a folder."""

from __future__ import annotations

from typing import Final

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.settings import connections

CLEANER: Final = "remote_log_cleaner"
RETENTION: Final = "remote_log_retention"
DAGS: Final = (CLEANER, RETENTION, "remote_storage_scrub", "remote_log_doctor", "remote_log_contents")
"""What the DAGs of ``rlmm_default`` are called; those of other connections have its id behind that."""


def our_dags() -> set[str]:
    """Return the ids of the DAGs of all connections that have some."""
    return {of_connection(dag, connection) for connection in connections() for dag in DAGS}


def connections_of(artifact: str) -> list[str]:
    """
    Return the connections that have DAGs of which a run's folder may be, by its name.

    :param artifact: name of the folder.
    """
    dags = possible_dags(artifact)
    return [connection for connection in connections() if any(of_connection(dag, connection) in dags for dag in DAGS)]


def possible_dags(artifact: str) -> set[str]:
    """
    Return the ids of the DAGs that a run's folder may be of, by its name: the ids of DAG and run may hold dots of their own.

    :param artifact: name of the folder.
    """
    pieces = artifact.split(".")
    return {".".join(pieces[:n]) for n in range(1, len(pieces))}
