# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.manager.java_client import java_client_properties
from airflow_provider_rlmm.spark import properties
from airflow_provider_rlmm.spark.properties import load_properties, redact

NO_SESSION: Any = None
"""Nothing is asked of Java before the text is there."""


def test_a_pipe_whose_writer_is_dead_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "PIPE_TIMEOUT_S", 0.05)
    path = tmp_path / "client.properties"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match=r"client.properties cannot be read.*its writer was not done within"):
        load_properties(NO_SESSION, path)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing.properties cannot be read .*: No such file"):
        load_properties(NO_SESSION, tmp_path / "missing.properties")


@pytest.mark.parametrize(
    ("config", "alone"),
    [
        ('org.Module required username="alice" password="battery-staple";', ["alice", "battery-staple"]),
        ("org.Module required password='battery-staple' ;", ["battery-staple"]),
        ("org.Module required password=battery-staple;", ["battery-staple"]),
        (r'org.Module required password = "say \"please\" \\ now";', [r"say \"please\" \\ now", r'say "please" \ now']),
        ('org.Module required password="first"; org.Module optional token="second";', ["first", "second"]),
    ],
)
def test_what_a_login_module_is_told_is_hidden_where_it_appears_alone(config: str, alone: list[str]) -> None:
    for name in ("sasl.jaas.config", "listener.name.internal.sasl.jaas.config"):
        for secret in [config, *alone]:
            text = redact(
                f"login failed for [{secret}] at broker b:9092", {name: config, "bootstrap.servers": "b:9092"}
            )
            assert text == "login failed for [***] at broker b:9092"


def test_the_password_of_a_connection_is_hidden() -> None:
    kafka = {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": 'to:be="hidden',
    }
    text = java_client_properties(kafka)
    (config,) = (line.partition("=")[2] for line in text.splitlines() if line.startswith("sasl.jaas.config"))
    # What Java's reader of properties makes of it.
    read = config.replace("\\\\", "\\")
    assert redact('no login with to:be="hidden', {"sasl.jaas.config": read}) == "no login with ***"
