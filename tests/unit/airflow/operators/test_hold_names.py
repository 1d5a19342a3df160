# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""A hold that names nothing holds nothing: said where it is given, red where it stands for all runs, and never in mid-run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import UnknownHoldError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import SUGGESTED_MS, iso_time
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator, PlanRemoteLogCleanupOperator
from tests.unit.airflow.operators import test_scrub_operators as scrubs
from tests.unit.airflow.operators.test_check_operator import allowed, cluster, plain_cluster  # noqa: F401  # fixtures
from tests.unit.airflow.operators.test_operators import (
    GONE,
    NOW,
    Cluster,
    clean,
    connect,
    context,
    kinds_in,
    mark_and_plan,
    run_all,
    work,  # noqa: F401  # a fixture
)

scrubbed = scrubs.cluster
"""A cluster behind the hooks of a scrub."""


def check(**arguments: Any) -> dict[str, str]:
    return CheckRemoteLogCleanupOperator(task_id="check", limits=NOW, **arguments).execute(context())


def mark(**arguments: Any) -> dict[str, Any]:
    return MarkDeletedPartitionsOperator(task_id="mark", limits=NOW, **({"dry_run_only": False} | arguments)).execute(
        context()
    )


def plan(**arguments: Any) -> list[int]:
    return PlanRemoteLogCleanupOperator(task_id="plan", limits=NOW, **arguments).execute(context())


@pytest.mark.parametrize("dry_run_only", [True, False])
@pytest.mark.parametrize("task", [check, mark, plan])
@pytest.mark.parametrize("entry", ["Gonne", kafka_uuid_str(UUID(int=12_345))])
def test_a_hold_of_this_run_that_names_nothing_refuses_before_the_first_event(
    cluster: Cluster, task: Callable[..., Any], entry: str, dry_run_only: bool
) -> None:
    events, keys = cluster.events, cluster.storage.keys
    with pytest.raises(
        UnknownHoldError, match=rf"the hold names '{entry}', and neither log nor cluster knows"
    ) as refused:
        task(hold=["gone", "nothing-*", entry], dry_run_only=dry_run_only)
    if entry == "Gonne":
        assert "did you mean 'gone'?" in str(refused.value)
    assert f"write a pattern, such as '{entry}*'" in str(refused.value)
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_names_and_ids_of_log_and_cluster_are_known_and_patterns_are_only_counted(cluster: Cluster) -> None:
    said = check(hold=["gone", kafka_uuid_str(GONE[0].topic_id), "alive", "nothing-*", "al?ve"])["hold"]
    assert said == "3 names and ids, 2 patterns; they match 3 names and ids now"
    assert check()["hold"] == "nothing is on hold"


def test_a_hold_of_the_connection_that_names_nothing_needs_a_person_and_the_run_goes_on(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, hold="alvie, nothing-*")
    assert "the hold names 'alvie', and neither log nor cluster knows" in check()["hold"]
    with pytest.raises(
        AirflowFailException, match=r"1 thing needs a person\. .*UNKNOWN_HOLD the entry 'alvie' of the hold"
    ):
        run_all()
    assert not any("gone" in key for key in cluster.storage.keys)
    assert kinds_in(work) == ["UNKNOWN_HOLD"]
    (problem,) = json.loads((work / "dag.run" / "report.json").read_text())["needs_person"]
    assert "did you mean 'alive'?" in problem["why"]
    known = problem["acknowledge_with"] | {"by": "me", "why": "soon", "until": iso_time(system_clock() + SUGGESTED_MS)}
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_ACKNOWLEDGEMENTS", json.dumps([known]))
    run_all()


def test_a_held_topic_is_not_marked_and_a_marker_that_it_has_stays(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = cluster.events
    counts = mark(hold=["go*"])
    assert (counts["marked"], cluster.events) == (0, events)
    connect(monkeypatch, hold="gone")
    assert (mark()["marked"], cluster.events) == (0, events)
    connect(monkeypatch)
    marked = mark()["marked"]
    assert marked == cluster.events - events > 0
    connect(monkeypatch, hold="gone")
    assert (mark()["marked"], cluster.events) == (0, events + marked)
    connect(monkeypatch)
    assert mark()["already_marked"] == marked


def test_a_hold_that_comes_after_the_plan_keeps_its_topic_and_one_that_names_nothing_ends_nothing(
    cluster: Cluster, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = mark_and_plan()
    keys = cluster.storage.keys
    connect(monkeypatch, hold="gone, no-such-topic")
    assert {clean(number)["segments_deleted"] for number in parts} == {0}
    assert cluster.storage.keys >= keys
    connect(monkeypatch, hold="no-such-topic")
    assert sum(clean(number)["segments_deleted"] for number in parts) == 6


def test_a_hold_that_comes_after_the_plan_of_a_scrub_keeps_its_objects(
    scrubbed: Any, monkeypatch: pytest.MonkeyPatch, work: Path
) -> None:
    before, run = set(scrubbed.storage.keys), scrubs.Run()
    run.scrub()
    assert run.plan()["objects"] > 0
    scrubs.connect(monkeypatch, hold="orders, no-such-topic")
    counts = run.delete()
    assert (counts["deleted"], counts["held"] > 0, set(scrubbed.storage.keys)) == ({}, True, before)
    with pytest.raises(AirflowFailException, match="UNKNOWN_HOLD"):
        run.report()


def test_the_plan_of_a_scrub_is_refused_for_a_hold_of_its_run_that_names_nothing(scrubbed: Any, work: Path) -> None:
    run = scrubs.Run()
    run.scrub()
    with pytest.raises(UnknownHoldError, match="did you mean 'orders'"):
        run.plan(hold=["order"])
