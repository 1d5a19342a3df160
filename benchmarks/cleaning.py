# SPDX-License-Identifier: Apache-2.0
"""Marking and planning as the DAG's tasks do it: each with clients of its own, and a snapshot that they share."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan_files import write_plan
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, DryRunMarkerEffects
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner
from benchmarks.measuring import resident_bytes

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Run:
    """
    One run of marker and planner.

    :param mark_s: of the marker, from opening its clients on.
    :param plan_s: of the planner, to the written plan.
    :param records: read by both.
    :param planned: segments in the plan.
    :param peak_bytes: the most memory that the process held.
    """

    mark_s: float
    plan_s: float
    records: int
    planned: int
    peak_bytes: int

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.mark_s + self.plan_s


def mark_and_plan(properties: dict[str, str], folder: Path, topic: str) -> Run:
    """
    Mark, as a dry run, and plan; in a process of its own, as tasks are.

    :param properties: the clients' properties.
    :param folder: the work folder: what an earlier run has left there is used.
    :param topic: the metadata topic.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_mark_and_plan, (properties, folder, topic))


def _mark_and_plan(properties: dict[str, str], folder: Path, name: str) -> Run:
    config, began = KafkaClientConfig(properties), time.perf_counter()
    with _topic(config, folder, name) as topic:
        DeletedPartitionMarker(topic, DryRunMarkerEffects(topic.log), clock=system_clock).mark()
        records = topic.records_read
    marked = time.perf_counter()
    limits = CleanerLimits()
    with _topic(config, folder, name) as topic:
        # The markers were written a moment ago.
        planner = CleanupPlanner(topic, limits=limits, clock=lambda: system_clock() + limits.min_absence_ms)
        plan = planner.plan("benchmark", expires_in_ms=HOUR_MS)
        records += topic.records_read
        write_plan(str(folder / "plan"), plan.rows, plan.summary)
    return Run(marked - began, time.perf_counter() - marked, records, plan.rows.num_rows, resident_bytes())


@contextmanager
def _topic(config: KafkaClientConfig, folder: Path, name: str) -> Iterator[TopicReplay]:
    with KafkaMetadataEventLog(config, name) as log, closing(KafkaClusterTopics(config, name)) as topics:
        topic = TopicReplay(log, topics, system_clock, SnapshotFile(str(folder / "topic.snapshot")))
        yield topic
        topic.keep()
