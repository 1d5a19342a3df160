# SPDX-License-Identifier: Apache-2.0
"""
Buttons, for those who may press them: each asks Airflow's own interface, which asks for the right once more.

Nothing here changes anything: a button is a form that the script of the page sends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from airflow_provider_rlmm.connection_ids import of_connection
from airflow_provider_rlmm.core.plans.approval import APPROVE, REJECT, SHOWN_PLAN
from airflow_provider_rlmm.hooks.kill_switch import stop_variables
from airflow_provider_rlmm.links.artifacts import URL_PREFIX
from airflow_provider_rlmm.plugins.dag_ids import CLEANER, RETENTION
from airflow_provider_rlmm.plugins.dag_runs import DagRunUnderWay
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import Rights
from airflow_provider_rlmm.settings import connections

STOPS_HERE: Final = (
    "It stops the runs of this Airflow, after the batch under way. A run of the command rlmm goes on: a file named stop in "
    "its own work folder stops it."
)


@dataclass(frozen=True, slots=True)
class Field:
    """What a person writes beside a button."""

    name: str
    words: str
    before: str = ""  # what is written before it
    value: str = ""  # what is written there at first
    into: str = ""  # the object of the body that it belongs to, empty for the body itself
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """
    A button.

    :param words: what stands on it.
    :param address: where it asks, an address of Airflow's public interface.
    :param body: what it asks for.
    :param then: where it leads to afterwards, up to the run's id; empty to stay.
    :param method: how it asks.
    :param fields: what a person adds.
    :param is_dangerous: whether objects may go.
    :param is_folded: whether it has to be opened before it can be pressed; a dangerous one has, unless it says what goes.
    :param note: what stands below it.
    """

    words: str
    address: str
    body: Mapping[str, Any]
    then: str = ""
    method: str = "POST"
    fields: tuple[Field, ...] = ()
    is_dangerous: bool = field(default=False, kw_only=True)
    is_folded: bool = field(default=False, kw_only=True)
    note: str = field(default="", kw_only=True)


def of_cluster(connection: str, switches: Collection[str], rights: Rights, shell: Shell) -> list[Action]:
    """
    Return the buttons of a cluster: a dry run, and the kill switch of its connection.

    :param connection: of the cluster.
    :param switches: the variables that stop its runs now.
    :param rights: of the user; who may not start runs of the cleaner gets none.
    :param shell: leads to other pages.
    """
    dag_id = of_connection(CLEANER, connection)
    if connection not in connections() or not rights.may_trigger(dag_id):
        return []
    own = stop_variables(connection)[1]
    reason = Field("value", "Why everything is to stop", f"stopped by {rights.user_name}: ")
    body = {"key": own, "description": "Stops every deletion after the batch that is under way; its text is the reason"}
    stop = Action(
        "Stop all deletion", f"{_api(shell)}/variables", body, fields=(reason,), is_dangerous=True, is_folded=True,
        note=STOPS_HERE,
    )  # fmt: skip
    go_on = [
        Action(f"End the stop: remove {name}", f"{_api(shell)}/variables/{quote(name, safe='')}", {}, method="DELETE")
        for name in switches
    ]
    is_stopped = not {*stop_variables(connection)}.isdisjoint(switches)
    return [start("Start a dry run", dag_id, {"dry_run": True}, shell), *go_on, *([] if is_stopped else [stop])]


def of_run(run: DagRunUnderWay | None, asked: str, plan_sha256: str, rights: Rights, shell: Shell) -> list[Action]:
    """
    Return the buttons of a run: the answer to its request for approval. One is to be seen, and says what goes.

    :param run: as Airflow has it, ``None`` if it is not under way.
    :param asked: how much would be deleted, in words; empty where it waits for no answer, or that cannot be shown.
    :param plan_sha256: of the plan that is shown; empty likewise.
    :param rights: of the user; who may not answer for its DAG gets none.
    :param shell: leads to other pages.
    """
    if run is None or not asked or not rights.may_answer(run.dag_id):
        return []
    task_id = "approve" if run.group_id is None else f"{run.group_id}.approve"
    steps = ("dags", run.dag_id, "dagRuns", run.run_id, "taskInstances", task_id, "-1", "hitlDetails")
    address = "/".join([_api(shell), *(quote(step, safe="") for step in steps)])
    # The run may have been planned anew since the page was opened: the answer says which plan it is for.
    approve, reject = (
        {"chosen_options": [option], "params_input": {SHOWN_PLAN: plan_sha256}} for option in (APPROVE, REJECT)
    )
    return [
        Action(f"{APPROVE}: delete {asked}", address, approve, method="PATCH", is_dangerous=True),
        Action(REJECT, address, reject, method="PATCH", is_folded=True),
    ]


def of_plan(name: str, rights: Rights, shell: Shell) -> list[Action]:
    """
    Return the buttons of a plan of the retention: a run of the cleaner that takes its work from there.

    :param name: of the plan.
    :param rights: of the user; who may not start runs of the cleaner gets none.
    :param shell: leads to other pages.
    """
    dag_id = name.partition(".")[0]
    made_by = {of_connection(RETENTION, connection): connection for connection in connections()}
    if dag_id not in made_by:
        return []
    cleaner = of_connection(CLEANER, made_by[dag_id])
    if not rights.may_trigger(cleaner):
        return []
    return [
        start("Dry run of this plan", cleaner, {"dry_run": True, "source_plan": name}, shell),
        start("Clean by this plan", cleaner, {"dry_run": False, "source_plan": name}, shell, is_dangerous=True),
    ]


def start(words: str, dag_id: str, conf: Mapping[str, Any], shell: Shell, *, is_dangerous: bool = False) -> Action:
    """
    Return the button that starts a run.

    :param words: what stands on it.
    :param dag_id: the DAG.
    :param conf: its parameters.
    :param shell: leads to the run.
    :param is_dangerous: whether objects may go.
    """
    body = {"logical_date": None, "conf": dict(conf)}
    then = f"{shell.to('dag-run')}?dag_id={quote(dag_id, safe='')}&run_id="
    address = f"{_api(shell)}/dags/{quote(dag_id, safe='')}/dagRuns"
    return Action(words, address, body, then, is_dangerous=is_dangerous, is_folded=is_dangerous)


def _api(shell: Shell) -> str:
    return f"{shell.root.removesuffix(URL_PREFIX)}/api/v2"
