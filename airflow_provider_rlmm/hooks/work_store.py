# SPDX-License-Identifier: Apache-2.0
"""The store of the work folder, opened by the connection that ``[rlmm] work_conn_id`` names."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import Final

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook, Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.object_stores import OpenedStore
from airflow_provider_rlmm.core.base.store_uris import StoreUri, read_store_uri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.handed_store import HandedStore
from airflow_provider_rlmm.core.storage.opening import open_store
from airflow_provider_rlmm.core.storage.secret_texts import one_line, secrets_in
from airflow_provider_rlmm.hooks.stores.access import store_access

_Key = tuple[str, str, str, str]
_LAST: Final[dict[_Key, StoreAccess]] = {}
"""What the last connection gave: a run opens dozens of files, and a role need not be assumed for each."""
_CHANGING: Final = Lock()


def open_work_store(uri: str, conn_id: str, work_uri: str) -> OpenedStore | None:
    """
    Open a folder in an object store.

    :param uri: the folder.
    :param conn_id: connection that ``[rlmm] work_conn_id`` names.
    :param work_uri: the work folder.
    :return: ``None`` where the folder is in a store of another kind than the work folder.
    :raises ConfigurationError: if the connection does not exist, or does not fit the URI.
    :raises StorageError: if the connection gives no credentials.
    """
    where = read_store_uri(uri)
    if where.kind != read_store_uri(work_uri).kind:
        return None
    access = _access(uri, where, _connection(conn_id))
    credentials = access.credentials
    secrets = secrets_in(access.options) if credentials is None else credentials.secrets
    return OpenedStore(open_store(uri, access.options, credentials), partial(one_line, secrets))


def work_store_to_hand_over(uri: str, conn_id: str) -> HandedStore:
    """
    Return what opens the store of the work folder in another process; credentials are as they are now.

    :param uri: the work folder, in an object store.
    :param conn_id: connection that ``[rlmm] work_conn_id`` names.
    :raises ConfigurationError: if the connection does not exist, or does not fit the URI.
    :raises StorageError: if the connection gives no credentials.
    """
    return HandedStore.of(_access(uri, read_store_uri(uri), _connection(conn_id)))


def _connection(conn_id: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(f"[rlmm] work_conn_id names {conn_id!r}, which does not exist") from None


def _access(uri: str, where: StoreUri, connection: Connection) -> StoreAccess:
    # The whole connection: one that was changed is read anew.
    key = (where.kind, where.account, connection.conn_id, connection.get_uri())
    with _CHANGING:
        if key not in _LAST:
            access = store_access(uri, connection)
            _LAST.clear()
            _LAST[key] = access
        return _LAST[key]
