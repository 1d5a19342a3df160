# SPDX-License-Identifier: Apache-2.0
"""What `rlmm first-aid` prints of a cluster, and of none."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from tests.unit.features.first_aid.looks import Look, printed, topic

BROKERS = "b" * 3000 + ":9092"
"""More than a cell of a table shows."""


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("RLMM_BOOTSTRAP_SERVER", raising=False)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Look:
    look = Look((topic("orders", {"local.retention.ms": "1000"}), topic("off", {"remote.log.copy.disable": "true"})))
    monkeypatch.setattr(RemoteLogAccess, "get_tiered_topics", lambda self: look)
    return look


def asked(*more: str) -> int:
    return run(["first-aid", "--bootstrap-server", BROKERS, *more])


def test_lines_are_printed_whole_and_in_the_order_in_which_they_are_typed(
    cluster: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked() == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("kafka-configs.sh")]
    assert [shlex.split(line)[6:] for line in lines] == [
        [
            "--entity-name=orders",
            "--add-config",
            "remote.log.copy.disable=true,local.retention.ms=-2,local.retention.bytes=-2",
        ],
        [
            "--entity-name=orders",
            "--add-config",
            "local.retention.ms=1000",
            "--delete-config",
            "remote.log.copy.disable,local.retention.bytes",
        ],
    ]
    assert all(BROKERS in line for line in lines)
    assert "need no alter, as copying is off already\ntopic\noff" in out
    assert out.index(lines[0]) < out.index("not before the loss is settled") < out.index(lines[1])
    assert "it cannot be told how much it takes: what lies on the brokers' disks" in out


def test_what_was_not_seen_comes_first_and_is_red(cluster: Look, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.not_told = {"hidden": "DESCRIBE_CONFIGS is missing on it"}
    assert asked() == 4
    out = capsys.readouterr().out
    assert out.startswith("needs a person: nothing is told of 1 topic, which may be tiered:\n")
    assert "topic hidden: DESCRIBE_CONFIGS is missing on it." in out
    assert asked("--json") == 4
    told = capsys.readouterr()
    assert json.loads(told.out)["not_told"] == [{"topic": "hidden", "why": "DESCRIBE_CONFIGS is missing on it"}]
    assert "topic hidden" in told.err


def test_disk_is_told_by_the_file_of_kafkas_tool(
    cluster: Look, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dirs = tmp_path / "dirs"
    of_each = {"orders-0": 1024, "off-0": 1, "__remote_log_metadata-0": 1}
    dirs.write_text(printed({1: of_each, 2: of_each}))
    assert asked("--json", "--log-dirs", str(dirs)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["listing_proved_whole"]
    (orders,) = (one for one in document["topics"] if one["topic"] == "orders")
    assert (orders["disk"]["now_bytes"], orders["disk"]["about_bytes"]) == (2048, 2048 * 604_800)
    assert orders["settings_of_topic_today"]["local.retention.ms"] == "1000"
    assert asked("--log-dirs", str(dirs)) == 0
    assert "1 of them takes 1.2 GiB more than now" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "why"), [(b"\xff", "is no text in UTF-8"), (b"{}", "is not what 'kafka-log-dirs.sh --describe' prints")]
)
def test_another_file_is_refused(
    cluster: Look, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, why: str
) -> None:
    (tmp_path / "dirs").write_bytes(content)
    assert asked("--log-dirs", str(tmp_path / "dirs")) == 1
    assert why in capsys.readouterr().err


def test_no_topic_of_many_is_cut_off(cluster: Look, capsys: pytest.CaptureFixture[str]) -> None:
    own = {"remote.log.copy.disable": "true"}
    cluster.tiered = tuple(topic(f"{n:03}{'t' * 200}", own) for n in range(300))
    assert asked() == 0
    out = capsys.readouterr().out
    assert all(one.topic in out for one in cluster.tiered)
    assert "kafka-configs.sh" not in out


def test_a_topic_that_grows_without_end_is_said(cluster: Look, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.tiered = (topic("orders", {"retention.ms": "-1", "local.retention.ms": "1000"}),)
    assert asked() == 0
    assert "orders grows without end" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_without_brokers_it_says_what_to_do_and_that_nothing_is_known(
    capsys: pytest.CaptureFixture[str], as_json: list[str]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert run(["first-aid", "--bootstrap-server", address, *as_json]) == 3
    told = capsys.readouterr()
    assert "no broker has told which topics are tiered" in (told.err if as_json else told.out)
    assert "start no broker before that" in told.out + told.err
    assert not as_json or not told.out
