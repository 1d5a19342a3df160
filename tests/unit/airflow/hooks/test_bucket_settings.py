# SPDX-License-Identifier: Apache-2.0
"""The settings of a bucket, read through the connection that opens it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_rlmm.core.storage.azure_settings import AzureContainerInspector
from airflow_provider_rlmm.core.storage.bucket_settings import GcsBucketInspector
from airflow_provider_rlmm.core.storage.hidden_copies import Freed
from airflow_provider_rlmm.hooks.bucket_settings import bucket_inspector
from tests.moto_s3 import REGION, SECRET, MotoS3, running_moto_s3


@pytest.fixture(scope="module")
def s3() -> Iterator[MotoS3]:
    with running_moto_s3() as s3:
        yield s3


def aws_connection(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> Connection:
    fields: dict[str, Any] = {
        "conn_type": "aws",
        "login": "some-key-id",
        "password": SECRET,
        "extra": {"endpoint_url": endpoint, "region_name": REGION},
    }
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(fields))
    return Connection(conn_id="store", conn_type="aws")


def test_amazons_hook_reads_the_settings_of_the_bucket(s3: MotoS3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.bucket()
    connection = aws_connection(monkeypatch, s3.endpoint)
    inspector = bucket_inspector(f"s3://{bucket}/tiered", connection)
    assert inspector is not None
    assert inspector.look(["kp/"]).freed is Freed.AT_ONCE
    s3.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    effect = inspector.look(["kp/"])
    assert effect.freed is Freed.NEVER
    assert SECRET not in json.dumps(effect.to_dict())


def test_an_address_that_does_not_answer_is_asked_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    inspector: Any = bucket_inspector("s3://bucket/x", aws_connection(monkeypatch, endpoint))
    config = inspector._client().meta.config
    assert (config.connect_timeout, config.read_timeout, config.retries["total_max_attempts"]) == (5, 30, 3)
    effect = inspector.look([""])
    assert effect.freed is Freed.UNKNOWN
    assert "get_bucket_versioning fails with EndpointConnectionError" in effect.sentence


def test_a_provider_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    google = bucket_inspector("gs://bucket/x", Connection(conn_id="g", conn_type="google_cloud_platform"))
    azure = bucket_inspector("az://container/x", Connection(conn_id="a", conn_type="wasb"))
    assert (type(google), type(azure)) == (GcsBucketInspector, AzureContainerInspector)
    for inspector in (google, azure):
        assert inspector is not None
        effect = inspector.look([""])
        assert effect.freed is Freed.UNKNOWN
        assert "settings cannot be read" in effect.sentence


def test_options_of_obstore_read_no_settings() -> None:
    assert bucket_inspector("s3://bucket/x", Connection(conn_id="s", conn_type="generic")) is None
