# SPDX-License-Identifier: Apache-2.0
"""The command ``what-if`` over a generation as the Spark job's tasks write it, without Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli import what_if as module
from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.era import COMPACT, era_of_policy
from airflow_provider_rlmm.core.records.fold.ipc import VERSION
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.retention.rules import MIN_AGE as AGE
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.what_if import AS_LISTED, Scenario
from tests.spark.events import Topic, random_topic
from tests.spark.plain_evaluation import evaluate_plan
from tests.unit.features.retention.test_metadata_partition import (
    CLUSTER,
    ENDS,
    MIN_AGE,
    NOW,
    PARTITIONS,
    TIMED,
    batches_of,
    told,
    without_keys,
)

SETTING = "forever:retention.bytes=0"
OTHER = "s*:retention.bytes=0,retention.ms=-1"


def write_generation(topic: Topic, folder: Path, **changes: Any) -> Generation:
    """Write a generation of all records of a topic; return its manifest."""
    store = GenerationStore(str(folder))
    reports = told(batches_of(without_keys(topic)), GenerationOrder(store.root, 1, ENDS))
    parts = {number: GenerationPart(0) for number in range(PARTITIONS)}
    parts |= {report.metadata_partition: report.part for report in reports}
    era = era_of_policy(frozenset({"delete"})).told()
    told_id = kafka_uuid_str(TIMED.topic_id)
    generation = replace(Generation(1, CLUSTER.cluster_id, told_id, VERSION, NOW, NOW, parts, era), **changes)
    store.create(generation)
    return generation


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Topic, list[str]]:
    """A topic of many histories, and the arguments that name its generation and its listing."""
    monkeypatch.setattr(module, "system_clock", lambda: NOW)
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    topic = random_topic(5, names, NOW, MIN_AGE, 400, PARTITIONS)
    (tmp_path / "listing.json").write_text(CLUSTER.to_json())
    return topic, ["what-if", str(tmp_path / "segments"), "--cluster-state", str(tmp_path / "listing.json")]


def expected(topic: Topic, text: str) -> dict[str, dict[str, int]]:
    """What goes by topic, evaluated by other code."""
    state = (AS_LISTED if text == AS_LISTED.text else Scenario.parse(text)).applied(CLUSTER)
    counts: dict[str, dict[str, int]] = {}
    for row in evaluate_plan(topic.records, json.loads(state.to_json()), NOW, AGE.default, PARTITIONS):
        if row["reason"] != "ORPHANED":
            count = counts.setdefault(row["topic"], {"segments": 0, "bytes": 0})
            count["segments"] += 1
            count["bytes"] += row["segment_size_in_bytes"]
    return counts


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command; return exit code, standard output and standard error."""
    code = run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_it_counts_as_the_plain_rules_do(
    scene: tuple[Topic, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, arguments = scene
    generation = write_generation(topic, tmp_path / "segments")
    uncertain = sum(part.unresolved for part in generation.parts.values())
    code, out, err = said(capsys, *arguments, SETTING, OTHER, "--json", "--price-per-gb-month", "0.5")
    document = json.loads(out)
    assert (document["generation"], document["created_at_ms"], document["uncertain_segments"]) == (1, NOW, uncertain)
    found = document["scenarios"]
    texts = [AS_LISTED.text, SETTING, OTHER]
    assert [one["settings"] for one in found] == texts
    assert [one["by_topic"] for one in found] == [expected(topic, text) for text in texts]
    assert all(one["estimated"] for one in found)
    more = [one["bytes"] - found[0]["bytes"] for one in found]
    assert more[1] > 0
    assert [one["saved_micros"] for one in found] == [round(size / 2**30 * 500_000) for size in more]
    # Some histories of this topic are certain to nobody.
    assert uncertain
    assert code == 4
    assert f"cannot tell: {uncertain:,} segments are in no count" in err


def test_people_see_what_differs_first_by_bytes(
    scene: tuple[Topic, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, arguments = scene
    write_generation(topic, tmp_path / "segments")
    _, out, _ = said(capsys, *arguments, SETTING)
    assert out.startswith("generation 1 of cluster cluster, read 0 s ago; all counts are estimates")
    then = expected(topic, SETTING)["forever"]["segments"]
    assert "forever" not in expected(topic, AS_LISTED.text)
    rows = [line.split() for line in out.splitlines() if line.startswith(SETTING) and " forever " in line]
    assert [row[1:3] for row in rows] == [["forever", str(then)]]
    assert "saved" not in out


def test_a_log_that_may_lack_records_is_told(
    scene: tuple[Topic, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, arguments = scene
    written = write_generation(topic, tmp_path / "segments")
    shutil.rmtree(tmp_path / "segments")
    holed = replace(written.parts[0], unresolved=0, holes=(HistoryGap(0, 5, 7),))
    write_generation(topic, tmp_path / "segments", parts={**written.parts, 0: holed})
    code, _, err = said(capsys, *arguments, SETTING, "--json")
    assert code == 4
    assert "cannot tell: metadata partition 0: metadata partition 0 has no record at offsets 5 to 6" in err
    shutil.rmtree(tmp_path / "segments")
    write_generation(topic, tmp_path / "segments", era=era_of_policy(frozenset({COMPACT})).told())
    code, _, err = said(capsys, *arguments, SETTING, "--json")
    assert code == 4
    assert "cleanup.policy is compact" in err


def test_what_cannot_be_read_is_said_in_one_line(
    scene: tuple[Topic, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, arguments = scene
    assert said(capsys, *arguments, SETTING)[0] == 1
    write_generation(topic, tmp_path / "segments")
    code, _, err = said(capsys, *arguments, "nobody:retention.ms=1")
    assert code == 1
    assert "none of the 4 topics of the listing is called 'nobody'" in err
    code, _, err = said(capsys, *arguments, "retention=1")
    assert code == 1
    assert "must be of the form [TOPICS:]retention.ms=N" in err
    code, _, err = said(capsys, *arguments, SETTING, "--generation", "7")
    assert code == 1
    assert "has the generations [1]" in err
    (tmp_path / "listing.json").write_text(replace(CLUSTER, cluster_id="another").to_json())
    code, _, err = said(capsys, *arguments, SETTING)
    assert code == 1
    assert "the listing is of cluster 'another', generation 1 of 'cluster'" in err
