# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import tests.airflow_home  # noqa: F401  # its import is what it is for
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook

LAYOUT = LocalTieredStorageLayout()


def opened() -> ObjectStoreRemoteStorageManager:
    return RemoteStorageHook().get_storage_manager()


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def add(uri: str, conn_type: str, extra: dict[str, Any] | None = None, **fields: Any) -> None:
        rlmm = {"conn_type": "rlmm", "extra": {"storage_uri": uri, "storage_conn_id": "store"}}
        monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": conn_type, "extra": extra or {}, **fields}))
        monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps(rlmm))

    return add
