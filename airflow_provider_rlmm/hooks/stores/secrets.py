# SPDX-License-Identifier: Apache-2.0
"""The secrets of an official connection, as they may come back in another library's error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import unquote

from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.storage.secret_texts import safe_text, secrets_in
from airflow_provider_rlmm.hooks.connection import extra_of

# What is not here is hidden: a list of secret names would miss the next new one.
_PUBLIC: Final = re.compile(
    r"(extra__(google_cloud_platform|wasb)__)?("
    r"region_name|endpoint_url|role_arn|profile_name|verify|assume_role_method|config_kwargs|bucket_name|signature_version"
    r"|project|project_id|key_path|credential_config_file|scope|num_retries|is_anonymous|impersonation_chain"
    r"|quota_project_id|type|auth_uri|token_uri|universe_domain|idp_issuer_url|key_secret_(name|project_id)"
    r"|tenant_id|managed_identity_client_id|workload_identity_tenant_id)"
)

_PUBLIC_PART: Final = re.compile(
    r"(?i)DefaultEndpointsProtocol|AccountName|EndpointSuffix|\w+Endpoint|UseDevelopmentStorage|s[evprstk]|sp?r|srt?|sk?|sdd"
)


def secrets_of(connection: Connection) -> frozenset[str]:
    """
    Return the texts of a connection that must appear nowhere.

    :param connection: of an official type.
    :raises ConfigurationError: if extra is not a JSON object.
    """
    found = dict(_texts("password", connection.password))
    for name, value in extra_of(connection).items():
        if not _PUBLIC.fullmatch(name):
            found.update(_texts(name, value))
    return frozenset(secrets_in(found))


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return each text in a value under a name of its own; one that is JSON, such as a key file, is read, too."""
    if isinstance(value, str) and value.startswith("{"):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str):
        yield name, value
        yield from _parts(name, value)
    elif isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in inner:
            if not _PUBLIC.fullmatch(str(key)):
                yield from _texts(f"{name}.{key}", part)


def _parts(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Return the parts of a connection string or a signature: each may come back alone, as it is or decoded."""
    for n, part in enumerate(re.split("[;&?]", value)):
        key, _, text = part.partition("=")
        if text and not _PUBLIC_PART.fullmatch(key):
            yield f"{name}.{n}", text
            yield f"{name}.{n}.decoded", unquote(text)


@contextmanager
def reading(connection: Connection, secrets: frozenset[str]) -> Iterator[None]:
    """
    Make an error of any that a provider's hook raises, without secrets.

    :param connection: what is read.
    :param secrets: its secrets.
    :raises ConfigurationError: in the place of everything that is not an error of this package.
    """
    try:
        yield
    except RlmmError:
        raise
    except Exception as e:
        why = f"{type(e).__name__}: {safe_text(e, secrets)}"
        # The cause may hold what the text does not.
        raise ConfigurationError(
            f"Airflow's hook for connections of type {connection.conn_type} refuses it: {why}"
        ) from None
