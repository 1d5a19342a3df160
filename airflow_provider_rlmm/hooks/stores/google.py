# SPDX-License-Identifier: Apache-2.0
"""Connections of type ``google_cloud_platform``, read by Google's provider: keys, application defaults, impersonation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.store_uris import StoreUri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.google import credentials_of
from airflow_provider_rlmm.hooks.stores.secrets import reading, secrets_of


def access(where: StoreUri, connection: Connection) -> StoreAccess:
    """
    Read a connection.

    :raises ConfigurationError: if it cannot be used, or nothing gives credentials.
    """
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook
    from google.auth.credentials import AnonymousCredentials

    secrets = secrets_of(connection)
    with reading(connection, secrets):
        credentials: Any = GoogleBaseHook(gcp_conn_id=connection.conn_id).get_credentials()
    options = _address()
    if isinstance(credentials, AnonymousCredentials):
        return StoreAccess({**options, "skip_signature": "true"})
    return StoreAccess(options, credentials_of(credentials, f"connection {connection.conn_id!r}", secrets))


def _address() -> Mapping[str, str]:
    """Return the options for another address, which Google's own clients take from the environment, too."""
    address = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    if not address:
        return {}
    address = address if "://" in address else f"http://{address}"
    return {"base_url": address, **({"allow_http": "true"} if address.startswith("http://") else {})}
