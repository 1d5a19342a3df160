# SPDX-License-Identifier: Apache-2.0
"""What all hooks of the connection type ``rlmm`` share."""

from __future__ import annotations

from airflow.sdk import BaseHook

from airflow_provider_rlmm.hooks.connection import CONN_TYPE, DEFAULT_CONN_ID, RlmmConnection


class RlmmHook(BaseHook):
    """
    Reads a connection of type ``rlmm``. Nothing is opened before it is asked for.

    :param rlmm_conn_id: id of the connection.
    """

    conn_name_attr = "rlmm_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE

    def __init__(self, rlmm_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.rlmm_conn_id = rlmm_conn_id

    def get_connection_settings(self) -> RlmmConnection:
        """
        Read the connection.

        :raises ConfigurationError: naming the connection and the field.
        """
        return RlmmConnection.from_connection(self.get_connection(self.rlmm_conn_id))
