# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""The kill switch as Airflow has it: two variables, which an environment may freeze and an API server not tell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, VariableResult

from airflow_provider_rlmm.core.base.errors import StoppedError
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs import cleaner_session
from airflow_provider_rlmm.hooks import kill_switch
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.check import CheckRemoteLogCleanupOperator
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator
from tests.unit.airflow.operators.test_check_operator import allowed, cluster, plain_cluster  # noqa: F401  # fixtures
from tests.unit.airflow.operators.test_operators import (
    NOW,
    Cluster,
    context,
    kinds_in,
    mark_and_plan,
    run_all,
    work,  # noqa: F401  # a fixture
)

REQUIRE_UNSET = kill_switch._require_unset
"""As it is: the fixture of all tests here puts another one in its place."""


class Variables:
    """Airflow's variables, as a person changes them while tasks run."""

    def __init__(self) -> None:
        self.set: dict[str, str] = {}
        self.asked: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.append(key)
        return self.set.get(key, default)


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    found = Variables()
    monkeypatch.setattr("airflow.sdk.Variable.get", found.get)
    return found


def check(**arguments: Any) -> dict[str, str]:
    return CheckRemoteLogCleanupOperator(task_id="check", limits=NOW, **arguments).execute(context())


@pytest.mark.parametrize("value", ["no", "off", "0", "false", " ", ""])
def test_a_value_that_sounds_like_off_stops_like_any_other(cluster: Cluster, variables: Variables, value: str) -> None:
    variables.set["rlmm_stop"] = value
    events, keys = cluster.events, cluster.storage.keys
    with pytest.raises(StoppedError, match="any value stops, an empty one too"):
        check()
    assert (cluster.events, cluster.storage.keys) == (events, keys)


@pytest.mark.parametrize("name", ["rlmm_stop", "rlmm_stop__rlmm_default"])
def test_a_real_run_ends_before_its_first_event_and_says_how_to_put_it_back(
    cluster: Cluster, variables: Variables, name: str
) -> None:
    variables.set[name] = "Ada: the bucket moves"
    events, keys = cluster.events, cluster.storage.keys
    for task in (
        check,
        lambda: MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=False, limits=NOW).execute(context()),
    ):
        said = rf"variable {name} is set, it says .Ada: the bucket moves.*delete the variable"
        with pytest.raises(StoppedError, match=said):
            task()
    assert (cluster.events, cluster.storage.keys) == (events, keys)


def test_the_switch_of_another_connection_stops_nobody_else(cluster: Cluster, variables: Variables) -> None:
    variables.set["rlmm_stop__other"] = "true"
    assert check()["switch"].startswith("off: the Airflow variables rlmm_stop and rlmm_stop__rlmm_default would stop")


def test_a_dry_run_goes_on_and_says_that_it_is_on(cluster: Cluster, variables: Variables) -> None:
    variables.set["rlmm_stop"] = "true"
    assert check(dry_run_only=True)["switch"].endswith("A real run would end here")


def test_a_switch_that_is_set_after_the_plan_makes_the_run_red_and_deletes_nothing(
    cluster: Cluster, variables: Variables, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_and_plan()
    variables.set["rlmm_stop"] = "Ada"
    monkeypatch.setattr(cleaner_session.CleanerSession, "require_running", lambda self, dry_run: "")
    keys = cluster.storage.keys
    with pytest.raises(
        AirflowFailException, match=r"1 thing needs a person\. .*STOPPED 3 user partitions: the kill switch"
    ):
        run_all()
    assert (cluster.storage.keys, kinds_in(work)) == (keys, ["STOPPED"])
    variables.set.clear()
    run_all()
    assert not any("gone" in key for key in cluster.storage.keys)


def test_it_is_read_again_after_five_seconds_and_not_before(
    cluster: Cluster, variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(cleaner_session, "time", SimpleNamespace(monotonic=lambda: now[0]))
    hook = RemoteLogMetadataHook()
    with cleaner_session.cleaner_session(hook, CleanerLimits(), work_uri="/none", dry_run=False) as session:
        assert session.should_stop() is None
        variables.set["rlmm_stop"] = "true"
        now[0] += 5
        assert session.should_stop() is None
        now[0] += 0.1
        assert session.should_stop() is not None
    assert variables.asked == ["rlmm_stop", "rlmm_stop__rlmm_default", "rlmm_stop"]


@pytest.mark.parametrize("value", ["off", "true", ""])
def test_an_environment_variable_that_freezes_it_stops_whatever_it_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_RLMM_STOP__RLMM_DEFAULT", value)
    with pytest.raises(StoppedError, match=r"AIRFLOW_VAR_RLMM_STOP__RLMM_DEFAULT is set .* wins over .* unset it"):
        check()


def test_a_variable_that_cannot_be_read_stops_and_tells_no_secret(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("the vault says no to correct-horse")

    monkeypatch.setattr("airflow.sdk.Variable.get", refuse)
    with pytest.raises(StoppedError, match=r"cannot be told.* PermissionError, see the log") as stopped:
        check()
    assert "correct-horse" not in str(stopped.value)


@pytest.mark.parametrize(
    "answer",
    [ErrorResponse(), ErrorResponse(error="PERMISSION_DENIED"), VariableResult(key="rlmm_stop", value="true"), None],
)
def test_an_api_server_that_does_not_say_that_there_is_none_stops(
    cluster: Cluster, variables: Variables, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    """Airflow's own ``Variable.get`` takes every one of these for a variable that is not set."""
    monkeypatch.setattr(kill_switch, "_require_unset", REQUIRE_UNSET)
    supervisor = SimpleNamespace(send=lambda message: answer)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    with pytest.raises(StoppedError, match="cannot be told"):
        check()
    supervisor.send = lambda message: ErrorResponse(error="VARIABLE_NOT_FOUND")
    assert check()["switch"].startswith("off")
