# SPDX-License-Identifier: Apache-2.0
"""
Whether the storage root is up to date: the newest copies of living topics must be there.

A copy of the root, or an old root, holds objects of this cluster and perhaps its stamp, but nothing that was copied since.
The order is read, list, read again: what is missing counts only if the log, read after the listing, still says that it is
there.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
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
    topic: TopicReplay,
    living: Collection[UUID],
    storage: RemoteStorageManager,
    *,
    most_samples: int = MOST_SAMPLES,
) -> Freshness:
    """
    Read the topic, and look for the newest copied segment of each living topic in storage.

    Of the living topics those are taken that were copied last, for every place the same number.

    :param topic: the metadata topic; it is advanced.
    :param living: ids of the topics that exist, of a complete and proven look at the cluster, taken before this.
    :param storage: remote storage, listed only.
    :param most_samples: segments to look for at most.
    :raises EventLogError: if the topic cannot be read.
    :raises StorageError: if storage cannot be listed.
    """
    for _ in range(_ROUNDS):
        topic.advance()
        samples = _newest_copied(topic, living, storage.layout, most_samples)
        found = check_samples(topic, samples, storage)
        if found.samples or not samples:
            break
        # All of them were deleted by their brokers in between: there are newer ones now.
    return found


def check_samples(topic: TopicReplay, samples: Sequence[Sample], storage: RemoteStorageManager) -> Freshness:
    """
    Look for given segments in storage: those that a plan has recorded, right before its first deletion.

    Only if one is missing, its metadata partition is read on.

    :param topic: the metadata topic; it is advanced where that is needed.
    :param samples: of a :func:`look_for_freshness`.
    :param storage: remote storage, listed only.
    :return: what became of them. Those that were deleted since are left out; if none is left, look anew.
    :raises EventLogError: if the topic cannot be read.
    :raises StorageError: if storage cannot be listed.
    """
    absent = storage.missing_keys({key for sample in samples for key in sample.keys})
    doubtful = [sample for sample in samples if not absent.isdisjoint(sample.keys)]
    copied = _still_copied(topic, doubtful)
    missing = tuple(sample for sample in doubtful if sample.segment_id in copied)
    left_out = {sample.segment_id for sample in doubtful} - copied
    freshness = Freshness(tuple(s for s in samples if s.segment_id not in left_out), missing)
    for sentence in freshness.sentences:
        logger.info("storage root: %s", sentence)
    return freshness


def _newest_copied(topic: TopicReplay, living: Collection[UUID], layout: Layout, most: int) -> tuple[Sample, ...]:
    newest: dict[tuple[str, UUID], Sample] = {}
    copied = _copied(topic.segments, "topic_id", [topic_id.bytes for topic_id in living])
    for sample in _samples_of(copied, layout, most):
        newest.setdefault((sample.place, sample.topic_id_partition.topic_id), sample)
    by_place = defaultdict(list)
    for sample in sorted(newest.values(), key=_newest_first):
        by_place[sample.place].append(sample)
    share = max(1, most // max(1, len(by_place)))
    return tuple(sample for place in sorted(by_place) for sample in by_place[place][:share])


def _newest_first(sample: Sample) -> tuple[int, str]:
    return -sample.copied_at_ms, str(sample.segment_id)


def _samples_of(copied: pa.Table, layout: Layout, most: int) -> Iterator[Sample]:
    """Yield the newest copied segment of each topic and place, of the topics that were copied last."""
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


def _still_copied(topic: TopicReplay, samples: Sequence[Sample]) -> set[UUID]:
    """Return those of some segments that the log, as of now, calls COPY_SEGMENT_FINISHED."""
    if not samples:
        return set()
    topic.advance({sample.metadata_partition for sample in samples})
    copied = _copied(topic.segments, "segment_id", [sample.segment_id.bytes for sample in samples])
    return {UUID(bytes=raw) for raw in copied.column("segment_id").to_pylist()}


def _copied(segments: pa.Table, column: str, ids: Collection[bytes]) -> pa.Table:
    """Return the copied segments that have one of some ids in a column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pc.is_in(segments.column(column), value_set=pa.array(list(ids), segments.schema.field(column).type))
    return segments.filter(pc.and_(wanted, pc.equal(segments.column("state"), int(_COPIED))))
