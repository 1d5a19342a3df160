# SPDX-License-Identifier: Apache-2.0
"""Ids of Airflow connections of type ``rlmm``, and what is named after them."""

from __future__ import annotations

DEFAULT_CONN_ID = "rlmm_default"
"""The connection whose DAGs have the plain ids."""


def of_connection(name: str, conn_id: str) -> str:
    """
    Return what a DAG or an asset of a connection is called; no two connections share one.

    :param name: what it is called for ``rlmm_default``.
    :param conn_id: connection of type ``rlmm``.
    """
    return name if conn_id == DEFAULT_CONN_ID else f"{name}__{conn_id}"
