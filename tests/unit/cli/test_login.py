# SPDX-License-Identifier: Apache-2.0
"""How the command logs in to a store, and what it says of that."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.access import storage_of_command
from airflow_provider_rlmm.cli.main import _logging
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.core.base.errors import ConfigurationError, HiddenCopiesError
from tests.moto_s3 import SECRET, running_moto_s3
from tests.vendor_server import Reply, running_vendor

URI = "s3://bucket/tiered"
ARGUMENTS = ["--bootstrap-server", "broker:9092", "--storage", URI]


@pytest.fixture(autouse=True)
def nobody_has_logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def invoked(*arguments: str) -> Invocation:
    found: list[Invocation] = []

    @click.command()
    @with_storage
    def command(invocation: Invocation) -> None:
        found.append(invocation)

    command.main([*ARGUMENTS, *arguments], standalone_mode=False)
    return found[0]


def test_a_store_without_credentials_is_refused_in_a_sentence() -> None:
    storage = storage_of_command(invoked().configuration())
    with pytest.raises(ConfigurationError, match=r"no credentials for S3: .*instance_metadata"):
        storage.get_storage_manager()


def test_a_profile_is_an_option_of_the_store(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(
        "[kafka]\naws_access_key_id = KAFKA-KEY-ID\naws_secret_access_key = kafka-s3cret\n"
    )
    invocation = invoked("--store-option", "profile=kafka")
    access, _ = storage_of_command(invocation.configuration()).open_store(URI)
    assert access.credentials is not None
    assert access.credentials()["access_key_id"] == "KAFKA-KEY-ID"


def test_the_role_of_the_machine_is_named_before_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with _logging(0):
        storage_of_command(invoked("--instance-metadata").configuration()).get_storage_manager()
    assert "asking 169.254.169.254 for the role of this machine" in capsys.readouterr().err


def checked(
    uri: str, options: Mapping[str, str], secret: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[bool, str]:
    """Return what `rlmm check` says of deletion, with brokers that do not answer: that is read without them."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        brokers = f"127.0.0.1:{closed.getsockname()[1]}"
    config.write_text("[store]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items()))
    config.chmod(0o600)
    words = ["check", "--json", "--config", str(config), "--bootstrap-server", brokers, "--storage", uri]
    assert command.run(words) == 4
    said = capsys.readouterr()
    assert secret not in said.out + said.err
    words_of_it = ("space", "hidden", "refuses deletion")
    found = [row for row in json.loads(said.out)["findings"] if any(word in row["finding"] for word in words_of_it)]
    assert len(found) == 1, said
    return found[0]["good"], found[0]["finding"]


def test_check_tells_by_the_login_of_the_store_whether_deletion_frees_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_moto_s3() as s3:
        bucket = s3.bucket()
        good, sentence = checked(f"s3://{bucket}", s3.options, SECRET, tmp_path / "rlmm.toml", capsys)
        assert (good, sentence.partition(": ")[0]) == (True, "Deletion frees space at once")
        s3.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        good, sentence = checked(f"s3://{bucket}", s3.options, SECRET, tmp_path / "rlmm.toml", capsys)
        assert (good, sentence.partition(": ")[0]) == (False, "Deleted objects are hidden, never freed")
        options = [f"--store-option={name}={value}" for name, value in s3.options.items()]
        invocation = invoked("--storage", f"s3://{bucket}", *options)
        effect = storage_of_command(invocation.configuration()).get_storage_manager().deletion_effect()
        with pytest.raises(HiddenCopiesError, match="NoncurrentVersionExpiration"):
            effect.require_freed(())


def test_check_tells_what_holds_objects_of_google_and_azure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_vendor() as vendor:
        vendor.replies = {
            "/tiered": Reply(200, "<ListBucketResult></ListBucketResult>"),
            "/storage/v1/b/tiered": Reply(200, json.dumps({"name": "tiered", "defaultEventBasedHold": True})),
            "/tiered&restype=container": Reply(
                200, "", {"x-ms-has-legal-hold": "true", "x-ms-has-immutability-policy": "false"}
            ),
            "/tiered&restype=container&comp=list": Reply(
                200, "<EnumerationResults><Blobs></Blobs><NextMarker /></EnumerationResults>"
            ),
        }
        key = "dmVyeS1zM2NyZXQta2V5"
        logins = {
            "gs://tiered": {"base_url": vendor.address, "bearer_token": key, "allow_http": "true"},
            "abfss://tiered@account.dfs.core.windows.net": {
                "endpoint": vendor.address, "account_key": key, "allow_http": "true",
            },
        }  # fmt: skip
        for uri, options in logins.items():
            good, sentence = checked(uri, options, key, tmp_path / "rlmm.toml", capsys)
            assert (good, sentence.partition(": ")[0]) == (False, "The store refuses deletion")
