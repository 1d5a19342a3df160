# SPDX-License-Identifier: Apache-2.0
"""When a task of our DAGs may try again, and what makes a run fail before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from airflow_provider_rlmm.errors import ConfigurationError, PublishOutcomeUnknownError, RlmmError

if TYPE_CHECKING:
    from airflow.sdk import Context


def _retriable(error: type[RlmmError] = RlmmError) -> Iterator[type[RlmmError]]:
    """Yield the errors that may pass by themselves."""
    if error.retriable:
        yield error
    for kind in error.__subclasses__():
        yield from _retriable(kind)


RETRY_WHAT_MAY_PASS = ExceptionRetryPolicy(
    rules=[
        # Every try reads back where the topic stands: an unknown outcome is known to the next one.
        RetryRule([*_retriable(), PublishOutcomeUnknownError], RetryAction.DEFAULT),
        RetryRule(RlmmError, RetryAction.FAIL, reason="trying again changes nothing: somebody has to look at it"),
    ]
)
"""Spends the task's retries on errors that may pass by themselves; a refusal or a wrong setting fails at once."""


def refuse_unknown_params(context: Context) -> None:
    """
    Refuse a run that was triggered with a parameter that its DAG does not have; for a task's ``pre_execute``.

    Airflow takes any key of the configuration for a parameter: ``dry_rum`` would run the DAG for real.

    :param context: of the task.
    :raises ConfigurationError: naming the unknown parameters and those that there are.
    """
    known = sorted(context["dag"].params)
    if unknown := sorted((context["dag_run"].conf or {}).keys() - set(known)):
        raise ConfigurationError(f"unknown parameters {unknown}; this DAG has {known}")
