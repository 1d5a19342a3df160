# SPDX-License-Identifier: Apache-2.0
"""What those remember who wait for records of the metadata topic: how far they have read, and what came meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

MAX_NAMED: Final = 100
"""Most topic ids that an event names: it is stored for each run, and read by people."""

_FIELDS: Final = {"cluster_id", "metadata_topic_id", "offsets"}


@dataclass(frozen=True, slots=True)
class WatchPosition:
    """
    How far a watcher has read the metadata topic, and which topic that was.

    :param cluster_id: the verified cluster.
    :param metadata_topic_id: id of the topic that was read.
    :param offsets: metadata partition → first offset that was not read yet, inclusive; all that are followed.
    """

    cluster_id: str
    metadata_topic_id: UUID
    offsets: Mapping[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types; the keys of JSON are texts."""
        return {
            "cluster_id": self.cluster_id,
            "metadata_topic_id": kafka_uuid_str(self.metadata_topic_id),
            "offsets": {str(number): offset for number, offset in self.offsets.items()},
        }

    @classmethod
    def from_dict(cls, plain: object) -> WatchPosition:
        """
        Read what :meth:`to_dict` returned.

        :param plain: plain JSON types, kept by the caller.
        :raises ValueError: naming the field that is missing, unknown or of another kind.
        """
        if not isinstance(plain, Mapping) or plain.keys() != _FIELDS or not isinstance(plain["offsets"], Mapping):
            raise ValueError(f"a position has the fields {sorted(_FIELDS)}, not {strict_json.shown(plain)}")
        offsets = {
            _number(number): strict_json.integer(offset, f"the offset of metadata partition {number}")
            for number, offset in plain["offsets"].items()
        }
        topic_id = parse_kafka_uuid(strict_json.string(plain["metadata_topic_id"], "metadata_topic_id"))
        return cls(strict_json.string(plain["cluster_id"], "cluster_id"), topic_id, offsets)

    def why_not(self, cluster_id: str, metadata_topic_id: UUID, partition_count: int) -> str | None:
        """
        Return why a log cannot be read on from here, ``None`` where it can.

        :param cluster_id: the cluster of the log.
        :param metadata_topic_id: id of the log's topic.
        :param partition_count: number of its metadata partitions.
        """
        if self.cluster_id != cluster_id:
            return f"it is of cluster {self.cluster_id!r}, and the connection leads to {cluster_id!r}"
        if self.metadata_topic_id != metadata_topic_id:
            return f"it is of the metadata topic {self.metadata_topic_id}, and the topic is {metadata_topic_id} now"
        if not self.offsets or max(self.offsets) >= partition_count:
            return f"it follows metadata partitions {sorted(self.offsets)}, and there are {partition_count}"
        return None


def _number(text: object) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ValueError(f"{strict_json.shown(text)} is no metadata partition")
    return int(text)


@dataclass(slots=True)
class MarkerNews:
    """Markers that others wrote since the last time that they were told."""

    markers: int = 0  # DELETE_PARTITION_MARKED records
    topic_ids: dict[UUID, None] = field(default_factory=dict)  # whose they are, in the order of their first ones

    def note(self, events: Iterable[RemotePartitionDeleteMetadata]) -> None:
        """
        Take note of the markers among some events that are not this package's own.

        :param events: partition-delete events, in the order of the log.
        """
        for event in events:
            is_marker = event.state is RemotePartitionDeleteState.DELETE_PARTITION_MARKED
            if is_marker and event.broker_id != OWN_BROKER_ID:
                self.markers += 1
                self.topic_ids[event.topic_id_partition.topic_id] = None

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain JSON types, with the first :data:`MAX_NAMED` topic ids in Kafka's text form."""
        named = [kafka_uuid_str(topic_id) for topic_id in list(self.topic_ids)[:MAX_NAMED]]
        return {"markers": self.markers, "topics": len(self.topic_ids), "topic_ids": named}
