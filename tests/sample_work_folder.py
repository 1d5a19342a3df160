# SPDX-License-Identifier: Apache-2.0
"""A work folder with an inventory, past runs and a run in progress, as large as a test wants it."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.features.cleanup.cleaning_progress import (
    CleaningProgress,
    Left,
    ProgressState,
    progress_name,
)
from airflow_provider_rlmm.features.retention.leader_document import LEADER_RETENTION_DOCUMENT
from airflow_provider_rlmm.features.survey.inventory import Inventory, SurveyedState, Totals
from airflow_provider_rlmm.features.survey.inventory_files import (
    partitions_schema,
    segments_schema,
    topics_schema,
    write_inventory,
)
from airflow_provider_rlmm.overview.run_summary import (
    RUNS_FOLDER,
    Deleted,
    RunKind,
    RunOutcome,
    RunSummary,
)
from tests.sample_leaders import reported_leaders

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
NOW_MS = 1_780_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SEGMENT_BYTES = 1_000_000
NASTY_TOPIC = "<img src=x onerror=alert(1)>"
"""Name of the last topic: whoever can write to the metadata topic chooses it."""

STATES = list(SurveyedState)
_SEGMENT_STATES = ("COPY_SEGMENT_FINISHED", "COPY_SEGMENT_STARTED", "DELETE_SEGMENT_STARTED")
_PRESENCE = {SurveyedState.LIVING: "present", SurveyedState.UNSEEN: "denied"}
_DELETION = {
    SurveyedState.WAITING: "DELETE_PARTITION_MARKED",
    SurveyedState.ELIGIBLE: "DELETE_PARTITION_MARKED",
    SurveyedState.REFUSED: "DELETE_PARTITION_MARKED",
    SurveyedState.DELETING: "DELETE_PARTITION_STARTED",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What was made."""

    work: Path  # the work folder
    cluster_id: str  # the cluster whose folder was filled
    inventory: Inventory  # its newest inventory
    runs: tuple[RunSummary, ...]  # past ones, the oldest first
    running: str  # name of the artifact of the run in progress

    @property
    def cluster(self) -> Path:
        return self.work / cluster_folder(self.cluster_id)

    def copied_to(self, work: Path) -> Sample:
        """Copy the work folder, which takes a fraction of the time that filling another one takes."""
        shutil.copytree(self.work, work)
        return replace(self, work=work)


def topic_id(number: int) -> UUID:
    """Return the id of a topic of the sample."""
    return UUID(bytes=hashlib.sha256(b"topic %d" % number).digest()[:16])


def sample_work_folder(
    work: Path,
    *,
    cluster_id: str = CLUSTER,
    connection: str = "rlmm_default",
    topics: int = 20,
    partitions: int = 2,
    segments: int = 3,
    metadata_partitions: int = 5,
    runs: int = 12,
    now_ms: int = NOW_MS,
) -> Sample:
    """
    Fill a work folder.

    Topic n has the n-th state, over and over; it has ``n + 1`` MB in each segment, so that sizes sort. Its user partition p
    lies in metadata partition ``(n + p) % metadata_partitions``.
    """
    cluster = work / cluster_folder(cluster_id)
    inventory = _inventory(cluster, cluster_id, connection, topics, partitions, segments, metadata_partitions, now_ms)
    found = tuple(_run(cluster_id, connection, n, runs, now_ms) for n in range(runs))
    folder = cluster / RUNS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for run in found:
        (folder / run.file_name).write_text(run.to_json())
    leaders = reported_leaders(cluster_id, NASTY_TOPIC, topic_id(topics - 1), now_ms=now_ms, connection=connection)
    (cluster / LEADER_RETENTION_DOCUMENT).write_text(leaders.to_json())
    running = "remote_log_cleaner.manual__running"
    for number in range(min(3, metadata_partitions)):
        write_progress(work, running, number, now_ms)
    return Sample(work, cluster_id, inventory, found, running)


def _names(topics: int) -> list[str]:
    return [*(f"topic-{n:06}" for n in range(topics - 1)), NASTY_TOPIC]


def _inventory(
    cluster: Path,
    cluster_id: str,
    connection: str,
    topics: int,
    partitions: int,
    segments: int,
    metadata_partitions: int,
    now_ms: int,
) -> Inventory:
    names, ids = _names(topics), [topic_id(n).bytes for n in range(topics)]
    states = [STATES[n % len(STATES)] for n in range(topics)]
    per_partition = np.arange(1, topics + 1) * SEGMENT_BYTES * segments
    absent = [state not in _PRESENCE for state in states]
    observed = [now_ms - DAY_MS // 2 if state in _DELETION else None for state in states]
    eligible = [now_ms + DAY_MS // 2 if state is SurveyedState.WAITING else None for state in states]
    why = [f"as the sample has it: {state}" for state in states]
    rows = pa.table(
        {
            "topic": names,
            "topic_id": pa.array(ids, pa.binary()),
            "state": [state.value for state in states],
            "presence": [_PRESENCE.get(state, "absent") for state in states],
            "partitions": np.full(topics, partitions),
            "segments": np.full(topics, partitions * segments),
            "bytes": per_partition * partitions,
            "oldest_ms": now_ms - DAY_MS - HOUR_MS * np.arange(topics),
            "newest_ms": np.full(topics, now_ms - DAY_MS),
            "first_absent_ms": pa.array(observed, pa.int64()),
            "eligible_ms": pa.array(eligible, pa.int64()),
            "why": why,
        }
    ).cast(topics_schema())
    owner = np.repeat(np.argsort(np.array(ids, "V16").view("S16"), kind="stable"), partitions)
    number = np.tile(np.arange(partitions), topics)
    user_partitions = pa.table(
        {
            "topic_id": pa.array(ids, pa.binary()).take(owner),
            "topic": pa.array(names).take(owner),
            "partition": number,
            "metadata_partition": (owner + number) % metadata_partitions,
            "state": pa.array([state.value for state in states]).take(owner),
            "segments": np.full(owner.size, segments),
            "bytes": per_partition.take(owner),
            "start_offset": np.zeros(owner.size, np.int64),
            "end_offset": np.full(owner.size, segments * 100 - 1),
            "deletion": pa.array([_DELETION.get(state) for state in states], pa.string()).take(owner),
            "first_absent_ms": pa.array(observed, pa.int64()).take(owner),
            "eligible_ms": pa.array(eligible, pa.int64()).take(owner),
            "why": pa.array(why).take(owner),
        }
    ).cast(partitions_schema())
    sums = {state: Count(0, 0) for state in STATES}
    for state, size in zip(states, (per_partition * partitions).tolist(), strict=True):
        sums[state] = Count.sum([sums[state], Count(partitions * segments, size)])
    totals = Totals(
        stored=Count.sum(sums.values()),
        orphaned=Count.sum(count for state, count in sums.items() if state not in _PRESENCE),
        waiting=sums[SurveyedState.WAITING],
        eligible=sums[SurveyedState.ELIGIBLE],
        deleting=sums[SurveyedState.DELETING],
        next_eligible_ms=min((e for e in eligible if e is not None), default=None),
        oldest_orphan_ms=now_ms - DAY_MS - HOUR_MS * (topics - 1),
        topics=topics,
        orphaned_topics=sum(absent),
        unseen=sums[SurveyedState.UNSEEN],
        unseen_topics=states.count(SurveyedState.UNSEEN),
        quarantined_records=1,
        metadata_partitions_out_of_service=(0,),
        unsized=Unsized(orphaned=2, unseen=1, living=4),
    )
    order = pa.array(np.argsort(-per_partition, kind="stable"))
    return write_inventory(
        str(cluster),
        cluster_id=cluster_id,
        connection=connection,
        artifact="remote_log_cleaner.sample",
        created_at_ms=now_ms,
        topics=rows.take(order),
        partitions=user_partitions,
        segments=(
            (n, _segments(user_partitions, n, segments, now_ms, metadata_partitions))
            for n in range(metadata_partitions)
        ),
        totals=totals,
    )


def _segments(user_partitions: pa.Table, number: int, segments: int, now_ms: int, metadata_partitions: int) -> pa.Table:
    mine = np.flatnonzero(user_partitions.column("metadata_partition").to_numpy() == number)
    owner, index = np.repeat(mine, segments), np.tile(np.arange(segments), mine.size)
    ids = [
        hashlib.sha256(b"%d %d %d" % (number, row, i)).digest()[:16]
        for row, i in zip(owner.tolist(), index.tolist(), strict=True)
    ]
    epochs = pa.array(
        [[{"leader_epoch": int(i) // 2, "start_offset": int(i) * 100}] for i in index],
        segments_schema().field("leader_epochs").type,
    )
    return pa.table(
        {
            "topic_id": user_partitions.column("topic_id").take(owner),
            "topic": user_partitions.column("topic").take(owner),
            "partition": user_partitions.column("partition").take(owner),
            "segment_id": pa.array(ids, pa.binary()),
            "state": pa.array(_SEGMENT_STATES).take(index % 3),
            "start_offset": index * 100,
            "end_offset": index * 100 + 99,
            "bytes": user_partitions.column("bytes").to_numpy().take(owner) // max(1, segments),
            "max_timestamp_ms": now_ms - DAY_MS * (index + 1),
            "event_timestamp_ms": now_ms - DAY_MS * (index + 1) + 1,
            "broker_id": index % 3,
            "leader_epochs": epochs,
            "added_offset": np.arange(owner.size) * 2,
            "event_offset": np.arange(owner.size) * 2 + 1,
        }
    ).cast(segments_schema())


def _run(cluster_id: str, connection: str, number: int, runs: int, now_ms: int) -> RunSummary:
    kind = list(RunKind)[number % 4] if number % 3 == 0 else RunKind.CLEANER
    ended = now_ms - (runs - number) * DAY_MS
    failed = number % 5 == 4
    dag_id = {
        RunKind.CLEANER: "remote_log_cleaner",
        RunKind.RETENTION: "remote_log_retention",
        RunKind.SCRUB: "remote_storage_scrub",
        RunKind.DOCTOR: "remote_log_doctor",
    }[kind]
    artifact = f"{dag_id}.scheduled__{number:04}"
    page = {RunKind.CLEANER: "reports", RunKind.RETENTION: "plans", RunKind.SCRUB: "scrubs", RunKind.DOCTOR: "doctor"}
    known = kind is RunKind.CLEANER
    return RunSummary(
        cluster_id=cluster_id,
        connection=connection,
        dag_id=dag_id,
        run_id=f"scheduled__{number:04}",
        artifact=artifact,
        kind=kind,
        began_at_ms=ended - 60_000,
        ended_at_ms=ended,
        dry_run=number % 2 == 0,
        outcome=RunOutcome.FAILED if failed else RunOutcome.SUCCESS,
        headline="2 things need a person, first: topic gone-0 is refused." if failed else "Nothing needs a person.",
        needs_person=2 if failed else 0,
        deleted=Deleted(number, number * 3, number * SEGMENT_BYTES),
        planned=Count(number, number * SEGMENT_BYTES),
        refusals=2 if failed else 0,
        stored=_shrinking(1_000, number) if known else None,
        orphaned=_shrinking(100, number) if known else None,
        waiting=Count(10, 10 * SEGMENT_BYTES) if known else None,
        deleting=Count(5, 5 * SEGMENT_BYTES) if known else None,
        oldest_orphan_ms=ended - 30 * DAY_MS if known else None,
        critical=1 if kind is RunKind.DOCTOR else None,
        out_of_service=1 if known else None,
        steps={"plan": 1.5, "clean": 12.25},
        documents={page[kind]: artifact},
    )


def write_progress(work: Path, artifact: str, metadata_partition: int, now_ms: int, done: float = 0.4) -> None:
    """Write how far one cleaning task of the run in progress is."""
    total = 100 * (metadata_partition + 1)
    segments = int(total * done)
    refused = Left("gone-3", "the store refuses to delete: <b>no right</b>", "give the principal the right to delete")
    progress = CleaningProgress(
        artifact=artifact,
        metadata_partition=metadata_partition,
        dry_run=False,
        began_at_ms=now_ms - 60_000,
        updated_at_ms=now_ms,
        segments_total=total,
        segments_done=segments,
        bytes_total=total * SEGMENT_BYTES,
        bytes_done=segments * SEGMENT_BYTES,
        objects_per_second=segments * 3 / 60,
        partitions_total=10,
        partitions_done=int(10 * done),
        refused=(refused,) if metadata_partition == 1 else (),
        state=ProgressState.RUNNING if done < 1 else ProgressState.ENDED,
    )
    folder = work / artifact
    folder.mkdir(parents=True, exist_ok=True)
    (folder / progress_name(metadata_partition)).write_text(progress.to_json())


def write_document(work: Path, artifact: str, name: str, document: object) -> None:
    """Write any document of a run."""
    folder = work / artifact
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(document))


def _shrinking(first: int, number: int) -> Count:
    left = first - number % first
    return Count(left, left * SEGMENT_BYTES)
