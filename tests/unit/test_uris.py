# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import traceback

import pytest

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.uris import is_below, refuse_secrets_in_uri

WITH_SECRETS = [
    "s3://key:s3cr3t@bucket/x",
    "s3://s3cr3t@bucket/x",
    "s3://key:s3cr3t/with/a/slash@bucket/x",
    "s3://key:12/s3cr3t@bucket/x",
    "s3://key:/s3cr3t@bucket/x",
    "az://box/x?sig=s3cr3t",
    "s3://bucket/x?",
    "file:///x#s3cr3t",
    "/x?s3cr3t",
    "/x#s3cr3t",
    "abfss://box:s3cr3t@account.dfs.core.windows.net/x",
    "abfss://s3cr3t+KEY==@account.dfs.core.windows.net/x",
    "http://s3cr3t\u2100@host/x",
    "s3://[s3cr3t/x",
    "s3://bucket/\ns3cr3t",
    "s3://bucket/\u202es3cr3t",
]


@pytest.mark.parametrize("uri", WITH_SECRETS)
def test_what_may_hold_a_secret_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^the setting (must hold neither credentials|holds a line)"
    ) as caught:
        refuse_secrets_in_uri("the setting", uri, "do this")
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/prefix",
        "s3a://bucket",
        "file:///mnt/tiered storage",
        "/home/me@work/rlmm",
        "hdfs://namenode:8020/rlmm",
        "hdfs://[::1]:8020/rlmm",
        "s3://bucket/team@work/größer",
        "abfss://box@account.dfs.core.windows.net/rlmm",
        "",
    ],
)
def test_what_holds_none_passes(uri: str) -> None:
    refuse_secrets_in_uri("the setting", uri, "do this")


@pytest.mark.parametrize(
    ("uri", "root", "below"),
    [
        ("s3://bucket/plans/a", "s3://bucket/plans", True),
        ("s3://bucket/plans/a/", "s3://bucket/plans/", True),
        ("s3://bucket/plans", "s3://bucket/plans", True),
        ("s3a://bucket/plans/a", "s3://bucket/plans", True),
        ("s3://bucket/a", "s3://bucket", True),
        ("s3://bucket/plans-of-others", "s3://bucket/plans", False),
        ("s3://bucket", "s3://bucket/plans", False),
        ("s3://bucket//plans/a", "s3://bucket/plans", False),
        ("s3://other/plans/a", "s3://bucket/plans", False),
        ("s3://bucket.other/plans", "s3://bucket", False),
        ("gs://bucket/plans/a", "s3://bucket/plans", False),
        ("s3://bucket/plans/../secret", "s3://bucket/plans", False),
        ("s3://bucket/plans/%2e%2e/secret", "s3://bucket/plans", False),
        ("s3://bucket/plans/./a", "s3://bucket/plans", False),
        ("s3://bucket/../bucket/plans", "s3://bucket", False),
        ("/plans/a", "/plans", False),
    ],
)
def test_below(uri: str, root: str, below: bool) -> None:
    assert is_below(uri, root) is below
