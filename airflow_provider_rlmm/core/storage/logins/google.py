# SPDX-License-Identifier: Apache-2.0
"""
Logins of Google Cloud: the file that ``gcloud auth application-default login`` leaves, or that the environment names.

obstore reads service accounts and logins of users itself. Files of other kinds, such as workload identities and impersonated
accounts, are read by google-auth where it is installed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from threading import Lock
from typing import Any, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.core.storage.logins.named import (
    in_environment,
    no_credentials,
    option,
    tell_of_metadata,
)

PREFIX: Final = ("google_",)
_CREDENTIALS: Final = frozenset(
    {
        "service_account", "service_account_path", "service_account_key", "application_credentials", "bearer_token",
        "skip_signature",
    }
)  # fmt: skip
_FROM_ENVIRONMENT: Final = _CREDENTIALS - {"application_credentials"}
_READ_BY_OBSTORE: Final = ("service_account", "authorized_user")
SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
_LOOKED_AT: Final = (
    "neither the options nor GOOGLE_APPLICATION_CREDENTIALS name a file, and there is none of gcloud's. Log in by 'gcloud "
    "auth application-default login'"
)


def login(options: Mapping[str, str], *, instance_metadata: bool) -> StoreAccess:
    """
    Return what opens Google Cloud Storage; see :func:`~airflow_provider_rlmm.core.storage.logins.login.with_login`.

    :raises ConfigurationError: naming all that was looked at, or what is missing.
    """
    if option(options, _CREDENTIALS, PREFIX) is not None or in_environment(_FROM_ENVIRONMENT, PREFIX):
        return StoreAccess(options)
    if (path := file_of_login()) is not None:
        return _of_file(path, options)
    if instance_metadata:
        tell_of_metadata()
        return StoreAccess(options)
    raise no_credentials("Google Cloud Storage", _LOOKED_AT)


def credentials_of(found: Any, owner: str, secrets: frozenset[str] = frozenset()) -> StoreCredentials:
    """
    Return a credential provider of obstore that asks google-auth's credentials, and renews them.

    :param found: google-auth's credentials.
    :param owner: see :class:`~airflow_provider_rlmm.core.storage.credentials.StoreCredentials`.
    :param secrets: likewise.
    """
    from google.auth.transport.requests import Request

    request, renewing = Request(), Lock()

    def ask() -> Mapping[str, Any]:
        with renewing:
            if not found.valid:
                found.refresh(request)
            # Google's library tells the time in UTC without saying so.
            expiry = found.expiry and found.expiry.replace(tzinfo=UTC)
            return {"token": found.token, "expires_at": expiry}

    return StoreCredentials(owner, ask, secrets)


def file_of_login() -> Path | None:
    """Return the file that the environment names, else gcloud's where it is there, else ``None``."""
    if named := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return Path(named).expanduser()
    folder = os.environ.get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    path = Path(folder).expanduser() / "application_default_credentials.json"
    return path if path.is_file() else None


def _of_file(path: Path, options: Mapping[str, str]) -> StoreAccess:
    try:
        kind = json.loads(path.read_text("utf-8"))["type"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigurationError(
            f"{str(path)!r} is no readable file of Google credentials: log in by 'gcloud auth application-default login', or "
            "have GOOGLE_APPLICATION_CREDENTIALS name another one"
        ) from None
    if kind in _READ_BY_OBSTORE:
        # obstore finds it by itself, but for where gcloud was told to keep it.
        elsewhere = {"application_credentials": str(path)} if os.environ.get("CLOUDSDK_CONFIG") else {}
        return StoreAccess({**elsewhere, **options})
    try:
        from google.auth import load_credentials_from_file
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"{str(path)!r} holds credentials of type {kind!r}, which google-auth reads, and it is not installed: install "
            "airflow-provider-rlmm[gcs]"
        ) from None
    found, _ = load_credentials_from_file(str(path), scopes=[SCOPE])
    return StoreAccess(options, credentials_of(found, f"the file {str(path)!r}"))
