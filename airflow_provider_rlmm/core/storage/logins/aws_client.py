# SPDX-License-Identifier: Apache-2.0
"""
botocore's client of S3 for what obstore cannot ask: it asks where the store asks, by the login that opens the store.

What botocore would find by itself is left out, be it a profile, an address or the role of the machine: it could be of another
bucket's owner, or lead to a host that nothing names.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.bucket_settings import BOUNDED_CALLS
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.named import in_environment, is_true, option, option_or_environment
from airflow_provider_rlmm.core.storage.opening import endpoint_of_s3

_PREFIXES: Final = ("aws_", "s3_")
_OF_OBSTORE: Final = frozenset(
    {"metadata_endpoint", "container_credentials_relative_uri", "container_credentials_full_uri"}
)
_DEFAULT_REGION: Final = "us-east-1"
"""obstore's, where none is named."""

_NOT_ASKED: Final[Mapping[str, Any]] = {
    "profile": None,
    "config_file": os.devnull,
    "credentials_file": os.devnull,
    "ignore_configured_endpoint_urls": True,
    "use_fips_endpoint": False,
    "use_dualstack_endpoint": False,
    # "auto" asks the machine for its region.
    "defaults_mode": "legacy",
}
"""Variables of botocore's configuration that lead elsewhere."""


def client_of_s3(access: StoreAccess, bucket: str, *, instance_metadata: bool) -> Any:
    """
    Return a client that makes no call by itself; credentials are asked for.

    :param access: what opens the store.
    :param bucket: the only one that the client is for.
    :param instance_metadata: whether the machine may be asked for its role where nothing else gives credentials.
    :raises ConfigurationError: if botocore is missing, or cannot ask as the store does; it holds no secret.
    :raises StorageAccessError: if the login gives no credentials.
    """
    try:
        import botocore.session
    except ModuleNotFoundError:
        raise ConfigurationError(
            "botocore, which reads them, is not installed: install airflow-provider-rlmm[aws]"
        ) from None
    options = access.options
    if option(options, {"proxy_excludes", "proxy_ca_certificate"}, _PREFIXES) is not None:
        raise ConfigurationError("botocore knows no proxy_excludes and no proxy_ca_certificate, which the options name")
    endpoint, is_virtual = _address(options, bucket)
    session = botocore.session.Session()
    for name, value in _NOT_ASKED.items():
        session.set_config_variable(name, value)
    keys = _keys(access, instance_metadata=instance_metadata)
    chain = session.get_component("credential_provider")
    chain.providers = [p for p in chain.providers if instance_metadata and not keys and p.METHOD == "iam-role"]
    authorities = _Authorities(options)
    client = session.create_client(
        "s3",
        region_name=_region(options),
        endpoint_url=endpoint,
        verify=authorities.verify,
        config=_config(options, is_virtual=is_virtual),
        **keys,
    )
    weakref.finalize(client, authorities.forget)
    _stay_at(client, bucket)
    return client


def _address(options: Mapping[str, str], bucket: str) -> tuple[str | None, bool]:
    """Return the address as botocore takes it, ``None`` for AWS's own, and whether the bucket is part of the host's name."""
    endpoint = endpoint_of_s3(options) or None
    is_virtual = is_true(option_or_environment(options, {"virtual_hosted_style_request"}, _PREFIXES))
    if endpoint is None:
        return None, is_virtual
    parts = urlsplit(endpoint)
    if parts.scheme == "http" and not is_true(option(options, {"allow_http"}, _PREFIXES)):
        raise ConfigurationError("the endpoint begins with http://, which is used with the option allow_http=true only")
    if not is_virtual:
        return endpoint, False
    # obstore wants the bucket in such an address, botocore puts it there.
    before, found, rest = endpoint.partition(f"://{bucket}.")
    if not found:
        raise ConfigurationError(
            f"the options want the bucket in the name of the host, and the endpoint does not begin with {bucket!r}"
        )
    return f"{before}://{rest}", True


def _keys(access: StoreAccess, *, instance_metadata: bool) -> Mapping[str, str | None]:
    """Return the arguments of botocore for what the store is opened with; none for requests without a signature."""
    options = access.options
    if access.credentials is not None:
        given = access.credentials()
        return {
            "aws_access_key_id": given["access_key_id"],
            "aws_secret_access_key": given["secret_access_key"],
            "aws_session_token": given["token"],
        }
    if _is_unsigned(options):
        return {}
    key, secret, token = (
        option_or_environment(options, names, _PREFIXES)
        for names in ({"access_key_id"}, {"secret_access_key"}, {"session_token", "token"})
    )
    if key and secret:
        return {"aws_access_key_id": key, "aws_secret_access_key": secret, "aws_session_token": token}
    if not instance_metadata or option(options, _OF_OBSTORE, _PREFIXES) or in_environment(_OF_OBSTORE, _PREFIXES):
        raise ConfigurationError(
            "only obstore reads the login that opens the store; give a key by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or a profile"
        )
    return {}


def _config(options: Mapping[str, str], *, is_virtual: bool) -> Any:
    from botocore import UNSIGNED
    from botocore.config import Config

    proxy = option(options, {"proxy_url"}, _PREFIXES)
    return Config(
        **BOUNDED_CALLS,
        **({"proxies": {"http": proxy, "https": proxy}} if proxy else {}),
        **({"signature_version": UNSIGNED} if _is_unsigned(options) else {}),
        s3={
            "addressing_style": "virtual" if is_virtual else "path",
            "us_east_1_regional_endpoint": "regional",
            "use_accelerate_endpoint": False,
        },
    )


def _region(options: Mapping[str, str]) -> str:
    found = (option_or_environment(options, {name}, _PREFIXES) for name in ("region", "default_region"))
    return next(filter(None, found), _DEFAULT_REGION)


def _is_unsigned(options: Mapping[str, str]) -> bool:
    return is_true(option_or_environment(options, {"skip_signature"}, _PREFIXES))


class _Authorities:
    """
    Whose certificates are believed: the system's, and those of an option, as the store does it.

    botocore takes them from a file, which is there as long as the client.

    :param options: of the store.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self.verify: bool | str = not is_true(option(options, {"allow_invalid_certificates"}, _PREFIXES))
        given = option(options, {"root_certificate"}, _PREFIXES)
        if given is None or not self.verify:
            return
        from botocore.httpsession import where

        self._folder = TemporaryDirectory(prefix="rlmm-")
        path = Path(self._folder.name, "authorities.pem")
        path.write_text(f"{Path(where()).read_text('utf-8')}\n{given}", "utf-8")
        self.verify = str(path)

    def forget(self) -> None:
        """Remove the file."""
        if self._folder is not None:
            self._folder.cleanup()


def _stay_at(client: Any, bucket: str) -> None:
    """Keep a client from another host than the store's: botocore would follow a bucket into the region that it is told."""
    host = urlsplit(client.meta.endpoint_url).hostname
    hosts = {host, f"{bucket}.{host}"}

    def refuse(request: Any, **_: object) -> None:
        if urlsplit(request.url).hostname not in hosts:
            raise ConfigurationError("the store leads to another host: name the region of the bucket, AWS_REGION")

    client.meta.events.register("before-send.s3", refuse)
