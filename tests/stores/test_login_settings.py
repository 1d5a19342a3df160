# SPDX-License-Identifier: Apache-2.0
"""Settings of buckets by the login of the command: signatures that Azurite checks, a token that google-auth asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector, Freed
from airflow_provider_rlmm.core.storage.logins.inspecting import inspector_of_login
from tests.stores.azurite import running_azurite
from tests.vendor_server import Reply, running_vendor

blob = pytest.importorskip("azure.storage.blob")
pytest.importorskip("google.auth")
pytestmark = pytest.mark.stores

# Azurite's own account, of its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "tiered"


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """Serve a container with soft delete of the account, in which a blob has a snapshot."""
    with running_azurite() as address:
        service = blob.BlobServiceClient(f"{address}/{ACCOUNT}", KEY)
        service.set_service_properties(delete_retention_policy=blob.RetentionPolicy(enabled=True, days=7))
        stored = service.create_container(CONTAINER).get_blob_client("kafka/kp/a b+c%")
        stored.upload_blob(b"x")
        stored.create_snapshot()
        yield f"{address}/{ACCOUNT}"
        stored.close()
        service.close()


def azure(host: str, **login: str) -> BucketInspector:
    options = {"endpoint": host, "allow_http": "true", **login}
    found = inspector_of_login(
        f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/kafka", options, StoreAccess(options)
    )
    assert found is not None
    return found


def limits(permission: Any, **more: Any) -> dict[str, Any]:
    return {"permission": permission, "expiry": datetime.now(UTC) + timedelta(hours=1), **more}


def of_account() -> str:
    may = blob.AccountSasPermissions(read=True, list=True)
    types = blob.ResourceTypes(service=True, container=True, object=True)
    return str(blob.generate_account_sas(ACCOUNT, KEY, types, **limits(may)))


def of_container() -> str:
    may = blob.ContainerSasPermissions(read=True, list=True)
    return str(blob.generate_container_sas(ACCOUNT, CONTAINER, **limits(may, account_key=KEY)))


@pytest.mark.parametrize("login", ["key", "signature"])
def test_key_and_signature_of_an_account_read_its_settings(login: str, host: str) -> None:
    given = {"account_key": KEY} if login == "key" else {"sas_token": f"?{of_account()}"}
    inspector = azure(host, **given)
    effect = inspector.look(["kp/"])
    assert (effect.freed, effect.days) == (Freed.LATER, 7)
    assert "a blob that has snapshots, such as kafka/kp/a b+c%: delete" in effect.sentence
    assert inspector.is_flat()


def test_a_signature_of_a_container_lists_and_says_what_it_may_not_ask(host: str) -> None:
    inspector = azure(host, sas_token=of_container())
    effect = inspector.look(["kp/"])
    assert effect.freed is Freed.UNKNOWN
    assert "such as kafka/kp/a b+c%" in effect.sentence
    for right in ("blobServices/read", "containers/read"):
        assert right in effect.sentence
    assert not inspector.is_flat()


def test_another_key_is_refused(host: str) -> None:
    sentence = azure(host, account_key="dmVyeS1zM2NyZXQta2V5").look(["kp/"]).sentence
    assert "Azure answers with 403, AuthorizationFailure" in sentence


def test_a_key_of_a_service_account_asks_by_google_auth() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with running_vendor() as vendor:
        token = {"access_token": "very-s3cret-token", "expires_in": 3600, "token_type": "Bearer"}
        vendor.replies = {
            "/token": Reply(200, json.dumps(token), {"Content-Type": "application/json"}),
            "/storage/v1/b/tiered": Reply(200, json.dumps({"name": "tiered"})),
        }
        key = {"client_email": "cleaner@ours", "private_key": private.decode(), "token_uri": f"{vendor.address}/token"}
        options = {
            "service_account_key": json.dumps(key),
            "base_url": vendor.address,
            "allow_http": "true",
        }
        found = inspector_of_login("gs://tiered/kafka", options, StoreAccess(options))
        assert found is not None
        assert found.look([""]).freed is Freed.AT_ONCE
    assert [(q.path, q.authorization) for q in vendor.asked] == [
        ("/token", None),
        ("/storage/v1/b/tiered", "Bearer very-s3cret-token"),
    ]
