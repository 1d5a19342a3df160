# SPDX-License-Identifier: Apache-2.0
"""What is known of each segment: by the newest survey, and by the audit log of deletions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import DAY_MS, since
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, OWN_BROKER_ID, kafka_uuid_str
from airflow_provider_rlmm.core.world.audit_files import Wanted, audit_rows
from airflow_provider_rlmm.overview.inventories import id_of

if TYPE_CHECKING:
    from airflow_provider_rlmm.overview.inventories import PartitionRow, SegmentRow

MAX_DELETIONS: Final = 200
"""Deletions that a page shows, at most, the newest first."""

DELETIONS_OF_DAYS: Final = 14
"""How far back a page looks into the audit log, days: each day and each run that deleted has files of its own."""

_STATES: Final = {
    "COPY_SEGMENT_STARTED": "the copy had begun",
    "COPY_SEGMENT_FINISHED": "it was copied",
    "DELETE_SEGMENT_STARTED": "its deletion had begun",
    "DELETE_SEGMENT_FINISHED": "it was deleted",
}
_OUTCOMES: Final = {
    "GONE": "all its objects are gone",
    "PRESENT": "objects are left",
    "UNKNOWN": "storage did not say whether its objects are gone",
    "NEVER_SEEN": "no object of it was ever seen",
    None: "nothing was written down afterwards: the run ended in between",
}
_WRITERS: Final = {OWN_BROKER_ID: "this package", COPIER_BROKER_ID: "this package's copier"}
"""Broker id of events that this package wrote."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a segment: when, in words, and further words."""

    when: str
    what: str
    more: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion, as the audit log has it."""

    segment_id: str
    artifact: str
    start_offset: int | None
    end_offset: int | None
    step: Step


@dataclass(frozen=True, slots=True)
class Deletions:
    """
    What runs of this package have deleted of a user partition.

    :param rows: the newest first.
    :param more: whether there are others.
    :param unreadable: how many files of the audit log say nothing.
    """

    rows: Sequence[Deletion]
    more: bool
    unreadable: int


def deletions_of(cluster_uri: str, cluster_id: str, topic_id: str, partition: int, now_ms: int) -> Deletions:
    """
    Return what runs have deleted of a user partition within :data:`DELETIONS_OF_DAYS`, by the audit log.

    :param cluster_uri: folder of the cluster.
    :param cluster_id: the cluster.
    :param topic_id: in Kafka's text form.
    :param partition: its number.
    :param now_ms: ms since the epoch.
    """
    topic = id_of(topic_id)
    if topic is None:
        return Deletions((), False, 0)
    wanted = Wanted(since_ms=looked_from_ms(now_ms), topic_id=topic, partition=partition)
    found = audit_rows(cluster_uri, cluster_id, wanted, limit=MAX_DELETIONS)
    return Deletions(tuple(map(deletion_of_row, found.rows.to_pylist())), found.more, len(found.unreadable))


def looked_from_ms(now_ms: int) -> int:
    """
    Return from when on a page looks into the audit log, ms since the epoch.

    :param now_ms: ms since the epoch.
    """
    return now_ms - DELETIONS_OF_DAYS * DAY_MS


def trail_of(segment: SegmentRow, partition: PartitionRow | None, deletions: Deletions) -> list[Step]:
    """
    Return what is known of a segment, in order.

    :param segment: as it was surveyed.
    :param partition: its user partition.
    :param deletions: of the user partition.
    """
    number = partition.metadata_partition if partition else None
    steps = [Step("", "its first record", _where(segment.added_offset, number))]
    time = since(segment.event_timestamp_ms)
    steps.append(record_in_words(time, segment.state, segment.broker_id, segment.event_offset, number))
    steps += [d.step for d in reversed(deletions.rows) if d.segment_id == segment.segment_id]
    return steps


def record_in_words(time: str, state: str, broker_id: int, offset: int, metadata_partition: int | None) -> Step:
    """
    Say what a record of a segment says.

    :param time: of its event, for people.
    :param state: name of the state of the segment by it.
    :param broker_id: of its writer.
    :param offset: where it lies.
    :param metadata_partition: in which one, ``None`` where that is not known.
    """
    by = _WRITERS.get(broker_id, f"broker {broker_id}")
    return Step(time, f"{_STATES.get(state, state)}, says {by}", _where(offset, metadata_partition))


def _where(offset: int, metadata_partition: int | None) -> str:
    of = "" if metadata_partition is None else f" of metadata partition {metadata_partition}"
    return f"offset {offset:,}{of}"


def deletion_of_row(row: dict[str, Any]) -> Deletion:
    """
    Return a deletion as a page shows it.

    :param row: of the audit log.
    """
    told = [f"run {row['artifact']}", f"started by {row['triggered_by']}"]
    if row["approved_by"] is not None:
        told.append(f"approved by {row['approved_by']}")
    if row["objects"] is not None:
        told.append(f"{number_of(row['objects'], 'object')}, {human_bytes(row['bytes'] or 0)}")
    if row["why"]:
        told.append(row["why"])
    outcome = _OUTCOMES.get(row["outcome"], str(row["outcome"]))
    return Deletion(
        kafka_uuid_str(UUID(bytes=row["segment_id"])), row["artifact"], row["start_offset"], row["end_offset"],
        Step(since(row["time_ms"]), f"a run deleted it: {outcome}", ", ".join(told)),
    )  # fmt: skip
