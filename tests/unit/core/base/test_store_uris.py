# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.store_uris import StoreUri, read_store_uri


@pytest.mark.parametrize(
    ("uri", "kind", "read"),
    [
        ("s3://bucket/a/b", "s3", "s3://bucket/a/b"),
        ("s3a://bucket/a b", "s3", "s3://bucket/a b"),
        ("s3n://bucket", "s3", "s3://bucket"),
        ("S3A://bucket/%20", "s3", "s3://bucket/%20"),
        ("gs://bucket/x", "gs", "gs://bucket/x"),
        ("gcs://bucket/x", "gs", "gs://bucket/x"),
        ("az://container/x", "az", "az://container/x"),
        ("abfs://container/x", "az", "az://container/x"),
        ("file:///folder", "file", "file:///folder"),
        ("memory://", "memory", "memory://"),
        ("/a/path", "", "/a/path"),
        ("https://bucket.s3.eu-west-1.amazonaws.com/x", "s3", "https://bucket.s3.eu-west-1.amazonaws.com/x"),
        ("https://account.blob.core.windows.net/c/x", "az", "https://account.blob.core.windows.net/c/x"),
        ("https://amazonaws.com.example/x", "https", "https://amazonaws.com.example/x"),
    ],
)
def test_schemes(uri: str, kind: str, read: str) -> None:
    assert read_store_uri(uri) == StoreUri(kind, read)


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasb", "wasbs"])
@pytest.mark.parametrize("service", ["dfs", "blob"])
def test_azures_container_at_account(scheme: str, service: str) -> None:
    found = read_store_uri(f"{scheme}://tiered@account.{service}.core.windows.net/a/b")
    assert found == StoreUri("az", "az://tiered/a/b", "account")
    china = read_store_uri(f"{scheme}://tiered@account.{service}.core.chinacloudapi.cn/a")
    assert china == StoreUri("az", "az://tiered/a", "account", "https://account.blob.core.chinacloudapi.cn")


def test_fabric_is_left_to_obstore() -> None:
    uri = "abfss://workspace@onelake.dfs.fabric.microsoft.com/a"
    assert read_store_uri(uri) == StoreUri("az", uri)


@pytest.mark.parametrize(
    "at", ["tiered@account", "@account.dfs.core.windows.net", "tiered@", "tiered@a.x.core.windows.net"]
)
def test_an_account_that_is_none_is_refused(at: str) -> None:
    with pytest.raises(ConfigurationError, match=r"names no storage account: write abfss://container@account\.dfs"):
        read_store_uri(f"abfss://{at}/x")
