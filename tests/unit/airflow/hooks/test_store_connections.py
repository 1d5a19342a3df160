# SPDX-License-Identifier: Apache-2.0
"""
What this package makes of the hooks of Google and Azure, which are not installed here: stand-ins return what theirs would.
``make stores`` has the real ones.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.hooks.stores.access import store_access
from airflow_provider_rlmm.hooks.stores.secrets import secrets_of

URI = "abfss://tiered@account.dfs.core.windows.net/kafka"
PUBLIC = "account.blob.core.windows.net"


def connection(conn_type: str, extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    return Connection(conn_id="store", conn_type=conn_type, extra=json.dumps(extra or {}), **fields)


def modules(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> None:
    """Put a module with these names into place, and those above it."""
    parts = name.split(".")
    for n in range(1, len(parts) + 1):
        path = ".".join(parts[:n])
        if path not in ("airflow", "airflow.providers"):
            module = ModuleType(path)
            module.__path__ = []
            monkeypatch.setitem(sys.modules, path, module)
    vars(sys.modules[name]).update(names)


@pytest.mark.parametrize(
    ("conn_type", "uri", "provider", "extra"),
    [
        ("aws", "s3://b", "airflow.providers.amazon", "amazon"),
        ("google_cloud_platform", "gs://b", "airflow.providers.google", "google"),
        ("wasb", "az://c", "airflow.providers.microsoft.azure", "azure"),
    ],
)
def test_without_its_provider_a_connection_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, conn_type: str, uri: str, provider: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, provider, None)
    with pytest.raises(ConfigurationError, match=rf"^connection 'store': .*airflow-provider-rlmm\[{extra}\].*generic"):
        store_access(uri, connection(conn_type))


# -- Azure --------------------------------------------------------------------------------------------------------------


def azure(monkeypatch: pytest.MonkeyPatch, uri: str = URI, host: str = PUBLIC, **client: Any) -> StoreAccess:
    made = {"scheme": "https", "primary_hostname": host, "account_name": "account", "credential": None} | client
    made.setdefault("url", f"https://{host}/")
    hook = SimpleNamespace(get_conn=lambda: SimpleNamespace(**made))
    modules(monkeypatch, "airflow.providers.microsoft.azure.hooks.wasb", WasbHook=lambda wasb_conn_id: hook)
    return store_access(uri, connection("wasb"))


def test_a_key_a_signature_a_token_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    token = SimpleNamespace(token="a-token", expires_on=1_800_000_000)
    scopes: list[str] = []
    principal = SimpleNamespace(get_token=lambda scope: scopes.append(scope) or token)
    key = azure(monkeypatch, credential=SimpleNamespace(account_name="account", account_key="a-key")).credentials
    sas = azure(monkeypatch, credential=SimpleNamespace(signature="?sig=x")).credentials
    in_url = azure(monkeypatch, url=f"https://{PUBLIC}/?sig=y").credentials
    bearer = azure(monkeypatch, credential=principal).credentials
    assert key is not None
    assert sas is not None
    assert in_url is not None
    assert bearer is not None
    assert key() == {"access_key": "a-key", "expires_at": None}
    assert sas() == {"sas_token": "sig=x", "expires_at": None}
    assert in_url() == {"sas_token": "sig=y", "expires_at": None}
    given = bearer()
    assert (given["token"], given["expires_at"].timestamp()) == ("a-token", 1_800_000_000)
    assert isinstance(given["expires_at"], datetime)
    assert given["expires_at"].tzinfo is not None
    assert scopes == ["https://storage.azure.com/.default"]
    public = azure(monkeypatch)
    assert public.credentials is None
    assert public.options == {"account_name": "account", "skip_signature": "true"}


def test_only_another_address_than_the_public_one_is_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    emulator = azure(monkeypatch, host="127.0.0.1:1/account", scheme="http", url="http://127.0.0.1:1/account")
    assert emulator.options["endpoint"] == "http://127.0.0.1:1/account"
    assert emulator.options["allow_http"] == "true"


def test_another_account_than_the_uris_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigurationError, match=r"'store': it is of the storage account 'theirs', and .* names 'account'"
    ):
        azure(monkeypatch, account_name="theirs")
    with pytest.raises(ConfigurationError, match=r"'store': it names no storage account: write the account's URL"):
        azure(monkeypatch, uri="az://tiered/kafka", account_name=None)


# -- Google ---------------------------------------------------------------------------------------------------------------


class _Anonymous:
    """Google's anonymous credentials."""


def google(monkeypatch: pytest.MonkeyPatch, credentials: Any) -> StoreAccess:
    hook = SimpleNamespace(get_credentials=lambda: credentials)
    modules(monkeypatch, "airflow.providers.google.common.hooks.base_google", GoogleBaseHook=lambda gcp_conn_id: hook)
    modules(monkeypatch, "google.auth.credentials", AnonymousCredentials=_Anonymous)
    modules(monkeypatch, "google.auth.transport.requests", Request=lambda: "a request")
    return store_access("gcs://tiered/kafka", connection("google_cloud_platform"))


def test_a_token_is_renewed_when_it_is_not_valid_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = SimpleNamespace(valid=False, token=None, expiry=None)
    requests: list[str] = []

    def refresh(request: str) -> None:
        requests.append(request)
        credentials.token, credentials.valid = f"token-{len(requests)}", True
        credentials.expiry = datetime(2030, 1, 1)  # noqa: DTZ001 - as Google's library has it

    credentials.refresh = refresh
    ask = google(monkeypatch, credentials).credentials
    assert ask is not None
    assert ask()["token"] == ask()["token"] == "token-1"
    assert str(ask()["expires_at"]) == "2030-01-01 00:00:00+00:00"
    credentials.valid = False
    assert ask()["token"] == "token-2"
    assert requests == ["a request"] * 2
    assert ask.secrets == {"token-1", "token-2"}


def test_an_emulator_is_found_where_googles_clients_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert google(monkeypatch, _Anonymous()) == StoreAccess({"skip_signature": "true"})
    for given in ("127.0.0.1:4443", "http://127.0.0.1:4443/"):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", given)
        options = google(monkeypatch, _Anonymous()).options
        assert options == {"base_url": "http://127.0.0.1:4443", "allow_http": "true", "skip_signature": "true"}


# -- secrets -----------------------------------------------------------------------------------------------------------------


def test_every_part_of_a_secret_is_known() -> None:
    key_file = {
        "type": "service_account",
        "private_key": "-----BEGIN-----\nMIIEvQplanted\nAb/c+defg==\n-----END-----\n",
    }
    string = "DefaultEndpointsProtocol=https;AccountName=ours;AccountKey=pl4nted==;EndpointSuffix=core.windows.net"
    found = secrets_of(
        connection(
            "wasb",
            {
                "keyfile_dict": json.dumps(key_file),
                "connection_string": string,
                "sas_token": "?sv=2024-01-01&sig=pl4nted%2Bsignature%3D",
                "assume_role_kwargs": {"ExternalId": "pl4nted-id"},
                "list": ["pl4nted-in-a-list"],
                "region_name": "eu-central-1",
                "role_arn": "arn:aws:iam::1:role/x",
                "shorty": "abc",
            },
            password="pl4nted-password",
        )
    )
    for secret in (
        "MIIEvQplanted", "Ab/c+defg==", "pl4nted==", "pl4nted%2Bsignature%3D", "pl4nted+signature=", "pl4nted-id",
        "pl4nted-in-a-list", "pl4nted-password",
    ):  # fmt: skip
        assert secret in found
    public = (
        "eu-central-1",
        "arn:aws:iam::1:role/x",
        "https",
        "core.windows.net",
        "service_account",
        "abc",
        "2024-01-01",
    )
    assert not found.intersection(public)
