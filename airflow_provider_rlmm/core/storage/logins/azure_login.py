# SPDX-License-Identifier: Apache-2.0
"""
How requests to Azure Blob Storage that obstore has none for are authorised: by what obstore would use, in its order.

Sources: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key and
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError
from airflow_provider_rlmm.core.storage.logins.azure import PREFIXES
from airflow_provider_rlmm.core.storage.logins.named import is_true, option_or_environment
from airflow_provider_rlmm.core.storage.logins.plain_http import PlainHttp

logger = logging.getLogger(__name__)

_AUTHORITY: Final = "https://login.microsoftonline.com"
_AUDIENCE: Final = "https://storage.azure.com/.default"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_CLI_S: Final = 60
_UNSIGNED_HEADERS: Final = 11
"""Standard headers that a signature names, of which a plain question has none."""


class AzureLogin:
    """
    Signs questions; a token is asked for once.

    :param options: obstore's for the store; what they leave out the environment says.
    :param account: the storage account.
    :param http: what sends requests for a token.
    """

    def __init__(self, options: Mapping[str, str], account: str, http: PlainHttp) -> None:
        self._options = options
        self._account = account
        self._http = http
        self._token = self._named("bearer_token", "token")

    def signed(self, url: str, headers: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
        """
        Return address and headers with what proves who asks.

        :param url: with its query, in which each name is there once.
        :param headers: those of Azure, ``x-ms-…``, in lower case.
        :raises ConfigurationError: if only obstore can read the login, or it cannot be used.
        :raises StorageAccessError: if no login gives a token.
        """
        if is_true(self._named("skip_signature")):
            return url, headers
        if self._token is None:
            if key := self._named("account_key", "access_key", "master_key"):
                return url, {
                    **headers,
                    "Authorization": f"SharedKey {self._account}:{self._signature(key, url, headers)}",
                }
            if (signature := self._named("sas_key", "sas_token")) and not self._is_principal():
                pairs = [pair.partition("=")[::2] for pair in unquote(signature).lstrip("?").split("&") if pair.strip()]
                return f"{url}&{urlencode(pairs, quote_via=quote)}", headers
            self._token = self._asked_token()
        return url, {**headers, "Authorization": f"Bearer {self._token}"}

    def _named(self, *names: str) -> str | None:
        return option_or_environment(self._options, set(names), PREFIXES)

    def _signature(self, key: str, url: str, headers: Mapping[str, str]) -> str:
        parts = urlsplit(url)
        query = (f"\n{name.lower()}:{value}" for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True)))
        named = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        text = "GET" + "\n" * (_UNSIGNED_HEADERS + 1) + named + f"/{self._account}{parts.path}" + "".join(query)
        try:
            secret = base64.b64decode(key, validate=True)
        except ValueError:
            raise ConfigurationError("the account key of Azure is no base64") from None
        return base64.b64encode(hmac.digest(secret, text.encode(), "sha256")).decode()

    def _is_principal(self) -> bool:
        tenant = self._named("tenant_id", "authority_id")
        return bool(tenant and self._named("client_id") and self._named("client_secret", "federated_token_file"))

    def _asked_token(self) -> str:
        if self._is_principal():
            return self._token_of_principal()
        if is_true(self._named("use_azure_cli")):
            return _token_of_cli()
        raise ConfigurationError(
            "only obstore reads the login that opens the store; log in by 'az login', or give AZURE_STORAGE_ACCOUNT_KEY"
        )

    def _token_of_principal(self) -> str:
        form = {"client_id": self._named("client_id") or "", "scope": _AUDIENCE, "grant_type": "client_credentials"}
        if file := self._named("federated_token_file"):
            try:
                assertion = Path(file).read_text("utf-8").strip()
            except (OSError, ValueError):
                raise ConfigurationError(
                    f"the file {file!r} holds no readable token: AZURE_FEDERATED_TOKEN_FILE"
                ) from None
            form |= {"client_assertion_type": _ASSERTION, "client_assertion": assertion}
        else:
            form["client_secret"] = self._named("client_secret") or ""
        authority = (self._named("authority_host") or _AUTHORITY).rstrip("/")
        tenant = self._named("tenant_id", "authority_id") or ""
        logger.warning("asking %s for a token of Azure", urlsplit(authority).hostname)
        answer = self._http.send(
            f"{authority}/{quote(tenant, safe='')}/oauth2/v2.0/token",
            {"Content-Type": "application/x-www-form-urlencoded"},
            urlencode(form).encode(),
        )
        return _token_in(answer.body, "access_token", f"the authority of the login, with {answer.status},")


def _token_of_cli() -> str:
    """Ask the command ``az``, as obstore does."""
    command = ["az", "account", "get-access-token", "--output", "json", "--scope", _AUDIENCE]
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_CLI_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise StorageAccessError(f"'az account get-access-token' cannot be asked: {type(e).__name__}") from None
    return _token_in(done.stdout, "accessToken", "'az account get-access-token'")


def _token_in(text: bytes, name: str, who: str) -> str:
    try:
        found: Any = json.loads(text)[name]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, str):
        raise StorageAccessError(f"{who} gives no token: log in by 'az login', or renew the secret of the principal")
    return found
