# SPDX-License-Identifier: Apache-2.0
"""Groups of tasks that are a run of their own: they find each other's documents, and those of another group never."""

from __future__ import annotations

from airflow.sdk import DAG, TaskGroup


class RunGroup(TaskGroup):
    """A group whose tasks keep plan, report and all else that a run leaves in a folder that carries the group's id."""


def run_group_of(task: object) -> str | None:
    """
    Return the id of the innermost group that is a run of its own and has a task, ``None`` where none has.

    :param task: an operator, mapped or not; anything else is in no group.
    """
    group = getattr(task, "task_group", None)
    while group is not None:
        if isinstance(group, RunGroup):
            return str(group.group_id)
        group = group.parent_group
    return None


def run_groups_of(dag: DAG) -> list[str]:
    """
    Return the ids of the groups of a DAG that are runs of their own.

    :param dag: as its file made it: of one that Airflow has read from its database no group is known.
    """
    groups = dag.task_group.get_task_group_dict()
    return sorted(str(group.group_id) for group in groups.values() if isinstance(group, RunGroup))
