# SPDX-License-Identifier: Apache-2.0
"""The connection type ``rlmm`` as a value object, and what all hooks of it share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Self
from urllib.parse import urlsplit

from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.errors import ConfigurationError, EventLogError
from airflow_provider_rlmm.settings import refuse_secrets_in_uri
from airflow_provider_rlmm.storage.layouts import LayoutOptions

CONN_TYPE = "rlmm"
DEFAULT_CONN_ID = "rlmm_default"

_BOOLEANS = ("allow_writes", "sole_owner")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ROOT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z0-9]+://\S+")


@dataclass(frozen=True, slots=True)
class RlmmConnection:
    """
    One cluster, its remote storage, and what may be done there. It holds no secret.

    :param conn_id: id of the Airflow connection that says so, for messages.
    :param kafka_conn_id: id of the connection of type ``kafka``.
    :param storage_uri: root of the remote storage, ``None`` where only the metadata topic is used.
    :param storage_conn_id: id of the connection that holds the store's credentials and options, if it needs any.
    :param layout: name of the storage layout.
    :param key_prefix: what all keys begin with, as the storage plugin is configured; with or without ``/`` at its end.
    :param former_key_prefixes: prefixes under which older copies lie, separated by commas; ``""`` stands for none.
    :param key_pattern: of the layout ``template``: literals and the fields ``{topic}``, ``{topic_id}``, ``{partition}``,
        ``{start_offset:020}``, ``{segment_id}``.
    :param key_suffixes: of the layout ``template``, separated by commas: ``.log, .index, .txnindex?``; those with ``?`` are
        not with every segment, ``""`` stands for an object without one.
    :param metadata_topic: name of the metadata topic.
    :param allow_writes: whether anything may be written or deleted.
    :param expected_cluster_id: the only cluster to work on, ``None`` for any.
    :param expected_root: the only storage root to work on: the root id that the connection test prints, or, where no stamp
        can be written, the location that it prints; ``None`` for any.
    :param clock_topic: topic with LogAppendTime; a record is written to it to read a broker's clock. ``None``: an offset is
        committed instead.
    :param hold: topics that are never touched: names, patterns with ``*`` and ``?``, and topic ids, separated by commas.
    :param sole_owner: whether nobody else keeps objects of this layout in this storage: then a scrub may delete those of
        topic ids that the log never named.
    """

    conn_id: str
    kafka_conn_id: str = "kafka_default"
    storage_uri: str | None = None
    storage_conn_id: str | None = None
    layout: str = "local-tiered-storage"
    key_prefix: str | None = None
    former_key_prefixes: str | None = None
    key_pattern: str | None = None
    key_suffixes: str | None = None
    metadata_topic: str = "__remote_log_metadata"
    allow_writes: bool = False
    expected_cluster_id: str | None = None
    expected_root: str | None = None
    clock_topic: str | None = None
    hold: str | None = None
    sole_owner: bool = False

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
            known = [f.name for f in fields(cls) if f.name != "conn_id"]
            given = {k: v for k, v in extra_of(connection).items() if v is not None and str(v).strip()}
            if unknown := sorted(given.keys() - set(known)):
                raise ConfigurationError(f"unknown fields {unknown} in extra; known are {known}")
            values: dict[str, Any] = {
                name: _boolean(name, value) if name in _BOOLEANS else _text(name, value)
                for name, value in given.items()
            }
            settings = cls(connection.conn_id, **values)
            settings._check()
        return settings

    @property
    def layout_options(self) -> LayoutOptions:
        """What is said of the layout beside its name."""
        suffixes = _listed(self.key_suffixes)
        return LayoutOptions(
            self.key_prefix or "",
            tuple(_listed(self.former_key_prefixes)),
            self.key_pattern,
            {suffix.removesuffix("?"): not suffix.endswith("?") for suffix in suffixes},
        )

    def required_storage_uri(self) -> str:
        """
        Return the storage root.

        :raises ConfigurationError: if the connection has none.
        """
        with naming_connection(self.conn_id):
            if self.storage_uri is None:
                raise ConfigurationError("storage_uri is missing, and storage is needed here")
            return self.storage_uri

    def check_writable(self) -> None:
        """
        Refuse a connection that allows writes and does not say to which cluster.

        :raises ConfigurationError: naming the connection.
        """
        with naming_connection(self.conn_id):
            if self.allow_writes and self.expected_cluster_id is None:
                raise ConfigurationError(
                    "allow_writes needs expected_cluster_id, so that nothing is ever written to another cluster; the "
                    "connection's test prints the id to copy"
                )

    def _check(self) -> None:
        if not _TOPIC_NAME.fullmatch(self.metadata_topic):
            raise ConfigurationError("metadata_topic is no name that Kafka allows")
        clock = self.clock_topic
        if clock is not None and (not _TOPIC_NAME.fullmatch(clock) or clock == self.metadata_topic):
            raise ConfigurationError("clock_topic must be a name that Kafka allows, and not the metadata topic's")
        if self.expected_root is not None and not _ROOT.fullmatch(self.expected_root):
            raise ConfigurationError(
                "expected_root must be a root id or a location such as "
                "s3://bucket/prefix/…, both as the connection test prints them"
            )
        if self.storage_uri is None:
            return
        advice = "put them into a connection and name it in storage_conn_id"
        refuse_secrets_in_uri("storage_uri", self.storage_uri, advice)
        if not urlsplit(self.storage_uri).scheme:
            raise ConfigurationError("storage_uri needs a scheme, such as s3://bucket/prefix or file:///folder")


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
            # In place: an error may hold more than its message, and whoever catches it asks for its type.
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


def _listed(text: str | None) -> list[str]:
    """Return what stands between commas; ``""`` is an empty item."""
    items = [item.strip() for item in (text or "").split(",")]
    return ["" if item == '""' else item for item in items if item]


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be text, not {type(value).__name__}")
    return value.strip()


def _boolean(name: str, value: object) -> bool:
    # Connections given as a URI can only carry text.
    spelled = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(spelled, bool):
        raise ConfigurationError(f"{name} must be true or false, nothing else")
    return spelled
