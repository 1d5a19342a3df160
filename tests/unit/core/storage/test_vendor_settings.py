# SPDX-License-Identifier: Apache-2.0
"""The settings of Google's buckets and Azure's containers, read by the login that opens the store, at its address."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from obstore.store import AzureStore

from airflow_provider_rlmm.core.base.errors import HiddenCopiesError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector, DeletionEffect, Freed
from airflow_provider_rlmm.core.storage.logins.inspecting import inspector_of_login
from airflow_provider_rlmm.core.storage.logins.login import with_login
from tests.vendor_server import Reply, VendorServer, running_vendor

GS, AZ = "gs://bucket/tiered", "abfss://container@account.dfs.core.windows.net/tiered"
BUCKET = "/storage/v1/b/bucket"
SECRET, KEY = "very-s3cret-token", "dmVyeS1zM2NyZXQta2V5"
SAID = "a text of the server's"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nobody has logged in yet."""
    for name in os.environ:
        if name.startswith(("GOOGLE_", "AZURE_", "CLOUDSDK_", "IDENTITY_", "MSI_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


@pytest.fixture
def vendor() -> Iterator[VendorServer]:
    with running_vendor() as server:
        yield server


def inspector(uri: str, options: Mapping[str, str], access: StoreAccess | None = None) -> BucketInspector:
    found = inspector_of_login(uri, options, access or with_login(uri, options))
    assert found is not None
    return found


def look(uri: str, options: Mapping[str, str], access: StoreAccess | None = None) -> DeletionEffect:
    effect = inspector(uri, options, access).look(["kp/"])
    for secret in (SECRET, KEY, SAID):
        assert secret not in json.dumps(effect.to_dict())
    return effect


# --- Google -------------------------------------------------------------------------------------------------------------


def google(vendor: VendorServer, **more: str) -> dict[str, str]:
    return {"base_url": vendor.address, "allow_http": "true", "bearer_token": SECRET, **more}


def bucket(**settings: Any) -> Reply:
    return Reply(200, json.dumps({"kind": "storage#bucket", "name": "bucket", **settings}))


RULE = {"action": {"type": "Delete"}, "condition": {"daysSinceNoncurrentTime": 5}}


@pytest.mark.parametrize(
    ("settings", "freed", "days"),
    [
        ({}, Freed.AT_ONCE, None),
        (
            {"versioning": {"enabled": False}, "softDeletePolicy": {"retentionDurationSeconds": "0"}},
            Freed.AT_ONCE,
            None,
        ),
        ({"softDeletePolicy": {"retentionDurationSeconds": "604800"}}, Freed.LATER, 7),
        ({"versioning": {"enabled": True}}, Freed.NEVER, None),
        ({"versioning": {"enabled": True}, "lifecycle": {"rule": [RULE]}}, Freed.LATER, 5),
        ({"defaultEventBasedHold": True}, Freed.REFUSED, None),
    ],
)
def test_a_bucket_of_google_tells_its_settings(
    settings: dict[str, Any], freed: Freed, days: int | None, vendor: VendorServer
) -> None:
    vendor.replies[BUCKET] = bucket(**settings)
    effect = look(GS, google(vendor))
    assert (effect.freed, effect.days) == (freed, days)
    assert [(q.path, q.authorization) for q in vendor.asked] == [(BUCKET, f"Bearer {SECRET}")]


def test_a_hold_of_google_refuses_a_run_and_a_retention_policy_is_told(vendor: VendorServer) -> None:
    vendor.replies[BUCKET] = bucket(defaultEventBasedHold=True)
    with pytest.raises(HiddenCopiesError, match=r"event-based hold.*--no-default-event-based-hold"):
        look(GS, google(vendor)).require_freed(())
    vendor.replies[BUCKET] = bucket(retentionPolicy={"retentionPeriod": "86401"})
    effect = look(GS, google(vendor))
    effect.require_freed(())
    assert effect.needs_person
    assert "refuses to delete objects that are younger than 2 days, by the retention policy" in effect.sentence
    assert "'gcloud storage buckets update gs://bucket --clear-retention-period'" in effect.sentence


def test_a_right_of_google_that_is_missing_is_named(vendor: VendorServer) -> None:
    error = {"error": {"code": 403, "message": SAID, "errors": [{"reason": "forbidden", "message": SAID}]}}
    vendor.replies[BUCKET] = Reply(403, json.dumps(error))
    effect = look(GS, google(vendor))
    assert effect.freed is Freed.UNKNOWN
    assert "Google answers with 403 (forbidden), as it needs storage.buckets.get" in effect.sentence
    effect.require_freed(())


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(200, "<html>" + SAID), "knows no such question"),
        (Reply(200, json.dumps({"name": "another"})), "knows no such question"),
        (Reply(200, "[]"), "knows no such question"),
        (Reply(200, json.dumps({"name": "bucket", "lifecycle": {"rule": "x"}})), "knows no such question"),
        (Reply(503, SAID), "answers with 503"),
        (Reply(302, "", {"Location": "http://127.0.0.1:1/elsewhere"}), "answers with 302"),
    ],
)
def test_an_answer_that_is_no_bucket_tells_nothing(reply: Reply, told: str, vendor: VendorServer) -> None:
    vendor.replies[BUCKET] = reply
    effect = look(GS, google(vendor))
    assert effect.freed is Freed.UNKNOWN
    assert told in effect.sentence
    assert len(vendor.asked) == 1


def test_a_bucket_for_everybody_and_a_server_without_tokens_are_asked_without_one(vendor: VendorServer) -> None:
    vendor.replies[BUCKET] = bucket()
    options = {"base_url": vendor.address, "allow_http": "true", "skip_signature": "true"}
    assert look(GS, options).freed is Freed.AT_ONCE
    key = {"gcs_base_url": vendor.address, "disable_oauth": True, "client_email": "", "private_key": ""}
    options = {"allow_http": "true", "service_account_key": json.dumps(key)}
    assert look(GS, options).freed is Freed.AT_ONCE
    assert [q.authorization for q in vendor.asked] == [None, None]


def test_the_credentials_that_open_the_store_ask_for_its_settings(vendor: VendorServer) -> None:
    vendor.replies[BUCKET] = bucket()
    access = StoreAccess(
        {"base_url": vendor.address, "allow_http": "true"}, StoreCredentials("the file", lambda: {"token": SECRET})
    )
    assert look(GS, {}, access).freed is Freed.AT_ONCE
    assert vendor.asked[0].authorization == f"Bearer {SECRET}"


@pytest.fixture
def google_auth(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Stand in for google-auth, which gives a token to every login, and return what it was given."""
    given: list[tuple[Any, Any]] = []

    class Credentials:
        valid, token = False, None
        expiry: datetime | None = None

        def refresh(self, request: object) -> None:
            self.token, self.expiry = SECRET, datetime.now() + timedelta(hours=1)  # noqa: DTZ005 - Google's has none

    def load(info: Any, scopes: Any = None) -> Credentials:
        given.append((info, scopes))
        return Credentials()

    machine = SimpleNamespace(Credentials=lambda: load("machine"))
    person = SimpleNamespace(Credentials=SimpleNamespace(from_authorized_user_info=load))
    account = SimpleNamespace(Credentials=SimpleNamespace(from_service_account_info=load))
    for name, module in {
        "auth": SimpleNamespace(compute_engine=machine),
        "auth.transport.requests": SimpleNamespace(Request=lambda: None),
        "oauth2": SimpleNamespace(credentials=person, service_account=account),
    }.items():
        monkeypatch.setitem(sys.modules, f"google.{name}", module)
    return given


def test_the_login_of_gcloud_asks_by_google_auth(
    vendor: VendorServer, google_auth: list[tuple[Any, Any]], home: Path
) -> None:
    vendor.replies[BUCKET] = bucket()
    options = {"base_url": vendor.address, "allow_http": "true"}
    file = home / ".config/gcloud/application_default_credentials.json"
    file.parent.mkdir(parents=True)
    person = {"type": "authorized_user", "client_id": "id", "client_secret": "s", "refresh_token": "r"}
    file.write_text(json.dumps(person))
    assert look(GS, options).freed is Freed.AT_ONCE
    key = {"client_email": "cleaner@ours", "private_key": "…"}
    assert look(GS, {**options, "service_account_key": json.dumps(key)}).freed is Freed.AT_ONCE
    assert [info for info, _ in google_auth] == [person, key]
    # A person's login has the scopes that it has.
    assert [scopes is None for _, scopes in google_auth] == [True, False]
    assert {q.authorization for q in vendor.asked} == {f"Bearer {SECRET}"}


def test_the_role_of_a_machine_asks_google_only_where_that_is_allowed(
    vendor: VendorServer, google_auth: list[tuple[Any, Any]]
) -> None:
    vendor.replies[BUCKET] = bucket()
    options = {"base_url": vendor.address, "allow_http": "true"}
    refused = look(GS, options, StoreAccess(options))
    assert "nothing gives credentials of Google" in refused.sentence
    assert google_auth == []
    assert look(GS, {**options, "instance_metadata": "true"}).freed is Freed.AT_ONCE
    assert google_auth == [("machine", None)]


def test_without_google_auth_the_sentence_says_what_to_install(
    vendor: VendorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    options = {
        "base_url": vendor.address,
        "allow_http": "true",
        "service_account_key": json.dumps({"private_key": "x"}),
    }
    assert "install airflow-provider-rlmm[gcs]" in look(GS, options).sentence
    options["service_account_key"] = "no JSON"
    assert "service_account_key holds no readable Google credentials" in look(GS, options).sentence
    assert vendor.asked == []


# --- Azure --------------------------------------------------------------------------------------------------------------


def azure(vendor: VendorServer, **more: str) -> dict[str, str]:
    return {"endpoint": vendor.address, "allow_http": "true", **(more or {"account_key": KEY})}


def settings_of_azure(
    vendor: VendorServer, *, soft_days: int | None = None, snapshots: str = "", flat: str = "false", **container: str
) -> None:
    """Put down what an account with one container answers."""
    policy = "<Enabled>false</Enabled>" if soft_days is None else f"<Enabled>true</Enabled><Days>{soft_days}</Days>"
    blob = "<Blob><Name>tiered/kp/a</Name></Blob>"
    held = {"x-ms-has-legal-hold": "false", "x-ms-has-immutability-policy": "false"} | {
        f"x-ms-{name.replace('_', '-')}": value for name, value in container.items()
    }
    vendor.replies |= {
        "/&restype=service&comp=properties": Reply(
            200,
            "\ufeff<?xml version='1.0'?><StorageServiceProperties><DeleteRetentionPolicy>"
            f"{policy}</DeleteRetentionPolicy></StorageServiceProperties>",
        ),
        "/container&restype=container": Reply(200, "", held),
        "/container&restype=container&comp=list": Reply(
            200, f"<EnumerationResults><Blobs>{snapshots}{blob}</Blobs><NextMarker /></EnumerationResults>"
        ),
        "/&restype=account&comp=properties": Reply(200, "", {"x-ms-is-hns-enabled": flat}),
    }


def test_an_account_and_a_container_of_azure_tell_their_settings(vendor: VendorServer) -> None:
    settings_of_azure(vendor, soft_days=14)
    effect = look(AZ, azure(vendor))
    assert (effect.freed, effect.days) == (Freed.LATER, 14)
    assert effect.sentence.endswith("none of 1 blobs has a snapshot")
    assert [q.path for q in vendor.asked] == ["/container", "/", "/container"]
    assert vendor.asked[2].query["prefix"] == "tiered/kp/"
    assert all((q.authorization or "").startswith("SharedKey account:") for q in vendor.asked)
    settings_of_azure(vendor)
    assert "the account has no soft delete" in look(AZ, azure(vendor)).sentence


def test_holds_policies_and_snapshots_of_azure_are_told_beforehand(vendor: VendorServer) -> None:
    settings_of_azure(vendor, has_legal_hold="true")
    with pytest.raises(HiddenCopiesError, match="container container has a legal hold"):
        look(AZ, azure(vendor)).require_freed(())
    settings_of_azure(vendor, has_immutability_policy="true")
    assert look(AZ, azure(vendor)).freed is Freed.REFUSED
    settings_of_azure(vendor, immutable_storage_with_versioning_enabled="true", has_immutability_policy="true")
    assert look(AZ, azure(vendor)).freed is Freed.NEVER
    snapshot = '<Blob><Name Encoded="true">tiered/kp/%2520</Name><Snapshot>2026-01-01</Snapshot></Blob>'
    settings_of_azure(vendor, snapshots=snapshot)
    assert "such as tiered/kp/%20: delete them by 'az storage blob" in look(AZ, azure(vendor)).sentence


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("/container&restype=container", "containers/read"),
        ("/&restype=service&comp=properties", "blobServices/read"),
        ("/container&restype=container&comp=list", "the right to list"),
    ],
)
def test_what_azure_does_not_let_the_login_see_is_said(question: str, told: str, vendor: VendorServer) -> None:
    settings_of_azure(vendor)
    vendor.replies[question] = Reply(403, SAID, {"x-ms-error-code": "AuthorizationPermissionMismatch"})
    effect = look(AZ, azure(vendor))
    assert effect.freed is Freed.UNKNOWN
    assert "(Azure answers with 403, AuthorizationPermissionMismatch)" in effect.sentence
    assert told in effect.sentence
    vendor.replies[question] = Reply(200, SAID)
    assert "not known (Azure" in look(AZ, azure(vendor)).sentence


@pytest.mark.parametrize("told", ["false", "true", "", None])
def test_an_account_of_azure_is_flat_where_it_says_so_to_the_login(told: str | None, vendor: VendorServer) -> None:
    if told is not None:
        settings_of_azure(vendor, flat=told)
    assert inspector(AZ, azure(vendor)).is_flat() is (told == "false")


def test_obstore_tells_azure_where_a_listing_begins(vendor: VendorServer) -> None:
    empty = "<EnumerationResults><Blobs></Blobs><NextMarker /></EnumerationResults>"
    vendor.replies["/container&restype=container&comp=list"] = Reply(200, empty)
    store = AzureStore(
        "container",
        account_name="account",
        account_key=KEY,
        endpoint=vendor.address,
        client_options={"allow_http": True},
    )
    assert list(store.list("p/", offset="p/b")) == []
    assert vendor.asked[0].query["startFrom"] == "p/b"


def test_a_signature_and_a_token_ask_azure(vendor: VendorServer) -> None:
    settings_of_azure(vendor)
    signature = f"?sv=2023&sig={quote('a+b/c=')}"
    look(AZ, azure(vendor, sas_token=signature))
    assert {(q.query["sv"], q.query["sig"], q.authorization) for q in vendor.asked} == {("2023", "a+b/c=", None)}
    vendor.asked.clear()
    look(AZ, azure(vendor, bearer_token=SECRET))
    assert {q.authorization for q in vendor.asked} == {f"Bearer {SECRET}"}
    vendor.asked.clear()
    look(AZ, azure(vendor, skip_signature="true"))
    assert {q.authorization for q in vendor.asked} == {None}


@pytest.mark.parametrize("by", ["client_secret", "federated_token_file"])
def test_a_principal_of_azure_is_given_a_token_once(
    by: str, vendor: VendorServer, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings_of_azure(vendor)
    vendor.replies["/tenant/oauth2/v2.0/token"] = Reply(200, json.dumps({"access_token": SECRET}))
    (home / "file").write_text("a.web.token\n")
    given = {"client_id": "id", "tenant_id": "tenant", "authority_host": vendor.address}
    given[by] = str(home / "file") if by == "federated_token_file" else "planted-s3cret"
    look(AZ, azure(vendor, **given, sas_token="sig=x"))
    asked, *questions = vendor.asked
    assert asked.form["grant_type"] == "client_credentials"
    assert asked.form.get("client_assertion", asked.form.get("client_secret")) in ("a.web.token", "planted-s3cret")
    assert {q.authorization for q in questions} == {f"Bearer {SECRET}"}
    assert "asking 127.0.0.1 for a token of Azure" in caplog.text
    vendor.replies["/tenant/oauth2/v2.0/token"] = Reply(401, json.dumps({"error_description": SAID}))
    effect = look(AZ, azure(vendor, **given))
    assert "the authority of the login, with 401, gives no token: log in by 'az login'" in effect.sentence


def test_the_login_of_az_asks_azure(vendor: VendorServer, home: Path) -> None:
    settings_of_azure(vendor)
    command = home / "bin/az"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nprint('{json.dumps({'accessToken': SECRET})}')\n")
    command.chmod(0o755)
    options = {"endpoint": vendor.address, "allow_http": "true"}
    look(AZ, options)
    assert {q.authorization for q in vendor.asked} == {f"Bearer {SECRET}"}
    command.write_text(f"#!{sys.executable}\nraise SystemExit('{SAID}')\n")
    assert "'az account get-access-token' gives no token: log in by 'az login'" in look(AZ, options).sentence


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"client_id": "id"}, "only obstore reads the login"),
        ({"account_key": "no base64"}, "no base64"),
        ({"account_key": KEY, "use_fabric_endpoint": "true"}, "where use_fabric_endpoint is set"),
        ({"account_key": KEY, "allow_http": "false"}, "allow_http=true only"),
        ({"account_key": KEY, "proxy_excludes": "x"}, "no proxy_excludes"),
        ({"account_key": KEY, "root_certificate": "x"}, "no certificates in PEM"),
        ({"account_key": KEY, "account_name": "other"}, "names the storage account 'account'"),
    ],
)
def test_what_cannot_be_asked_as_the_store_does_it_is_not_asked(
    more: dict[str, str], told: str, vendor: VendorServer
) -> None:
    settings_of_azure(vendor)
    options = {**azure(vendor), **more}
    if "account_key" not in more:
        del options["account_key"]
    effect = look(AZ, options)
    assert (effect.freed, told in effect.sentence, vendor.asked) == (Freed.UNKNOWN, True, [])


def test_an_address_that_does_not_answer_is_said_without_its_text(vendor: VendorServer) -> None:
    options = azure(vendor) | {"endpoint": "http://127.0.0.1:1"}
    assert "127.0.0.1 does not answer: ConnectionRefusedError" in look(AZ, options).sentence


def test_no_account_is_a_sentence() -> None:
    assert "no account of Azure is named" in look("az://container/x", {"account_key": KEY}).sentence
