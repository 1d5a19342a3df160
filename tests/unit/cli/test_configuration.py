# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli.configuration import CommandConfiguration, read_configuration
from airflow_provider_rlmm.core.base.errors import ConfigurationError

BROKER = {"RLMM_BOOTSTRAP_SERVER": "env:1"}


def read(options: dict[str, Any] | None = None, **given: Any) -> CommandConfiguration:
    given.setdefault("environment", BROKER)
    return read_configuration(options or {}, given.pop("store_options", {}), **given)


def test_a_brokers_address_is_enough(tmp_path: Path) -> None:
    found = read(environment={**BROKER, "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    assert found.client_properties == {"bootstrap.servers": "env:1"}
    assert (found.settings.storage_uri, found.settings.layout) == (None, "local-tiered-storage")
    assert found.settings.metadata_topic == "__remote_log_metadata"
    assert not found.settings.allow_writes
    assert found.work_uri == f"{tmp_path}/rlmm"


def test_options_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rlmm.toml"
    file.write_text(
        'bootstrap_server = "file:1"\nlayout = "aiven"\nkey_prefix = "file/"\nexpected_cluster_id = "file"\n'
        'storage_uri = "s3://file"\n[store]\nendpoint = "http://file"\nallow_http = true\n'
    )
    environment = {"RLMM_KEY_PREFIX": "env/", "RLMM_STORAGE_URI": "s3://env", "RLMM_CONFIG": str(file)}
    found = read({"storage_uri": "s3://option"}, environment=environment, store_options={"endpoint": "http://option"})
    assert found.client_properties == {"bootstrap.servers": "file:1"}
    settings = found.settings
    assert (settings.layout, settings.key_prefix, settings.storage_uri) == ("aiven", "env/", "s3://option")
    assert settings.expected_cluster_id == "file"
    assert found.store_options == {"endpoint": "http://option", "allow_http": "true"}


def test_the_usual_file_is_read_where_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "rlmm").mkdir()
    (tmp_path / "rlmm" / "config.toml").write_text('bootstrap_server = "usual:1"\n')
    assert read(environment={"XDG_CONFIG_HOME": str(tmp_path)}).client_properties["bootstrap.servers"] == "usual:1"
    other = tmp_path / "other.toml"
    other.write_text('bootstrap_server = "other:1"\n')
    found = read({"config": str(other)}, environment={"XDG_CONFIG_HOME": str(tmp_path)})
    assert found.client_properties["bootstrap.servers"] == "other:1"


def test_the_address_of_an_option_wins_over_that_of_the_clients_properties(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nsecurity.protocol=SSL\n")
    expected = {"bootstrap.servers": "file:1", "security.protocol": "SSL"}
    assert read({"command_config": str(file)}, environment={}).client_properties == expected
    found = read({"command_config": str(file), "bootstrap_server": "option:1"}, environment={})
    assert found.client_properties == {**expected, "bootstrap.servers": "option:1"}


@pytest.mark.parametrize(
    ("options", "environment", "allowed"),
    [
        ({}, {}, None),
        ({"endpoint": "https://store"}, {}, None),
        ({"endpoint": "http://store"}, {}, "true"),
        ({}, {"AWS_ENDPOINT_URL": "HTTP://store"}, "true"),
        ({"allow_http": "false"}, {"AWS_ENDPOINT_URL": "http://store"}, "false"),
    ],
)
def test_a_store_that_is_named_without_tls_is_asked_without(
    options: dict[str, str], environment: dict[str, str], allowed: str | None
) -> None:
    found = read(environment={**BROKER, **environment}, store_options=options)
    assert found.store_options.get("allow_http") == allowed


def test_a_folder_takes_no_option_from_an_environment_that_speaks_of_s3() -> None:
    environment = {**BROKER, "AWS_ENDPOINT_URL": "http://store", "RLMM_STORAGE_URI": "file:///tiered"}
    assert read(environment=environment, store_options={}).store_options == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("allow_writes = true", r"unknown fields \['allow_writes'\].*writing is allowed by --execute, for one run"),
        ("allow_copy = true", r"unknown fields \['allow_copy'\].*writing is allowed by --execute, for one run"),
        ("kafka_conn_id = 'x'", r"unknown fields \['kafka_conn_id'\]; known are"),
        ("layout = 5", "layout must be text, not 5"),
        ("sole_owner = 'maybe'", "sole_owner must be true or false"),
        ("password = s3cr3t", "is no TOML"),
        ("[store]\nsecret = ['s3cr3t']", r"\[store\] of the configuration file must hold texts"),
        ("store = 's3cr3t'", r"\[store\] of the configuration file must hold texts"),
        ("storage_uri = 's3://u:s3cr3t@b'", "storage_uri must hold neither credentials"),
        ("metadata_topic = 'a/b'", "metadata_topic must be a name that Kafka allows"),
    ],
)
def test_a_wrong_file_is_named_and_its_secrets_are_not_repeated(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rlmm.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        read({"config": str(file)})
    assert "s3cr3t" not in str(caught.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none' cannot be read: No such file"):
        read({"config": str(tmp_path / "none")})


def test_no_broker_at_all_is_said_with_the_three_ways_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--bootstrap-server.*RLMM_BOOTSTRAP_SERVER.*configuration file"):
        read(environment={"XDG_CONFIG_HOME": str(tmp_path)})


def test_writing_is_allowed_by_the_command_alone() -> None:
    assert not read(environment={**BROKER, "RLMM_ALLOW_WRITES": "true"}).settings.allow_writes
    assert read(allow_writes=True).settings.allow_writes
    assert not read(environment={**BROKER, "RLMM_ALLOW_COPY": "true"}, allow_writes=True).settings.allow_copy
    assert read(allow_writes=True, allow_copy=True).settings.allow_copy


def test_its_text_holds_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=me\nsasl.password=s3cr3t\n")
    found = read({"command_config": str(file)}, store_options={"aws_secret_access_key": "s3cr3t"})
    assert "s3cr3t" not in repr(found)
