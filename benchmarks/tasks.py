# SPDX-License-Identifier: Apache-2.0
"""
Tasks of the cleaner's DAG, each in a process of its own, from its start to its end: ``execute`` of its operator, without a
scheduler. Beside them a task whose operator does nothing: what it takes is Airflow's own start.

``python -m benchmarks.tasks`` is such a process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from benchmarks.processes import Taken, taken_by

NOTHING, MARK, PLAN, CLEAN, REPORT = "nothing", "mark", "plan", "clean", "report"
READY = "ready"
"""A cleaning task that ends where it would read the log for the first time."""
NOW = {"min_absence_ms": 0, "overrides": ["short_min_absence"]}
"""Markers of a benchmark were written a moment ago."""
RADIUS = {"max_share": 1.0, "max_bytes": 2**60}
"""What goes is most of a benchmark's world, of any size."""
LAYOUT = "local-tiered-storage"
_DAG_ID = "benchmark"


@dataclass(frozen=True, slots=True)
class Tasks:
    """
    What tasks of an installation are given.

    :param folder: Airflow's home, the work folder and an empty storage lie in it.
    :param properties: of the Kafka clients.
    :param extra: fields of the ``rlmm`` connection.
    """

    folder: Path
    properties: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """The work folder."""
        return self.folder / "work"

    @property
    def storage(self) -> Path:
        """The storage's root."""
        return self.folder / "storage"

    def lay_newest_copies(self, living: Collection[UUID], topic: str) -> None:
        """
        Lay the objects of the newest segments of living topics, by which tasks know the storage again.

        :param living: ids of the topics that exist.
        :param topic: name of the metadata topic.
        """
        # This process would hold the topic's state from then on.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(_lay_newest_copies, (dict(self.properties), topic, set(living), self.storage))

    def run(self, task: str, run_id: str = "run", **arguments: Any) -> tuple[Taken, Any]:
        """
        Run a task.

        :param task: :data:`MARK` and so on.
        :param run_id: of its run.
        :param arguments: of its operator.
        :return: what it took, and what it returned.
        """
        # Tasks may run side by side.
        answer = self.folder / f"answer-{uuid4().hex}.json"
        taken = taken_by(
            [sys.executable, "-m", "benchmarks.tasks", task, run_id, json.dumps(arguments), str(answer)],
            environment=self._environment(),
        )
        return taken, json.loads(answer.read_text())

    def mark_and_plan(self, run_id: str = "run", *, dry_run: bool = True) -> tuple[Taken, Taken, list[int]]:
        """
        Mark and plan, as two tasks.

        :param run_id: of the run.
        :param dry_run: whether nothing is marked.
        :return: what each took, and the metadata partitions that have work.
        """
        marking, _ = self.run(MARK, run_id, dry_run_only=dry_run, limits=NOW)
        planning, parts = self.run(PLAN, run_id, dry_run_only=dry_run, limits=NOW, blast_radius=RADIUS)
        return marking, planning, parts

    def nothing(self, count: int = 1) -> Taken:
        """
        Run tasks that do nothing, one after the other.

        :param count: how many.
        """
        return Taken.together([self.run(NOTHING)[0] for _ in range(count)])

    def _environment(self) -> dict[str, str]:
        home = self.folder / "airflow"
        for needed in (home, self.storage):
            needed.mkdir(parents=True, exist_ok=True)
        connections = {
            "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": dict(self.properties)},
            "RLMM_DEFAULT": {"conn_type": "rlmm", "extra": {"storage_uri": self.storage.as_uri(), **self.extra}},
        }
        return {
            **os.environ,
            **{f"AIRFLOW_CONN_{name}": json.dumps(said) for name, said in connections.items()},
            "AIRFLOW__RLMM__WORK_URI": str(self.work),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        }


def _lay_newest_copies(properties: dict[str, Any], topic: str, living: set[UUID], root: Path) -> None:
    from airflow_provider_rlmm.core.base.clock import system_clock
    from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
    from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
    from airflow_provider_rlmm.core.world.root_proof import look_for_freshness
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay
    from benchmarks.orphans import CONTENT, Place

    config = KafkaClientConfig(properties)
    root.mkdir(parents=True, exist_ok=True)
    with KafkaMetadataEventLog(config, topic) as log, closing(KafkaClusterTopics(config, topic)) as topics:
        storage = Place(root.as_uri(), LAYOUT).storage()
        found = look_for_freshness(TopicReplay(log, topics, system_clock), living, storage)
    for sample in found.missing:
        for key in sample.keys:
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            (root / key).write_bytes(CONTENT)


class _TaskInstance:
    """Takes XComs."""

    def xcom_push(self, key: str, value: Any) -> None:
        """Take one."""


@dataclass(frozen=True)
class _DagRun:
    run_id: str
    dag_id: str = _DAG_ID


def _operator(task: str, arguments: Mapping[str, Any]) -> Any:
    from airflow.sdk import BaseOperator

    if task == NOTHING:

        class Nothing(BaseOperator):
            """Does nothing."""

            def execute(self, context: Any) -> None:
                """Return."""

        return Nothing(task_id=task)
    from airflow_provider_rlmm.hooks import kill_switch
    from airflow_provider_rlmm.operators import cleaner

    # No API server runs here that could say that there is no such variable.
    vars(kill_switch)["_require_unset"] = lambda name: None
    named = {
        MARK: cleaner.MarkDeletedPartitionsOperator,
        PLAN: cleaner.PlanRemoteLogCleanupOperator,
        CLEAN: cleaner.CleanMetadataPartitionOperator,
        READY: cleaner.CleanMetadataPartitionOperator,
        REPORT: cleaner.ReportRemoteLogCleanupOperator,
    }
    return named[task](task_id=task, **arguments)


def main() -> None:
    """Be the process of a task."""
    task, run_id, arguments, answer = sys.argv[1:]
    context: Any = {"ti": _TaskInstance(), "dag_run": _DagRun(run_id)}
    operator, done = _operator(task, json.loads(arguments)), None
    if task == READY:
        _end_at_the_first_read()
    with suppress(_ReadyError):
        done = operator.execute(context)
    Path(answer).write_text(json.dumps(done, default=str))


class _ReadyError(BaseException):
    """Raised where the log is read: nothing takes it for a failure."""


def _end_at_the_first_read() -> None:
    from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader

    def ready(*_: Any) -> Any:
        raise _ReadyError

    for name in ("read", "read_many"):
        setattr(KafkaMetadataLogReader, name, ready)


if __name__ == "__main__":
    main()
