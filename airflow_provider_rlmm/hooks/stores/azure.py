# SPDX-License-Identifier: Apache-2.0
"""Connections of type ``wasb``, read by Azure's provider: connection strings, keys, signatures, principals, identities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.store_uris import StoreUri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.hooks.stores.secrets import reading, secrets_of

_SCOPE: Final = "https://storage.azure.com/.default"


def access(where: StoreUri, connection: Connection) -> StoreAccess:
    """
    Read a connection.

    :param where: the store; where its URI names a storage account, the connection must be of the same.
    :param connection: of type ``wasb``.
    :raises ConfigurationError: if it cannot be used, or is of another storage account.
    """
    from airflow.providers.microsoft.azure.hooks.wasb import WasbHook

    secrets = secrets_of(connection)
    with reading(connection, secrets):
        # It makes no call: it is asked for what it was made of.
        client: Any = WasbHook(wasb_conn_id=connection.conn_id).get_conn()
        ask = _asking(client)
        address = f"{client.scheme}://{client.primary_hostname}"
        account = client.account_name or where.account
    if not account:
        raise ConfigurationError(
            "it names no storage account: write the account's URL into host, https://account.blob.core.windows.net, or "
            "name the account in the storage URI, abfss://container@account.dfs.core.windows.net/folder"
        )
    if where.account and where.account != account:
        raise ConfigurationError(
            f"it is of the storage account {account!r}, and the storage URI names {where.account!r}: one of them is wrong"
        )
    elsewhere = address != f"https://{account}.blob.core.windows.net"
    options = {
        "account_name": account,
        **({"endpoint": address} if elsewhere else {}),
        **({"allow_http": "true"} if address.startswith("http://") else {}),
    }
    if ask is None:
        return StoreAccess({**options, "skip_signature": "true"})
    return StoreAccess(options, StoreCredentials(f"connection {connection.conn_id!r}", ask, secrets))


def _asking(client: Any) -> Callable[[], Mapping[str, Any]] | None:
    """Return what gives credentials; ``None`` where none are used."""
    credential = client.credential
    if hasattr(credential, "get_token"):

        def ask() -> Mapping[str, Any]:
            token = credential.get_token(_SCOPE)
            return {"token": token.token, "expires_at": datetime.fromtimestamp(token.expires_on, UTC)}

        return ask
    signature = urlsplit(client.url).query or getattr(credential, "signature", "")
    if signature:
        return lambda: {"sas_token": signature.removeprefix("?"), "expires_at": None}
    if credential is None:
        return None
    return lambda: {"access_key": credential.account_key, "expires_at": None}
