# SPDX-License-Identifier: Apache-2.0
"""
Buttons, for those who may press them: each asks Airflow's own interface, which asks for the right once more.

Nothing here changes anything: a button is a form that the script of the page sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from airflow_provider_rlmm.links.artifacts import URL_PREFIX
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import CLEANER, Rights
from airflow_provider_rlmm.settings import connections, of_connection


@dataclass(frozen=True, slots=True)
class Field:
    """What a person writes beside a button."""

    name: str
    words: str


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
    """

    words: str
    address: str
    body: Mapping[str, Any]
    then: str = ""
    method: str = "POST"
    fields: tuple[Field, ...] = ()
    is_dangerous: bool = field(default=False, kw_only=True)


def actions_of(connection: str, rights: Rights, shell: Shell) -> list[Action]:
    """
    Return the buttons of a cluster.

    :param connection: of the cluster.
    :param rights: of the user; who may not start runs of the cleaner gets none.
    :param shell: leads to other pages.
    """
    dag_id = of_connection(CLEANER, connection)
    if connection not in connections() or not rights.may_trigger(dag_id):
        return []
    return [start("Start a dry run", dag_id, {"dry_run": True}, shell)]


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
    return Action(words, f"{_api(shell)}/dags/{quote(dag_id, safe='')}/dagRuns", body, then, is_dangerous=is_dangerous)


def _api(shell: Shell) -> str:
    return f"{shell.root.removesuffix(URL_PREFIX)}/api/v2"
