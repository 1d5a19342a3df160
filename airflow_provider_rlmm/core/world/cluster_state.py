# SPDX-License-Identifier: Apache-2.0
"""
What was observed of the live cluster before a plan is made: every topic there is, with its limits.

An Airflow task takes the listing and hands it to the Spark job as a JSON file. What is missing from it is only in doubt: a
listing leaves out what its principal may not describe, so the job asks for the names of those topics after its read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.documents import AbsentAs, LongText, Text, reader_of
from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, ConfigurationError
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint


@dataclass(frozen=True, slots=True)
class ToldLeader:
    """
    What the leader of a user partition has told, and the lineage that it has confirmed to an earlier run.

    :param leader_epoch: in which it leads; after another one nothing is known of the lineage.
    :param log_start_offset: of the user partition, inclusive.
    :param log_end_offset: its high watermark, exclusive.
    :param lineage: (leader epoch, its first offset), ascending, cut at the log start offset; never empty.
    :param known_up_to: last leader epoch and last offset, inclusive, of the segment that keeps the lineage; ``None`` where
        the lineage knows the epoch in which the leader leads, so that it is whole.
    :raises ValueError: if the lineage is none.
    """

    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    lineage: tuple[tuple[int, int], ...]
    known_up_to: tuple[int, int] | None

    def __post_init__(self) -> None:
        if not LeaderEpochCheckpoint(self.lineage).entries:
            raise ValueError("a leader has told something, and its lineage has no leader epoch")


@dataclass(frozen=True, slots=True)
class ListedTopic:
    """
    One live topic.

    :param topic_id: its id.
    :param name: its name.
    :param retention_ms: ``retention.ms``; negative means unlimited.
    :param retention_bytes: ``retention.bytes`` per partition; negative means unlimited.
    :param log_start_offsets: partition → log start offset. A partition that is missing here (no leader, for instance)
        is still live; only the log start offset rule does not apply to it.
    :param tiered: whether it has remote storage; ``None`` where that was not asked.
    :param leaders: partition → what its leader has told.
    :param untold: partition → why nothing is told of its leader.
    """

    topic_id: Annotated[UUID, _topic_id]
    name: Text
    retention_ms: Annotated[int, strict.signed]
    retention_bytes: Annotated[int, strict.signed]
    log_start_offsets: Mapping[int, Annotated[int, strict.signed]]
    tiered: Annotated[bool | None, AbsentAs(None)] = None
    leaders: Annotated[Mapping[int, ToldLeader], AbsentAs({})] = field(default_factory=dict)
    untold: Annotated[Mapping[int, LongText], AbsentAs({})] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """
    A listing of a cluster's topics: of all that its principal may describe.

    :param cluster_id: the cluster's id.
    :param observed_at_ms: when the listing was asked for, ms since the epoch. Nothing that happened later can be judged
        with it: a topic may be newer than the listing.
    :param topics: every topic that may be described, internal ones included.
    :param explained_gaps: offsets of the metadata topic that hold no record and of which a person has said why.
    :param passed_ms: a time that has passed for certain, by the brokers' clocks, ms since the epoch; ``None`` where no broker
        has said any.
    :raises ConfigurationError: if it has no cluster id or names a topic id twice.
    """

    cluster_id: Text
    observed_at_ms: Annotated[int, strict.signed]
    topics: tuple[ListedTopic, ...]
    explained_gaps: Annotated[tuple[HistoryGap, ...], AbsentAs([])] = ()
    passed_ms: Annotated[int | None, AbsentAs(None)] = None

    def __post_init__(self) -> None:
        if not self.cluster_id:
            raise ConfigurationError("cluster state names no cluster id; list the cluster again")
        seen: set[UUID] = set()
        for topic in self.topics:
            if topic.topic_id in seen:
                raise ConfigurationError(
                    f"cluster state names topic id {kafka_uuid_str(topic.topic_id)} twice (topic {topic.name!r}); "
                    "list the cluster again"
                )
            seen.add(topic.topic_id)

    def require_topic(self, name: str, topic_id: UUID) -> None:
        """
        Refuse a listing that misses a topic which certainly exists, or gives it another id: it is not of that cluster.

        :param name: a topic that is read, the metadata topic.
        :param topic_id: its id.
        :raises ConfigurationError: if the listing does not have it.
        :raises ClusterMismatchError: if it has it under another id.
        """
        listed = {topic.name: topic.topic_id for topic in self.topics}.get(name)
        if listed is None:
            raise ConfigurationError(
                f"cluster state lists {number_of(len(self.topics), 'topic')} but not {name!r}, which exists, so it "
                "is not complete; "
                "list the cluster with a principal that may describe every topic, internal topics included"
            )
        if listed != topic_id:
            raise ClusterMismatchError(
                f"cluster state lists {name!r} with id {kafka_uuid_str(listed)}, and the topic that is read has "
                f"{kafka_uuid_str(topic_id)}: these are two clusters, or the topic was replaced; list the cluster again"
            )

    def to_json(self) -> str:
        """Return the document that :meth:`from_json` reads; topic ids in Kafka's text form."""
        document = asdict(self)
        document["topics"] = [asdict(t) | {"topic_id": kafka_uuid_str(t.topic_id)} for t in self.topics]
        return json.dumps(document, indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ClusterState:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises ConfigurationError: if a field is missing or of the wrong kind, or the listing contradicts itself.
        """
        try:
            return _READ(strict.parse_object(text), "cluster state")
        except ConfigurationError:
            raise  # it contradicts itself, and says in what
        except ValueError as e:
            raise ConfigurationError(f"cluster state cannot be read ({e}); list the cluster again") from e


def _topic_id(value: object, what: str) -> UUID:
    return parse_kafka_uuid(strict.string(value, what))


_READ = reader_of(ClusterState)
