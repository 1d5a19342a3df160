# SPDX-License-Identifier: Apache-2.0
"""Logins of Azure: what ``az login`` has left on the machine, of which obstore asks that command itself."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Final

from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.named import (
    in_environment,
    no_credentials,
    option,
    tell_of_metadata,
)

PREFIXES: Final = ("azure_", "storage_")
_CREDENTIALS: Final = frozenset(
    {
        "account_key", "access_key", "master_key", "sas_key", "sas_token", "bearer_token", "token", "client_id",
        "client_secret", "authority_id", "tenant_id", "federated_token_file", "msi_endpoint", "identity_endpoint",
        "object_id", "msi_resource_id", "use_azure_cli", "skip_signature", "use_emulator",
    }
)  # fmt: skip
_LOOKED_AT: Final = (
    "neither the options nor the environment (AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID) give any, "
    "and there is no command az. Install it and log in by 'az login'"
)


def login(options: Mapping[str, str], *, instance_metadata: bool) -> StoreAccess:
    """
    Return what opens Azure Blob Storage; see :func:`~airflow_provider_rlmm.core.storage.logins.login.with_login`.

    :raises ConfigurationError: naming all that was looked at.
    """
    if option(options, _CREDENTIALS, PREFIXES) is not None or in_environment(_CREDENTIALS, PREFIXES):
        return StoreAccess(options)
    if instance_metadata:
        tell_of_metadata()
        return StoreAccess(options)
    if shutil.which("az") is not None:
        return StoreAccess({"use_azure_cli": "true", **options})
    raise no_credentials("Azure Blob Storage", _LOOKED_AT)
