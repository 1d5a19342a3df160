# SPDX-License-Identifier: Apache-2.0
"""Whether a task that failed may try again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from airflow_provider_rlmm.core.base.errors import PublishOutcomeUnknownError, RlmmError


def _retriable(error: type[RlmmError] = RlmmError) -> Iterator[type[RlmmError]]:
    """Yield the errors that may pass by themselves."""
    if error.retriable:
        yield error
    for kind in error.__subclasses__():
        yield from _retriable(kind)


def _policy() -> dict[str, Any]:
    try:
        from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    except ImportError:
        # Airflow before 3.3 tries again after any error: a refusal is said once for each try.
        return {}
    rules = [
        # Every try reads back where the topic stands: an unknown outcome is known to the next one.
        RetryRule([*_retriable(), PublishOutcomeUnknownError], RetryAction.DEFAULT),
        RetryRule(RlmmError, RetryAction.FAIL, reason="trying again changes nothing: a person has to look at it"),
    ]
    return {"retry_policy": ExceptionRetryPolicy(rules=rules)}


RETRY_WHAT_MAY_PASS: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30), **_policy()}
"""Arguments of a task: it is retried on errors that may pass by themselves; a refusal or a wrong setting fails at once."""
