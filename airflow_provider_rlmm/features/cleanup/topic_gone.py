# SPDX-License-Identifier: Apache-2.0
"""
Is every byte of a topic id gone? People delete credentials and buckets by the answer, so yes has to be proved.

The log is read from its beginning, not from a snapshot; then the cluster is asked and all places are listed; then the log is
read on. So what was begun while storage was listed is seen. A snapshot only tells when it is too early for that.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import TopicInDoubtError, TopicNeverNamedError
from airflow_provider_rlmm.core.base.quoting import list_in_quotes
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.remote_storage import FolderState, RemoteStorageManager, StoredObject
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay, MetadataPartitionView
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.topic_gone_rules import (
    MAX_NAMED,
    PartitionEnd,
    why_not_absent,
    why_not_empty,
    why_not_finished,
)

logger = logging.getLogger(__name__)

_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """
    The topic that is waited for.

    :param topic_id: its id: names return, ids do not.
    :param name: its name, to be sure of the id; ``None`` where it was not given.
    :param allowed_quarantine: names of error codes of records that raise no doubt.
    """

    topic_id: UUID
    name: str | None = None
    allowed_quarantine: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"topic id {kafka_uuid_str(self.topic_id)}"


@dataclass(frozen=True, slots=True)
class GoneLook:
    """
    What one look has shown.

    :param why_not: why the topic is not gone, in words; empty where it is.
    :param ends: what the log says of each of its user partitions.
    :param read_until: metadata partition → offset up to which the log was read, exclusive; those of the topic.
    """

    why_not: tuple[str, ...]
    ends: tuple[PartitionEnd, ...]
    read_until: Mapping[int, int]

    @property
    def unfinished(self) -> list[int]:
        """The user partitions of which the log does not call the deletion finished."""
        return sorted({end.tip.partition for end in self.ends if end.state is not _FINISHED})


def look_early(topic: TopicReplay, wanted: WantedTopic) -> GoneLook | None:
    """
    Tell whether it is too early for a proof, from what is known of the whole topic; ``None`` where it is not.

    :param topic: the metadata topic, advanced.
    :param wanted: the topic.
    :raises TopicInDoubtError: if the log cannot tell, now or later.
    """
    homes = range(topic.log.partition_count)
    views = [topic.view(number, {wanted.topic_id}) for number in homes]
    require_certain(views, wanted)
    ends = [_end_of(history) for view in views for history in view.histories.values()]
    # Only a replay knows the offsets that a proof asks for.
    open_ones = [end for end in ends if end.state is not _FINISHED or end.unfinished or end.uncertain]
    if not open_ones:
        return None
    return GoneLook(tuple(why_not_finished(open_ones)), tuple(ends), _homes(views))


def prove_gone(
    log: MetadataLogReader, topics: ClusterTopics, storage: RemoteStorageManager, wanted: WantedTopic
) -> GoneLook:
    """
    Look at log, cluster and storage, in an order that cannot lie.

    :param log: the log; it is read from its beginning.
    :param topics: the cluster.
    :param storage: remote storage, listed only; its root was proved before.
    :param wanted: the topic.
    :raises TopicNeverNamedError: if the log has never named the id, or only under another name.
    :raises TopicInDoubtError: if the log cannot tell, now or later.
    :raises EventLogError: if the log cannot be read whole.
    :raises StorageRootError: if the root is not the one that was proved, or is replaced meanwhile.
    """
    replays = [_LastWords(log, number, frozenset({wanted.topic_id})) for number in range(log.partition_count)]
    ends = _read_on(replays, wanted)
    if not ends:
        raise TopicNeverNamedError(
            f"{wanted}: the metadata topic has never named it, so nothing tells whether its segments are gone: look for a "
            "slip in the id; the page of the cluster and the command rlmm topics list those that it names"
        )
    names = frozenset(end.tip.topic for end in ends)
    if wanted.name is not None and wanted.name not in names:
        raise TopicNeverNamedError(
            f"{wanted} is not of topic {wanted.name!r}: the metadata topic names it {list_in_quotes(sorted(names))}; one of "
            "the two is not what you mean"
        )
    if whys := tuple(why_not_finished(ends)):
        return GoneLook(whys, ends, _homes(replays))
    seen = look(topics, log, {wanted.topic_id: names}).observations[wanted.topic_id]
    absent = why_not_absent(seen.presence, seen.reason)
    listed = _why_not_empty(storage, wanted.topic_id, {end.tip for end in ends})
    whys = (*absent, *listed)
    ends = _read_on(replays, wanted)
    return GoneLook((*whys, *why_not_finished(ends)), ends, _homes(replays))


def require_certain(views: Sequence[MetadataPartitionView], wanted: WantedTopic) -> None:
    """
    Refuse a log that may not say all that there was to say about a topic: its user partitions may lie anywhere.

    :param views: of all metadata partitions.
    :param wanted: the topic.
    :raises TopicInDoubtError: naming the metadata partition and the offset.
    """
    for view in views:
        if view.lost is not None:
            raise TopicInDoubtError(
                f"{wanted}: {view.lost.why}, and nothing proves that no segment is left: compare log and storage by a scrub. "
                f"What to do: {view.lost.what_to_do}"
            )
        if view.begin > 0:
            raise TopicInDoubtError(
                f"{wanted}: metadata partition {view.metadata_partition} begins at offset {view.begin}, so what the log said "
                "before that is lost, and nothing proves that no segment is left: compare log and storage by a scrub"
            )
        for record in view.quarantined:
            about = record.topic_id_partition
            if record.code not in wanted.allowed_quarantine and (about is None or about.topic_id == wanted.topic_id):
                raise TopicInDoubtError(
                    f"{wanted}: {record} cannot be applied and may be about it: look at the record, then allow its kind by "
                    "allowed_quarantine if it is not"
                )


class _LastWords(MetadataPartitionReplay):
    """A replay that remembers what was said last of each user partition."""

    def __init__(self, log: MetadataLogReader, metadata_partition: int, topic_ids: frozenset[UUID]) -> None:
        super().__init__(log, metadata_partition, topic_ids)
        self._finished: dict[TopicIdPartition, tuple[int, int]] = {}
        self._segment_events: dict[TopicIdPartition, int] = {}

    def apply(self, event: RemoteLogMetadata, offset: int, timestamp_ms: int) -> None:
        super().apply(event, offset, timestamp_ms)
        if isinstance(event, RemotePartitionDeleteMetadata):
            if event.state is _FINISHED:
                written_ms = max(timestamp_ms, event.event_timestamp_ms)
                self._finished[event.topic_id_partition] = offset, written_ms
        elif not isinstance(event, RemoteLogSegmentMetadataSnapshot):
            self._segment_events[topic_id_partition_of(event)] = offset

    def ends(self) -> Iterator[PartitionEnd]:
        for tip, history in self.histories.items():
            offset, time_ms = self._finished.get(tip, (None, None))
            yield _end_of(
                history,
                finished_offset=offset,
                finished_ms=time_ms,
                last_segment_offset=self._segment_events.get(tip),
            )


def _read_on(replays: Sequence[_LastWords], wanted: WantedTopic) -> tuple[PartitionEnd, ...]:
    for replay in replays:
        replay.advance()
    require_certain(replays, wanted)
    return tuple(end for replay in replays for end in replay.ends())


def _end_of(history: UserPartitionHistory, **last_words: Any) -> PartitionEnd:
    unfinished, uncertain = len(history.unfinished()), len(history.without_add)
    return PartitionEnd(history.topic_id_partition, history.delete_state, unfinished, uncertain, **last_words)


def _homes(views: Sequence[MetadataPartitionView]) -> dict[int, int]:
    """Return up to where the metadata partitions of the topic were read."""
    return {view.metadata_partition: view.end for view in views if view.histories}


def _why_not_empty(storage: RemoteStorageManager, topic_id: UUID, known: Collection[TopicIdPartition]) -> Iterator[str]:
    """List all places for objects of a topic id, under any name and of any suffix."""
    keys: list[str] = []
    broken: list[str] = []
    objects = 0
    for found in storage.walk(frozenset(known), {topic_id}):
        if isinstance(found, StoredObject):
            if _is_of(storage, found.key, topic_id):
                objects += 1
                keys += [found.key] if objects <= MAX_NAMED else []
        elif found.state is FolderState.BROKEN:
            broken.append(f"{found.prefix or 'its root'} ({found.why})")
    logger.info("topic id %s: %d objects in storage", kafka_uuid_str(topic_id), objects)
    yield from why_not_empty(keys, objects, broken)


def _is_of(storage: RemoteStorageManager, key: str, topic_id: UUID) -> bool:
    """Tell whether an object may be of a topic id: by any reading of its key, or as the key names the id at all."""
    readings = (storage.layout.parts(key, place) for place in storage.layout.places)
    if any(found is not None and found[0].topic_id_partition.topic_id == topic_id for found in readings):
        return True
    return kafka_uuid_str(topic_id) in key or str(topic_id) in key
