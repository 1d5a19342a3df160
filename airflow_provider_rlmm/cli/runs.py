# SPDX-License-Identifier: Apache-2.0
"""What runs of the command share: a name and a folder, the leave to write, what people have acknowledged."""

from __future__ import annotations

import getpass
import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from airflow_provider_rlmm.cli.configuration import read_prices
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output, Working
from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.prices import no_price
from airflow_provider_rlmm.core.records.told_era import ToldEra
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.core.world.run_identity import RunIdentity

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.floored_log import Confirmation
    from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan
    from airflow_provider_rlmm.core.plans.prices import StoragePrice
    from airflow_provider_rlmm.core.runs.attention import Acknowledgements, Attention, Judgement
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
    from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
    from airflow_provider_rlmm.overview.run_summaries import RunFacts
    from airflow_provider_rlmm.overview.run_summary import RunSummary

logger = logging.getLogger(__name__)

PROGRAM = "rlmm"
"""Stands in inventories and summaries where a run of Airflow names its connection."""

HOW_TO_SET_PRICES = "set RLMM_PRICES='{prices}', or prices in the configuration file to the same"
"""How the user of the command has costs told."""

execute_option = click.option(
    "--execute", is_flag=True, help="Write and delete. Without it the command says what it would do."
)
acknowledgements_option = click.option(
    "--acknowledgements",
    metavar="FILE",
    help="JSON list of problems that people know of, as reports suggest them: these fail nothing until they expire.",
)


@dataclass(frozen=True, slots=True)
class Run:
    """
    A run of the command.

    :param invocation: what it was told.
    :param name: of its folder.
    :param work_uri: folder of all runs.
    :param execute: whether it may write and delete.
    :param confirm: what the user has confirmed about the metadata topic.
    :param only: topics that it is for.
    """

    invocation: Invocation
    name: str
    work_uri: str
    execute: bool
    confirm: Confirmation | None = None
    only: Only = ALL_TOPICS

    @property
    def uri(self) -> str:
        """Its folder."""
        return self.uri_of(self.name)

    def uri_of(self, name: str) -> str:
        """Return the folder of a run."""
        return f"{self.work_uri}/{name}"

    @property
    def identity(self) -> RunIdentity:
        """Who runs it: the user who is logged in."""
        return RunIdentity(f"rlmm {self.name.partition('.')[0]}", self.name, self.name, _user())

    def session(
        self, limits: CleanerLimits, shown: Working | None = None, *, must_know_floors: bool = False
    ) -> AbstractContextManager[CleanerSession]:
        """
        Open cluster and storage anew, as each task of a DAG does.

        :param limits: with the overrides in force.
        :param shown: what shows progress, ``None`` where no person looks.
        :param must_know_floors: whether it ends where what earlier runs have read of the metadata topic is not known.
        """
        return open_session(
            self.invocation,
            limits,
            shown,
            execute=self.execute,
            must_know_floors=must_know_floors,
            confirm=self.confirm,
            only=self.only,
        )


def _user() -> str:
    """Return the name of the user who is logged in."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may have a user without a name.
        return f"uid {os.getuid()}"


def open_session(
    invocation: Invocation,
    limits: CleanerLimits,
    shown: Working | None,
    *,
    execute: bool = False,
    copy: bool = False,
    must_know_floors: bool = False,
    confirm: Confirmation | None = None,
    only: Only = ALL_TOPICS,
) -> AbstractContextManager[CleanerSession]:
    """
    Open cluster and storage.

    :param invocation: what the command was told.
    :param limits: with the overrides in force.
    :param shown: what shows progress, ``None`` where no person looks.
    :param execute: whether the command may write and delete.
    :param copy: whether it may copy segments of living topics.
    :param must_know_floors: whether it ends where what earlier runs have read of the metadata topic is not known.
    :param confirm: what the user has confirmed about the metadata topic.
    :param only: topics that the command is for.
    """
    from airflow_provider_rlmm.core.log.floored_log import Confirmation
    from airflow_provider_rlmm.core.log.topic_state import ignore_progress
    from airflow_provider_rlmm.core.runs.cleaner_session import cleaner_session

    access = invocation.access(allow_writes=execute, allow_copy=copy)
    # What stands on the command line is for this run, what stands in the configuration file for all of them.
    hold = Hold.of(str(invocation.options.get("hold") or "")).entries
    return cleaner_session(
        access,
        limits,
        work_uri=invocation.work_uri,
        dry_run=not execute,
        must_know_floors=must_know_floors,
        hold=hold,
        only=only,
        confirmation=replace(confirm or Confirmation(), by=_user()),
        on_progress=shown.on_read if shown else ignore_progress,
    )


def begin(
    invocation: Invocation,
    what: str,
    *,
    execute: bool,
    confirm: Confirmation | None = None,
    only: Only = ALL_TOPICS,
) -> Run:
    """
    Name a run, and have its cluster named by the user who lets it write.

    :param invocation: what the command was told.
    :param what: the command, part of the name.
    :param execute: whether it may write and delete.
    :param confirm: what the user has confirmed about the metadata topic.
    :param only: topics that it is for.
    :raises ConfigurationError: if something is not understood.
    """
    configuration = invocation.configuration(allow_writes=execute)
    if execute and not invocation.options.get("expected_cluster_id"):
        invocation = _with_typed_cluster(invocation)
    return Run(invocation, _name_of(what), configuration.work_uri, execute, confirm, only)


def begin_without_cluster(invocation: Invocation, what: str) -> Run:
    """
    Name a run that asks no cluster, and changes nothing.

    :param invocation: what the command was told.
    :param what: the command, part of the name.
    :raises ConfigurationError: if something is not understood.
    """
    return Run(invocation, _name_of(what), invocation.storage_configuration().work_uri, execute=False)


def _name_of(what: str) -> str:
    return f"{what}.{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}.{os.getpid()}"


def begin_to_ask(
    invocation: Invocation,
    what: str,
    *,
    execute: bool,
    confirm: Confirmation | None = None,
    only: Only = ALL_TOPICS,
) -> Run:
    """
    Name a run that looks before it asks for the id of its cluster: :func:`confirmed` asks.

    :param invocation: what the command was told.
    :param what: the command, part of the name.
    :param execute: whether it may write and delete in the end.
    :param confirm: what the user has confirmed about the metadata topic.
    :param only: topics that it is for.
    :raises ConfigurationError: if something is not understood.
    """
    named = bool(invocation.options.get("expected_cluster_id"))
    if execute and not named:
        _require_terminal()
    return begin(invocation, what, execute=execute and named, confirm=confirm, only=only)


def confirmed(run: Run, what: str) -> Run:
    """
    Return a run that may write and delete, after the user who lets it has named its cluster.

    :param run: of :func:`begin_to_ask`.
    :param what: it would do, in words.
    """
    if run.execute:
        return run
    invocation = _with_typed_cluster(run.invocation, what)
    return replace(run, invocation=invocation, execute=True)


def _require_terminal() -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("--execute needs --cluster-id where no person can be asked; 'rlmm check' prints the id")


def _with_typed_cluster(invocation: Invocation, what: str = "This run writes and deletes.") -> Invocation:
    """Ask for the id of the cluster: the user who deletes says where."""
    _require_terminal()
    typed = click.prompt(f"{what} Type the id of its cluster ('rlmm check' prints it)", err=True)
    return replace(invocation, options={**invocation.options, "expected_cluster_id": typed})


def read_acknowledgements(file: str | None, now_ms: int) -> Acknowledgements:
    """
    Read what people have acknowledged.

    :param file: JSON list, ``None`` for none.
    :param now_ms: ms since the epoch.
    :raises ConfigurationError: if the file cannot be read.
    """
    from airflow_provider_rlmm.core.runs import attention

    if file is None:
        return attention.Acknowledgements()
    try:
        text = Path(file).expanduser().read_text("utf-8")
    except (OSError, ValueError) as e:
        raise ConfigurationError(f"--acknowledgements {in_quotes(file)} cannot be read: {type(e).__name__}") from None
    return attention.read_acknowledgements(text, now_ms, file)


def keep_summary(run: Run, began_at_ms: int, summarise: Callable[[RunFacts], RunSummary]) -> str:
    """
    Keep the summary of a run that has written.

    :param run: the run.
    :param began_at_ms: ms since the epoch.
    :param summarise: makes it, of what is known of the run.
    :return: why that failed, empty where it did not.
    """
    from airflow_provider_rlmm.core.runs.steps import seconds_of_steps
    from airflow_provider_rlmm.overview.history import keep_run_summary
    from airflow_provider_rlmm.overview.run_summaries import RunFacts

    who, steps = run.identity, seconds_of_steps(run.uri)
    facts = RunFacts(PROGRAM, who.dag_id, who.run_id, who.artifact, began_at_ms, system_clock(), steps)
    try:
        keep_run_summary(run.work_uri, summarise(facts))
    except (OSError, RlmmError) as e:
        return f"needs a person: the summary of this run is not kept in {run.work_uri}: {e}"
    return ""


def say_era(output: Output, era: ToldEra | None) -> None:
    """
    Print the era of the log.

    :param output: where.
    :param era: as a document tells it, ``None`` where it does not.
    """
    if era is not None:
        output.line(f"The metadata topic is {era}.", red=not era.is_plain)


def price_of(invocation: Invocation) -> StoragePrice | None:
    """
    Return by which price costs are reckoned, ``None`` where none is set.

    :param invocation: what the command was told.
    :raises ConfigurationError: if a price cannot be read.
    """
    return _said_of_prices(invocation).storage_price()


def _said_of_prices(invocation: Invocation) -> RemoteLogSettings:
    config = invocation.options.get("config")
    return read_prices(str(config) if config else None)


def month_column(price: StoragePrice | None) -> dict[str, str]:
    """
    Return the column of what something costs in a month; none where no price is set.

    :param price: by which costs are reckoned.
    """
    return {} if price is None else {"month_micros": "a month"}


def say_price(invocation: Invocation, price: StoragePrice | None) -> None:
    """
    Print by which price costs are reckoned, or how to set one.

    :param invocation: whose output it is.
    :param price: ``None`` where none is set.
    """
    if price is not None:
        invocation.output.line(f"Costs are {price.in_words}.")
        return
    invocation.output.line(no_price(HOW_TO_SET_PRICES, _said_of_prices(invocation).storage_class))


def say_cost_of(invocation: Invocation, deletion: DeletionPlan | CleanupReport) -> None:
    """
    Print what a deletion saves in a month, what it costs as it comes early, and by which price that is reckoned.

    :param invocation: whose output it is.
    :param deletion: what is or would be deleted.
    """
    if words := deletion.cost_in_words:
        invocation.output.line(words)
    say_price(invocation, deletion.price)


def say_only(invocation: Invocation, plan: DeletionPlan) -> None:
    """
    Print which topics a run is for, where these are not all.

    :param invocation: whose output it is.
    :param plan: of the run.
    """
    if plan.only:
        invocation.output.line(plan.only_in_words)


def say_judgement(invocation: Invocation, judgement: Judgement) -> None:
    """
    Print what needs a person, and what has been acknowledged.

    :param invocation: whose output it is.
    :param judgement: of the run.
    """
    for seen in judgement.acknowledged:
        invocation.output.line(f"acknowledged: {seen.attention}")
    for judged in judgement.failing:
        invocation.output.line(
            f"needs a person: {judged.attention}. What to do: {judged.attention.what_to_do}", red=True
        )


def judged(problems: Iterable[Attention], file: str | None, cluster_id: str) -> Judgement:
    """
    Tell what fails a run from what people have acknowledged.

    :param problems: what needs a person.
    :param file: of acknowledgements.
    :param cluster_id: the cluster.
    """
    from airflow_provider_rlmm.core.runs import attention

    now_ms = system_clock()
    said = read_acknowledgements(file, now_ms)
    return attention.judge([*said.problems, *problems], said.known, cluster_id, now_ms)
