# SPDX-License-Identifier: Apache-2.0
"""A command that could not see everything says so, in red, with the size of what it did not see."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_rlmm.cli import cleanup_words, health, orphaned, reading
from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.connection_check import ConnectionCheck, ConnectionFinding
from airflow_provider_rlmm.features.cleanup.report_document import Stopped, cleanup_report
from tests.builders import Cluster, tip, update
from tests.unit.cli.opened_session import opener

GONE, HIDDEN = tip(), tip("hidden", 0, 8)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """Behind the commands: two segments of a deleted topic, and five of one that the login may not describe."""
    made = Cluster(3)
    made.segments(GONE, 2)
    made.segments(HIDDEN, 5)

    opened = opener(made, tmp_path, SimpleNamespace(metadata_topic=METADATA_TOPIC))
    monkeypatch.setattr(reading, "open_session", opened)
    monkeypatch.setattr(health, "open_session", opened)
    monkeypatch.setattr(ConnectionCheck, "findings", lambda self: [ConnectionFinding(True, "The cluster answers.")])
    monkeypatch.setenv("RLMM_WORK_DIR", str(tmp_path))
    return made


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = command.run([*words, "--bootstrap-server", "a:1"])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_orphans_lists_what_nobody_can_tell_beside_the_rest(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "orphans")
    assert (code, "7 segments, 6.8 KiB in 2 user partitions" in out) == (0, True)
    cluster.topics.denied.add("hidden")
    code, out, err = run(capsys, "orphans", "--json")
    rows = {row["topic"]: row for row in map(json.loads, out.splitlines())}
    assert code == 4
    assert (rows["gone"]["status"], rows["gone"]["segments"]) == ("NEXT_RUN", 2)
    assert (rows["hidden"]["status"], rows["hidden"]["segments"], rows["hidden"]["bytes"]) == ("UNSEEN", 5, 5_000)
    assert "it needs DESCRIBE on every topic" in rows["hidden"]["why"]
    assert "it cannot be told whether 1 topic with 5 segments, 4.9 KiB is orphaned" in err
    code, out, _ = run(capsys, "orphans")
    assert code == 4
    assert "2 segments, 2.0 KiB in 1 user partition" in out
    assert "needs a person: it cannot be told whether 1 topic with 5 segments" in out


def test_none_is_never_said_of_what_was_not_seen(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.topics.create("gone", GONE.topic_id)
    cluster.topics.create("hidden", HIDDEN.topic_id)
    code, out, _ = run(capsys, "orphans")
    assert (code, out.strip()) == (0, "orphaned user partitions: none")
    number = 3 - cluster.metadata_partition_of(GONE) - cluster.metadata_partition_of(HIDDEN)
    cluster.log.append(number, b"\x01\x00\x00garbage")
    code, out, _ = run(capsys, "orphans")
    assert code == 4
    assert "none" not in out
    assert f"metadata partition {number} out of service" in out


def test_segments_of_unknown_size_are_said_beside_every_sum(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.foreign(update(cluster.alive, 7, S.COPY_SEGMENT_FINISHED))
    code, out, _ = run(capsys, "orphans")
    # Of a living topic its brokers take care.
    assert (code, "tells no size of 1 segment, 1 of living topics" in out) == (0, True)
    for topic, topic_id in (("gone", GONE.topic_id), ("hidden", HIDDEN.topic_id)):
        cluster.topics.create(topic, topic_id)
    cluster.foreign(update(tip("named-only", 0, 31), 0, S.DELETE_SEGMENT_STARTED))
    code, out, _ = run(capsys, "orphans")
    assert (code, "none" in out) == (4, False)
    assert "needs a person: no sum of bytes is all: the log tells no size of 2 segments, 1 of deleted topics" in out
    code, out, err = run(capsys, "survey", "--json")
    assert (code, json.loads(out)["unsized"]) == (4, {"orphaned": 1, "unseen": 0, "living": 1})
    assert "no sum of bytes is all" in err
    assert (run(capsys, "survey")[0], "1 of deleted topics" in run(capsys, "survey")[1]) == (4, True)


def test_survey_and_check_are_as_red(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "survey")[0] == run(capsys, "check")[0] == 0
    cluster.topics.denied.add("hidden")
    code, out, err = run(capsys, "survey", "--json")
    document = json.loads(out)
    assert code == 4
    assert (document["orphaned"]["segments"], document["unseen"]) == (2, {"segments": 5, "bytes": 5_000})
    assert "it cannot be told whether 1 topic" in err
    code, out, _ = run(capsys, "survey")
    assert (code, "unseen: 5 segments, 4.9 KiB" in out) == (4, True)
    code, out, _ = run(capsys, "check", "--json")
    found = json.loads(out)
    assert (code, found["good"]) == (4, False)
    assert any("DESCRIBE on every topic" in row["finding"] for row in found["findings"] if not row["good"])
    # A wrong work folder looks like an empty system.
    assert found["findings"][-1]["finding"].startswith("The work folder is ")


def test_a_run_that_a_limit_has_stopped_is_headed_so(capsys: pytest.CaptureFixture[str]) -> None:
    report = cleanup_report(
        report_id="r", plan_id="p", cluster_id="c", created_at_ms=1, parts=[], left=9,
        stopped=Stopped("too much", "take less", Count(9, 9)),
    )  # fmt: skip
    cleanup_words.say_totals(Invocation({}, {}, Output(as_json=False)), report, "/report")
    out = capsys.readouterr().out
    assert out.startswith("stopped, nothing was deleted")
    assert "done" not in out


@pytest.mark.parametrize(
    "words", [("segments", "--topic", "Gonne"), ("events", "--topic", "Gonne"), ("trail", "Gonne")]
)
def test_of_a_topic_that_there_is_not_no_command_says_that_it_has_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, *words)
    assert (code, "neither log nor cluster knows a topic of the name or id 'Gonne'; did you mean 'gone'?" in err) == (
        1,
        True,
    )
    assert run(capsys, *words[:-1], "gone")[0] == 0
    assert run(capsys, *words[:-1], "alive")[0] == 0


def test_a_survey_prints_topics_and_not_only_sums(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = run(capsys, "survey")
    lines = [line.split() for line in out.splitlines()]
    assert out.splitlines()[0] == "topics, the largest first"
    assert lines[1] == ["topic", "topic", "id", "where", "it", "stands", "segments", "size"]
    assert [line[0] for line in lines[2:4]] == ["hidden", "gone"]
    assert lines[2][1:4] == [kafka_uuid_str(HIDDEN.topic_id), "ORPHANED", "5"]
    monkeypatch.setattr(orphaned, "_MOST_TOPICS", 1)
    _, out, _ = run(capsys, "survey")
    assert out.splitlines()[2].startswith("hidden")
    assert out.splitlines()[3] == "and 2 more topics"
    assert "topics, the largest first" not in run(capsys, "survey", "--json")[1]


def test_a_trail_names_its_user_partition_above_the_events_and_fits_a_terminal(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tip(GONE.topic, GONE.partition, 9)
    cluster.segments(again, 1)
    code, out, _ = run(capsys, "trail", GONE.topic, str(GONE.partition))
    lines = out.splitlines()
    named = [line for line in lines if line.startswith("events of ")]
    assert code == 0
    assert sorted(named) == sorted(
        f"events of {one.topic} {kafka_uuid_str(one.topic_id)}, {one.partition}" for one in (GONE, again)
    )
    assert len([line for line in lines if " COPY_SEGMENT_FINISHED " in line]) == 3
    assert max(map(len, lines)) <= 110
    code, out, _ = run(capsys, "trail", GONE.topic)
    assert (code, out.splitlines()[0]) == (0, "events")
    assert f"{GONE.topic} {kafka_uuid_str(GONE.topic_id)}, {GONE.partition}" in out
