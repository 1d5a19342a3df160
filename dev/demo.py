# SPDX-License-Identifier: Apache-2.0
"""
``make demo``: the main job from end to end on this machine.

A real broker with tiered storage loses a topic's remote segments (it is killed right after the topic was deleted), the
retention DAG finds them with Spark, the cleaner DAG deletes them, both under a real Airflow scheduler. Then both run
once more and read only what is new. Prints which cluster, clock and storage root the cleaner verified, and how, what
there was before and after, and the trail of one partition as read back from the topic. Exits non-zero if anything of
the deleted topic is left, or anything of the living one is gone.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.world.effects import describe_event
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.root_ledger import recorded_roots
from airflow_provider_rlmm.resources import dags_folder
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from dev.roots import expected_root_of
from dev.spark import local_spark_env

DELETED, ALIVE = "clickstream", "orders"
DELETED_PARTITIONS, DELETED_SEGMENTS = 4, 30
ALIVE_PARTITIONS, ALIVE_SEGMENTS = 2, 10
TRAIL_LINES = 12
STARTED_AT = time.monotonic()


@dataclass(frozen=True)
class Inventory:
    """What metadata and storage hold of one topic id."""

    partitions: int
    segments: int
    objects: int
    bytes: int


def say(line: str) -> None:
    """Print a line of progress with the time since the start."""
    print(f"[{time.monotonic() - STARTED_AT:6.1f} s] {line}", flush=True)


def open_log(kafka: LocalKafka) -> KafkaMetadataEventLog:
    """Open the metadata topic for reading."""
    return KafkaMetadataEventLog(KafkaClientConfig({"bootstrap.servers": kafka.bootstrap_servers}))


def take_inventory(kafka: LocalKafka, topic_id: UUID) -> Inventory:
    """Count a topic's unfinished segments in the metadata, and its objects in the store."""
    segments: Counter[int] = Counter()
    with open_log(kafka) as log:
        for metadata_partition in range(log.partition_count):
            replay = MetadataPartitionReplay(log, metadata_partition, frozenset({topic_id}))
            replay.advance()
            for key, history in replay.histories.items():
                segments[key.partition] += len(history.unfinished())
    sizes = [s for path, s in tiering.remote_listing(kafka).items() if kafka_uuid_str(topic_id) in path.split("/")[0]]
    return Inventory(sum(1 for n in segments.values() if n), segments.total(), len(sizes), sum(sizes))


def print_table(rows: Mapping[str, tuple[Inventory, Inventory]]) -> None:
    """Print the inventories before and after."""
    columns = ("topic", "", "partitions", "segments", "objects", "bytes")
    lines = [
        (
            topic if when == "before" else "",
            when,
            f"{i.partitions:,}",
            f"{i.segments:,}",
            f"{i.objects:,}",
            f"{i.bytes:,}",
        )
        for topic, inventories in rows.items()
        for when, i in zip(("before", "after"), inventories, strict=True)
    ]
    widths = [max(len(line[n]) for line in (columns, *lines)) for n in range(len(columns))]
    print("\nWhat metadata topic and storage hold of each topic:\n")
    for line in (columns, tuple("-" * w for w in widths), *lines):
        print(
            "  "
            + "  ".join(
                f"{c:<{w}}" if n < 2 else f"{c:>{w}}" for n, (c, w) in enumerate(zip(line, widths, strict=True))
            )
        )


def print_trail(kafka: LocalKafka, topic_id: UUID, partition: int) -> None:
    """Print the events about one user partition that this package wrote, as read back from the topic."""
    with open_log(kafka) as log:
        beginning, end = log.beginning_offsets(), log.high_water_marks()
        trail = [
            f"  {metadata_partition}:{offset:<6} {datetime.fromtimestamp(at / 1000, UTC):%H:%M:%S.%f}"[:-3]
            + f"  {text}"
            for metadata_partition in range(log.partition_count)
            for batch in log.read(metadata_partition, beginning[metadata_partition], end[metadata_partition])
            for offset, at, value in zip(
                *(batch[n].to_pylist() for n in ("offset", "timestamp_ms", "value")), strict=True
            )
            if (text := _own_event(value, topic_id, partition))
        ]
    print(
        f"\nTrail of {DELETED}-{partition} in __remote_log_metadata (metadata partition:offset, time in UTC, event):\n"
    )
    head, tail = (6, 5) if len(trail) > TRAIL_LINES else (len(trail), 0)
    print("\n".join(trail[:head]))
    if tail:
        print(f"  … {len(trail) - head - tail} more …")
        print("\n".join(trail[-tail:]))
    print(flush=True)


def _own_event(value: bytes, topic_id: UUID, partition: int) -> str | None:
    event = deserialize(value)
    if isinstance(event, RemoteLogSegmentMetadata):
        return None
    tip = topic_id_partition_of(event)  # type: ignore[arg-type]  # no snapshot record is ever in the topic
    if event.broker_id != -1 or (tip.topic_id, tip.partition) != (topic_id, partition):
        return None
    return describe_event(event)  # type: ignore[arg-type]


def connections(kafka: LocalKafka) -> dict[str, str]:
    """Return the Airflow connections, as an operator would enter them in the UI."""
    documents = {
        "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka.bootstrap_servers}},
        "rlmm_default": {
            "conn_type": "rlmm",
            "extra": {
                "storage_uri": kafka.remote_dir.as_uri(),
                "allow_writes": True,
                "expected_cluster_id": kafka.cluster_id,
                # Nothing is copied between first look and first deletion: a person names the root, as the check prints it.
                "expected_root": expected_root_of(kafka.remote_dir),
            },
        },
        "spark_default": {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}},
    }
    return {conn_id: json.dumps({**d, "extra": json.dumps(d["extra"])}) for conn_id, d in documents.items()}


def print_verified(verified: Mapping[str, str]) -> None:
    """Print what the cleaner's first task has verified before the first event was written."""
    say("verified before the first event was written:")
    width = max(map(len, verified)) + 4
    for subject, sentences in verified.items():
        print(
            textwrap.fill(
                sentences,
                118,
                initial_indent=f"  {subject}".ljust(width),
                subsequent_indent=" " * width,
                # An id or an address is copied whole.
                break_on_hyphens=False,
                break_long_words=False,
            )
        )


def run_dags(kafka: LocalKafka, work: Path) -> None:
    """Run retention, then the cleaner on its plan, under a real scheduler."""
    env = {"AIRFLOW__RLMM__WORK_URI": str(work / "artifacts"), **local_spark_env(work / "spark")}
    airflow_home, dags = work / "airflow", Path(dags_folder())
    with LocalAirflow(airflow_home, dags_folder=dags, connections=connections(kafka), env=env, progress=say) as airflow:
        found = run_retention(airflow)
        say(f"Spark's plan: {found.get('orphaned', 0)} of {found['known']} known segments are orphaned")
        run_id = run_cleaner(airflow, found["plan"])
        print_verified(airflow.xcom("remote_log_cleaner", run_id, "check"))
        (ledger,) = (work / "artifacts").glob("cluster-*")
        root_ids = recorded_roots(str(ledger), kafka.cluster_id)
        say(f"root id that this run recorded and the next one expects: {', '.join(sorted(root_ids))}")
        totals = airflow.xcom("remote_log_cleaner", run_id, "report")
        done = (
            "partitions_finished",
            "segments_deleted",
            "segments_left",
            "objects_deleted",
            "bytes_deleted",
            "refusals",
        )
        say("report: " + ", ".join(f"{totals[name]:,} {name.replace('_', ' ')}" for name in done))
        run_again(airflow, found)


def run_retention(airflow: LocalAirflow) -> dict[str, Any]:
    """Have Spark make a plan; return what its last task says."""
    run_id = airflow.trigger("remote_log_retention")
    _require_success(airflow, "remote_log_retention", run_id)
    published: dict[str, Any] = airflow.xcom("remote_log_retention", run_id, "publish")
    return published


def run_cleaner(airflow: LocalAirflow, plan: str) -> str:
    """Clean what a plan calls orphaned; return the id of the run."""
    conf = {
        "source_plan": plan,
        "dry_run": False,
        "min_absence_ms": 0,
        "overrides": ["short_min_absence"],
        "max_share": 1.0,
        "batch_segments": 50,
    }
    run_id = airflow.trigger("remote_log_cleaner", conf)
    _require_success(airflow, "remote_log_cleaner", run_id)
    return run_id


def run_again(airflow: LocalAirflow, found: Mapping[str, Any]) -> None:
    """Run both DAGs once more, and say what they have read of the metadata topic."""
    again = run_retention(airflow)
    say(
        f"Spark read {found['records']:,} records of the metadata topic in its first run, {again['records']:,} in its second"
    )
    run_id = run_cleaner(airflow, again["plan"])
    say(f"the cleaner's second run: {airflow.xcom('remote_log_cleaner', run_id, 'check')['topic']}")
    if again["read_on_from"] is None or again.get("orphaned", 0):
        raise SystemExit(f"the second run has read everything, or found something to clean: {again}")


def _require_success(airflow: LocalAirflow, dag_id: str, run_id: str) -> None:
    if airflow.wait(dag_id, run_id) == "success":
        return
    for instance in airflow.task_instances(dag_id, run_id):
        if instance["state"] == "failed":
            index, tries = instance["map_index"], instance["try_number"]
            print(airflow.task_log(dag_id, run_id, instance["task_id"], try_number=tries, map_index=index))
    raise SystemExit(f"{dag_id} failed")


def main() -> int:
    """Run the demo; return its exit status."""
    with tempfile.TemporaryDirectory(prefix="rlmm-demo-") as folder, LocalKafka(Path(folder) / "kafka") as kafka:
        say(f"Kafka is ready: {kafka.bootstrap_servers}, cluster {kafka.cluster_id}")
        alive_id = tiering.create_tiered_topic(kafka, ALIVE, ALIVE_PARTITIONS)
        deleted_id = tiering.create_tiered_topic(kafka, DELETED, DELETED_PARTITIONS)
        tiering.produce_until_remote(kafka, ALIVE, ALIVE_SEGMENTS)
        tiering.produce_until_remote(kafka, DELETED, DELETED_SEGMENTS)
        say("segments are in remote storage; deleting the topic and killing the broker")
        tiering.provoke_scenario_b(kafka, DELETED)
        before = {DELETED: take_inventory(kafka, deleted_id), ALIVE: take_inventory(kafka, alive_id)}
        alive_objects = _objects_of(kafka, alive_id)
        say(f"orphaned: {before[DELETED].segments} segments, {before[DELETED].objects} objects")
        run_dags(kafka, Path(folder))
        after = {DELETED: take_inventory(kafka, deleted_id), ALIVE: take_inventory(kafka, alive_id)}
        names = {DELETED: f"{DELETED} (deleted)", ALIVE: f"{ALIVE} (alive)"}
        print_table({label: (before[name], after[name]) for name, label in names.items()})
        print_trail(kafka, deleted_id, 0)
        left = after[DELETED]
        lost = sorted(alive_objects - _objects_of(kafka, alive_id))
    if not before[DELETED].segments or left.segments or left.objects or lost:
        print(
            f"FAILED: there were {before[DELETED].segments} orphaned segments, {left.segments} are left and {left.objects} "
            f"objects; {len(lost)} objects of the living topic are gone: {lost[:5]}"
        )
        return 1
    say("done: nothing of the deleted topic is left, nothing of the living one is gone")
    return 0


def _objects_of(kafka: LocalKafka, topic_id: UUID) -> set[str]:
    return {path for path in tiering.remote_listing(kafka) if kafka_uuid_str(topic_id) in path}


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
