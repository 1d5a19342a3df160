# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from airflow.sdk import Connection

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.storage.layouts import LayoutOptions
from airflow_provider_rlmm.hooks.connection import RlmmConnection


def parse(extra: dict[str, Any] | str | None, conn_type: str = "rlmm") -> RlmmConnection:
    text = json.dumps(extra) if isinstance(extra, dict) else extra
    return RlmmConnection.from_connection(Connection(conn_id="rlmm_prod", conn_type=conn_type, extra=text))


def test_an_empty_connection_has_the_documented_defaults() -> None:
    expected = RlmmConnection(
        conn_id="rlmm_prod",
        kafka_conn_id="kafka_default",
        storage_uri=None,
        storage_conn_id=None,
        layout="local-tiered-storage",
        metadata_topic="__remote_log_metadata",
        allow_writes=False,
        expected_cluster_id=None,
        expected_root=None,
        clock_topic=None,
    )
    assert parse(None) == expected
    # What the form of Airflow's UI sends for blank fields.
    assert parse({"storage_uri": "", "layout": None, "expected_cluster_id": "  ", "allow_writes": None}) == expected


def test_every_field_is_read() -> None:
    settings = parse(
        {
            "kafka_conn_id": "kafka_prod",
            "storage_uri": "s3://bucket/prefix",
            "storage_conn_id": "aws_prod",
            "layout": "aiven",
            "key_prefix": "kafka/prod-",
            "former_key_prefixes": '"", flat',
            "metadata_topic": "__rlm",
            "allow_writes": True,
            "expected_cluster_id": " abc ",
            "expected_root": " s3://bucket/prefix/kafka-tiered-storage?endpoint=http://minio:9000 ",
            "clock_topic": "rlmm-clock",
        }
    )
    assert settings == RlmmConnection(
        conn_id="rlmm_prod",
        kafka_conn_id="kafka_prod",
        storage_uri="s3://bucket/prefix",
        storage_conn_id="aws_prod",
        layout="aiven",
        key_prefix="kafka/prod-",
        former_key_prefixes='"", flat',
        metadata_topic="__rlm",
        allow_writes=True,
        expected_cluster_id="abc",
        expected_root="s3://bucket/prefix/kafka-tiered-storage?endpoint=http://minio:9000",
        clock_topic="rlmm-clock",
    )


def test_what_a_layout_needs_is_listed_by_commas() -> None:
    assert parse({}).layout_options == LayoutOptions()
    settings = parse(
        {"key_prefix": "kp/", "former_key_prefixes": '"",flat, old/', "key_suffixes": '"", .log, .txnindex?'}
    )
    assert settings.layout_options == LayoutOptions(
        "kp/", ("", "flat", "old/"), key_suffixes={"": True, ".log": True, ".txnindex": False}
    )
    settings = parse(
        {"key_suffixes": '""=log, .index = offset, .txnindex?=transaction', "plugin_settings": "chunk.size=4096"}
    )
    assert settings.layout_options == LayoutOptions(
        key_suffixes={"": True, ".index": True, ".txnindex": False},
        key_files={"": "log", ".index": "offset", ".txnindex": "transaction"},
        plugin_settings="chunk.size=4096",
    )


def test_prices_are_an_object_or_the_text_of_one() -> None:
    said = {"GLACIER_IR": {"per_gb_month": 0.004, "per_1000_requests": "0.02"}}
    expected = StoragePrice(4_000, StorageClass("GLACIER_IR", 90, 131_072, 20_000))
    for prices in (said, json.dumps(said)):
        assert parse({"prices": prices}).storage_price() == expected
    settings = parse({"prices": {**said, "STANDARD": {"per_gb_month": 1}}, "storage_class": "COLDLINE"})
    assert settings.storage_price() is None
    assert settings.storage_price(otherwise=5) == StoragePrice(5, StorageClass("COLDLINE", 90))
    assert settings.storage_price(of_run=6, otherwise=5) == StoragePrice(6, StorageClass("COLDLINE", 90))


def test_a_root_id_is_expected() -> None:
    root_id = str(uuid4())
    assert parse({"expected_root": root_id}).expected_root == root_id


@pytest.mark.parametrize(("given", "expected"), [(True, True), (False, False), ("true", True), ("False", False)])
def test_booleans(given: Any, expected: bool) -> None:
    assert parse({"allow_writes": given}).allow_writes is expected


@pytest.mark.parametrize("given", [1, 0, "yes", "1", "on", [], {}])
def test_what_only_looks_like_a_boolean_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'rlmm_prod': allow_writes must be true or false"):
        parse({"allow_writes": given})


def test_unknown_fields_are_named_beside_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'rlmm_prod'.*\['allow_write'\].*known are.*'allow_writes'"):
        parse({"allow_write": True})


@pytest.mark.parametrize("extra", ["{", "[]", '"text"', "3"])
def test_extra_that_is_no_object_is_an_error_and_not_an_empty_connection(extra: str) -> None:
    with pytest.raises(ConfigurationError, match="'rlmm_prod': extra is not a JSON object"):
        parse(extra)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"kafka_conn_id": 3}, "kafka_conn_id must be text, not 3"),
        ({"metadata_topic": "../x"}, "metadata_topic must be a name that Kafka allows: .*, not '../x'"),
        ({"storage_uri": "/no/scheme"}, "storage_uri must be a URI with a scheme, .*, not '/no/scheme'"),
        ({"archive_uri": "archives"}, "archive_uri must be an absolute path or a URI"),
        ({"archive_uri": "ftp://host/archives"}, "archive_uri: 'ftp://host/archives' is no URI of a directory"),
        ({"archive_uri": "s3://key:secret@bucket/a"}, "archive_uri must hold neither credentials nor a query"),
        ({"archive_before_deletion": True}, "archive_before_deletion needs archive_uri"),
        ({"snapshots_uri": "elsewhere"}, "snapshots_uri must be an absolute path or a URI"),
        ({"snapshots_uri": "s3://key:secret@bucket/a"}, "snapshots_uri must hold neither credentials nor a query"),
        ({"snapshots_uri": "s3://b/a", "keep_snapshots": 0}, "snapshots_uri needs keep_snapshots, which is 0"),
        (
            {"storage_uri": "s3://b/tiered", "snapshots_uri": "s3://b/tiered/snapshots"},
            "snapshots_uri must be a folder outside of storage_uri: a snapshot must not be lost together with",
        ),
        *(
            ({"storage_uri": root, "archive_uri": archive}, "archive_uri must be a folder outside of storage_uri")
            for root, archive in (
                ("file:///mnt/tiered", "/mnt/tiered"),
                ("file:///mnt/tiered", "/mnt/tiered/archives"),
                ("file:///mnt/tiered", "file:///mnt"),
                ("file:///mnt/tiered", "/mnt/other/../tiered/archives"),
                ("s3://bucket/tiered", "s3a://bucket/tiered/archives"),
                ("s3://bucket/tiered", "s3://bucket"),
            )
        ),
        ({"prices": "cheap"}, "prices must be a JSON object such as"),
        ({"prices": {"STANDARD": {"per_gb_month": "x"}}}, "prices.STANDARD.per_gb_month must be a number from 0"),
        ({"prices": {"Hot": {"per_gb_month": 1}, "Cool": {"per_gb_month": 1}}}, ".* name it in storage_class"),
        ({"storage_class": "standard_ia"}, "storage_class must be STANDARD_IA"),
        ({"expected_root": "the right one"}, "expected_root must be a root id or a location"),
        ({"expected_root": "/mnt/tiered"}, "expected_root must be a root id or a location"),
        (
            {"clock_topic": "no topic"},
            "clock_topic must be a name that Kafka allows: .*, and not the metadata topic's, not 'no topic'",
        ),
        ({"clock_topic": "__remote_log_metadata"}, "clock_topic must be a name"),
        ({"clock_topic": "__rlm", "metadata_topic": "__rlm"}, "clock_topic must be a name"),
    ],
)
def test_bad_values_name_the_field(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'rlmm_prod': {message}"):
        parse(extra)


@pytest.mark.parametrize("uri", ["s3://key:s3cr3t@bucket/x", "az://box/x?sig=s3cr3t", "file:///x#s3cr3t"])
def test_a_secret_in_the_storage_uri_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="storage_conn_id") as caught:
        parse({"storage_uri": uri})
    assert "s3cr3t" not in str(caught.value)


def test_another_type_of_connection_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'rlmm_prod': its type is 'kafka', not 'rlmm'"):
        parse({}, conn_type="kafka")


def test_storage_is_needed_only_where_it_is_used() -> None:
    with pytest.raises(ConfigurationError, match="'rlmm_prod': storage_uri is missing"):
        parse({}).required_storage_uri()
    assert parse({"storage_uri": "file:///x"}).required_storage_uri() == "file:///x"


@pytest.mark.parametrize(
    ("storage", "archive"),
    [
        ("file:///mnt/tiered", "/mnt/tiered-archives"),
        ("file:///mnt/tiered", "s3://tiered/archives"),
        ("s3://bucket/tiered", "s3://bucket/tiered-archives"),
        ("s3://bucket/tiered", "s3://archives/tiered"),
        ("s3://bucket/tiered", "/mnt/archives/"),
    ],
)
def test_an_archive_beside_the_storage_root_is_taken(storage: str, archive: str) -> None:
    settings = parse({"storage_uri": storage, "archive_uri": archive, "archive_before_deletion": "true"})
    assert (settings.required_archive_uri(), settings.archive_before_deletion) == (archive.rstrip("/"), True)


def test_an_archive_that_is_needed_and_not_named_is_asked_for() -> None:
    with pytest.raises(ConfigurationError, match=r"^connection 'rlmm_prod': archive_uri is missing"):
        parse({}).required_archive_uri()
