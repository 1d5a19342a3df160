# SPDX-License-Identifier: Apache-2.0
"""The operator that asks leaders what they delete next: what it writes, says and fails on."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import Variable

from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import LeaderStuckError, StorageAccessError
from airflow_provider_rlmm.core.log.answers import CopyConfigs, NotTold
from airflow_provider_rlmm.core.runs.attention import iso_time
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.features.retention.leader_document import (
    LEADER_RETENTION_DOCUMENT,
    MAX_LISTED,
    LeaderProblem,
    ReportedLeaders,
)
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.leader_retention import LeaderRetentionOperator
from tests.sample_leaders import leader_retention
from tests.tiered_orders import ORDERS, START_MS, TieredOrders
from tests.unit.features.retention.in_process_leaders import InProcessLeaders

HOUR_MS = 3_600_000
AN_HOUR = CopyConfigs(True, False, frozenset({"delete"}), HOUR_MS, -1)


class Led(TieredOrders):
    """The topic of orders, whose leaders should have deleted all of it long ago, and what was said and told."""

    def __init__(self) -> None:
        super().__init__()
        self.leaders = InProcessLeaders()
        for tip in ORDERS:
            self.leaders.lead(tip, AN_HOUR, 0, 120, 0)
            self.leaders.records[tip] = {90: 0}
        self.now_ms = START_MS + 24 * HOUR_MS
        self.pushed: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}

    def prove(self) -> TimeProof:
        return TimeProof(self.now_ms, system_clock(), "a test", True)

    def run(self, **arguments: Any) -> dict[str, Any]:
        context: Any = {
            "ti": SimpleNamespace(xcom_push=lambda key, value: self.pushed.update({key: value})),
            "dag_run": SimpleNamespace(dag_id="dag", run_id="run"),
        }
        return LeaderRetentionOperator(task_id="leaders", **arguments).execute(context)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Led:
    fake = Led()
    fake.topics.broker_settings = {1: {"remote.log.manager.task.interval.ms": "30000"}}
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm", "extra": {}}))
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    hook = RemoteLogMetadataHook
    monkeypatch.setattr(hook, "get_event_log", lambda self: nullcontext(fake.log))
    monkeypatch.setattr(hook, "get_cluster_topics", lambda self: fake.topics)
    monkeypatch.setattr(hook, "check_cluster", lambda self, *_: "cluster-1")
    monkeypatch.setattr(hook, "get_proven_clock", lambda self, *_, **__: ProvenClock(fake.prove))
    monkeypatch.setattr(hook, "open_leaders", lambda self, *_: nullcontext(fake.leaders))
    monkeypatch.setattr(StorageAccess, "get_storage_manager", lambda self: fake.storage)
    monkeypatch.setattr(
        "airflow_provider_rlmm.observability.stats._send",
        lambda metric, *_: fake.metrics.update({metric.name: metric.value}),
    )
    monkeypatch.setattr(Variable, "get", lambda *_, **__: None)
    return fake


def report_of(tmp_path: Path, folder: str = "dag.run") -> ReportedLeaders:
    return ReportedLeaders.from_json((tmp_path / "work" / folder / LEADER_RETENTION_DOCUMENT).read_text())


def test_what_goes_is_told_returned_and_kept(world: Led, tmp_path: Path) -> None:
    result = world.run()
    size = sum(metadata.segment_size_in_bytes for metadata in world.segments)
    uri = str(tmp_path / "work" / "dag.run")
    assert {name: value for name, value in result.items() if value} == {
        "all": 2, "due_segments": 6, "due_bytes": size, "report": uri
    }  # fmt: skip
    assert world.pushed == {"rlmm_leaders": "dag.run"}
    report = report_of(tmp_path)
    assert (report.connection, report.goes.segments) == ("rlmm_default", 6)
    assert world.now_ms <= report.asked_at_ms < world.now_ms + HOUR_MS
    (kept,) = (tmp_path / "work").glob(f"cluster-*/{LEADER_RETENTION_DOCUMENT}")
    assert kept.read_text() == report.to_json()
    assert (world.metrics["due_segments"], world.metrics["overdue_segments"]) == (6, 0)


def test_a_leader_that_is_stuck_fails_the_task_until_somebody_acknowledges_it(
    world: Led, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    world.now_ms += 6 * HOUR_MS + 60_000
    with pytest.raises(LeaderStuckError, match=r"2 things need a person.*OVERDUE .*orders-0 \(topic orders\)"):
        world.run()
    report = report_of(tmp_path)
    assert (report.overdue.segments, report.overdue_partitions) == (6, 2)
    assert world.metrics["overdue_segments"] == 6
    assert world.run(fail_on_overdue="false")["overdue_segments"] == 6
    known = [
        {**problem.key.to_dict(), "cluster_id": "cluster-1", "by": "ada", "why": "its broker is being mended",
         "until": iso_time(system_clock() + 24 * HOUR_MS)}
        for problem in report.problems()
    ]  # fmt: skip
    monkeypatch.setattr(Variable, "get", lambda *_, **__: json.dumps(known[:1]))
    with pytest.raises(LeaderStuckError, match="1 thing needs a person"):
        world.run()
    monkeypatch.setattr(Variable, "get", lambda *_, **__: json.dumps(known))
    assert world.run()["overdue_segments"] == 6


def test_a_leader_that_has_stopped_copying_fails_the_task_and_one_that_goes_on_does_not(
    world: Led, tmp_path: Path
) -> None:
    kept = replace(AN_HOUR, retention_ms=-1, local_retention_ms=2 * HOUR_MS)
    # Three segments of 30 offsets each were copied of both.
    world.leaders.lead(ORDERS[0], kept, 0, 181, 0)
    world.leaders.lead(ORDERS[1], kept, 0, 180, 0)
    assert world.run()["hanging"] == 0
    world.now_ms += HOUR_MS // 2 - 60_000
    assert world.run()["hanging"] == 0
    world.now_ms += 120_000
    with pytest.raises(LeaderStuckError, match=r"1 thing needs a person.*COPIES_HANG .*orders-0 \(topic orders\)"):
        world.run()
    report = report_of(tmp_path)
    assert (report.hanging_partitions, report.overdue_partitions) == (1, 0)
    (hanging,) = report.listed_hanging
    assert (hanging.partition, hanging.copied_to, hanging.waiting, hanging.usual) == (0, 90, 91, 90)
    assert world.metrics["hanging_partitions"] == 1
    assert world.run(fail_on_overdue="false")["hanging"] == 1
    world.leaders.lead(ORDERS[0], kept, 0, 170, 0)
    assert world.run()["hanging"] == 0
    world.leaders.lead(ORDERS[0], kept, 0, 999, 0)
    # What was seen before it went on counts no more.
    assert world.run()["hanging"] == 0


def test_what_cannot_be_told_is_counted_and_fails_nothing(
    world: Led, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.leaders.looks["orders", 1] = NotTold("its settings may not be described: TOPIC_AUTHORIZATION_FAILED")
    world.topics.broker_settings = {}
    result = world.run()
    assert (result["all"], result["unresolved"], result["not_judged"], result["due_segments"]) == (1, 1, 2, 3)
    assert not {"overdue_segments", "hanging_partitions"} & world.metrics.keys()
    assert (world.metrics["unresolved_partitions"], world.metrics["not_judged_partitions"]) == (1, 2)
    said = capsys.readouterr().out
    assert "orders: 1 user partition is unresolved, from 1 on: its settings may not be described" in said
    assert "of 2 user partitions it cannot be told whether anything is overdue: no broker tells" in said
    assert report_of(tmp_path).why_not_judged


def test_without_the_storage_everything_is_unresolved(
    world: Led, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: StorageAccess) -> None:
        raise StorageAccessError("the role may not be assumed")

    monkeypatch.setattr(StorageAccess, "get_storage_manager", refuse)
    assert world.run()["unresolved"] == 2
    assert "the role may not be assumed" in report_of(tmp_path).listed_unresolved[0].why


def test_a_document_is_bounded_and_counts_what_it_does_not_list() -> None:
    found = leader_retention("orders", UUID(int=1), now_ms=10**12)
    (tip, late), *_ = found.overdue.items()
    overdue = {replace(tip, partition=n): replace(late, partition=n) for n in range(MAX_LISTED + 5)}
    many = replace(found, overdue=overdue)
    report = ReportedLeaders.of(many, cluster_id="c", connection="", asked_at_ms=10**12)
    assert (len(report.listed_overdue), report.overdue_partitions) == (MAX_LISTED, MAX_LISTED + 5)
    assert report.overdue.segments == 2 * (MAX_LISTED + 5)
    problems = list(report.problems())
    assert (problems[-1].kind, problems[-1].count, problems[-1].acknowledgeable) == (
        LeaderProblem.OVERDUE_NOT_LISTED,
        5,
        False,
    )
    assert len({problem.key for problem in problems}) == MAX_LISTED + 1
    assert ReportedLeaders.from_json(report.to_json()) == report
