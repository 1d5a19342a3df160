# SPDX-License-Identifier: Apache-2.0
"""The lines that a person types; that Kafka takes them is for tests/integration/test_first_aid.py."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.features.first_aid.commands import COPYING_OFF, Tools, line_of

TOOLS = Tools("b1:9092,b2:9092")
NONE_SET = dict.fromkeys(COPYING_OFF)


def test_all_three_settings_are_in_one_alter() -> None:
    assert line_of(TOOLS.copying_off("orders")) == (
        "kafka-configs.sh --bootstrap-server b1:9092,b2:9092 --alter --entity-type topics --entity-name=orders "
        "--add-config remote.log.copy.disable=true,local.retention.ms=-2,local.retention.bytes=-2"
    )


def test_what_is_set_today_comes_back_and_what_is_not_set_goes() -> None:
    today = {**NONE_SET, "local.retention.ms": "1000", "remote.log.copy.disable": "false"}
    line = line_of(TOOLS.as_today("orders", today))
    assert line.endswith(
        "--entity-name=orders --add-config remote.log.copy.disable=false,local.retention.ms=1000 "
        "--delete-config local.retention.bytes"
    )
    assert "--add-config" not in line_of(TOOLS.as_today("orders", NONE_SET))
    assert "--delete-config" not in line_of(TOOLS.as_today("orders", dict.fromkeys(COPYING_OFF, "-2")))


@given(
    st.text(st.characters(blacklist_characters="\0\r\n", blacklist_categories=["Cs"]), min_size=1),
    st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True),
)
def test_each_word_arrives_as_it_is(word: str, topic: str) -> None:
    words = Tools("b:9092", word).copying_off(topic)
    assert shlex.split(line_of(words)) == list(words)
    assert f"--entity-name={topic}" in words


def test_a_shell_runs_nothing_but_the_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("shell")
    hostile = "$(touch there); `touch there` 'x' \"y\" & touch there"
    line = line_of(("printf", "%s", *Tools("b:9092", hostile).copying_off("-t")[4:5]))
    done = subprocess.run(["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == hostile
    assert not (folder / "there").exists()


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a\nb", "ü", "a" * 250])
def test_a_name_that_no_topic_can_have_is_in_no_line(name: str) -> None:
    with pytest.raises(ValueError, match="no topic can have this name"):
        TOOLS.copying_off(name)


def test_a_value_that_a_setting_cannot_have_is_in_no_line() -> None:
    with pytest.raises(ValueError, match=r"local\.retention\.ms has a value"):
        TOOLS.as_today("orders", {**NONE_SET, "local.retention.ms": "1,retention.ms=1"})


def test_the_login_is_in_every_line() -> None:
    tools = Tools("b:9092", "my login")
    for words in (tools.copying_off("t"), tools.as_today("t", NONE_SET), tools.log_directories()):
        assert "--command-config 'my login'" in line_of(words)
