# SPDX-License-Identifier: Apache-2.0
"""Connections of type ``google_cloud_platform``, read by Google's provider: keys, application defaults, impersonation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC
from threading import Lock
from typing import Any

from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.store_uris import StoreUri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.hooks.stores.secrets import reading, secrets_of


def access(where: StoreUri, connection: Connection) -> StoreAccess:
    """
    Read a connection.

    :raises ConfigurationError: if it cannot be used, or nothing gives credentials.
    """
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import Request

    secrets = secrets_of(connection)
    with reading(connection, secrets):
        credentials: Any = GoogleBaseHook(gcp_conn_id=connection.conn_id).get_credentials()
    options = _address()
    if isinstance(credentials, AnonymousCredentials):
        return StoreAccess({**options, "skip_signature": "true"})
    request, renewing = Request(), Lock()

    def ask() -> Mapping[str, Any]:
        with renewing:
            if not credentials.valid:
                credentials.refresh(request)
            # Google's library tells the time in UTC without saying so.
            expiry = credentials.expiry and credentials.expiry.replace(tzinfo=UTC)
            return {"token": credentials.token, "expires_at": expiry}

    return StoreAccess(options, StoreCredentials(f"connection {connection.conn_id!r}", ask, secrets))


def _address() -> Mapping[str, str]:
    """Return the options for another address, which Google's own clients take from the environment, too."""
    address = os.environ.get("STORAGE_EMULATOR_HOST", "").rstrip("/")
    if not address:
        return {}
    address = address if "://" in address else f"http://{address}"
    return {"base_url": address, **({"allow_http": "true"} if address.startswith("http://") else {})}
