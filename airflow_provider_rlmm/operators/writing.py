# SPDX-License-Identifier: Apache-2.0
"""Operators that write or delete: the author of the DAG says whether each may, and no default does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from airflow.sdk import BaseOperator, Context

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.operators.arguments import flag
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.run_groups import run_group_of

Read = TypeVar("Read")

_WHAT_TO_WRITE = (
    "write dry_run_only=True to have it only said, dry_run_only=False to have it done, or a template such as "
    '"{{ params.dry_run }}"'
)


class WritingOperator(CheckedOperator[Read]):
    """
    An operator that writes events or records, or deletes objects, unless its ``dry_run_only`` is on.

    Of a mapped one no ``__init__`` runs before the task does: it is refused then, before it reads anything.
    """

    dry_run_only: bool | str | None

    def check_literals(self) -> None:
        """
        Refuse an operator that was not told whether it may write, and what is wrong with its other arguments.

        :raises ConfigurationError: naming the task, or the argument.
        """
        super().check_literals()
        if self.dry_run_only is None:
            raise unsaid(self)

    def read_arguments(self) -> Read:
        """
        Return what the arguments mean, all of them, when the task runs.

        :raises ConfigurationError: naming the task, where a template has left it open whether it may write, or the argument.
        """
        read = super().read_arguments()
        if self.dry_run_only is None:
            raise unsaid(self)
        return read

    def is_dry(self, said: bool | None) -> bool:
        """
        Return whether nothing is to be written, of an operator whose run has no plan.

        :param said: what ``dry_run_only`` means.
        :raises ConfigurationError: naming the task, if a template has left it open.
        """
        if said is None:
            raise unsaid(self)
        return said


def unsaid(task: BaseOperator) -> ConfigurationError:
    """
    Return the error of a task that writes and was not told whether it may.

    :param task: the task.
    """
    return ConfigurationError(
        f"task {task.task_id}: {task.task_type} writes or deletes, and nothing says whether it may: {_WHAT_TO_WRITE}"
    )


def said_by_writers(task: BaseOperator, context: Context) -> dict[str, object]:
    """
    Return the id of each writing task of the same run that comes after a task → what its ``dry_run_only`` says: a boolean,
    or a text or ``None`` where that is not known yet.

    :param task: the task.
    :param context: of the running task.
    """
    return {task_id: _known(task, context, said) for task_id, said in _writers_after(task)}


def _writers_after(task: BaseOperator) -> Iterator[tuple[str, object]]:
    # Of a mapped task there is no operator yet, only its class and what all its instances are given.
    for one in sorted(task.get_flat_relatives(upstream=False), key=lambda found: found.task_id):
        mapped: Any = one
        operator = getattr(mapped, "operator_class", type(one))
        of_this_run = run_group_of(one) == run_group_of(task)
        if of_this_run and isinstance(operator, type) and issubclass(operator, WritingOperator):
            given = getattr(mapped, "partial_kwargs", None)
            yield one.task_id, mapped.dry_run_only if given is None else given.get("dry_run_only")


def _known(task: BaseOperator, context: Context, said: object) -> object:
    try:
        rendered = task.render_template(said, context)
    except Exception:
        # What it is made of may not be there before the task runs, such as an XCom.
        return None
    try:
        return flag("dry_run_only", rendered)
    except ConfigurationError:
        return rendered if isinstance(rendered, str) else None
