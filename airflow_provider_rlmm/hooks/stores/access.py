# SPDX-License-Identifier: Apache-2.0
"""
Access to a store from an Airflow connection.

A connection of an official type (``aws``, ``google_cloud_platform``, ``wasb``) is read by the hook of its own provider, so it
means here what it means everywhere in Airflow. A connection of any other type holds obstore's own options; where these hold
no credentials, the login of the machine is taken (:mod:`airflow_provider_rlmm.core.storage.logins.login`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, NamedTuple

from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.store_uris import StoreUri, read_store_uri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.login import with_login
from airflow_provider_rlmm.hooks.connection import extra_of, naming_connection

_CREDENTIALS = {
    "s3": ("aws_access_key_id", "aws_secret_access_key"),
    "az": ("azure_storage_account_name", "azure_storage_account_key"),
}
"""Kind of store → the store's options that login and password of a connection of no official type are."""


class _Official(NamedTuple):
    kind: str  # of the stores that it opens
    extra: str  # of this package, which installs the provider
    provider: str  # the module that nothing of it can be used without
    module: str  # of this package, whose ``access`` reads the connection


_OFFICIAL: Final = {
    "aws": _Official("s3", "amazon", "airflow.providers.amazon", "amazon"),
    "google_cloud_platform": _Official("gs", "google", "airflow.providers.google", "google"),
    "wasb": _Official("az", "azure", "airflow.providers.microsoft.azure", "azure"),
}
"""Type of the connection → how it is read."""

_SCHEMES: Final = {"s3": "s3://, s3a://", "gs": "gs://", "az": "abfss://, wasbs://, az://"}


def store_access(uri: str, connection: Connection) -> StoreAccess:
    """
    Return what a connection says of a store. A role to assume is assumed here; no other call is made.

    :param uri: the store's URI.
    :param connection: of type ``aws``, ``google_cloud_platform`` or ``wasb``; of any other type, login, password and extra
        are options of obstore.
    :raises ConfigurationError: naming the connection and the field, never a value; also if the provider is not installed.
    :raises StorageAccessError: if a role may not be assumed.
    :raises StorageUnavailableError: if the server that gives credentials does not answer.
    """
    with naming_connection(connection.conn_id):
        where = read_store_uri(uri)
        official = _OFFICIAL.get(connection.conn_type or "")
        if official is None:
            return with_login(uri, _options(where, connection))
        if where.kind != official.kind:
            raise ConfigurationError(
                f"its type {connection.conn_type!r} opens {_SCHEMES[official.kind]} and not {uri.partition('://')[0]}://: "
                "name a connection of the store's own kind"
            )
        access: Callable[[StoreUri, Connection], StoreAccess] = _reader(official).access
        return access(where, connection)


def _reader(official: _Official):  # type: ignore[no-untyped-def] # modules of one shape
    try:
        import_module(official.provider)
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"Airflow's provider for it is not installed: install airflow-provider-rlmm[{official.extra}], or put the "
            "store's own options into a connection of type generic"
        ) from None
    return import_module(f"{__package__}.{official.module}")


def _options(where: StoreUri, connection: Connection) -> dict[str, str]:
    """Turn a connection of no official type into options; extra wins over login and password."""
    options: dict[str, str] = {}
    if connection.login or connection.password:
        if where.kind not in _CREDENTIALS:
            raise ConfigurationError(
                f"login and password mean nothing to a {where.kind}:// store; put its options into extra"
            )
        login, password = _CREDENTIALS[where.kind]
        options = {k: v for k, v in ((login, connection.login), (password, connection.password)) if v}
    for name, value in extra_of(connection).items():
        if not isinstance(value, str | bool | int):
            raise ConfigurationError(f"{name} in extra must be text, a number or a boolean")
        options[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return options
