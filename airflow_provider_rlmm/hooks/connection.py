# SPDX-License-Identifier: Apache-2.0
"""The connection type ``rlmm`` as a value object, and what all hooks of it share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.base.errors import ConfigurationError, EventLogError
from airflow_provider_rlmm.core.runs import connection_fields as declared
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings, read_fields

CONN_TYPE = "rlmm"
TYPE_NAME = "Kafka Remote Log Metadata"
_UNUSED = ("host", "port", "schema", "login", "password")


@dataclass(frozen=True, slots=True, kw_only=True)
class RlmmConnection(RemoteLogSettings):
    """
    What an Airflow connection of type ``rlmm`` says.

    :param conn_id: id of that connection, for messages.
    :param kafka_conn_id: id of the connection of type ``kafka``.
    :param storage_conn_id: id of the connection that holds the store's credentials and options, if it needs any.
    :param scheduled_runs: whether cleaner runs that the schedule or an asset starts are ``dry`` or ``real``.
    """

    conn_id: str
    kafka_conn_id: str = declared.KAFKA_CONN_ID.default
    storage_conn_id: str | None = declared.STORAGE_CONN_ID.default
    scheduled_runs: str = declared.SCHEDULED_RUNS.default

    @classmethod
    def from_connection(cls, connection: Connection) -> RlmmConnection:
        """
        Read an Airflow connection.

        :param connection: of type ``rlmm``; its extra holds the fields, blank ones count as not given.
        :raises ConfigurationError: naming the connection and the field.
        """
        with naming_connection(connection.conn_id):
            if connection.conn_type != CONN_TYPE:
                raise ConfigurationError(f"its type is {connection.conn_type!r}, not {CONN_TYPE!r}")
            if unused := [name for name in _UNUSED if getattr(connection, name)]:
                raise ConfigurationError(
                    f"{', '.join(unused)} mean nothing in a connection of type {CONN_TYPE}: clear them; brokers and login "
                    "belong into the connection that kafka_conn_id names, a store's credentials into that of storage_conn_id"
                )
            settings = cls(
                conn_id=connection.conn_id, **read_fields(cls, extra_of(connection), without=frozenset({"conn_id"}))
            )
            settings.check()
            declared.SCHEDULED_RUNS.check(settings.scheduled_runs)
        return settings

    def naming(self) -> AbstractContextManager[None]:
        """Return a context manager: errors that leave its block name this connection."""
        return naming_connection(self.conn_id)


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
        try:
            connection = self.get_connection(self.rlmm_conn_id)
        except AirflowNotFoundException:
            raise self._missing() from None
        return RlmmConnection.from_connection(connection)

    async def read_ahead(self) -> None:
        """
        Read the connection without holding up an event loop, for triggers: what asks for it afterwards may run in a thread,
        from which Airflow must not be asked.

        :raises ConfigurationError: naming the connection and the field.
        """
        try:
            connection = await self.aget_connection(self.rlmm_conn_id)
        except AirflowNotFoundException:
            raise self._missing() from None
        self._settings = RlmmConnection.from_connection(connection)

    def _missing(self) -> ConfigurationError:
        return ConfigurationError(
            f"connection {self.rlmm_conn_id!r} does not exist: create it with type {TYPE_NAME}, or name the one that you "
            "have in rlmm_conn_id"
        )


@contextmanager
def naming_connection(conn_id: str) -> Iterator[None]:
    """
    Make errors say which Airflow connection they are about; put it around calls that reach the cluster, too.

    :param conn_id: id of the connection; an error that names a connection already stays as it is.
    """
    try:
        yield
    except (EventLogError, ConfigurationError) as e:
        if e.connection is None:
            # In place: an error may hold more than its message, and the code that catches it asks for its type.
            e.args = (f"connection {conn_id!r}: {e}",)
            e.connection = conn_id
        raise


def extra_of(connection: Connection) -> dict[str, Any]:
    """
    Read a connection's extra.

    :param connection: any connection.
    :raises ConfigurationError: naming the connection, if extra is not a JSON object.
    """
    # Not extra_dejson: that one takes extra that is no JSON for an empty one, and the defaults would apply.
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise ConfigurationError("extra is not a JSON object")
    return extra
