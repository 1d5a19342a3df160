# SPDX-License-Identifier: Apache-2.0
"""What the doctor asks the cluster first, and notes while it reads: partition-delete events, and what cannot be read."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import difference_text, time_text
from airflow_provider_rlmm.core.base.errors import EventLogAccessError
from airflow_provider_rlmm.core.log.copy_lag import AS_REMOTE, LOCAL_RETENTION_MS, hangs_after_ms
from airflow_provider_rlmm.core.log.protocol import ClusterTopics
from airflow_provider_rlmm.core.records.deletion import PartitionDeletion
from airflow_provider_rlmm.core.records.outcomes import DECODED_CODES
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.features.doctor.finding_rows import USER_PARTITION, among, concerned_in_text
from airflow_provider_rlmm.features.doctor.findings import FindingKind, Severity

logger = logging.getLogger(__name__)

NAMED_TOPICS = 5
"""Topics that a text names; all are counted."""

_COLUMNS = [
    "metadata_partition", "offset", "timestamp_ms", "topic_id", "topic", "partition", "event_timestamp_ms", "state",
    "broker_id", "state_before",
]  # fmt: skip
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

Found = tuple[FindingKind, Mapping[str, Any], str] | tuple[FindingKind, Mapping[str, Any], str, Severity]
"""Kind, row of an event, what this one is, in words, and how bad, where its kind does not say it."""


class TieredClusterTopics(ClusterTopics, Protocol):
    """A cluster that also tells what the doctor asks of its topics and brokers."""

    def partition_counts(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return topic → number of partitions."""
        ...

    def broker_setting_names(self) -> Mapping[int, Collection[str] | None]:
        """Return broker → names of the settings that it lists, ``None`` where it refuses or does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class ServedPartitions:
    """
    The user partitions of living tiered topics: a broker reads the metadata partitions that its own ones map to.

    :param by_metadata_partition: metadata partition → topic → its partitions that map there.
    :param copying: ids of the topics whose segments are to be copied → from when on a copy hangs, ms
        (``hangs_after_ms`` of ``core.log.copy_lag``); ``None`` where it is not known how long local segments are kept.
    :param tiered: tiered topic → its settings.
    :param unknown: why it is not known which topics are tiered; empty where it is.
    """

    by_metadata_partition: Mapping[int, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    copying: Mapping[UUID, int | None] = field(default_factory=dict)
    tiered: Mapping[str, Mapping[str, int | bool | str]] = field(default_factory=dict)
    unknown: str = ""

    def readers_of(self, metadata_partition: int) -> str:
        """Say which living user partitions make their brokers read a metadata partition."""
        if self.unknown:
            return f"which living topics map here is not known: {self.unknown}"
        topics = self.by_metadata_partition.get(metadata_partition, {})
        if not topics:
            return "no living tiered topic maps here today"
        names = [f"{topic} ({', '.join(map(str, numbers))})" for topic, numbers in sorted(topics.items())]
        more = f" and {number_of(len(names) - NAMED_TOPICS, 'more topic')}" if len(names) > NAMED_TOPICS else ""
        count = sum(map(len, topics.values()))
        return (
            f"{number_of(count, 'living user partition maps', 'living user partitions map')} here: "
            f"{', '.join(names[:NAMED_TOPICS])}{more}"
        )


def served_partitions(
    topics: TieredClusterTopics, living: Mapping[str, UUID], partition_count: int
) -> ServedPartitions:
    """
    Ask a cluster which of its topics are tiered, and where their metadata lies.

    :param topics: the cluster.
    :param living: its topics, name → topic id.
    :param partition_count: number of metadata partitions.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    try:
        settings = topics.topic_settings(living)
    except EventLogAccessError as e:
        logger.warning("which topics are tiered is not known: %s", e)
        return ServedPartitions(copying=dict.fromkeys(living.values()), unknown=str(e))
    tiered = [name for name in living if settings.get(name, {}).get("remote.storage.enable")]
    found: dict[int, dict[str, list[int]]] = {}
    for name, count in topics.partition_counts(tiered).items():
        for number in range(count):
            metadata_partition = metadata_partition_for(TopicIdPartition(living[name], name, number), partition_count)
            found.setdefault(metadata_partition, {}).setdefault(name, []).append(number)
    copying = {
        living[name]: _hangs_after_ms(settings[name])
        for name in tiered
        if not settings[name].get("remote.log.copy.disable")
    }
    return ServedPartitions(found, copying, {name: settings[name] for name in tiered})


def _hangs_after_ms(settings: Mapping[str, int | bool | str]) -> int | None:
    retention_ms = settings.get("retention.ms")
    local_ms = int(settings.get(LOCAL_RETENTION_MS, AS_REMOTE))
    return hangs_after_ms(local_ms, None if retention_ms is None else int(retention_ms))


class DeletionWatch:
    """
    Looks at each partition-delete event, whose order no broker checks, and remembers those from the future.

    :param living: ids of the topics that exist.
    :param beginnings: metadata partition → first offset that is there.
    :param latest_ms: the latest time that is no time of the future, ms since the epoch.
    :param compacted: whether the log cleaner may have taken records from anywhere.
    """

    def __init__(
        self, living: frozenset[UUID], beginnings: Mapping[int, int], latest_ms: int, *, compacted: bool
    ) -> None:
        self._living = living
        self._compacted = compacted
        self._beginnings = beginnings
        self._latest_ms = latest_ms
        self._of_the_future: dict[tuple[TopicIdPartition, int], Mapping[str, Any]] = {}

    def note(self, deletions: Any) -> Iterator[Found]:
        """
        Take events, and yield what is wrong with each.

        :param deletions: as an ``ApplyReport`` has them.
        """
        for row in deletions.select(_COLUMNS).to_pylist():
            tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
            state = RemotePartitionDeleteState(row["state"])
            yield from self._illegal(state, row)
            if state is _FINISHED and tip.topic_id in self._living:
                yield FindingKind.LIVE_PARTITION_FINISHED, row, "its topic exists"
            if max(row["event_timestamp_ms"], row["timestamp_ms"]) > self._latest_ms:
                self._of_the_future[tip, row["offset"]] = row

    def _illegal(self, state: RemotePartitionDeleteState, row: Mapping[str, Any]) -> Iterator[Found]:
        before = row["state_before"]
        # The events before it may be among those that are gone.
        if before is None and self._beginnings[row["metadata_partition"]] > 0:
            return
        source = None if before is None else RemotePartitionDeleteState(before)
        reopened = None if source is _FINISHED else source
        valid = RemotePartitionDeleteState.is_valid_transition
        if not (valid(source, state) or valid(reopened, state)):
            came = source.name if source is not None else "nothing"
            if self._compacted:
                # A deletion can begin again, so there are steps that lead from any state to any other.
                yield FindingKind.COMPACTED_STEP, row, f"{came} → {state.name}"
                return
            # Two cleaners at once leave this behind the end; nothing reads it.
            ours = source is _FINISHED and row["broker_id"] == OWN_BROKER_ID
            severity = Severity.NOTICE if ours else Severity.WARNING
            yield FindingKind.ILLEGAL_TRANSITION, row, f"{came} → {state.name}", severity

    def of_the_future(self, under_way: Mapping[TopicIdPartition, PartitionDeletion], now_ms: int) -> Iterator[Found]:
        """
        Yield the observations of absence that were made at a time that has not come yet, and by no run since.

        :param under_way: the deletions that began and are not finished.
        :param now_ms: ms since the epoch.
        """
        for tip, deletion in under_way.items():
            if any(o.time_ms <= self._latest_ms for o in deletion.observations):
                continue
            rows = (self._of_the_future.get((tip, o.offset)) for o in deletion.observations)
            row = next((row for row in rows if row is not None), None)
            if row is not None:
                event_ms, record_ms = row["event_timestamp_ms"], row["timestamp_ms"]
                state, ahead_ms = RemotePartitionDeleteState(row["state"]).name, max(event_ms, record_ms) - now_ms
                times = f"event time {time_text(event_ms)}, record time {time_text(record_ms)}, now {time_text(now_ms)}"
                yield FindingKind.MARKER_FROM_THE_FUTURE, row, f"{state} is {difference_text(ahead_ms)}: {times}"


class ProofWatch:
    """
    Counts what cannot be read, and knows where records are gone: user partitions there are under proof.

    :param beginnings: metadata partition → first offset that is there.
    """

    def __init__(self, beginnings: Mapping[int, int]) -> None:
        self._beginnings = {p: offset for p, offset in beginnings.items() if offset > 0}
        self._first_unreadable: dict[int, tuple[int, int]] = {}
        self._unreadable: Counter[int] = Counter()
        self._first_times_ms: dict[int, int] = {}

    def note(self, decoded: Any, quarantined: Any) -> None:
        """
        Take a chunk.

        :param decoded: what ``decode`` returned.
        :param quarantined: rows of it that are not good.
        """
        import pyarrow.compute as pc

        bad = quarantined.filter(pc.invert(among(quarantined, "error_code", DECODED_CODES)))
        places = (bad.column(name).to_pylist() for name in ("metadata_partition", "offset", "timestamp_ms"))
        for metadata_partition, offset, timestamp_ms in zip(*places, strict=True):
            self._first_unreadable.setdefault(metadata_partition, (offset, timestamp_ms))
            self._unreadable[metadata_partition] += 1
        for metadata_partition in self._beginnings.keys() - self._first_times_ms.keys():
            here = pc.index(decoded.column("metadata_partition"), metadata_partition).as_py()
            if here >= 0:
                self._first_times_ms[metadata_partition] = decoded.column("timestamp_ms")[here].as_py()

    def found(self, segments: Any, unresolved: Any, readers: Mapping[int, str]) -> Iterator[Found]:
        """
        Yield the metadata partitions that are under proof: critical where user partitions are known to lack something.

        The row has the first record that cannot be read; where all can, the first offset that is still there, without a time
        where no record is left.

        :param segments: the state's after all that was noted.
        :param unresolved: the state's, too.
        :param readers: metadata partition → which living user partitions map to it, in words.
        """
        import pyarrow.compute as pc

        # Where the log still has its beginning, nothing was lost of it.
        lost = pc.and_(unresolved.column("without_add"), among(unresolved, "metadata_partition", self._beginnings))
        unresolved = unresolved.filter(lost)
        for number in sorted(self._beginnings.keys() | self._unreadable.keys()):
            mine = segments.filter(pc.equal(segments.column("metadata_partition"), number))
            lacking = unresolved.filter(pc.equal(unresolved.column("metadata_partition"), number))
            offset, timestamp_ms = self._beginnings.get(number), self._first_times_ms.get(number)
            reasons = []
            if number in self._unreadable:
                offset, timestamp_ms = self._first_unreadable[number]
                reasons.append(
                    f"{number_of(self._unreadable[number], 'record')} cannot be read, the first at offset {offset}"
                )
            if number in self._beginnings:
                reasons.append(f"it begins at offset {self._beginnings[number]}")
            reasons.append(concerned_in_text(mine))
            if lacking.num_rows:
                partitions = lacking.group_by(USER_PARTITION).aggregate([]).num_rows
                lack = agreeing(lacking.num_rows, "lacks its", "lack their")
                of = number_of(partitions, "user partition")
                reasons.append(f"{number_of(lacking.num_rows, 'segment')} of {of} {lack} first event")
            reasons.append(readers[number])
            row = {"metadata_partition": number, "offset": offset, "timestamp_ms": timestamp_ms}
            severity = Severity.CRITICAL if lacking.num_rows else Severity.WARNING
            yield FindingKind.UNDER_PROOF, row, "; ".join(reasons), severity
