# SPDX-License-Identifier: Apache-2.0
"""Plans and reports in an object store that ``[rlmm] work_conn_id`` opens."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError
from airflow_provider_rlmm.core.base.file_systems import create_file, modified_ms, read_file, remove_file, replace_file
from airflow_provider_rlmm.hooks import work_store
from airflow_provider_rlmm.overview.documents import read_json_object
from airflow_provider_rlmm.settings import artifact_uri, work_uri
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server

KEY, SECRET = "AKIAPLANTEDKEYID1234", "pl4nted/secret+value="


@pytest.fixture(scope="module")
def server() -> Iterator[AwsServer]:
    with running_aws_server() as aws:
        yield aws


@pytest.fixture
def aws(server: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsServer]:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", f"s3a://{BUCKET}/rlmm")
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_CONN_ID", "work")
    server.asked.clear()
    server.access_keys = {KEY, "the-test"}
    yield server
    server.access_keys = None
    work_store._LAST.clear()


@pytest.fixture
def connect(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    def add(conn_type: str = "aws", login: str = KEY, **extra: Any) -> None:
        if conn_type == "aws":
            extra |= {"region_name": REGION, "endpoint_url": aws.url}
        document = {"conn_type": conn_type, "login": login, "password": SECRET, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_WORK", json.dumps(document))

    return add


def test_files_are_written_read_and_removed_by_the_connection(aws: AwsServer, connect: Any) -> None:
    connect()
    uri = f"{artifact_uri('plan-1')}/summary.json"
    replace_file(uri, [b"{}"])
    with pytest.raises(FileExistsError):
        create_file(uri, [b"other"])
    assert read_file(uri).to_pybytes() == b"{}"
    assert modified_ms(uri) > 0
    assert read_json_object(work_uri(), "plan-1", "summary.json") == {}
    assert aws.keys() == {"rlmm/plan-1/summary.json"}
    remove_file(uri)
    with pytest.raises(FileNotFoundError):
        read_file(uri)
    assert {asked.access_key for asked in aws.asked} == {KEY, "the-test"}


def test_options_of_obstore_do_as_well(aws: AwsServer, connect: Any) -> None:
    connect("generic", aws_region=REGION, aws_endpoint=aws.url, allow_http=True)
    replace_file(f"{work_uri()}/a", [b"1"])
    assert aws.keys() == {"rlmm/a"}
    remove_file(f"{work_uri()}/a")


def test_a_role_is_assumed_once_for_many_files_and_a_changed_connection_is_read_anew(
    aws: AwsServer, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

    sessions: list[str] = []
    get_session = AwsBaseHook.get_session

    def counting(self: Any) -> Any:
        sessions.append(self.aws_conn_id)
        return get_session(self)

    monkeypatch.setattr(AwsBaseHook, "get_session", counting)
    aws.access_keys = None
    role = {"role_arn": "arn:aws:iam::123456789012:role/work", "service_config": {"sts": {"endpoint_url": aws.url}}}
    connect(**role)
    for name in ("a", "b", "c"):
        replace_file(f"{work_uri()}/{name}", [b"1"])
    assert sessions == ["work"]
    connect(login="AKIAANOTHERKEYID1234", **role)
    for name in ("a", "b", "c"):
        remove_file(f"{work_uri()}/{name}")
    assert sessions == ["work", "work"]


def test_without_it_the_environment_opens_the_store(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_CONN_ID", "")
    for name, value in (
        ("AWS_ENDPOINT_URL", aws.url),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "the-test"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(FileNotFoundError):
        read_file(f"{work_uri()}/a")
    assert [asked.access_key for asked in aws.asked] == ["the-test"]


def test_a_store_of_another_kind_is_none_of_its_business(connect: Any) -> None:
    connect()
    assert work_store.open_work_store("gs://plans/a", "work", work_uri()) is None
    assert work_store.open_work_store("s3://other-bucket/plans", "work", work_uri()) is not None


def test_a_connection_that_does_not_exist_or_fit_is_named(aws: AwsServer, connect: Any, monkeypatch: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^\[rlmm\] work_conn_id names 'work', which does not exist"):
        read_file(f"{work_uri()}/a")
    connect("wasb")
    with pytest.raises(ConfigurationError, match=r"^connection 'work': its type 'wasb' opens"):
        read_file(f"{work_uri()}/a")
    assert SECRET not in repr(aws.asked)


def test_secrets_reach_neither_errors_nor_pages(aws: AwsServer, connect: Any) -> None:
    aws.access_keys = {"the-test"}
    connect()
    with pytest.raises(OSError, match=r"403.*rlmm/a$") as refused:
        read_file(f"{work_uri()}/a")
    with pytest.raises(DocumentError, match="the store does not give it out") as shown:
        read_json_object(work_uri(), "plan-1", "summary.json")
    connect(role_arn="x", service_config={"sts": {"endpoint_url": "http://127.0.0.1:1"}}, config_kwargs={"retries": 1})
    with pytest.raises((OSError, ConfigurationError)) as not_opened:
        read_file(f"{work_uri()}/a")
    for error in (refused, shown, not_opened):
        text = "".join(traceback.format_exception(error.value))
        assert SECRET not in text
        assert KEY not in text
