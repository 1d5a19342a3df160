# SPDX-License-Identifier: Apache-2.0
"""
Whether the storage root is up to date: the newest copies of living topics must be there (DESIGN §7: when a root is fresh).

A copy of the root, or an old root, holds objects of this cluster and perhaps its stamp, but nothing that was copied since.
The order is read, list, read again: what is missing counts only if the log, read after the listing, still says that it is
there.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.event_log.event_decoding import applicable, decode_records
from airflow_provider_rlmm.event_log.protocol import MetadataEventLog
from airflow_provider_rlmm.event_log.topic_state import CHUNK_ROWS
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.metadata.serde import SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from airflow_provider_rlmm.policy.freshness import Freshness, Sample
from airflow_provider_rlmm.storage.layouts import Layout
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

MOST_SAMPLES = 20
_ROUNDS = 3
_COPIED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_PLAIN = (
    "start_offset", "end_offset", "max_timestamp_ms", "broker_id", "event_timestamp_ms", "segment_size_in_bytes",
    "custom_metadata", "txn_idx_empty",
)  # fmt: skip


def look_for_freshness(
    log: MetadataEventLog,
    living: Collection[UUID],
    storage: RemoteStorageManager,
    *,
    most_samples: int = MOST_SAMPLES,
    chunk_rows: int = CHUNK_ROWS,
) -> Freshness:
    """
    Read the whole topic, and look for the newest copied segment of each living topic in storage.

    Of the living topics those are taken that were copied last, for every place the same number. Memory holds the living
    segments of one metadata partition at a time.

    :param log: the metadata event log.
    :param living: ids of the topics that exist, of a complete and proven look at the cluster, taken before this.
    :param storage: remote storage, listed only.
    :param most_samples: segments to look for at most.
    :param chunk_rows: records that are decoded and applied at once.
    :raises EventLogError: if the topic cannot be read.
    :raises StorageError: if storage cannot be listed.
    """
    for _ in range(_ROUNDS):
        samples = _newest_copied(log, living, storage.layout, most_samples, chunk_rows)
        found = check_samples(log, samples, storage, chunk_rows=chunk_rows)
        if found.samples or not samples:
            break
        # All of them were deleted by their brokers in between: there are newer ones now.
    return found


def check_samples(
    log: MetadataEventLog, samples: Sequence[Sample], storage: RemoteStorageManager, *, chunk_rows: int = CHUNK_ROWS
) -> Freshness:
    """
    Look for given segments in storage: those that a plan has recorded, right before its first deletion.

    Only if one is missing, its metadata partition is read again.

    :param log: the metadata event log.
    :param samples: of a :func:`look_for_freshness`.
    :param storage: remote storage, listed only.
    :param chunk_rows: records that are decoded and applied at once.
    :return: what became of them. Those that were deleted since are left out; if none is left, look anew.
    :raises EventLogError: if the topic cannot be read.
    :raises StorageError: if storage cannot be listed.
    """
    absent = storage.missing_keys({key for sample in samples for key in sample.keys})
    doubtful = [sample for sample in samples if not absent.isdisjoint(sample.keys)]
    copied = _still_copied(log, doubtful, chunk_rows)
    missing = tuple(sample for sample in doubtful if sample.segment_id in copied)
    left_out = {sample.segment_id for sample in doubtful} - copied
    freshness = Freshness(tuple(s for s in samples if s.segment_id not in left_out), missing)
    for sentence in freshness.sentences:
        logger.info("storage root: %s", sentence)
    return freshness


def _newest_copied(
    log: MetadataEventLog, living: Collection[UUID], layout: Layout, most: int, chunk_rows: int
) -> tuple[Sample, ...]:
    newest: dict[tuple[str, UUID], Sample] = {}
    wanted = [topic_id.bytes for topic_id in living]
    for segments in _segments(log, range(log.partition_count), chunk_rows, topic_id=wanted):
        for sample in _samples_of(segments, layout, most):
            key = sample.place, sample.topic_id_partition.topic_id
            if key not in newest or newest[key].copied_at_ms < sample.copied_at_ms:
                newest[key] = sample
    by_place = defaultdict(list)
    for sample in sorted(newest.values(), key=_newest_first):
        by_place[sample.place].append(sample)
    share = max(1, most // max(1, len(by_place)))
    return tuple(sample for place in sorted(by_place) for sample in by_place[place][:share])


def _newest_first(sample: Sample) -> tuple[int, str]:
    return -sample.copied_at_ms, str(sample.segment_id)


def _samples_of(segments: pa.Table, layout: Layout, most: int) -> Iterator[Sample]:
    """Yield the newest copied segment of each topic and place, of the topics that were copied last."""
    import pyarrow.compute as pc

    copied = segments.filter(pc.equal(segments.column("state"), int(_COPIED)))
    copied = copied.sort_by([("event_timestamp_ms", "descending")])
    if len(layout.places) == 1:
        copied = _first_of_each_topic(copied).slice(0, most)
    found: dict[str, set[bytes]] = {place.name: set() for place in layout.places}
    for row in copied.to_pylist():
        sample = _sample_of(row, layout)
        if sample is not None and row["topic_id"] not in found[sample.place] and len(found[sample.place]) < most:
            found[sample.place].add(row["topic_id"])
            yield sample


def _first_of_each_topic(segments: pa.Table) -> pa.Table:
    import numpy as np

    codes = segments.column("topic_id").combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return segments.take(np.sort(first))


def _sample_of(row: Mapping[str, Any], layout: Layout) -> Sample | None:
    """Return the sample of a segment, ``None`` where it cannot be said at which keys its copy lies."""
    tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
    metadata = RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, UUID(bytes=row["segment_id"])),
        segment_leader_epochs=tuple((e["leader_epoch"], e["start_offset"]) for e in row["segment_leader_epochs"]),
        state=_COPIED,
        **{name: row[name] for name in _PLAIN},
    )
    places = layout.places_of(metadata)
    if len(places) != 1:
        return None
    try:
        keys = layout.segment_keys(metadata).required
    except UnsafeObjectKeyError:
        # A record that lies about the name of a living topic; the marker and the doctor tell of it.
        return None
    return Sample(
        metadata_partition=row["metadata_partition"],
        topic_id_partition=tip,
        segment_id=metadata.remote_log_segment_id.id,
        place=places[0].name,
        keys=keys,
        copied_at_ms=row["event_timestamp_ms"],
    )


def _still_copied(log: MetadataEventLog, samples: Sequence[Sample], chunk_rows: int) -> set[UUID]:
    """Return those of some segments that the log, as of now, calls COPY_SEGMENT_FINISHED."""
    import pyarrow.compute as pc

    found: set[UUID] = set()
    ids = [sample.segment_id.bytes for sample in samples]
    metadata_partitions = sorted({sample.metadata_partition for sample in samples})
    for segments in _segments(log, metadata_partitions, chunk_rows, segment_id=ids):
        copied = segments.filter(pc.equal(segments.column("state"), int(_COPIED)))
        found |= {UUID(bytes=raw) for raw in copied.column("segment_id").to_pylist()}
    return found


def _segments(
    log: MetadataEventLog, metadata_partitions: Iterable[int], chunk_rows: int, **wanted: Collection[bytes]
) -> Iterator[pa.Table]:
    """
    Yield the segments of each metadata partition that are not finished, as of now.

    :param wanted: ``topic_id`` or ``segment_id`` → whose events are applied.
    """
    from airflow_provider_rlmm.metadata.columnar import ColumnarState

    if not all(wanted.values()):
        return
    begins, ends = log.beginning_offsets(), log.high_water_marks()
    for metadata_partition in metadata_partitions:
        state = ColumnarState.empty()
        for records in _chunks(
            log, metadata_partition, begins[metadata_partition], ends[metadata_partition], chunk_rows
        ):
            decoded = decode_records(records, metadata_partition, log.partition_count)
            state, _ = state.apply(_about(decoded, wanted))
        yield state.segments


def _chunks(
    log: MetadataEventLog, metadata_partition: int, begin: int, end: int, chunk_rows: int
) -> Iterator[pa.Table]:
    import pyarrow as pa

    kept: list[pa.RecordBatch] = []
    rows = 0
    # A read that has nothing to yield still asks a broker for its offsets.
    for batch in log.read(metadata_partition, begin, end) if begin < end else ():
        kept.append(batch)
        rows += batch.num_rows
        if rows >= chunk_rows:
            yield pa.Table.from_batches(kept)
            kept, rows = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


def _about(decoded: pa.RecordBatch, wanted: Mapping[str, Collection[bytes]]) -> pa.RecordBatch:
    """Return the segment events that brokers apply, of some topics or segments."""
    import pyarrow as pa
    import pyarrow.compute as pc

    conditions: dict[str, Collection[Any]] = {
        "api_key": [SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY],
        **wanted,
    }
    masks = (
        pc.is_in(decoded.column(name), value_set=pa.array(list(values), decoded.schema.field(name).type))
        for name, values in conditions.items()
    )
    return decoded.filter(reduce(pc.and_, masks, applicable(decoded)))
