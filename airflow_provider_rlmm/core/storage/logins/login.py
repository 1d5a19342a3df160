# SPDX-License-Identifier: Apache-2.0
"""
How one logs in to a store whose options hold no credentials: as the vendor's own command does on the same machine.

What options or environment name is used first, and obstore reads it itself. Then come profiles and logins that a person has
left on the machine. The address at which a machine tells who it is, 169.254.169.254, is asked only where the settings say
so: on a laptop, or in a network of others, anybody may answer there. Where nothing is left, that is said before any request
is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from airflow_provider_rlmm.core.base.store_uris import read_store_uri
from airflow_provider_rlmm.core.base.values import refused
from airflow_provider_rlmm.core.storage.credentials import StoreAccess

_BY_KIND: Final = {"s3": "aws", "gs": "google", "az": "azure"}


INSTANCE_METADATA: Final = "instance_metadata"
"""Option of any store: whether the address may be asked at which a machine tells its own role, true or false."""


def with_login(uri: str, options: Mapping[str, str]) -> StoreAccess:
    """
    Return what opens a store: the options as they are, or with the login that this machine has.

    :param uri: of the store; a local folder needs no login.
    :param options: obstore's, :data:`INSTANCE_METADATA`, and ``profile`` of S3.
    :raises ConfigurationError: if nothing gives credentials, naming all that was looked at; if a library is missing; or if a
        setting of the login means nothing to obstore.
    """
    kind = _BY_KIND.get(read_store_uri(uri).kind)
    if kind is None:
        return StoreAccess(options)
    given = dict(options)
    allowed = given.pop(INSTANCE_METADATA, "false").lower()
    if allowed not in ("true", "false"):
        raise refused(INSTANCE_METADATA, allowed, "true or false")
    login: Callable[..., StoreAccess] = import_module(f"{__package__}.{kind}").login
    return login(given, instance_metadata=allowed == "true")
