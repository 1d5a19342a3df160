# SPDX-License-Identifier: Apache-2.0
"""The steps of docs/lost.md as ``rlmm first-aid`` prints them, typed into a shell; and the rights that it takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from airflow_provider_rlmm.cli.main import run
from dev import java_executable, kafka_class_path, tiering
from dev.authorized import AuthorizedKafka
from dev.broker import LocalKafka
from tests.integration.acls import Acl, allow_exactly
from tests.integration.kafka_topics import create_topic
from tests.integration.losing import (
    OFF,
    alter,
    copied_topic,
    is_served,
    log_start,
    lose_metadata,
    own_settings,
    see_passes,
)

pytestmark = [pytest.mark.integration, pytest.mark.rare]

TOPIC = "orders"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lost.md"
TOOLS = {"kafka-configs.sh": "kafka.admin.ConfigCommand", "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand"}


def shell(kafka: LocalKafka, folder: Path) -> Callable[[str], str]:
    """Return a shell at home in a folder, which finds Kafka's own tools and this package's command."""
    kafkas = [java_executable(), "-cp", os.pathsep.join(kafka_class_path())]
    ours = [sys.executable, "-c", "from airflow_provider_rlmm.cli.start import main; main()"]
    for name, words in {**{tool: [*kafkas, of] for tool, of in TOOLS.items()}, "rlmm": ours}.items():
        log = shlex.quote(str(folder / "log"))
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@" 2>{log}\n')
        (folder / name).chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "RLMM_BOOTSTRAP_SERVER": kafka.bootstrap_servers,
    }

    def typed(lines: str) -> str:
        done = subprocess.run(["/bin/sh", "-ec", lines], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, (lines, done, (folder / "log").read_text()[-2000:])
        return done.stdout

    return typed


def blocks_of_page() -> list[str]:
    """Return what the page has a person type who has a shell of brokers, in its order."""
    found = re.findall(r"^ *```bash\n(.*?)^ *```$", PAGE.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def test_the_steps_of_the_page_are_typed_as_printed_and_no_object_goes_though_the_metadata_topic_is_lost(
    strict_kafka: LocalKafka, tmp_path: Path
) -> None:
    kafka, typed = strict_kafka, shell(strict_kafka, tmp_path)
    topics = {name: copied_topic(kafka, name) for name in (TOPIC, "--it.reads_as-an-option")}
    alter(kafka, TOPIC, {"local.retention.bytes": "500000000", "retention.bytes": "900000000"})
    create_topic(kafka, 1, name="not-tiered", settings={})
    before = {name: own_settings(kafka, name) for name in topics}
    objects = {name: tiering.remote_files(kafka, topic_id) for name, topic_id in topics.items()}
    told: list[str] = []
    lose_metadata(kafka, lambda: told.append(typed("rlmm first-aid")))
    assert "The metadata topic is not there." in told[0]

    switch, asked, switched_off, as_today = blocks_of_page()
    typed(switch)
    assert (tmp_path / ".local/state/rlmm/stop").exists()
    typed(asked)
    dirs = json.loads(typed("rlmm first-aid --json --log-dirs $HOME/log-dirs.txt"))
    assert (dirs["listing_proved_whole"], [t["topic"] for t in dirs["topics"]]) == (True, sorted(topics))
    by_time, by_bytes = (topic["disk"] for topic in dirs["topics"])
    assert (by_bytes["at_most_bytes"], by_time["at_most_bytes"]) == (900_000_000 + 1024**3, None)
    assert "it is not known which time" in by_bytes["cannot_tell"]
    assert by_time["about_bytes"] == by_time["now_bytes"] * 86_400

    typed(switched_off)
    assert "kafka-configs" not in typed("rlmm first-aid")
    assert {name: own_settings(kafka, name) for name in topics} == dict.fromkeys(topics, OFF)
    see_passes(kafka)
    for name, topic_id in topics.items():
        assert tiering.remote_files(kafka, topic_id) == objects[name]
        assert (log_start(kafka, name), is_served(kafka, name)) == (0, True)
    typed(as_today)
    assert {name: own_settings(kafka, name) for name in topics} == before


USER = "reader"
DESCRIBE = (ResourceType.TOPIC, "*", AclOperation.DESCRIBE)
DESCRIBE_CONFIGS = (ResourceType.TOPIC, "*", AclOperation.DESCRIBE_CONFIGS)


@pytest.fixture
def authorized() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka({USER: "not-secret"}) as broker:
        tiering.create_tiered_topic(broker, TOPIC, 2)
        yield broker


def test_two_rights_to_read_suffice_and_what_is_not_told_without_one_is_named(
    authorized: AuthorizedKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    login = authorized.login(USER)
    properties = {
        "security.protocol": login["security.protocol"],
        "sasl.mechanism": login["sasl.mechanism"],
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{USER}" password="not-secret";',
    }
    file = tmp_path / "login.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    dirs = tmp_path / "dirs"
    dirs.write_text(
        shell(authorized, tmp_path)(f"kafka-log-dirs.sh --bootstrap-server {authorized.bootstrap_servers} --describe")
    )

    def told(*rights: Acl, more: tuple[str, ...] = ()) -> tuple[int, str]:
        allow_exactly(authorized, USER, rights)
        asked = ["--bootstrap-server", login["bootstrap.servers"], "--command-config", str(file), *more]
        code = run(["first-aid", *asked])
        printed = capsys.readouterr()
        assert "not-secret" not in printed.out + printed.err
        return code, printed.out

    code, printed = told(DESCRIBE, DESCRIBE_CONFIGS)
    assert code == 0
    assert f"--entity-name={TOPIC} --add-config remote.log.copy.disable=true" in printed
    code, printed = told(DESCRIBE)
    assert code == 4
    assert f"topic {TOPIC}: DESCRIBE_CONFIGS is missing on it" in printed
    code, printed = told()
    assert code == 4
    assert "no tiered topic is among the 0 that were listed" in printed
    code, printed = told(more=("--log-dirs", str(dirs)))
    assert code == 4
    assert f"topic {TOPIC}: brokers have replicas of it, and it is in no listing" in printed
