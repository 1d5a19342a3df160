# SPDX-License-Identifier: Apache-2.0
"""The scrub of contents by operator: what it returns, and when it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS, system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError, DamagedContentsError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import iso_time
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.contents.criticals import criticals_of
from airflow_provider_rlmm.features.contents.last_looks import read_last_looks
from airflow_provider_rlmm.features.contents.report_document import ContentsAmount, ContentsReport
from airflow_provider_rlmm.features.contents.rules import Outcome
from airflow_provider_rlmm.operators.contents import VerifyRemoteSegmentsOperator
from airflow_provider_rlmm.overview.housekeeping import prune
from airflow_provider_rlmm.overview.pruning import is_file_of_run
from airflow_provider_rlmm.overview.run_summary import RunKind, RunOutcome, RunSummary
from tests.segment_damage import flipped
from tests.tiered_orders import ORDERS, TieredOrders
from tests.unit.airflow.operators.test_operators import connect
from tests.unit.airflow.operators.test_remote_log_operators import context, put_behind


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TieredOrders:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    fake = TieredOrders()
    connect(monkeypatch, allow_writes=False, expected_cluster_id=None)
    put_behind(monkeypatch, fake)
    return fake


def test_what_is_right_is_told(world: TieredOrders) -> None:
    told = VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    assert (told["copied"], told["chosen"], told["looked_at"], told["right"], told["damaged"]) == (6, 6, 6, 6, 0)
    assert ContentsReport.from_json(Path(told["report"]).read_text()).outcomes["RIGHT"].segments == 6


def test_a_share_is_looked_at(world: TieredOrders) -> None:
    told = VerifyRemoteSegmentsOperator(task_id="verify", topic="orders", share="0.5").execute(context())
    assert (told["copied"], told["looked_at"]) == (6, 3)
    with pytest.raises(ConfigurationError, match="share"):
        VerifyRemoteSegmentsOperator(task_id="verify", share=0.0).execute(context())


def test_what_cannot_be_judged_has_its_turn_in_samples_too(
    world: TieredOrders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else it would come first for ever, and nothing else be looked at."""
    connect(monkeypatch, allow_writes=False, expected_cluster_id=None, storage_class="GLACIER")
    told = VerifyRemoteSegmentsOperator(task_id="verify", share="0.5", fail_on_damage=False).execute(context())
    assert (told["chosen"], told["looked_at"]) == (3, 0)
    assert len(read_last_looks(str(tmp_path / "work" / "cluster-cluster-1"))) == 3


@pytest.mark.parametrize("lost", [2, 3])
def test_a_log_without_its_beginning_needs_a_person_though_all_that_it_names_is_right(
    world: TieredOrders, lost: int
) -> None:
    """Both records of a segment may be gone, so that nothing names it."""
    for number in range(world.log.partition_count):
        if world.log.high_water_marks()[number] > lost:
            world.log.truncate(number, lost)
    assert "the metadata topic has lost records" in verified().log_in_doubt


def test_the_report_of_a_topic_without_segments_is_that_of_its_run(world: TieredOrders) -> None:
    world.topics.create("quiet")
    told = VerifyRemoteSegmentsOperator(task_id="verify", topic="quiet", fail_on_damage=False).execute(context())
    report = ContentsReport.from_json(Path(told["report"]).read_text())
    assert (report.artifact, report.not_found, told["copied"]) == ("dag.run", ("quiet",), 0)


def test_damage_fails_the_task_after_the_report(world: TieredOrders, tmp_path: Path) -> None:
    key = world.storage.layout.object_key(world.segments[3], IndexType.TIMESTAMP)
    world.storage.put_object(key, flipped(world.storage.fetch_object(key), 3))
    with pytest.raises(DamagedContentsError, match=r"1 segment is DAMAGED \(orders-1 from offset 0"):
        VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    (report,) = (tmp_path / "work").rglob("contents.json")
    assert ContentsReport.from_json(report.read_text()).findings
    told = VerifyRemoteSegmentsOperator(task_id="verify", fail_on_damage=False).execute(context())
    assert (told["right"], told["damaged"]) == (5, 1)


def test_the_error_says_first_what_to_type(world: TieredOrders) -> None:
    damage(world, 3)
    with pytest.raises(DamagedContentsError) as caught:
        VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    topic_id = kafka_uuid_str(ORDERS[0].topic_id)
    assert str(caught.value).startswith(f"Type 'rlmm verify --topic={topic_id}', which looks at all segments")
    with pytest.raises(ConfigurationError, match=r"'clicks'; 'rlmm topics' lists those with remote segments"):
        VerifyRemoteSegmentsOperator(task_id="verify", topic="clicks").execute(context())
    world.topics.create("clicks", uuid4())
    with pytest.raises(DamagedContentsError, match=r"^Type 'rlmm topics', which prints names and ids\. the log calls"):
        VerifyRemoteSegmentsOperator(task_id="verify", topic="clicks").execute(context())


def test_a_segment_is_acknowledged_by_its_id_and_covers_no_other(
    world: TieredOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(world, 3)
    (known,) = criticals_of(verified())
    until = iso_time(system_clock() + DAY_MS)
    word = {"cluster_id": "cluster-1", **known.key.to_dict(), "until": until, "by": "ada", "why": "the disk is gone"}
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", json.dumps([word]))
    assert VerifyRemoteSegmentsOperator(task_id="verify").execute(context())["damaged"] == 1
    damage(world, 4)
    with pytest.raises(DamagedContentsError, match=r"1 thing needs a person\. The first: SEGMENT_DAMAGED segment "):
        VerifyRemoteSegmentsOperator(task_id="verify").execute(context())


def test_what_a_report_does_not_list_and_what_could_not_be_seen_cannot_be_acknowledged(world: TieredOrders) -> None:
    damage(world, 3)
    report = verified()
    outcomes = {**report.outcomes, Outcome.MISSING: ContentsAmount(7, 1), Outcome.UNREAD: ContentsAmount(1, 1)}
    segments = (*report.segments, replace(report.segments[0], outcome=Outcome.UNREAD, why="forbidden"))
    in_doubt = "the metadata topic has lost records"
    few = replace(report, outcomes=outcomes, segments=segments, not_found=("clicks",), log_in_doubt=in_doubt)
    found = list(criticals_of(few))
    assert [(one.kind, one.count, one.acknowledgeable) for one in found] == [
        ("SEGMENT_DAMAGED", 1, True),
        ("SEGMENT_UNREAD", 1, False),
        ("SEGMENTS_NOT_LISTED", 7, False),
        ("CONTENTS_UNSEEN", 1, False),
        ("CONTENTS_UNSEEN", 1, False),
    ]


@pytest.mark.parametrize("damaged", [False, True])
def test_a_run_is_summarised_and_its_folder_is_known(world: TieredOrders, tmp_path: Path, damaged: bool) -> None:
    if damaged:
        damage(world, 3)
        with pytest.raises(DamagedContentsError):
            VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    else:
        VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    (file,) = (tmp_path / "work").rglob("runs/*.json")
    summary = RunSummary.from_json(file.read_text())
    assert (summary.kind, summary.dry_run, summary.needs_person) == (RunKind.CONTENTS, True, int(damaged))
    assert summary.outcome is (RunOutcome.FAILED if damaged else RunOutcome.SUCCESS)
    assert damaged or "6 of 6 copied segments were looked at" in summary.headline
    assert "verify" in summary.steps
    work = tmp_path / "work"
    assert all(is_file_of_run(path.name) for path in (work / "dag.run").iterdir())
    # The folder of an old run goes where a newer one of the same DAG is known.
    (work / "dag.run").rename(work / "dag.old")
    old = ContentsReport.from_json((work / "dag.old" / "contents.json").read_text())
    (work / "dag.old" / "contents.json").write_text(replace(old, artifact="dag.old").to_json())
    now_ms = system_clock() + 40 * DAY_MS
    pruned = prune(str(work), "cluster-1", "dag.run", now_ms=now_ms, keep_runs_days=30, keep_audit_days=0)
    assert (pruned.folders, (work / "dag.old").exists()) == (1, False)


def damage(world: TieredOrders, number: int) -> None:
    """Have a bit of a segment's time index flip."""
    key = world.storage.layout.object_key(world.segments[number], IndexType.TIMESTAMP)
    world.storage.put_object(key, flipped(world.storage.fetch_object(key), 3))


def verified() -> ContentsReport:
    told = VerifyRemoteSegmentsOperator(task_id="verify", fail_on_damage=False).execute(context())
    return ContentsReport.from_json(Path(told["report"]).read_text())
