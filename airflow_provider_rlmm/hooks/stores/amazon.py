# SPDX-License-Identifier: Apache-2.0
"""Connections of type ``aws``, read by Amazon's provider: keys, session tokens, roles, profiles, the default chain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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

REQUESTER_PAYS: Final = "requester_pays"
"""Field of ``service_config.s3``, as Amazon's hook names its own argument."""

_OF_S3: Final = frozenset({"endpoint_url", "bucket_name", "transfer_config_args", REQUESTER_PAYS})
"""Fields of ``service_config.s3`` that Amazon's hook reads, where nothing is lost by not reading them here, and ours."""

_PAYER: Final = re.compile(r"(?i)request(er)?[_-]?pay(s|er)?")
"""Names under which people look for it: boto3's, obstore's and those of s3fs and others."""


def access(where: StoreUri, connection: Connection) -> StoreAccess:
    """
    Read a connection.

    :raises ConfigurationError: if it cannot be used, or nothing gives credentials.
    :raises StorageAccessError: if its role may not be assumed.
    :raises StorageUnavailableError: if the token service does not answer.
    """
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

    _refuse_options_of_obstore(connection)
    payer = _payer(extra_of(connection))
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
            **payer,
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


def _payer(extra: Mapping[str, Any]) -> Mapping[str, str]:
    """
    Return the option for a bucket whose requesters pay. Amazon's hook takes it as an argument, its connection has no field.

    :param extra: of the connection.
    :raises ConfigurationError: if it is named where no client reads it, or another field of S3's is that is not read here.
    """
    services = extra.get("service_config")
    of_s3 = services.get("s3") if isinstance(services, dict) else None
    of_s3 = of_s3 if isinstance(of_s3, dict) else {}
    if named := sorted({*_named_payers(extra)} - ({REQUESTER_PAYS} if REQUESTER_PAYS in of_s3 else set())):
        raise ConfigurationError(
            f"{', '.join(named)} in extra is read by no client: for a bucket whose requesters pay write "
            f'"service_config": {{"s3": {{"{REQUESTER_PAYS}": true}}}}'
        )
    if unread := sorted(of_s3.keys() - _OF_S3):
        raise ConfigurationError(
            f"{', '.join(unread)} in service_config.s3 is not read here: a proxy is config_kwargs.proxies, a server of one's "
            "own endpoint_url"
        )
    pays = of_s3.get(REQUESTER_PAYS, False)
    if not isinstance(pays, bool):
        raise ConfigurationError(f"{REQUESTER_PAYS} in service_config.s3 must be true or false")
    return {"request_payer": "true"} if pays else {}


def _named_payers(value: object) -> Iterator[str]:
    """Yield the names in a value, however deep, that mean who pays."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if _PAYER.fullmatch(str(name)):
                yield str(name)
            yield from _named_payers(inner)


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
