# SPDX-License-Identifier: Apache-2.0
"""
What deletes or writes runs in its task: never in a trigger, nor in anything that goes on when the task has ended.

A trigger and a process that outlives its task cannot ask for the kill switch, which the supervisor of a running task reads.
``make lint`` holds besides that no trigger reaches what deletes by any chain of imports.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_provider_rlmm.operators.archive import RestoreRemoteLogOperator
from airflow_provider_rlmm.operators.cleaner import CleanMetadataPartitionOperator, MarkDeletedPartitionsOperator
from airflow_provider_rlmm.operators.copying import CopyLogSegmentsOperator
from airflow_provider_rlmm.operators.metadata import PublishRemoteLogMetadataOperator
from airflow_provider_rlmm.operators.scrub import DeleteScrubbedObjectsOperator

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "airflow_provider_rlmm"
WRITERS = [
    MarkDeletedPartitionsOperator,
    CleanMetadataPartitionOperator,
    DeleteScrubbedObjectsOperator,
    CopyLogSegmentsOperator,
    RestoreRemoteLogOperator,
    PublishRemoteLogMetadataOperator,
]
CHANGES_THE_WORLD = {
    *("get_publisher", "publish", "RealEffects", "RealMarkerEffects", "delete", "delete_objects"),
    *("delete_log_segments", "delete_log_segment_data", "copy_log_segment_data"),
}
BEGINS = {"Thread", "Process", "Popen", "ThreadPoolExecutor", "ProcessPoolExecutor", "Timer", "fork", "run_in_executor"}
BEGUN = {
    "cli/cleaning_processes.py": "no task: each process is ended before the command is, and asks for its parent",
    "cli/interrupts.py": "no task: it sends the command the signal of Ctrl-C once more",
    "core/base/ahead.py": "a pool that is waited for: no block ends before its threads",
    "core/base/background.py": "reads segments ahead",
    "core/log/kafka/listening.py": "looks whether brokers listen",
    "core/log/kafka/producer.py": "opens a producer, which sends nothing by itself",
    "core/storage/listings_ahead.py": "lists",
    "features/reading/parquet.py": "writes rows that were read, into a local file",
    "features/retention/leader_lineage.py": "fetches indexes",
    "features/retention/leader_memory.py": "reads files",
    "library/topic_based.py": "the library's consumer: it follows the topic",
    "operators/task_folder.py": "hands a secret to a child process of the task, and ends with the block",
    "overview/runs.py": "reads files",
    "triggers/one_thread.py": "what a trigger waits by",
}
"""Module → why nothing that it begins deletes or writes once a task has ended."""


def called(path: Path) -> Iterator[str]:
    """The names of all that a module calls."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_no_trigger_calls_what_changes_the_world() -> None:
    triggers = sorted((PACKAGE / "triggers").glob("*.py"))
    assert len(triggers) > 4
    assert {
        path.name: CHANGES_THE_WORLD & set(called(path)) for path in triggers if CHANGES_THE_WORLD & set(called(path))
    } == {}


def test_no_trigger_reaches_what_deletes() -> None:
    (contract,) = [
        found
        for found in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        if found["name"] == "Nothing that deletes runs in a trigger"
    ]
    assert contract["source_modules"] == ["airflow_provider_rlmm.triggers"]
    for module in contract["forbidden_modules"]:
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


@pytest.mark.parametrize("operator", WRITERS, ids=lambda operator: operator.__name__)
def test_no_task_that_writes_is_deferred(operator: Any) -> None:
    assert operator.start_from_trigger is BaseOperator.start_from_trigger is False
    assert not hasattr(operator, "execute_complete")
    tree = ast.parse(inspect.getsource(operator))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "defer"]
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "TaskDeferred"]


def test_whatever_begins_a_thread_or_a_process_says_why_it_deletes_nothing() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if BEGINS & set(called(path))}
    assert found == BEGUN.keys()
