# SPDX-License-Identifier: Apache-2.0
"""
P12: the whole DAG ``remote_log_cleaner`` under Airflow's LocalExecutor, from its trigger until it is green.

A first run is printed. Idle runs follow, in turns with a DAG of as many tasks that do nothing, one after the other:
scheduler, executor and the start of each task are the same. As shipped, the DAG is a dry run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from shutil import copy

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.resources import dags_folder
from benchmarks.measuring import Budget, in_turns
from benchmarks.orphans import publish_copies, segments_of
from benchmarks.reporting import add_option, report
from benchmarks.tasks import Tasks
from benchmarks.topic import BROKER_OPTIONS, create_topics
from dev.airflow import LocalAirflow
from dev.broker import METADATA_TOPIC, LocalKafka
from dev.roots import expected_root_of

CLEANER, EMPTY = "remote_log_cleaner", "empty_tasks_{}"
MOST_S = 10.0
TOPICS = 50
MOST_TASKS = 12
EMPTY_DAGS = f'''
from airflow.sdk import DAG, BaseOperator, chain


class Nothing(BaseOperator):
    def execute(self, context):
        pass


for count in range(1, {MOST_TASKS} + 1):
    with DAG("{EMPTY}".format(count), schedule=None) as dag:
        chain(*(Nothing(task_id=f"task_{{number}}") for number in range(count)))
    globals()[dag.dag_id] = dag
'''


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=500_000, help="of living topics (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    return report(_measured(arguments.segments, arguments.runs), arguments.figures)


def _measured(segments: int, runs: int) -> Iterator[Budget | str]:
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder, LocalKafka(jvm_options=BROKER_OPTIONS) as kafka:
        tasks = _world(kafka, Path(folder), segments)
        with _airflow(kafka, tasks) as airflow:
            first, count = _run(airflow, CLEANER)
            yield f"a first run of {count} tasks over {segments:,} segments: {first:.1f} s from trigger to green"
            empty = EMPTY.format(count)
            works = [partial(_run, airflow, dag_id) for dag_id in (CLEANER, empty)]
            ours, peer = ([seconds for seconds, _ in side] for side in in_turns(works, runs))
    more = statistics.median(ours) - statistics.median(peer)
    details = [
        f"idle {statistics.median(ours):.1f} s ({min(ours):.1f} to {max(ours):.1f}, n={runs})",
        f"{count} tasks that do nothing {statistics.median(peer):.1f} s ({min(peer):.1f} to {max(peer):.1f})",
    ]
    # No more than nothing is as good as it gets.
    yield Budget(
        "P12 an idle run above empty tasks, of 10 s", max(more, 0.01) / MOST_S, 1.0, False, details, ours, peer
    )


def _world(kafka: LocalKafka, folder: Path, segments: int) -> Tasks:
    """Fill the metadata topic with segments of living topics, whose newest ones lie in storage."""
    config = KafkaClientConfig(kafka.client_config())
    names = {f"topic-{number}": 1 for number in range(TOPICS)}
    ids = create_topics(config, names, metadata_topic=METADATA_TOPIC)
    living = {name: topic_id for name, topic_id in ids.items() if name.startswith("topic-")}
    for name, topic_id in living.items():
        # One topic at a time: their records are made of objects.
        publish_copies(config, segments_of([TopicIdPartition(topic_id, name, 0)], max(1, segments // TOPICS)))
    tasks = Tasks(folder, kafka.client_config(), {"expected_cluster_id": kafka.cluster_id})
    tasks.lay_newest_copies(living.values(), METADATA_TOPIC)
    return tasks


def _airflow(kafka: LocalKafka, tasks: Tasks) -> LocalAirflow:
    dags = tasks.folder / "dags"
    dags.mkdir()
    copy(Path(dags_folder(), f"{CLEANER}.py"), dags)
    (dags / "empty_tasks.py").write_text(EMPTY_DAGS)
    # No broker copies anything after the first look: the root is named, so that nothing needs a person.
    storage = {"storage_uri": tasks.storage.as_uri(), "expected_root": expected_root_of(tasks.storage)}
    connections = {
        "kafka_default": {"conn_type": "kafka", "extra": kafka.client_config()},
        "rlmm_default": {"conn_type": "rlmm", "extra": {**storage, **tasks.extra}},
    }
    return LocalAirflow(
        tasks.folder / "home",
        dags_folder=dags,
        connections={conn_id: json.dumps(said) for conn_id, said in connections.items()},
        env={"AIRFLOW__RLMM__WORK_URI": str(tasks.work)},
        progress=lambda _: None,
    )


def _run(airflow: LocalAirflow, dag_id: str) -> tuple[float, int]:
    """Run a DAG; return the seconds from its trigger to its end, and how many tasks were processes."""
    run_id = airflow.trigger(dag_id)
    state = airflow.wait(dag_id, run_id, timeout=900)
    assert state == "success", f"{airflow.task_states(dag_id, run_id)}\n{_logs_of_failed(airflow, dag_id, run_id)}"
    (run,) = [run for run in airflow.runs(dag_id) if run["dag_run_id"] == run_id]
    queued, ended = (datetime.fromisoformat(run[when]) for when in ("queued_at", "end_date"))
    # One that decides itself that nothing is to be done was a process, too.
    ran = sum(bool(each["pid"]) for each in airflow.task_instances(dag_id, run_id))
    return (ended - queued).total_seconds(), ran


def _logs_of_failed(airflow: LocalAirflow, dag_id: str, run_id: str) -> str:
    states = airflow.task_states(dag_id, run_id)
    return "\n".join(airflow.task_log(dag_id, run_id, task) for task, state in states.items() if state == "failed")


if __name__ == "__main__":
    sys.exit(main())
