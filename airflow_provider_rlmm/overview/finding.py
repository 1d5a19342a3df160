# SPDX-License-Identifier: Apache-2.0
"""
What one thing is that a person looks for: a topic, a segment or an object, by what runs have written down.

It is the answer of ``rlmm why`` as far as the newest survey and the audit log tell it. Neither the metadata topic nor the
cluster nor storage is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.audit_files import Wanted, audit_rows
from airflow_provider_rlmm.features.survey import why as rules
from airflow_provider_rlmm.overview import inventories
from airflow_provider_rlmm.overview.inventories import PartitionRow, SegmentRow, TopicRow, id_of
from airflow_provider_rlmm.overview.trails import (
    Step,
    deletion_of_row,
    deletions_of,
    looked_from_ms,
    trail_of,
)

if TYPE_CHECKING:
    from airflow_provider_rlmm.overview.tables import Rows

MAX_NAMED: Final = 20
"""Topics that are named where a text is part of their names, at most."""

_GONE: Final = "GONE"
_LONGEST_KEY: Final = 1_024
_ID_CHARS: Final = 22
_UUID_CHARS: Final = 36
_IDS: Final = re.compile(rf"(?<![A-Za-z0-9])(?=([A-Za-z0-9_-]{{{_ID_CHARS}}})(?![A-Za-z0-9]))")
"""Every place in a key where an id may stand: ids hold dashes themselves, so no sign alone parts them from the rest."""


@dataclass(frozen=True, slots=True)
class Found:
    """
    What is known of what a person looks for.

    :param answer: what it is, ``None`` where nothing that was written down names it.
    :param topic_id: of the topic that it belongs to, in Kafka's text form; empty where that is not known.
    :param partition: its user partition, ``None`` where it is a topic, or that is not known.
    :param eligible_ms: when it may be deleted, ms since the epoch; ``None`` where it does not wait.
    :param state: of the topic or user partition; empty where that is not known.
    :param trail: what happened to it, where it is a segment.
    :param named: topics of whose names the text is a part, the largest first, :data:`MAX_NAMED` at most.
    :param named_total: how many there are.
    :param why_not: why there is no answer though it was named, or why it could not be looked for; empty where there is one.
    """

    answer: rules.Answer | None = None
    topic_id: str = ""
    partition: int | None = None
    eligible_ms: int | None = None
    state: str = ""
    trail: Sequence[Step] = ()
    named: Sequence[TopicRow] = ()
    named_total: int = 0
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where what runs have written of a cluster is looked for."""

    work_uri: str
    folder: str  # of the cluster
    cluster_id: str
    now_ms: int  # ms since the epoch

    @property
    def uri(self) -> str:
        """URI of the folder of the cluster."""
        return f"{self.work_uri}/{self.folder}"


def find(place: Place, text: str) -> Found:
    """
    Tell what a text names.

    :param place: where to look.
    :param text: a key or URI (it has a slash), the id of a segment, or the name or the id of a topic.
    :raises DocumentError: if the inventory cannot be read.
    """
    if "/" in text:
        return _of_key(place, text)
    if (asked := _id(text)) is not None:
        topic = _topic(place, asked)
        return _of_topic(topic) if topic is not None else _of_segment_id(place, asked)
    return _of_name(place, text)


def _id(text: str) -> bytes | None:
    if len(text) != _UUID_CHARS:
        return id_of(text)
    try:
        return UUID(text).bytes
    except ValueError:
        return None


def _of_name(place: Place, text: str) -> Found:
    found = inventories.topics(place.work_uri, place.folder, search=text, rows=MAX_NAMED)
    exact = [topic for topic in found.rows if text in topic.topic.split(", ")]
    return _of_topic(exact[0]) if len(exact) == 1 else Found(named=found.rows, named_total=found.total)


def _of_topic(topic: TopicRow) -> Found:
    what = f"the topic {in_quotes(topic.topic)}, id {topic.topic_id}: {number_of(topic.partitions, 'user partition')}"
    answer = rules.answer_of_partitions([_judged(topic)], what, CleanerLimits(), 0)
    return Found(answer, topic.topic_id, None, topic.eligible_ms, topic.state)


def _judged(row: TopicRow | PartitionRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("state", "why", "eligible_ms", "segments", "bytes")}


# --- segments -------------------------------------------------------------------------------------------------------------


def _of_key(place: Place, key: str) -> Found:
    """Tell of an object by the ids that its key holds: which layout its cluster has is not written down."""
    ids = [asked for asked in map(id_of, _spelled(key[-_LONGEST_KEY:])) if asked is not None]
    topic = next((found for asked in ids if (found := _topic(place, asked)) is not None), None)
    topic_id = None if topic is None else id_of(topic.topic_id)
    # The name of the object comes last, and in it the segment. A survey may be older than the run that has deleted it.
    deleted = _deleted(place, ids[-1], topic_id) if ids else None
    if deleted is not None:
        return deleted
    for asked in reversed(ids if topic_id is not None else []):
        segments = inventories.segments_with_id(place.work_uri, place.folder, asked, topic_id)
        if segments.total:
            return _of_segments(place, segments, f"the object {in_quotes(key)}: ")
    if topic is None:
        return Found()
    # What the topic is says nothing of an object that nothing names.
    return Found(topic_id=topic.topic_id, named=(topic,), named_total=1)


def _spelled(key: str) -> Iterator[str]:
    return (match[1] for match in _IDS.finditer(key))


def _topic(place: Place, asked: bytes) -> TopicRow | None:
    return inventories.topic(place.work_uri, place.folder, kafka_uuid_str(UUID(bytes=asked)))


def _of_segment_id(place: Place, asked: bytes) -> Found:
    if (deleted := _deleted(place, asked)) is not None:
        return deleted
    surveyed = inventories.surveyed_segments(place.work_uri, place.folder)
    if surveyed > inventories.MAX_SEARCHED_SEGMENTS:
        most = f"no page looks through more than {inventories.MAX_SEARCHED_SEGMENTS:,} for an id"
        return Found(
            why_not=f"the newest survey names {number_of(surveyed, 'segment')}, and {most}: ask by the key of an object"
        )
    segments = inventories.segments_with_id(place.work_uri, place.folder, asked)
    return _of_segments(place, segments, "") if segments.total else Found()


def _of_segments(place: Place, segments: Rows, of: str) -> Found:
    """Tell of a segment that the newest survey names; of several of one id the first, and how many there are."""
    segment: SegmentRow = segments.rows[0]
    partition = inventories.partition(place.work_uri, place.folder, segment.topic_id, segment.partition)
    several = (
        f"; {number_of(segments.total, 'user partition has', 'user partitions have')} a segment of this id"
        if segments.total > 1
        else ""
    )
    what = (
        f"{of}segment {segment.segment_id} of {in_quotes(segment.topic)}, id {segment.topic_id}, partition "
        f"{segment.partition}, offsets {segment.start_offset:,} to {segment.end_offset:,}{several}"
    )
    if partition is None:
        # The files of one survey contradict each other: what judges a segment is its user partition.
        return Found(
            why_not=f"the newest survey names the {what}, and not its user partition; the next run surveys anew"
        )
    of_partition = rules.answer_of_partitions([_judged(partition)], what, CleanerLimits(), 0)
    deletions = deletions_of(place.uri, place.cluster_id, segment.topic_id, segment.partition, place.now_ms)
    return Found(
        rules.answer_of_segment(of_partition, what, segment.bytes), segment.topic_id, segment.partition,
        partition.eligible_ms, partition.state, trail_of(segment, partition, deletions),
    )  # fmt: skip


def _deleted(place: Place, asked: bytes, topic_id: bytes | None = None) -> Found | None:
    """Tell of a segment that runs have deleted lately, ``None`` where the audit log has none."""
    wanted = Wanted(since_ms=looked_from_ms(place.now_ms), topic_id=topic_id, segment_id=asked)
    rows = audit_rows(place.uri, place.cluster_id, wanted, limit=MAX_NAMED)
    if not rows.rows.num_rows:
        return None
    told = rows.rows.to_pylist()
    newest, deletion = told[0], deletion_of_row(told[0])
    by_scrub = newest["metadata_partition"] is None
    if newest["outcome"] != _GONE or (newest["finished_offset"] is None and not by_scrub):
        # The segment is not finished, so the newest survey names it, and judges it.
        return None
    shown = kafka_uuid_str(UUID(bytes=newest["topic_id"]))
    what = f"segment {deletion.segment_id} of topic id {shown}, partition {newest['partition']}"
    steps = [one.step for one in map(deletion_of_row, reversed(told))]
    if by_scrub:
        # It writes no event: the log may call the segment finished, or never have named it.
        when = deletion.step.when
        why = f"a scrub has deleted objects of {what}, {when}; what the log says of the segment is not known here"
        return Found(topic_id=shown, partition=newest["partition"], trail=steps, why_not=why)
    return Found(rules.answer_of_finished(what, deletion.step.when, ""), shown, newest["partition"], trail=steps)
