# SPDX-License-Identifier: Apache-2.0
"""Credentials are asked for when a request needs them, and none of what they were is repeated."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import StorageAccessError
from airflow_provider_rlmm.core.storage.credentials import StoreCredentials
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from tests.contracts.remote_storage import LAYOUT
from tests.contracts.s3_server import running_s3_server

SECRET = "pl4nted-secret"


def keys(token: str, seconds: int) -> dict[str, Any]:
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"access_key_id": "a-key-id", "secret_access_key": SECRET, "token": token, "expires_at": expires}


def manager(port: int, credentials: StoreCredentials) -> ObjectStoreRemoteStorageManager:
    options = {"endpoint": f"http://127.0.0.1:{port}", "allow_http": "true", "region": "eu-1"}
    return ObjectStoreRemoteStorageManager("s3://bucket", LAYOUT, options=options, credentials=credentials)


@pytest.mark.slow
def test_they_are_asked_for_again_before_they_end() -> None:
    """obstore renews what ends within five minutes, and asks ten times a second at most."""
    asked: list[Mapping[str, Any]] = []

    def ask() -> Mapping[str, Any]:
        asked.append(keys(f"token-{len(asked)}", seconds=290 if len(asked) < 2 else 3600))
        return asked[-1]

    credentials = StoreCredentials("connection 'c'", ask)
    with running_s3_server() as server:
        storage = manager(server.server_port, credentials)
        assert not asked
        while len(asked) < 3:
            storage.list_objects()
        end = monotonic() + 0.5
        while monotonic() < end:
            storage.list_objects()
    assert len(asked) == 3
    assert credentials.secrets == {"a-key-id", SECRET, "token-0", "token-1", "token-2"}


def test_nothing_repeats_what_they_were() -> None:
    credentials = StoreCredentials("connection 'c'", lambda: keys("token-abcdef", 3600), ["another-secret"])
    with running_s3_server() as server:
        server.allowed = frozenset()
        storage = manager(server.server_port, credentials)
        with pytest.raises(StorageAccessError):
            storage.list_objects()
    assert repr(credentials) == "StoreCredentials(\"connection 'c'\")"
    assert SECRET not in repr(vars(storage))


def test_without_credentials_no_request_is_made_and_the_reason_is_said_without_secrets() -> None:
    def fail() -> Mapping[str, Any]:
        raise ValueError(f"{SECRET} is not taken, nor is another-secret")

    credentials = StoreCredentials("connection 'c'", fail, [SECRET, "another-secret"])
    with running_s3_server() as server, pytest.raises(StorageAccessError) as caught:
        manager(server.server_port, credentials).list_objects()
    text = "".join(traceback.format_exception(caught.value))
    assert "connection 'c' gives no credentials: ValueError: *** is not taken, nor is ***" in text
    assert SECRET not in text


def test_a_refusal_carries_neither_secrets_nor_a_cause() -> None:
    def fail() -> Mapping[str, Any]:
        raise ValueError(SECRET)

    with pytest.raises(StorageAccessError) as caught:
        StoreCredentials("connection 'c'", fail, [SECRET])()
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None
