# SPDX-License-Identifier: Apache-2.0
"""``rlmm why``: what one thing is, whose turn it is, and when it goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli import why
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from tests.builders import DAY_MS, Cluster, tip, update
from tests.unit.cli.opened_session import opener

GONE, LIVING, AGAIN = tip(), tip("living", 0, 12), tip("gone", 0, 13)
ROOT = "s3://bucket/tiered"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """Behind the command: three segments of a deleted topic, and one of a living topic."""
    made = Cluster(3)
    for number in (20, 21, 22):
        made.segment(GONE, number)
    made.segment(LIVING, 8)
    made.topics.create("living", LIVING.topic_id)

    opened = opener(made, tmp_path, RemoteLogSettings(storage_uri=ROOT))
    monkeypatch.setattr(why, "open_session", opened)
    monkeypatch.setenv("RLMM_WORK_DIR", str(tmp_path))
    return made


class Asking:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert command.run(["why", *words, "--bootstrap-server", "a:1"]) == code
        said = self._capsys.readouterr()
        return " ".join((said.out + said.err).split())

    def json(self, *words: str, code: int = 0) -> Any:
        assert command.run(["why", *words, "--bootstrap-server", "a:1", "--json"]) == code
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Asking:
    return Asking(capsys)


def key_of(cluster: Cluster, partition: Any) -> str:
    return min(cluster.keys_of(partition))


def test_a_topic_on_its_way_says_whose_turn_it_is_and_when_it_goes(cluster: Cluster, ask: Asking) -> None:
    told = ask.json("gone")
    assert (told["kind"], told["stored"]["segments"]) == ("ORPHANED", 3)
    assert told["turn"] == "this package's: the next run that may write marks it"
    assert told["goes"].startswith("24 h 0 min after it is marked")
    cluster.mark()
    cluster.now_ms += DAY_MS // 2
    told = ask.json(kafka_uuid_str(GONE.topic_id))
    assert (told["kind"], told["goes"].endswith("UTC, in 12 h 0 min")) == ("WAITING", True)
    cluster.now_ms += DAY_MS // 2
    assert ask.json("gone")["kind"] == "ELIGIBLE"
    assert ask.json("living")["turn"].startswith("its leader's: this package deletes nothing of a living topic")


def test_an_object_and_its_segment_have_one_answer_and_a_trail(cluster: Cluster, ask: Asking) -> None:
    key = key_of(cluster, GONE)
    of_key = ask.json(key)
    assert of_key == ask.json(f"{ROOT}/{key}")
    assert "the object '" in of_key["what"]
    assert "of 'gone'" in of_key["what"]
    assert [step["what"] for step in of_key["trail"]] == [
        "the copy had begun, says broker 1",
        "it was copied, says broker 1",
    ]
    segment_id = of_key["what"].split("segment ")[1].split()[0]
    of_segment = ask.json(segment_id)
    assert {**of_segment, "what": None} == {**of_key, "what": None}
    assert of_segment["stored"]["segments"] == 1
    assert "what happened to it" in ask(segment_id)


def test_what_is_deleted_is_a_scrubs_turn_if_an_object_is_left(cluster: Cluster, ask: Asking) -> None:
    key = key_of(cluster, GONE)
    cluster.mark_and_wait()
    for number in range(3):
        cluster.clean(number)
    told = ask.json(key)
    assert (told["kind"], told["stored"]) == ("FINISHED", None)
    assert told["turn"].startswith("a scrub's, if an object of it is still there")
    assert told["trail"][-1]["what"] == "it was deleted, says this package"
    assert ask.json("gone")["kind"] == "FINISHED"


def test_what_brokers_apply_is_believed_whatever_the_key_of_its_record(cluster: Cluster, ask: Asking) -> None:
    key = key_of(cluster, LIVING)
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        cluster.foreign(update(LIVING, 8, state), b"a key")
    told = ask.json(key)
    assert (told["kind"], len(told["trail"])) == ("FINISHED", 4)


def test_what_comes_after_the_end_of_a_segment_does_not_bring_it_back(cluster: Cluster, ask: Asking) -> None:
    key = key_of(cluster, LIVING)
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED):
        cluster.foreign(update(LIVING, 8, state))
    assert ask.json(key)["kind"] == "FINISHED"


@pytest.mark.parametrize("asked", ["finished", "nothing left", "unnamed"])
def test_a_record_that_cannot_be_read_may_say_something_else(cluster: Cluster, ask: Asking, asked: str) -> None:
    other = Cluster(3)
    other.segment(GONE, 7)
    key, finished = key_of(other, GONE), key_of(cluster, GONE)
    cluster.mark_and_wait()
    for number in range(3):
        cluster.clean(number)
    asked_of = {"finished": finished, "nothing left": "gone", "unnamed": key}[asked]
    assert ask.json(asked_of)["why"].endswith(("UTC", "not finished", "names it"))
    home = cluster.metadata_partition_of(GONE)
    cluster.log.append((home + 1) % 3, b"\xff nonsense", None)
    if asked != "nothing left":
        assert ask.json(asked_of)["needs_person"] is False
    cluster.log.append(home, b"\xff nonsense", None)
    told = ask.json(asked_of, code=4)
    assert "cannot be applied (the first: metadata partition" in told["why"]
    assert (told["needs_person"], told["stored"]) == (True, None)


@pytest.mark.parametrize("asked", ["finished", "nothing left", "unnamed"])
def test_a_log_without_its_beginning_may_have_said_something_else(cluster: Cluster, ask: Asking, asked: str) -> None:
    other = Cluster(3)
    other.segment(GONE, 7)
    asked_of = {"finished": key_of(cluster, GONE), "nothing left": "gone", "unnamed": key_of(other, GONE)}[asked]
    cluster.mark_and_wait()
    for number in range(3):
        cluster.clean(number)
    home = cluster.metadata_partition_of(GONE)
    # The first copy's announcement is lost; what came after it is there.
    cluster.log.truncate(home, 1)
    told = ask.json(asked_of, code=4)
    assert "the log has lost records" in told["why"]
    assert (told["needs_person"], told["stored"]) == (True, None)


def test_what_no_record_names_says_so(cluster: Cluster, ask: Asking) -> None:
    other = Cluster(3)
    other.segment(tip("gone", 1), 7)
    key = key_of(other, tip("gone", 1))
    told = ask.json(key)
    assert (told["kind"], told["why"]) == ("UNREFERENCED", "no record of the metadata topic names it")
    assert "72 h 0 min apart" in told["goes"]
    assert "segment" in ask(key)


def test_a_key_of_another_layout_needs_a_person(cluster: Cluster, ask: Asking) -> None:
    assert ask.json("backups/today.tar", code=4)["kind"] == "NOT_OF_THE_LAYOUT"
    assert "does not lie below the storage root" in ask("s3://other/key", code=1)


def test_an_id_that_two_user_partitions_name_is_asked_for_by_its_key(cluster: Cluster, ask: Asking) -> None:
    other = tip("gone", 1)
    cluster.segment(other, 20)
    of_key = ask.json(key_of(cluster, other))
    assert "partition 1" in of_key["what"]
    segment_id = of_key["what"].split("segment ")[1].split()[0]
    assert "several user partitions have a segment" in ask(segment_id, code=1)


def test_what_cannot_be_judged_needs_a_person(cluster: Cluster, ask: Asking) -> None:
    cluster.topics.denied = {"gone"}
    told = ask.json("gone", code=4)
    assert (told["kind"], told["goes"]) == ("UNSEEN", "that cannot be told")


def test_what_names_nothing_or_several_is_refused(cluster: Cluster, ask: Asking) -> None:
    assert "the log names no topic 'nothing'" in ask("nothing", code=1)
    assert "did you mean 'gone'? 'rlmm topics' lists" in ask("goone", code=1)
    cluster.segment(AGAIN, 9)
    said = ask("gone", code=1)
    assert "2 topics had the name 'gone'" in said
    assert kafka_uuid_str(GONE.topic_id) in said
    assert ask.json(kafka_uuid_str(AGAIN.topic_id))["stored"]["segments"] == 1
