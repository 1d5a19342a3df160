# SPDX-License-Identifier: Apache-2.0
"""Answers of :mod:`~airflow_provider_rlmm.features.survey.why`, from the whole metadata topic and one look at the cluster."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.event_decoding import counted
from airflow_provider_rlmm.core.plans.guards import CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.outcomes import APPLIED_CODES, ErrorCode
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.world.only import Only
from airflow_provider_rlmm.features.survey import why as rules

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.storage.layout import Layout
    from airflow_provider_rlmm.core.world.replay import MetadataPartitionView
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


@dataclass(frozen=True, slots=True)
class Record:
    """
    A record of a segment.

    :param time: of its event, for people.
    :param state: that it says.
    :param broker_id: of its writer.
    :param metadata_partition: where it lies.
    :param offset: there.
    """

    time: str
    state: str
    broker_id: int
    metadata_partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Told:
    """
    What is told about one thing.

    :param answer: the answer.
    :param records: of the segment, in the order of the log; none where a topic was asked for.
    :param of: the user partition of the segment, ``None`` likewise, and where no record names the segment.
    :param segment_id: of the segment, in Kafka's form; empty where a topic was asked for.
    """

    answer: rules.Answer
    records: tuple[Record, ...] = ()
    of: TopicIdPartition | None = None
    segment_id: str = ""


def tell(session: CleanerSession, limits: CleanerLimits, text: str) -> Told:
    """
    Answer what an object, a segment or a topic is. Storage is not asked.

    :param session: of the command.
    :param limits: by which it is judged what may be cleaned now.
    :param text: a key or URI (it has a slash), the id of a segment, or the name or the id of a topic.
    :raises ConfigurationError: if it names nothing, or several topics, or a key where no storage is set.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    with session.topic() as topic:
        topic.advance()
        asked = _asked(session, topic, text)
        if isinstance(asked, rules.Answer):
            return Told(asked)
        if isinstance(asked, rules.AskedTopic):
            return Told(_of_topic(session, topic, limits, asked.topic_id))
        return _of_segment(session, topic, limits, asked)


def _asked(
    session: CleanerSession, topic: TopicReplay, text: str
) -> rules.AskedTopic | rules.AskedSegment | rules.Answer:
    """Return what a text asks about, or the answer where it is a key of which nothing is known."""
    if "/" not in text:
        return rules.asked_of_name(text, topic.names())
    root, layout = _storage_of(session, text)
    return rules.asked_of_key(text, root, layout) or rules.answer_of_foreign(text, layout)


def _storage_of(session: CleanerSession, key: str) -> tuple[str, Layout]:
    """Return the storage root and its layout, for a caller that names a key."""
    from airflow_provider_rlmm.core.storage.layouts import layout_named

    settings = session.access.get_connection_settings()
    if settings.storage_uri is None:
        raise ConfigurationError(
            f"{in_quotes(key)} looks like a key: set storage_uri and layout in the rlmm connection"
        )
    return settings.storage_uri, layout_named(settings.layout, settings.layout_options)


def _of_topic(
    session: CleanerSession, topic: TopicReplay, limits: CleanerLimits, topic_id: UUID, partition: int | None = None
) -> rules.Answer:
    """Answer for the user partitions of a topic id, or for one of them."""
    from airflow_provider_rlmm.features.survey.survey import survey

    shown, now_ms = kafka_uuid_str(topic_id), session.clock()
    names = ", ".join(sorted(topic.names().get(topic_id, ())))
    rows = survey(topic, limits, session.hold(), now_ms, Only((shown,))).partitions.to_pylist()
    if partition is not None:
        rows = [row for row in rows if row["partition"] == partition]
    what = f"the topic {in_quotes(names)}, id {shown}"
    if not rows:
        tip = None if partition is None else TopicIdPartition(topic_id, names, partition)
        return rules.answer_of_nothing(what, _doubt(topic, topic_id, tip))
    return rules.answer_of_partitions(rows, f"{what}: {number_of(len(rows), 'user partition')}", limits, now_ms)


def _of_segment(session: CleanerSession, topic: TopicReplay, limits: CleanerLimits, asked: rules.AskedSegment) -> Told:
    """Answer for a segment, by its records."""
    segment_id = kafka_uuid_str(asked.segment_id)
    rows = [row for number in _where(topic, asked) for row in _records(topic.log, number, asked)]
    file = f"the object {in_quotes(asked.file)} of " if asked.file else ""
    if not rows:
        of = f" of {in_quotes(asked.tip.topic)}, partition {asked.tip.partition}" if asked.tip else ""
        what, wait_ms = f"{file}segment {segment_id}{of}", ScrubLimits().min_unreferenced_ms
        doubt = _doubt(topic, asked.tip.topic_id if asked.tip else None, asked.tip)
        return Told(rules.answer_of_unnamed(what, wait_ms, doubt), segment_id=segment_id)
    tip = _user_partition_of(rows, segment_id)
    first = rows[0]
    start, size = first.get("start_offset"), first.get("segment_size_in_bytes")
    offsets = "" if start is None else f", offsets {start:,} to {first['end_offset']:,}"
    of = f"{in_quotes(tip.topic)}, id {kafka_uuid_str(tip.topic_id)}, partition {tip.partition}"
    what = f"{file}segment {segment_id} of {of}{offsets}"
    finished = [row for row in rows if row["state"] == _FINISHED]
    # An update that comes after it is dropped by brokers, and here.
    if finished and not _is_stored(topic, tip, asked.segment_id):
        doubt = _doubt(topic, tip.topic_id, tip)
        answer = rules.answer_of_finished(what, since(finished[-1]["event_timestamp_ms"]), doubt)
    else:
        of_partition = _of_topic(session, topic, limits, tip.topic_id, tip.partition)
        answer = rules.answer_of_segment(of_partition, what, size)
    return Told(answer, tuple(map(_record, rows)), tip, segment_id)


def _user_partition_of(rows: Sequence[Mapping[str, Any]], segment_id: str) -> TopicIdPartition:
    """Return the user partition that records of a segment are of; several make the id alone a question of two meanings."""
    tips = {TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"]) for row in rows}
    if len({(tip.topic_id, tip.partition) for tip in tips}) > 1:
        named = ", ".join(sorted(map(str, tips)))
        raise ConfigurationError(
            f"several user partitions have a segment {segment_id}: {named}. Ask by the key of an object"
        )
    return min(tips, key=str)


def _is_stored(topic: TopicReplay, tip: TopicIdPartition, segment_id: UUID) -> bool:
    """Tell whether the state has a segment: it is not finished, by the rules of brokers."""
    wanted = {"segment_id": segment_id.bytes, "topic_id": tip.topic_id.bytes, "partition": tip.partition}
    found: int = topic.segments.filter(_all_of(topic.segments, wanted)).num_rows
    return found > 0


def _doubt(topic: TopicReplay, topic_id: UUID | None, tip: TopicIdPartition | None) -> str:
    """
    Say what may keep the log from telling all of a topic, of a user partition, or of anything; empty if nothing does.

    A record that cannot be read may be of any of those whose records lie in its metadata partition.
    """
    count = topic.log.partition_count
    homes = range(count) if tip is None else (metadata_partition_for(tip, count),)
    views = [topic.view(number, (), with_segments=False) for number in range(count)]
    doubts = list(dict.fromkeys(why for number in homes for why in _incomplete(views[number])))
    unread = [
        record
        for view in views
        for record in view.quarantined
        if ErrorCode[record.code] not in APPLIED_CODES and _may_be_of(record, homes, topic_id, tip)
    ]
    if unread:
        many = counted(unread)
        doubts.append(f"{number_of(many, 'record')} cannot be applied (the first: {unread[0]})")
    return " and ".join(doubts)


def _incomplete(view: MetadataPartitionView) -> Iterator[str]:
    """Yield why a metadata partition may not tell all that was said, confirmed losses and compaction among it."""
    if view.lost_beginning is not None:
        yield "the log has lost records"
    if view.holes:
        yield view.holes[0].why
    if view.era.era is Era.COMPACTED:
        yield f"records may be gone from anywhere, as the metadata topic is {view.era}"


def _may_be_of(
    record: QuarantinedRecord, homes: Container[int], topic_id: UUID | None, tip: TopicIdPartition | None
) -> bool:
    """Tell whether a record may be of what is asked for: one that says whom it is about may lie in any metadata partition."""
    of = record.topic_id_partition
    if of is None:
        return record.metadata_partition in homes
    return (topic_id is None or of.topic_id == topic_id) and (tip is None or of.partition == tip.partition)


def _where(topic: TopicReplay, asked: rules.AskedSegment) -> range | tuple[int]:
    """Return the metadata partitions in which records of a segment may lie."""
    count = topic.log.partition_count
    return range(count) if asked.tip is None else (metadata_partition_for(asked.tip, count),)


def _records(log: MetadataLogReader, metadata_partition: int, asked: rules.AskedSegment) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a segment that are applied, in the order of the log."""
    import pyarrow.compute as pc

    from airflow_provider_rlmm.core.log.one_look import held, look
    from airflow_provider_rlmm.core.records.located import applicable

    wanted: dict[str, object] = {"segment_id": asked.segment_id.bytes}
    if asked.tip is not None:
        wanted |= {"topic_id": asked.tip.topic_id.bytes, "partition": asked.tip.partition}
    begin, end = held(log)[metadata_partition]
    for decoded in look(log, metadata_partition, begin, end) if begin < end else ():
        yield from decoded.filter(pc.and_(applicable(decoded), _all_of(decoded, wanted))).to_pylist()


def _all_of(table: Any, wanted: Mapping[str, object]) -> Any:
    """Tell of each row whether these columns have these values."""
    import pyarrow.compute as pc

    return reduce(pc.and_, (pc.equal(table.column(name), value) for name, value in wanted.items()))


def _record(row: Mapping[str, Any]) -> Record:
    state = RemoteLogSegmentState(row["state"]).name
    return Record(since(row["event_timestamp_ms"]), state, row["broker_id"], row["metadata_partition"], row["offset"])
