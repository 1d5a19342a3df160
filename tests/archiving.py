# SPDX-License-Identifier: Apache-2.0
"""Deleted topics whose segments hold real records, in the small cluster in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import HOUR_MS, Clock
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.plans.plan_files import planned_segments, write_plan
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.world.kill_switch import StopSource, never_stopped
from airflow_provider_rlmm.features.archiving.archive_documents import named_by_log
from airflow_provider_rlmm.features.archiving.archive_guard import ArchivedPlan
from airflow_provider_rlmm.features.archiving.archiver import PlanArchiver
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport
from tests.builders import BROKER, START_MS, STEPS, Cluster, update
from tests.kafka_log import Batch, Record, log_of, offset_index, producer_snapshot, time_index, transaction_index

RECORDS = 10
"""Of each segment that nobody gives records."""


def records_of(number: int) -> tuple[Record, ...]:
    """Records of segment ``number``: empty and null keys and values among them, and headers."""
    first = number * RECORDS
    return tuple(
        Record(
            first + i,
            START_MS + first + i,
            key=(None, b"", f"key-{first + i}".encode())[i % 3],
            value=(b"", None, b"v" * (i + 1))[i % 3],
            headers=(("h", b"1"), ("h", None), ("", b"")) if i % 4 == 0 else (),
        )
        for i in range(RECORDS)
    )


def files_of(
    batches: Sequence[Batch],
    open_transactions: Sequence[tuple[int, int]] = (),
    aborted: Sequence[tuple[int, int, int, int]] = (),
) -> dict[IndexType | None, bytes]:
    """Return the files of a segment; of the log as ``None``."""
    start, end = batches[0].records[0].offset, batches[-1].records[-1].offset
    newest = max(record.timestamp for batch in batches for record in batch.records)
    entries = [(batches[1].records[0].offset, len(batches[0].to_bytes()))] if len(batches) > 1 else []
    files: dict[IndexType | None, bytes] = {
        None: log_of(batches),
        IndexType.OFFSET: offset_index(start, entries),
        IndexType.TIMESTAMP: time_index(start, [(newest, end)]),
        IndexType.PRODUCER_SNAPSHOT: producer_snapshot(open_transactions),
        IndexType.LEADER_EPOCH: b"0\n1\n0 0\n",
    }
    return files | ({IndexType.TRANSACTION: transaction_index(aborted)} if aborted else {})


class ArchivingCluster(Cluster):
    """A cluster whose segments can be archived."""

    def real_segment(
        self,
        partition: TopicIdPartition,
        number: int,
        batches: Sequence[Batch] | None = None,
        *,
        state: S = S.COPY_SEGMENT_FINISHED,
        aborted: Sequence[tuple[int, int, int, int]] = (),
        open_transactions: Sequence[tuple[int, int]] = (),
        epochs: tuple[tuple[int, int], ...] | None = None,
        lineage: bytes = b"0\n1\n0 0\n",
    ) -> RemoteLogSegmentMetadata:
        """A segment as a broker leaves it, with all its objects."""
        written = batches or [Batch(records_of(number)[:4]), Batch(records_of(number)[4:])]
        log = log_of(written)
        start, end = written[0].records[0].offset, written[-1].records[-1].offset
        times = [record.timestamp for batch in written for record in batch.records]
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(partition, UUID(int=1000 + number)),
            start,
            end,
            max(times),
            BROKER,
            START_MS,
            len(log),
            None,
            S.COPY_SEGMENT_STARTED,
            epochs or ((0, start),),
            not aborted,
        )
        self.foreign(metadata)
        for step in STEPS[state]:
            self.foreign(update(partition, number, step))
        files = files_of(written, open_transactions, aborted) | {IndexType.LEADER_EPOCH: lineage}
        for kind, data in files.items():
            self.storage.put_object(self.layout.object_key(metadata, kind), data)
        return replace(metadata, state=state)

    def real_segments(self, partition: TopicIdPartition, count: int) -> list[RemoteLogSegmentMetadata]:
        return [self.real_segment(partition, number) for number in range(count)]

    def encrypted_segment(
        self, partition: TopicIdPartition, number: int, state: S = S.COPY_SEGMENT_FINISHED
    ) -> RemoteLogSegmentMetadata:
        """A segment as Aiven's plugin leaves it where it encrypts: nobody reads more than that in its manifest."""
        metadata = self.segment(partition, number, state, objects=False)
        stem = self.layout.segment_stem(metadata)
        manifest = {"version": "1", "encryption": {"dataKey": "key-1:AAAA", "aad": "AAAA"}}
        self.storage.put_object(f"{stem}.log", bytes(range(256)) * (number + 1))
        self.storage.put_object(f"{stem}.indexes", b"encrypted, too")
        self.storage.put_object(f"{stem}.rsm-manifest", json.dumps(manifest).encode())
        return metadata


class Run:
    """
    A run that archives before it deletes.

    :param cluster: whose segments.
    :param folder: for the run and for the archives.
    """

    def __init__(self, cluster: ArchivingCluster, folder: Path, name: str = "run-1") -> None:
        self.cluster = cluster
        self.uri = str(folder / name)
        self.archive_uri = str(folder / "archives")
        self.name = name
        self.encrypted_as_is = False
        self.summary = self._plan()

    def _plan(self, **kwargs: int) -> PlanSummary:
        made = self.cluster.plan(CleanerLimits(), **kwargs)
        return write_plan(self.uri, made.rows, made.summary.judged_by(BlastRadius(max_share=1.0)))

    def plan_again(self, **kwargs: int) -> PlanSummary:
        """Make another plan of the same name."""
        self.cluster.now_ms += HOUR_MS // 2
        self.summary = self._plan(**kwargs)
        return self.summary

    def archive(self, name: str | None = None, should_stop: StopSource = never_stopped) -> PlanArchive:
        """Archive the plan."""
        cluster = self.cluster
        planned = {n: planned_segments(self.uri, self.summary, n) for n in self.summary.by_metadata_partition}
        topic = cluster.topic()
        topic.advance()
        named = named_by_log(topic, {topic_id for segments in planned.values() for topic_id, _ in segments})
        archiver = PlanArchiver(
            cluster.log, cluster.storage, self.archive_uri, named, clock=cluster.clock, should_stop=should_stop,
            encrypted_as_is=self.encrypted_as_is,
        )  # fmt: skip
        return archiver.archive(name or self.name, self.summary, planned)

    def clean(
        self, archive: PlanArchive, metadata_partition: int = 0, *, monotonic: Clock = lambda: 0, **limits: int
    ) -> MetadataPartitionReport:
        """Clean what the archive lets go; all looks at it come at once, unless a clock says otherwise."""
        guard = ArchivedPlan(archive, self.summary, metadata_partition, monotonic=monotonic)
        planned = planned_segments(self.uri, self.summary, metadata_partition)
        return replace(self.cluster.cleaner(**limits), archive=guard).clean(metadata_partition, planned)
