# SPDX-License-Identifier: Apache-2.0
"""
Logins of AWS, by botocore: profiles, ``aws sso login``, roles of a profile, web identities, a container's role, a process.

botocore reads what AWS's own command reads, in the same order, without the address of the machine's role. Where it is not
installed obstore's own order holds, of which only files are not read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.core.storage.logins.named import (
    in_environment,
    no_credentials,
    option,
    tell_of_metadata,
)

logger = logging.getLogger(__name__)

_PREFIX: Final = ("aws_",)
_CREDENTIALS: Final = frozenset(
    {
        "access_key_id", "secret_access_key", "session_token", "token", "skip_signature", "metadata_endpoint",
        "container_credentials_relative_uri", "container_credentials_full_uri",
    }
)  # fmt: skip
_KEYS: Final = frozenset({"access_key_id", "secret_access_key", "skip_signature"})
_ROLES: Final = frozenset(
    {"web_identity_token_file", "container_credentials_relative_uri", "container_credentials_full_uri"}
)
_REGION: Final = frozenset({"region", "default_region"})
_ENDPOINT: Final = frozenset({"endpoint", "endpoint_url", "endpoint_url_s3"})
_OTHER_ADDRESSES: Final = ("use_fips_endpoint", "use_dualstack_endpoint")
_PROFILES: Final = ("profile", "aws_profile")

_ASKED_AGAIN: Final = timedelta(minutes=6)
"""obstore asks again when less than five minutes are left. botocore answers from memory until it has to renew them itself."""

_LOOKED_AT: Final = (
    "neither the options, nor the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_WEB_IDENTITY_TOKEN_FILE, "
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI), nor a profile in ~/.aws gives any. Log in by 'aws sso login' or 'aws "
    "configure', and name the profile by AWS_PROFILE"
)


def login(options: Mapping[str, str], *, instance_metadata: bool) -> StoreAccess:
    """
    Return what opens S3; see :func:`~airflow_provider_rlmm.core.storage.logins.login.with_login`.

    :raises ConfigurationError: naming all that was looked at, or what is missing.
    """
    given = {name: value for name, value in options.items() if name.lower() not in _PROFILES}
    named = next((value for name, value in options.items() if name.lower() in _PROFILES), None)
    profile = named or os.environ.get("AWS_PROFILE") or None
    if named is not None and option(given, _KEYS, _PREFIX) is not None:
        raise ConfigurationError("the options of the store name a profile and a key: keep one of them")
    if option(given, _CREDENTIALS, _PREFIX) is not None or (named is None and in_environment(_KEYS, _PREFIX)):
        return _of_obstore(given)
    session = _session(named)
    if session is not None and (found := _of_session(session, profile, given)) is not None:
        return found
    if session is None and in_environment(_ROLES, _PREFIX):
        return _of_obstore(given)
    if instance_metadata:
        tell_of_metadata()
        return _of_obstore(given)
    raise no_credentials("S3", _LOOKED_AT)


def _of_obstore(given: Mapping[str, str]) -> StoreAccess:
    """Return the options for a login that obstore finds itself, with what AWS's own tools take from the environment."""
    if option(given, _ENDPOINT, _PREFIX) is None and not in_environment(_ENDPOINT, _PREFIX):
        named = {name: os.environ.get(f"AWS_{name.upper()}", "").lower() == "true" for name in _OTHER_ADDRESSES}
        options_of(SimpleNamespace(**named))
    return StoreAccess({**_authorities(given), **given})


def credentials_of(found: Any, owner: str, secrets: Iterable[str] = (), remedy: str = "") -> StoreCredentials:
    """
    Return a credential provider of obstore that asks botocore's credentials, which renew themselves.

    :param found: botocore's credentials.
    :param owner: see :class:`~airflow_provider_rlmm.core.storage.credentials.StoreCredentials`.
    :param secrets: likewise.
    :param remedy: likewise.
    """

    def ask() -> Mapping[str, Any]:
        frozen = found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _ASKED_AGAIN,
        }

    return StoreCredentials(owner, ask, secrets, remedy)


def options_of(config: Any) -> Mapping[str, str]:
    """
    Return obstore's options for what a configuration of botocore says of addresses.

    :param config: a ``botocore.config.Config``.
    :raises ConfigurationError: if it says what obstore cannot do: nothing that leads elsewhere is passed over.
    """
    options: dict[str, str] = {}
    unheeded = [name for name in (*_OTHER_ADDRESSES, "client_cert") if getattr(config, name, None)]
    of_s3 = dict(getattr(config, "s3", None) or {})
    style = of_s3.pop("addressing_style", None)
    if style in ("virtual", "path"):
        options["virtual_hosted_style_request"] = "true" if style == "virtual" else "false"
    unheeded += [f"s3.{name}" for name, value in of_s3.items() if name.startswith("use_") and value]
    proxies = set((getattr(config, "proxies", None) or {}).values())
    if len(proxies) == 1:
        options["proxy_url"] = proxies.pop()
    elif proxies:
        unheeded.append("proxies for several schemes")
    if unheeded:
        raise ConfigurationError(
            f"obstore knows no {', '.join(sorted(unheeded))}: name the address itself as endpoint_url, such as "
            "https://s3-fips.eu-central-1.amazonaws.com or https://s3.dualstack.eu-central-1.amazonaws.com"
        )
    return options


def _session(profile: str | None) -> Any:
    """Return a session that says whom it asks, ``None`` where botocore is neither there nor needed."""
    try:
        import botocore.session
    except ModuleNotFoundError:
        if (
            profile
            or os.environ.get("AWS_PROFILE")
            or (not in_environment(_ROLES, _PREFIX) and any(file.is_file() for file in _files()))
        ):
            raise ConfigurationError(
                "profiles and logins in ~/.aws are read by botocore, which is not installed: install "
                "airflow-provider-rlmm[aws], or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from None
        return None
    session = botocore.session.Session(profile=profile)
    told: set[str] = set()

    def tell(request: Any, **_: object) -> None:
        host = urlsplit(request.url).hostname or ""
        if host not in told:
            told.add(host)
            logger.warning("asking %s for the credentials of S3", host)

    session.register("before-send", tell)
    return session


def _files() -> list[Path]:
    usual = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
    return [Path(os.environ.get(variable) or path).expanduser() for variable, path in usual.items()]


def _of_session(session: Any, profile: str | None, given: Mapping[str, str]) -> StoreAccess | None:
    from botocore.config import Config
    from botocore.configprovider import ConfiguredEndpointProvider
    from botocore.exceptions import BotoCoreError

    try:
        session.get_component("credential_provider").remove("iam-role")
        found = session.get_credentials()
        region = session.get_config_variable("region")
        scoped = session.get_scoped_config()
        endpoint = ConfiguredEndpointProvider(session.full_config, scoped, "s3").provide()
        authorities = session.get_config_variable("ca_bundle")
    except BotoCoreError as e:
        raise ConfigurationError(f"the login of AWS cannot be used: {e}") from None
    if found is None:
        if profile is not None:
            raise ConfigurationError(
                f"profile {profile!r} of ~/.aws holds no credentials and no way to get some: log in by 'aws configure "
                f"--profile {profile}' or 'aws sso login --profile {profile}'"
            )
        return None
    # An address that is named is taken as it is.
    wanted = _OTHER_ADDRESSES if endpoint is None else ()
    addresses = {name: session.get_config_variable(name) for name in wanted}
    options = dict(options_of(Config(s3=_of_s3(scoped.get("s3")), **addresses)))
    if region and option(given, _REGION, _PREFIX) is None:
        options["region"] = region
    if endpoint and option(given, _ENDPOINT, _PREFIX) is None:
        options |= {"endpoint": endpoint, **({"allow_http": "true"} if endpoint.startswith("http://") else {})}
    owner = f"profile {profile!r} of ~/.aws" if profile else "the login of AWS on this machine"
    again = f" --profile {profile}" if profile else ""
    remedy = f"log in again: 'aws sso login{again}', or renew the keys of the profile"
    return StoreAccess(
        {**_authorities(given, authorities), **options, **given}, credentials_of(found, owner, remedy=remedy)
    )


def _of_s3(section: object) -> dict[str, Any]:
    """Return what a profile says below ``s3 =``, true and false as such."""
    words = {"true": True, "false": False}
    return {k: words.get(str(v).lower(), v) for k, v in section.items()} if isinstance(section, dict) else {}


def _authorities(given: Mapping[str, str], bundle: str | None = None) -> Mapping[str, str]:
    """Return the option for the file of authorities that AWS's own tools take from the environment or a profile."""
    path = bundle or os.environ.get("AWS_CA_BUNDLE")
    if not path or any(name.lower().endswith("root_certificate") for name in given):
        return {}
    try:
        return {"root_certificate": Path(path).expanduser().read_text(encoding="ascii")}
    except (OSError, ValueError):
        raise ConfigurationError(
            f"AWS_CA_BUNDLE, or ca_bundle of the profile, names {path!r}, which is no readable PEM file of authorities"
        ) from None
