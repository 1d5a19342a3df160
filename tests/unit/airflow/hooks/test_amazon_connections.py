# SPDX-License-Identifier: Apache-2.0
"""Every form of an ``aws`` connection opens the storage as Amazon's provider means it, and none gives its secrets away."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    RlmmError,
    StorageAccessError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.logins import aws as aws_login
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server
from tests.certificates import Authority
from tests.contracts.remote_storage import segment
from tests.unit.airflow.hooks.test_hooks import FakeTopics

BOOTSTRAP = {"bootstrap.servers": "b:9092"}
KEY, SECRET, TOKEN = "AKIAPLANTEDKEYID1234", "pl4nted/secret+value=", "pl4nted-session-token//=="
PREFIX = "kafka"
KEYS = [f"{PREFIX}/{key}" for key in LocalTieredStorageLayout().required_keys(segment(1))]


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def server() -> Iterator[AwsServer]:
    with running_aws_server() as aws:
        yield aws


@pytest.fixture
def aws(server: AwsServer) -> Iterator[AwsServer]:
    server.put(*KEYS)
    yield server
    server.access_keys = None


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def add(extra: dict[str, Any], conn_type: str = "aws", uri: str = f"s3://{BUCKET}/{PREFIX}", **fields: Any) -> None:
        store = {"conn_type": conn_type, "extra": extra, **fields}
        rlmm = {"conn_type": "rlmm", "extra": {"storage_uri": uri, "storage_conn_id": "store"}}
        monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(store))
        monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps(rlmm))

    return add


def opened() -> ObjectStoreRemoteStorageManager:
    return RemoteStorageHook().get_storage_manager()


def clean(aws: AwsServer) -> None:
    """List and delete one segment."""
    manager = opened()
    assert {stored.key for stored in manager.list_objects()} == {key.removeprefix(f"{PREFIX}/") for key in KEYS}
    assert manager.delete_log_segment_data(segment(1)).outcome is DeleteOutcome.GONE
    assert {asked.method for asked in aws.asked} == {"GET", "POST"}
    asked = list(aws.asked)
    assert aws.keys() == set()
    aws.asked[:] = asked


def test_keys_region_and_endpoint(aws: AwsServer, connect: Any) -> None:
    aws.access_keys = {KEY, "the-test"}
    connect({"region_name": REGION, "endpoint_url": aws.url}, login=KEY, password=SECRET)
    clean(aws)
    assert {(asked.access_key, asked.token) for asked in aws.asked} == {(KEY, None)}


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_uris_as_hadoop_spells_them(aws: AwsServer, connect: Any, scheme: str) -> None:
    uri = f"{scheme}://{BUCKET}/{PREFIX}"
    connect({"region_name": REGION, "endpoint_url": aws.url}, uri=uri, login=KEY, password=SECRET)
    clean(aws)


def test_keys_and_a_session_token_in_extra(aws: AwsServer, connect: Any) -> None:
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "aws_session_token": TOKEN}
    connect({**keys, "region_name": REGION, "endpoint_url": aws.url})
    clean(aws)
    assert {(asked.access_key, asked.token) for asked in aws.asked} == {(KEY, TOKEN)}


def test_an_endpoint_of_s3_alone(aws: AwsServer, connect: Any) -> None:
    services = {"s3": {"endpoint_url": aws.url}}
    connect({"region_name": REGION, "service_config": services}, login=KEY, password=SECRET)
    clean(aws)


def test_the_default_chain_where_the_connection_has_no_keys(
    aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    connect({"region_name": REGION, "endpoint_url": aws.url})
    clean(aws)
    assert {asked.access_key for asked in aws.asked} == {KEY}


def test_a_profile_gives_keys_and_region(aws: AwsServer, connect: Any, tmp_path: Path) -> None:
    keys = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(f"[kafka]\n{keys}")
    (tmp_path / "config").write_text(f"[profile kafka]\nregion = {REGION}\n")
    connect({"profile_name": "kafka", "endpoint_url": aws.url})
    clean(aws)
    assert {asked.access_key for asked in aws.asked} == {KEY}


def test_unsigned_requests(aws: AwsServer, connect: Any) -> None:
    connect({"region_name": REGION, "endpoint_url": aws.url, "config_kwargs": {"signature_version": "unsigned"}})
    clean(aws)
    assert {asked.access_key for asked in aws.asked} == {None}


@pytest.mark.parametrize("pays", [True, False])
def test_whoever_asks_pays_where_the_connection_says_so(aws: AwsServer, connect: Any, pays: bool) -> None:
    services = {"s3": {"endpoint_url": aws.url, "requester_pays": pays}}
    connect({"region_name": REGION, "service_config": services}, login=KEY, password=SECRET)
    clean(aws)
    assert {asked.payer for asked in aws.asked} == {"requester" if pays else None}


def test_whoever_asks_pays_where_the_environment_says_so(
    aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REQUEST_PAYER", "requester")
    connect({"region_name": REGION, "endpoint_url": aws.url}, login=KEY, password=SECRET)
    clean(aws)
    assert {asked.payer for asked in aws.asked} == {"requester"}


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"requester_pays": True}, "requester_pays in extra is read by no client"),
        ({"request_payer": "requester"}, "request_payer in extra is read by no client"),
        ({"extra_args": {"RequestPayer": "requester"}}, "RequestPayer in extra is read by no client"),
        (
            {"service_config": {"s3": {"RequestPayer": "requester"}}},
            'write "service_config": {"s3": {"requester_pays": true}}',
        ),
        (
            {"service_config": {"s3": {"requester_pays": "yes"}}},
            "requester_pays in service_config.s3 must be true or false",
        ),
        ({"service_config": {"s3": {"proxy-uri": "http://proxy"}}}, "proxy-uri in service_config.s3 is not read here"),
    ],
)
def test_what_says_who_pays_where_nobody_reads_it_is_refused(connect: Any, extra: dict[str, Any], said: str) -> None:
    connect({"region_name": REGION, **extra}, login=KEY, password=SECRET)
    with pytest.raises(ConfigurationError, match=f"'store': .*{re.escape(said)}"):
        opened()


# -- roles ---------------------------------------------------------------------------------------------------------------


def role(aws: AwsServer, **kwargs: Any) -> dict[str, Any]:
    return {
        "region_name": REGION,
        "endpoint_url": aws.url,
        "role_arn": "arn:aws:iam::123456789012:role/cleaner",
        "service_config": {"sts": {"endpoint_url": aws.url}},
        **kwargs,
    }


def test_a_role_is_assumed(aws: AwsServer, connect: Any) -> None:
    connect(role(aws), login=KEY, password=SECRET)
    clean(aws)
    ((access_key, token),) = {(asked.access_key, asked.token) for asked in aws.asked}
    assert access_key.startswith("ASIA")
    assert access_key != KEY
    assert token


@pytest.mark.parametrize("named", ["use_fips_endpoint", "use_dualstack_endpoint"])
def test_an_address_that_obstore_cannot_make_is_refused(named: str, connect: Any) -> None:
    connect({"region_name": REGION, "config_kwargs": {named: True}}, login=KEY, password=SECRET)
    with pytest.raises(ConfigurationError, match=f"obstore knows no {named}: name the address itself"):
        RemoteStorageHook().get_storage_manager()


def test_the_style_of_addresses_and_a_proxy_are_handed_on(connect: Any) -> None:
    addresses = {"s3": {"addressing_style": "virtual"}, "proxies": {"https": "http://proxy.example:3128"}}
    connect({"region_name": REGION, "config_kwargs": addresses}, login=KEY, password=SECRET)
    access, _ = RemoteStorageHook().open_store(f"s3://{BUCKET}")
    assert access.options["virtual_hosted_style_request"] == "true"
    assert access.options["proxy_url"] == "http://proxy.example:3128"


def test_a_role_is_assumed_again_before_its_credentials_end(
    aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # botocore renews what ends within a quarter of an hour, obstore asks at every request.
    monkeypatch.setattr(aws_login, "_ASKED_AGAIN", timedelta(0))
    connect(role(aws, assume_role_kwargs={"DurationSeconds": 900}), login=KEY, password=SECRET)
    clean(aws)
    assert len({asked.token for asked in aws.asked}) > 1


def test_a_role_that_may_not_be_assumed(aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import ClientError, EndpointConnectionError

    refusals = iter(
        [
            ClientError({"Error": {"Code": "AccessDenied", "Message": f"not with {SECRET}"}}, "AssumeRole"),
            EndpointConnectionError(endpoint_url=f"https://sts/?key={SECRET}"),
        ]
    )

    def refuse(self: Any, **kwargs: Any) -> None:
        raise next(refusals)

    monkeypatch.setattr("airflow.providers.amazon.aws.hooks.base_aws.BaseSessionFactory._assume_role", refuse)
    connect(role(aws), login=KEY, password=SECRET)
    for error in (StorageAccessError, StorageUnavailableError):
        with pytest.raises(error, match=r"^connection 'store': its role cannot be assumed: ") as caught:
            opened()
        assert SECRET not in told(caught.value)


# -- certificates ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AwsServer, Path]]:
    """A server whose certificate an authority of its own has signed, and that authority."""
    authority = Authority(tmp_path_factory.mktemp("ca"))
    with running_aws_server(authority.certificate("127.0.0.1"), str(authority.path)) as aws:
        yield aws, authority.path


@pytest.mark.parametrize("verify", ["nothing", "a file"])
def test_certificates_are_not_checked_or_by_an_authority_of_ones_own(
    tls: tuple[AwsServer, Path], connect: Any, verify: str
) -> None:
    aws, authority = tls
    aws.put(*KEYS)
    checked = False if verify == "nothing" else str(authority)
    connect({"region_name": REGION, "endpoint_url": aws.url, "verify": checked}, login=KEY, password=SECRET)
    clean(aws)


def test_a_certificate_that_nobody_knows_is_refused(tls: tuple[AwsServer, Path], connect: Any) -> None:
    aws, _ = tls
    aws.asked.clear()
    connect({"region_name": REGION, "endpoint_url": aws.url}, login=KEY, password=SECRET)
    with pytest.raises(StorageUnavailableError):
        opened().list_objects()
    assert aws.asked == []


@pytest.mark.parametrize("verify", ["/nowhere/ca.pem", "true", 7])
def test_a_file_of_authorities_that_cannot_be_read_is_named(aws: AwsServer, connect: Any, verify: object) -> None:
    connect({"endpoint_url": aws.url, "verify": verify}, login=KEY, password=SECRET)
    with pytest.raises(ConfigurationError, match=f"'store': verify must be .*{verify}"):
        opened()


# -- what is refused, and what nobody sees ----------------------------------------------------------------------------------


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize("uri", ["gs://bucket/x", "abfss://tiered@account.dfs.core.windows.net", "file:///tmp"])
def test_a_store_of_another_kind_is_refused(connect: Any, uri: str) -> None:
    connect({}, uri=uri, login=KEY, password=SECRET)
    with pytest.raises(ConfigurationError, match=r"^connection 'store': its type 'aws' opens s3://, s3a:// and not"):
        opened()


@pytest.mark.parametrize("name", ["aws_endpoint", "AWS_REGION", "allow_http", "aws_timeout"])
def test_options_of_obstore_are_not_passed_over(connect: Any, name: str) -> None:
    connect({name: "x"}, login=KEY, password=SECRET)
    with pytest.raises(ConfigurationError, match=f"'store': {name} in extra are obstore's options.*generic"):
        opened()


def test_without_credentials(aws: AwsServer, connect: Any) -> None:
    connect({"region_name": REGION, "endpoint_url": aws.url})
    with pytest.raises(ConfigurationError, match=r"^connection 'store': neither it nor the environment"):
        opened()


def test_without_the_provider_its_extra_is_named(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.amazon", None)
    connect({}, login=KEY, password=SECRET)
    with pytest.raises(ConfigurationError, match=r"^connection 'store': .*install airflow-provider-rlmm\[amazon\]"):
        opened()


@pytest.mark.parametrize(
    "extra",
    [
        {"config_kwargs": {SECRET: SECRET}},
        {"assume_role_method": SECRET, "role_arn": "arn:aws:iam::1:role/x"},
        {"profile_name": "nobody", "aws_secret_access_key": SECRET},
        {"role_arn": "x", "assume_role_kwargs": {"Policy": SECRET}, "service_config": {"sts": {"endpoint_url": "::"}}},
    ],
)
def test_what_the_hook_refuses_is_said_without_secrets(connect: Any, extra: dict[str, Any]) -> None:
    connect({"aws_session_token": TOKEN, **extra}, login=KEY, password=SECRET)
    with pytest.raises(
        ConfigurationError, match=r"^connection 'store': Airflow's hook for .* aws refuses it"
    ) as caught:
        opened()
    assert not secrets_in(told(caught.value))


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (SECRET, TOKEN) if secret in text]


def test_secrets_reach_no_log_and_no_error(
    aws: AwsServer, connect: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    aws.access_keys = {"the-test"}
    connect({"aws_session_token": TOKEN, "endpoint_url": aws.url, "region_name": REGION}, login=KEY, password=SECRET)
    manager = opened()
    failures: list[RlmmError] = []
    for call in (manager.list_objects, lambda: manager.delete_log_segment_data(segment(1))):
        with pytest.raises(StorageAccessError) as caught:
            call()
        failures.append(caught.value)
    texts = [*map(told, failures), repr(manager), repr(vars(manager)), caplog.text]
    assert not any(map(secrets_in, texts))
    assert "AWS4-HMAC" in told(failures[0])
    assert KEY not in told(failures[0])


def test_what_a_role_gives_is_a_secret_too(aws: AwsServer, connect: Any) -> None:
    aws.access_keys = {"the-test"}
    connect(role(aws), login=KEY, password=SECRET)
    manager = opened()
    with pytest.raises(StorageAccessError) as caught:
        manager.list_objects()
    (access_key,) = {asked.access_key for asked in aws.asked}
    assert access_key
    assert access_key not in told(caught.value)


def test_credentials_that_end_without_new_ones(aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.credentials import Credentials

    connect({"region_name": REGION, "endpoint_url": aws.url}, login=KEY, password=SECRET)
    manager = opened()

    def fail(self: Any) -> None:
        raise ValueError(f"no more of {SECRET}")

    monkeypatch.setattr(Credentials, "get_frozen_credentials", fail)
    with pytest.raises(
        RlmmError, match=r"connection 'store' gives no credentials: ValueError: no more of \*\*\*"
    ) as caught:
        manager.list_objects()
    assert not secrets_in(told(caught.value))
    assert aws.asked == []


def test_the_connection_test_tells_no_secret(
    aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    aws.access_keys = {"the-test"}
    connect({"aws_session_token": TOKEN, "endpoint_url": aws.url, "region_name": REGION}, login=KEY, password=SECRET)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": BOOTSTRAP}))
    hook = RemoteLogMetadataHook()
    monkeypatch.setattr(hook, "get_cluster_topics", FakeTopics)
    good, text = hook.test_connection()
    assert not good
    assert "403" in text
    assert not secrets_in(text + caplog.text)
    assert KEY not in text
