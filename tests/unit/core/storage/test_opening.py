# SPDX-License-Identifier: Apache-2.0
"""Options in any spelling open a store or are refused by name; where a store lies is said without a secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.opening import endpoint_of_s3, location_of, open_store
from tests.examples import examples

URIS = [
    "s3://bucket/prefix",
    "gs://bucket/prefix",
    "az://container/prefix",
    "https://account.blob.core.windows.net/c/p",
]
CLIENT_OPTIONS = {
    "allow_http": "true",
    "allow_invalid_certificates": "false",
    "connect_timeout": "7s",
    "default_content_type": "text/plain",
    "http1_only": "true",
    "http2_keep_alive_interval": "5s",
    "http2_keep_alive_timeout": "5s",
    "http2_keep_alive_while_idle": "true",
    "http2_only": "false",
    "pool_idle_timeout": "5s",
    "pool_max_idle_per_host": "3",
    "proxy_url": "http://127.0.0.1:1",
    "randomize_addresses": "true",
    "read_timeout": "5s",
    "timeout": "5s",
    "user_agent": "tests",
}
STORE_OPTIONS = {
    "s3": {"aws_skip_signature": "true"},
    "gs": {"google_skip_signature": "true"},
    "az": {"azure_skip_signature": "true", "azure_storage_account_name": "account"},
    "https": {"azure_skip_signature": "true"},
}
PREFIXES = ["", "aws_", "google_", "azure_"]


@pytest.mark.parametrize(
    ("options", "environment", "endpoint"),
    [
        ({}, {}, ""),
        ({"AWS_ENDPOINT": "http://a"}, {"AWS_ENDPOINT_URL": "http://b", "AWS_ENDPOINT": "http://c"}, "http://a"),
        ({}, {"AWS_ENDPOINT_URL_S3": "http://a", "AWS_ENDPOINT_URL": "http://b"}, "http://a"),
        ({"endpoint_url": "http://a/"}, {"AWS_ENDPOINT_URL_S3": "http://a"}, "http://a/"),
        ({"endpoint": "http://a"}, {"AWS_ENDPOINT_URL_S3": "http://b"}, None),
        ({}, {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT": "http://b"}, None),
    ],
)
def test_an_s3_store_has_one_endpoint(
    options: dict[str, str], environment: dict[str, str], endpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if endpoint is None:
        with pytest.raises(ConfigurationError, match="name different endpoints of S3: keep one"):
            open_store("s3://bucket/prefix", {"skip_signature": "true", **options})
    else:
        assert endpoint_of_s3(options) == endpoint
        assert location_of(open_store("s3://bucket", options), "").endpoint == endpoint.rstrip("/")


def spelled(name: str, prefix: str, case: int) -> str:
    return [str.lower, str.upper, str.title][case](prefix + name)


@pytest.mark.slow
@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("prefix", PREFIXES)
def test_client_options_are_taken_in_any_spelling(uri: str, prefix: str, case: int) -> None:
    options = {spelled(name, prefix, case): value for name, value in CLIENT_OPTIONS.items()}
    open_store(uri, STORE_OPTIONS[uri.partition(":")[0]] | options)


@settings(max_examples=examples(), deadline=None)
@given(
    uri=st.sampled_from(URIS),
    options=st.dictionaries(
        st.one_of(
            st.builds(spelled, st.sampled_from(sorted(CLIENT_OPTIONS)), st.sampled_from(PREFIXES), st.integers(0, 2)),
            st.sampled_from([name for given in STORE_OPTIONS.values() for name in given]),
            st.text(max_size=20),
        ),
        st.one_of(st.sampled_from(["true", "false", "5s", "5", "", "http://x", "not at all"]), st.text(max_size=20)),
        max_size=4,
    ),
)
def test_whatever_is_given_either_opens_or_is_refused(uri: str, options: Mapping[str, str]) -> None:
    try:
        open_store(uri, options)
    except ConfigurationError as e:
        assert uri in str(e) or "disagree" in str(e)  # noqa: PT017 - most of them open


def test_two_spellings_of_one_option_must_agree() -> None:
    open_store("s3://b", {"AWS_TIMEOUT": "5s", "timeout": "5s"})
    with pytest.raises(ConfigurationError, match=r"timeout and AWS_TIMEOUT are one and disagree") as caught:
        open_store("s3://b", {"timeout": "5s", "AWS_TIMEOUT": "secret-value"})
    assert "secret-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "options", "text"),
    [
        ("s3://bucket/pre/fix", {}, "s3://bucket/pre/fix/place"),
        ("s3a://bucket/pre/fix/", {}, "s3://bucket/pre/fix/place"),
        ("https://bucket.s3.eu-west-1.amazonaws.com/pre", {}, "s3://bucket/pre/place"),
        (
            "s3://bucket",
            {"aws_endpoint": "HTTP://user:s3cret@Minio:9000/?x=y"},
            "s3://bucket/place?endpoint=http://minio:9000",
        ),
        ("gs://bucket/p", {"google_skip_signature": "true"}, "gs://bucket/p/place"),
        ("az://container/p", {"azure_storage_account_name": "acc"}, "az://container/p/place?endpoint=acc"),
        ("abfss://container@acc.dfs.core.windows.net/p", {}, "az://container/p/place?endpoint=acc"),
        ("wasbs://container@acc.blob.core.windows.net/p", {}, "az://container/p/place?endpoint=acc"),
        (
            "abfss://container@acc.dfs.core.chinacloudapi.cn/p",
            {},
            "az://container/p/place?endpoint=acc%40https://acc.blob.core.chinacloudapi.cn",
        ),
        ("s3n://bucket/pre/fix", {}, "s3://bucket/pre/fix/place"),
        ("gcs://bucket/p", {"google_skip_signature": "true"}, "gs://bucket/p/place"),
    ],
)
def test_a_location_is_one_word_without_a_secret(uri: str, options: Mapping[str, str], text: str) -> None:
    assert str(location_of(open_store(uri, options), "place/")) == text


@pytest.mark.parametrize(
    "uri",
    [
        "s3://tiered--use1-az4--x-s3/kafka",
        "https://tiered--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/kafka",
    ],
)
def test_directory_buckets_are_refused_by_their_name(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="is a directory bucket"):
        open_store(uri)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_an_endpoint_of_the_environment_is_another_location(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = location_of(open_store("s3://bucket"), "place/")
    monkeypatch.setenv(name, "https://elsewhere:9000/")
    assert location_of(open_store("s3://bucket"), "place/").endpoint == "https://elsewhere:9000"
    assert before.endpoint == ""
    with_option = open_store("s3://bucket", {"aws_endpoint": "https://here"})
    assert location_of(with_option, "place/").endpoint == "https://here"


@pytest.mark.parametrize("name", ["azure_storage_account_name", "AZURE_STORAGE_ACCOUNT_NAME", "account_name"])
def test_an_option_leads_to_no_other_account_than_the_uri_names(name: str) -> None:
    uri = "abfss://container@ours.dfs.core.windows.net/p"
    assert location_of(open_store(uri, {name: "ours"}), "").endpoint == "ours"
    with pytest.raises(ConfigurationError, match=f"names the storage account 'ours', and {name} another one"):
        open_store(uri, {name: "theirs"})


def test_a_local_location_names_path_and_inode(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    store = LocalStore(tmp_path)
    location = location_of(store, "a b/")
    assert (location.scheme, location.prefix) == ("file", str(tmp_path / "a b"))
    assert location.inode == (tmp_path / "a b").stat().st_ino
    assert location_of(LocalStore(tmp_path), "a b/") == location
    assert str(location).startswith(f"file://{tmp_path}/a%20b?")
    assert location_of(store, "missing/").inode is None


def test_a_store_in_memory_has_a_location_too() -> None:
    assert str(location_of(MemoryStore(), "place/")) == "memory://place"
