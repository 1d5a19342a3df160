# SPDX-License-Identifier: Apache-2.0
"""Connections of type ``aws``, read by Amazon's provider: keys, session tokens, roles, profiles, the default chain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    StorageAccessError,
    StorageError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.base.store_uris import StoreUri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.aws import credentials_of, options_of
from airflow_provider_rlmm.core.storage.opening import is_client_option
from airflow_provider_rlmm.core.storage.secret_texts import safe_text
from airflow_provider_rlmm.hooks.connection import extra_of
from airflow_provider_rlmm.hooks.stores.secrets import reading, secrets_of

_OF_AIRFLOW: Final = frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})

_OF_OBSTORE: Final = frozenset(
    {"endpoint", "region", "access_key_id", "secret_access_key", "session_token", "token", "bucket"}
)
"""Options of obstore without a prefix, as people write them."""


def access(where: StoreUri, connection: Connection) -> StoreAccess:
    """
    Read a connection.

    :raises ConfigurationError: if it cannot be used, or nothing gives credentials.
    :raises StorageAccessError: if its role may not be assumed.
    :raises StorageUnavailableError: if the token service does not answer.
    """
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

    _refuse_options_of_obstore(connection)
    secrets = secrets_of(connection)
    with reading(connection, secrets):
        # The type of client says whose endpoint of the connection counts.
        hook: Any = AwsBaseHook(aws_conn_id=connection.conn_id, client_type="s3")
        session = _session(hook, connection, secrets)
        credentials = session.get_credentials()
        endpoint = hook.conn_config.get_service_endpoint_url("s3")
        unsigned = _is_unsigned(hook)
        options = {
            **({"region": session.region_name} if session.region_name else {}),
            **({"endpoint": endpoint} if endpoint else {}),
            **({"allow_http": "true"} if (endpoint or "").startswith("http://") else {}),
            **({"skip_signature": "true"} if unsigned else {}),
            **_certificates(hook.verify),
            **options_of(hook.config),
        }
    if unsigned:
        return StoreAccess(options)
    if credentials is None:
        raise ConfigurationError(
            "neither it nor the environment, a profile or the role of the machine gives AWS credentials: put an access key "
            "into login and password, name a role_arn, or give the machine a role"
        )

    return StoreAccess(options, credentials_of(credentials, f"connection {connection.conn_id!r}", secrets))


def _session(hook: Any, connection: Connection, secrets: frozenset[str]) -> Any:
    """Open a session; a role is assumed at once."""
    from botocore.exceptions import ClientError, HTTPClientError
    from botocore.exceptions import ConnectionError as NoConnectionError

    error: type[StorageError] = StorageAccessError
    try:
        return hook.get_session()
    except ClientError as e:
        why = safe_text(e, secrets)
    except (NoConnectionError, HTTPClientError) as e:
        why, error = safe_text(e, secrets), StorageUnavailableError
    raise error(f"connection {connection.conn_id!r}: its role cannot be assumed: {why}")


def _is_unsigned(hook: Any) -> bool:
    from botocore import UNSIGNED

    return hook.config.signature_version is UNSIGNED


def _certificates(verify: bool | str | None) -> Mapping[str, str]:
    """Return the options for ``verify``: whether certificates are checked, or a file of authorities."""
    if verify is None or verify is True:
        return {}
    if verify is False:
        return {"allow_invalid_certificates": "true"}
    try:
        return {"root_certificate": Path(verify).read_text(encoding="ascii")}
    except (OSError, ValueError, TypeError) as e:
        raise ConfigurationError(
            f"verify must be true, false or the path of a PEM file of certificate authorities; {verify!r} cannot be read "
            f"({type(e).__name__})"
        ) from None


def _refuse_options_of_obstore(connection: Connection) -> None:
    """Amazon's hook passes over what it does not know: an endpoint under another name would lead to another store."""
    names = [
        name
        for name in extra_of(connection)
        if is_client_option(name)
        or name.lower() in _OF_OBSTORE
        or (name.lower().startswith("aws_") and name not in _OF_AIRFLOW)
    ]
    if names:
        raise ConfigurationError(
            f"{', '.join(sorted(names))} in extra are obstore's options, which a connection of type aws does not have: write "
            "region_name, endpoint_url, verify, or change its type to generic"
        )
