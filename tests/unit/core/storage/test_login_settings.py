# SPDX-License-Identifier: Apache-2.0
"""The settings of a bucket, read by the login that opens the store: at its address, with its credentials, nowhere else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.core.storage.logins.aws_client import client_of_s3
from airflow_provider_rlmm.core.storage.logins.inspecting import inspector_of_login
from airflow_provider_rlmm.core.storage.logins.login import with_login
from tests.aws_server import BUCKET, running_aws_server
from tests.certificates import Authority
from tests.moto_s3 import REGION, SECRET, Answer, MotoS3, running_moto_s3


@pytest.fixture(scope="module")
def server() -> Iterator[MotoS3]:
    with running_moto_s3() as s3:
        yield s3


@pytest.fixture
def s3(server: MotoS3) -> MotoS3:
    server.heal()
    return server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose environment and files lead nowhere."""
    for name in os.environ:
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def look(bucket: str, options: Mapping[str, str]) -> DeletionEffect:
    uri = f"s3a://{bucket}/tiered"
    inspector = inspector_of_login(uri, options, with_login(uri, options))
    assert inspector is not None
    effect = inspector.look(["kp/"])
    assert SECRET not in json.dumps(effect.to_dict())
    return effect


def keep_versions(s3: MotoS3, bucket: str) -> None:
    s3.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def test_options_of_the_store_read_the_settings_at_its_address(s3: MotoS3) -> None:
    bucket = s3.bucket()
    s3.requests.clear()
    assert look(bucket, s3.options).freed is Freed.AT_ONCE
    assert [(r.path, *r.query) for r in s3.requests] == [(f"/{bucket}", "lifecycle"), (f"/{bucket}", "versioning")]
    keep_versions(s3, bucket)
    assert look(bucket, s3.options).freed is Freed.NEVER
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "tiered/"}}
    rules = {"Rules": [{**rule, "NoncurrentVersionExpiration": {"NoncurrentDays": 7}}]}
    s3.client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
    assert look(bucket, s3.options).days == 7


def test_an_object_lock_is_read(s3: MotoS3) -> None:
    bucket = s3.bucket(ObjectLockEnabledForBucket=True)
    retention = {"Mode": "GOVERNANCE", "Days": 30}
    s3.client().put_object_lock_configuration(
        Bucket=bucket,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}},
    )
    assert "object lock keeps each version for 30 days" in look(bucket, s3.options).sentence


def test_the_environment_and_a_profile_read_them_as_they_open_the_store(
    s3: MotoS3, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.bucket()
    keep_versions(s3, bucket)
    with monkeypatch.context() as environment:
        for name, value in s3.environment.items():
            environment.setenv(name, value)
        assert look(bucket, {"allow_http": "true"}).freed is Freed.NEVER
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text(f"[kafka]\naws_access_key_id = K\naws_secret_access_key = {SECRET}\n")
    (home / ".aws/config").write_text(f"[profile kafka]\nregion = {REGION}\nendpoint_url = {s3.endpoint}\n")
    assert look(bucket, {"profile": "kafka"}).freed is Freed.NEVER


def test_a_bucket_in_the_name_of_the_host_is_asked_there(s3: MotoS3, monkeypatch: pytest.MonkeyPatch) -> None:
    port = s3.endpoint.rpartition(":")[2]
    options = {**s3.options, "virtual_hosted_style_request": "true"}
    told = look("bucket", options)
    assert "does not begin with 'bucket'" in told.sentence
    access = StoreAccess({**options, "aws_endpoint": f"http://bucket.s3.example:{port}"})
    client, asked = client_of_s3(access, "bucket", instance_metadata=False), []
    client.meta.events.register("before-send.s3", lambda request, **_: asked.append(request.url) or _empty(request))
    client.get_bucket_versioning(Bucket="bucket")
    assert asked == [f"http://bucket.s3.example:{port}/?versioning"]


def _empty(request: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Any:
    from botocore.awsrequest import AWSResponse

    class Raw:
        def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
            yield b""

    return AWSResponse(request.url, status, headers or {}, Raw())


def test_no_other_host_is_asked_than_the_store(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a profile, nor a variable, nor an answer of S3 leads elsewhere."""
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text("[default]\nendpoint_url = http://elsewhere.example\nregion = us-west-2\n")
    monkeypatch.setenv("AWS_DEFAULTS_MODE", "auto")
    access = StoreAccess({"access_key_id": "k", "secret_access_key": SECRET, "region": REGION})
    client, asked = client_of_s3(access, "bucket", instance_metadata=False), []

    def answer(request: Any, **_: Any) -> Any:
        asked.append(request.url)
        return _empty(request, 301, {"x-amz-bucket-region": "eu-west-1"})

    client.meta.events.register_first("before-send.s3", answer)
    with pytest.raises(ConfigurationError, match="leads to another host: name the region"):
        client.get_bucket_versioning(Bucket="bucket")
    assert asked[0] == f"https://s3.{REGION}.amazonaws.com/bucket?versioning"


def test_the_machine_is_asked_for_its_role_only_where_that_is_allowed(s3: MotoS3) -> None:
    address = {"endpoint": s3.endpoint, "allow_http": "true"}
    access = StoreAccess(address)
    with pytest.raises(ConfigurationError, match="only obstore reads the login"):
        client_of_s3(access, "bucket", instance_metadata=False)
    client = client_of_s3(access, "bucket", instance_metadata=True)
    assert client is not None
    with pytest.raises(ConfigurationError, match="only obstore reads the login"):
        client_of_s3(StoreAccess({**address, "metadata_endpoint": "http://x"}), "bucket", instance_metadata=True)


def test_the_role_of_the_machine_reads_them(s3: MotoS3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.bucket()
    given = {"Code": "Success", "AccessKeyId": "K", "SecretAccessKey": SECRET, "Token": "t"}

    def machine(request: Any) -> Answer | None:
        if not request.path.startswith("/latest/"):
            return None
        if "security-credentials/" in request.path and not request.path.endswith("/"):
            return Answer(200, json.dumps({**given, "Expiration": "2999-01-01T00:00:00Z"}))
        return Answer(200, "a-role")

    s3.fault = machine
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s3.endpoint)
    options = {"endpoint": s3.endpoint, "allow_http": "true", "region": REGION, "instance_metadata": "true"}
    assert look(bucket, options).freed is Freed.AT_ONCE
    s3.requests.clear()
    assert look(bucket, {**s3.options, "instance_metadata": "true"}).freed is Freed.AT_ONCE
    assert not [r for r in s3.requests if r.path.startswith("/latest/")]


def test_a_bucket_for_everybody_is_asked_without_a_signature(s3: MotoS3) -> None:
    bucket = s3.bucket()
    options = {"aws_endpoint": s3.endpoint, "allow_http": "true", "skip_signature": "true", "region": REGION}
    assert look(bucket, options).freed in (Freed.AT_ONCE, Freed.UNKNOWN)


@pytest.mark.parametrize(
    ("call", "right"), [("versioning", "s3:GetBucketVersioning"), ("lifecycle", "s3:GetLifecycle")]
)
def test_a_right_that_is_missing_is_named(call: str, right: str, s3: MotoS3) -> None:
    bucket = s3.bucket()
    keep_versions(s3, bucket)
    s3.fault = lambda request: Answer.error(403, "AccessDenied") if call in request.query else None
    effect = look(bucket, s3.options)
    assert f"is answered with AccessDenied, as it needs {right}" in effect.sentence
    assert "said by the test" not in effect.sentence


def test_a_lock_that_may_not_be_read_is_not_taken_for_none(s3: MotoS3) -> None:
    bucket = s3.bucket()
    keep_versions(s3, bucket)
    s3.fault = lambda request: Answer.error(403, "AccessDenied") if "object-lock" in request.query else None
    assert "whether object lock keeps versions for longer is not known (get_object_lock_configuration" in (
        look(bucket, s3.options).sentence
    )


def test_without_botocore_the_sentence_says_what_to_install(s3: MotoS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    effect = look("bucket", s3.options)
    assert effect.freed is Freed.UNKNOWN
    assert "install airflow-provider-rlmm[aws]" in effect.sentence


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"allow_http": "false"}, "allow_http=true only"),
        ({"proxy_excludes": "x"}, "botocore knows no proxy_excludes"),
    ],
)
def test_what_the_client_cannot_do_as_the_store_does_it_does_not_do(
    more: dict[str, str], told: str, s3: MotoS3
) -> None:
    s3.requests.clear()
    effect = look("bucket", {**s3.options, **more})
    assert (effect.freed, told in effect.sentence, s3.requests) == (Freed.UNKNOWN, True, [])


def test_a_proxy_of_the_options_is_used(s3: MotoS3) -> None:
    s3.fault = lambda request: Answer(200, "<VersioningConfiguration/>")
    effect = look("bucket", {**s3.options, "aws_endpoint": "http://store.example", "proxy_url": s3.endpoint})
    assert effect.freed is Freed.AT_ONCE
    assert s3.requests


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")  # urllib3's, and wanted
def test_authorities_of_the_options_count(home: Path) -> None:
    authority = Authority(home)
    with running_aws_server(authority.certificate("127.0.0.1"), str(authority.path)) as server:
        options = {"endpoint": server.url, "access_key_id": "k", "secret_access_key": SECRET, "region": REGION}
        assert "fails with SSLError" in look(BUCKET, options).sentence
        trusted = {**options, "root_certificate": authority.path.read_text()}
        assert look(BUCKET, trusted).freed is Freed.AT_ONCE
        assert look(BUCKET, {**options, "allow_invalid_certificates": "true"}).freed is Freed.AT_ONCE


@pytest.mark.parametrize("uri", ["https://account.blob.core.windows.net/container/x", "file:///mnt/x"])
def test_other_stores_have_no_client_here(uri: str) -> None:
    assert inspector_of_login(uri, {}, StoreAccess()) is None


def test_a_gateway_that_answers_another_question_tells_nothing(s3: MotoS3) -> None:
    bucket = s3.bucket()
    s3.fault = lambda request: (
        Answer(200, f"<ListBucketResult><Name>{bucket}</Name></ListBucketResult>")
        if "versioning" in request.query
        else None
    )
    effect = look(bucket, s3.options)
    assert effect.freed is Freed.UNKNOWN
    assert "get_bucket_versioning fails: this store answers with a listing: it knows no such question" in effect.why
