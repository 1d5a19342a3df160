# SPDX-License-Identifier: Apache-2.0
"""What all hooks of the connection type ``rlmm`` share."""

from __future__ import annotations

from typing import Self

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
        self._settings: RlmmConnection | None = None

    @classmethod
    def beside(cls, other: RlmmHook) -> Self:
        """
        Return a hook for the connection of another one, as that one has read it.

        :param other: the other hook.
        :raises ConfigurationError: naming the connection and the field.
        """
        hook = cls(other.rlmm_conn_id)
        hook._settings = other.get_connection_settings()
        return hook

    def get_connection_settings(self) -> RlmmConnection:
        """
        Return the connection, read once for this hook: a change in the middle of a task would make it two connections.

        :raises ConfigurationError: naming the connection and the field.
        """
        if self._settings is None:
            self._settings = self.read_connection_settings()
        return self._settings

    def read_connection_settings(self) -> RlmmConnection:
        """
        Read the connection as it is now, for what may change while a task works: the hold.

        :raises ConfigurationError: naming the connection and the field.
        """
        return RlmmConnection.from_connection(self.get_connection(self.rlmm_conn_id))
