# SPDX-License-Identifier: Apache-2.0
"""``rlmm init`` writes what has worked, no secret, and nothing over a file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.cli import init
from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.configuration import read_configuration
from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageRootError
from airflow_provider_rlmm.core.runs.connection_fields import KAFKA_CONN_ID
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings, read_fields

OPTIONS = ("--bootstrap-server", "a:1", "--storage", "s3://bucket/prefix", "--layout", "aiven", "--hold", 'a"b')


class World:
    failing = False


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()

    def prove_root(*_: Any, **__: Any) -> Any:
        if made.failing:
            raise StorageRootError("it is not there")
        return SimpleNamespace(check=SimpleNamespace(to_paste="expected_root = s3://bucket/prefix?id=1"))

    @contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[Any]:
        @contextmanager
        def topic() -> Iterator[None]:
            yield None

        yield SimpleNamespace(cluster_id="lkc-1", topic=topic, prove_root=prove_root)

    monkeypatch.setattr(init, "open_session", opened)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return made


def test_the_file_says_what_was_given_and_what_was_seen_and_no_secret(world: World, tmp_path: Path) -> None:
    file = tmp_path / "config" / "rlmm" / "config.toml"
    secrets = ("--store-option", "region=eu-west-1", "--store-option", "aws_secret_access_key=s3cr3t-s3cr3t")
    login = ("--store-option", "endpoint=https://ann:s3cr3t-s3cr3t@minio:9000")
    assert command.run(["init", *OPTIONS, *secrets, *login]) == 0
    text = file.read_text()
    assert tomllib.loads(text) == {
        "bootstrap_server": "a:1", "storage_uri": "s3://bucket/prefix", "layout": "aiven", "hold": 'a"b',
        "store": {"region": "eu-west-1"},
    }  # fmt: skip
    assert '# expected_cluster_id = "lkc-1"\n# expected_root = "s3://bucket/prefix?id=1"\n' in text
    assert "# aws_secret_access_key: may be a secret" in text
    assert "# endpoint: may be a secret" in text
    assert "s3cr3t" not in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert command.run(["init", *OPTIONS]) == 1, "nothing is written over a file"
    assert file.read_text() == text
    # A person has compared the two, and takes the signs away.
    file.write_text(text.replace("# expected_", "expected_"))
    read = read_configuration({"config": str(file), "hold": "a"}, {}, environment={}, allow_writes=True)
    assert (read.settings.expected_cluster_id, read.settings.expected_root) == ("lkc-1", "s3://bucket/prefix?id=1")


def test_a_root_that_could_not_be_seen_needs_a_person(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.failing = True
    file = tmp_path / "here.toml"
    assert command.run(["init", *OPTIONS, "--output", str(file)]) == 4
    assert "# expected_root could not be seen" in file.read_text()
    assert "it is not there" in capsys.readouterr().out


def test_connections_for_airflow_hold_what_was_given_and_seen_and_allow_no_writes(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, connections = tmp_path / "here.toml", tmp_path / "connections.json"
    given = ("init", *OPTIONS[:-1], "billing", "--output", str(file), "--connections", str(connections))
    assert command.run([*given]) == 0
    document = json.loads(connections.read_text())
    assert document["kafka_default"] == {"conn_type": "kafka", "extra_dejson": {"bootstrap.servers": "a:1"}}
    assert document["rlmm_default"] == {
        "conn_type": "rlmm",
        "extra_dejson": {
            "kafka_conn_id": "kafka_default", "storage_uri": "s3://bucket/prefix", "layout": "aiven", "hold": "billing",
            "expected_cluster_id": "lkc-1", "expected_root": "s3://bucket/prefix?id=1", "allow_writes": False,
        },
    }  # fmt: skip
    extra = document["rlmm_default"]["extra_dejson"]
    fields = {name: value for name, value in extra.items() if name != KAFKA_CONN_ID.name}
    RemoteLogSettings(**read_fields(RemoteLogSettings, fields, without=frozenset())).check()
    assert connections.stat().st_mode & 0o777 == 0o600
    file.unlink()
    assert command.run([*given]) == 1
    assert not file.exists(), "nothing is written where one of the two is there"
    assert "Name another by --connections" in capsys.readouterr().err


def test_what_connections_lack_needs_a_person(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.failing = True
    properties = tmp_path / "client.properties"
    properties.write_text("sasl.mechanism=PLAIN\n")
    connections = tmp_path / "connections.json"
    lacking = ("--command-config", str(properties), "--store-option", "aws_secret_access_key=s3cr3t-s3cr3t")
    given = ("init", *OPTIONS, *lacking, "--output", str(tmp_path / "here.toml"), "--connections", str(connections))
    assert command.run([*given]) == 4
    text = connections.read_text()
    assert "s3cr3t" not in text
    assert "client.properties" not in text
    assert "expected_root" not in text
    said = capsys.readouterr().out
    assert f"the connection kafka_default has no login: put the properties of '{properties}' into its extra" in said
    assert "the connection rlmm_default has no login to the object store" in said


@pytest.mark.parametrize("given", [{"allow_writes": True}, {"allow_copy": True}])
def test_a_real_run_takes_no_file_that_nobody_has_named(given: dict[str, bool], tmp_path: Path) -> None:
    file = tmp_path / "rlmm" / "config.toml"
    file.parent.mkdir()
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "RLMM_BOOTSTRAP_SERVER": "a:1"}
    assert read_configuration({}, {}, environment=environment, **given).settings.hold is None, "there is none"
    file.write_text('hold = "billing"\n')
    with pytest.raises(ConfigurationError, match=f"say --config {file}"):
        read_configuration({}, {}, environment=environment, **given)
    named = {**environment, "RLMM_CONFIG": str(file)}
    assert read_configuration({}, {}, environment=named, **given).settings.hold == "billing"
    assert read_configuration({"config": str(file)}, {}, environment=environment, **given).settings.hold == "billing"
    assert read_configuration({}, {}, environment=environment).settings.hold == "billing", "a dry run reads it"
