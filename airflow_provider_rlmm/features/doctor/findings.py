# SPDX-License-Identifier: Apache-2.0
"""
What the doctor says of the metadata topic: kinds of findings, what each means and what to do, and findings as value objects.

Source: what was seen on Kafka 4.3.1's broker and its ``ConsumerTask``. A broker reads the metadata partitions of its own user
partitions, no others; it deserialises every record of these before it filters by assignment, and ends on the first exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, LogEra
from airflow_provider_rlmm.core.records.wire import MAX_ELEMENTS, MAX_TAGGED_FIELDS
from airflow_provider_rlmm.features.doctor.preflight import NOTHING_READ, CompactionPreflight

NAMED = 20
"""User partitions that a text names; all are counted."""


class Severity(StrEnum):
    """How bad a finding is."""

    # It needs a person: brokers' consumers end, copying has stopped, or nothing can be judged before a person acted.
    CRITICAL = "CRITICAL"
    WARNING = "WARNING"  # a person has to look at it
    NOTICE = "NOTICE"  # harmless today


class FindingKind(StrEnum):
    """What was found."""

    TOMBSTONE = "TOMBSTONE"
    MALFORMED = "MALFORMED"
    UNKNOWN_API_KEY = "UNKNOWN_API_KEY"
    NEWER_VERSION = "NEWER_VERSION"
    SNAPSHOT = "SNAPSHOT"
    BEYOND_LIMITS = "BEYOND_LIMITS"
    ADD_IN_OTHER_STATE = "ADD_IN_OTHER_STATE"
    UPDATE_TO_COPY_STARTED = "UPDATE_TO_COPY_STARTED"
    EVENT_AFTER_FINISHED = "EVENT_AFTER_FINISHED"
    LIVE_PARTITION_FINISHED = "LIVE_PARTITION_FINISHED"
    COPYING_STOPPED = "COPYING_STOPPED"
    MARKER_FROM_THE_FUTURE = "MARKER_FROM_THE_FUTURE"
    ACCESS_DENIED = "ACCESS_DENIED"
    UNDER_PROOF = "UNDER_PROOF"
    ILLEGAL_TRANSITION = "ILLEGAL_TRANSITION"
    COMPACTED_STEP = "COMPACTED_STEP"
    UPDATE_WITHOUT_BASE = "UPDATE_WITHOUT_BASE"
    LOST_RECORDS = "LOST_RECORDS"
    INCOMPLETE_HISTORY = "INCOMPLETE_HISTORY"
    FORGOTTEN = "FORGOTTEN"
    MISROUTED = "MISROUTED"
    KEYED = "KEYED"
    UNSETTLED_MARKER = "UNSETTLED_MARKER"
    STUCK_SEGMENT = "STUCK_SEGMENT"
    KNOWN_BUG = "KNOWN_BUG"
    TOPIC_SETTINGS = "TOPIC_SETTINGS"
    OVERDUE = "OVERDUE"
    LEAKED = "LEAKED"
    LEADERS_UNTOLD = "LEADERS_UNTOLD"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a kind of finding means."""

    severity: Severity  # unless the finding itself knows better
    meaning: str  # what it means for brokers and for this package
    what_to_do: str  # what an operator can do


_ENDS = (
    "The consumer of each broker that reads this metadata partition ends at this record, again after each restart; a "
    "broker reads it if a user partition of its own maps to it, and the finding says which living ones do"
)
_RECOVER = (
    "The only recovery known is DeleteRecords on this metadata partition up to the record and a restart of these brokers; "
    "it loses the history before it. What it costs, and what is to be done before and after, stands under 'what recovery "
    "costs'"
)


def _poison(what: str) -> Explanation:
    return Explanation(Severity.CRITICAL, f"{_ENDS}: {what}.", f"{_RECOVER}. Find out who wrote it first.")


def _poison_where_served(what: str) -> Explanation:
    return Explanation(
        Severity.WARNING,
        f"{what} It ends the consumer of each broker that serves the partition when it reads the record, again after each "
        "restart, and of no other.",
        f"If the topic is deleted, no broker serves it: nothing. Else: {_RECOVER[0].lower()}{_RECOVER[1:]}. Find out who "
        "wrote it first.",
    )


EXPLANATIONS: Mapping[FindingKind, Explanation] = {
    FindingKind.TOMBSTONE: _poison("its value is null"),
    FindingKind.MALFORMED: _poison("its value is no record that Kafka can read"),
    FindingKind.UNKNOWN_API_KEY: _poison("it is of a kind that Kafka 4.3 does not know"),
    FindingKind.NEWER_VERSION: _poison("it is of a version that Kafka 4.3 does not know"),
    FindingKind.SNAPSHOT: _poison("a snapshot record names no topic partition and belongs into no topic"),
    FindingKind.BEYOND_LIMITS: Explanation(
        Severity.CRITICAL,
        "From Kafka 4.4 on the consumer of each broker that reads this metadata partition ends at this record, again after "
        f"each restart: it throws at more than {MAX_TAGGED_FIELDS:,} tagged fields of one section, at a negative number of "
        f"them, and at more than {MAX_ELEMENTS:,} leader epochs. Brokers up to Kafka 4.3 read it and go on.",
        "Do not update these brokers to Kafka 4.4 or newer before the record is gone. "
        f"{_RECOVER}. Find out who wrote it first: no broker does.",
    ),
    FindingKind.ADD_IN_OTHER_STATE: _poison_where_served("The first event of a segment must be COPY_SEGMENT_STARTED."),
    FindingKind.UPDATE_TO_COPY_STARTED: _poison_where_served("An update cannot set COPY_SEGMENT_STARTED."),
    FindingKind.EVENT_AFTER_FINISHED: _poison_where_served(
        "An event after DELETE_PARTITION_FINISHED of its partition."
    ),
    FindingKind.LIVE_PARTITION_FINISHED: Explanation(
        Severity.CRITICAL,
        "DELETE_PARTITION_FINISHED of a partition whose topic exists: the brokers that serve it have dropped its metadata "
        "and copy it no more, and the next event about it ends their consumers.",
        f"Stop the program that writes events about it. {_RECOVER}.",
    ),
    FindingKind.COPYING_STOPPED: Explanation(
        Severity.CRITICAL,
        "The copy of a segment of a living topic began, and no segment of the partition was copied to its end since: its "
        "leader has stopped copying or fails again and again. No error shows it to producers or consumers, local segments "
        "that were not copied are kept, and the disk fills.",
        "Look for the partition in the leader's log from this time on. A broker that was restarted copies again, if "
        "nothing in this report ends its consumer.",
    ),
    FindingKind.MARKER_FROM_THE_FUTURE: Explanation(
        Severity.CRITICAL,
        "A partition's deletion was marked, or its start repeated, at a time that has not come yet, and no run has "
        "observed the absence of its topic at a believable time since: the wait before anything is deleted cannot be "
        "measured by it.",
        "Correct the clock of the machine that wrote it, or of this worker if that one is behind. Then run the marker: it "
        "observes the absence anew.",
    ),
    FindingKind.ACCESS_DENIED: Explanation(
        Severity.CRITICAL,
        "The log names a topic that this principal may not describe, so it is neither living nor absent: nothing of it is "
        "marked or deleted, and what harms brokers only if it exists counts as if it did.",
        "Give the principal DESCRIBE on every topic, then examine again.",
    ),
    FindingKind.UNDER_PROOF: Explanation(
        Severity.WARNING,
        "The records of this metadata partition do not tell everything: one cannot be read, or those at the beginning are "
        "gone. Each of its user partitions is judged by itself: it is used as before if every segment that the log names "
        "has its first event and storage shows no segment that the log does not name. The others are refused by name, and "
        "their bytes stay in storage. It is critical where segments are known to lack their first event.",
        "Find out who wrote the record, or who deleted the others. For a refused user partition compare storage and "
        "metadata by hand; once its topic is deleted, delete by hand what storage shows of its topic id.",
    ),
    FindingKind.ILLEGAL_TRANSITION: Explanation(
        Severity.WARNING,
        "The state before does not allow this event. Brokers drop that of a segment with a line in their log; that of a "
        "partition's deletion they do not check.",
        "Find out who wrote it: no broker does by itself.",
    ),
    FindingKind.COMPACTED_STEP: Explanation(
        Severity.NOTICE,
        "The state before does not allow this event, and a step between the two would. The topic is compacted: of all "
        "records with one key the last one stays, so the log cleaner may have taken that step. Whether it was ever written "
        "the log cannot show.",
        "Where brokers compact this topic: nothing. Was it not meant to be compacted? See TOPIC_SETTINGS.",
    ),
    FindingKind.UPDATE_WITHOUT_BASE: Explanation(
        Severity.WARNING,
        "An event about a segment that is not known: its first event is missing, or the segment was deleted before. Brokers "
        "drop it.",
        "If records were deleted from the topic, see incomplete history; if it is compacted, the log cleaner may have taken "
        "the first event. Else a second DELETE_SEGMENT_FINISHED is harmless; for any other event find out who wrote it.",
    ),
    FindingKind.LOST_RECORDS: Explanation(
        Severity.CRITICAL,
        "The metadata partition does not hold what an earlier run has read of it: it has lost its end, and brokers that "
        "start now do not know the segments that only the lost records name. No real run does anything there.",
        "Find out how: an unclean leader election, a disk that lost its last writes, a restored broker. Then confirm the "
        "loss by the name that the finding gives it (confirm_lost_records); its metadata partition stays in doubt.",
    ),
    FindingKind.INCOMPLETE_HISTORY: Explanation(
        Severity.WARNING,
        "Records of this metadata partition are gone. Segments that only they name are unknown to every broker that starts "
        "now; what is left can look dangling or without base.",
        "Check the topic's settings: TOPIC_SETTINGS says what is wrong with them. Its user partitions are under proof: each "
        "is used as before only if log and storage agree about every segment.",
    ),
    FindingKind.MISROUTED: Explanation(
        Severity.WARNING,
        "An event in another metadata partition than its user partition's. A broker reads it only if it reads that "
        "metadata partition for other reasons, and out of order with the others.",
        "Find out who wrote it, and with which partitioner and partition count.",
    ),
    FindingKind.FORGOTTEN: Explanation(
        Severity.CRITICAL,
        "Its value is null and its key names a segment: its writer asks the log cleaner to forget what was said by "
        "that key. It does not say that the segment is finished, and is not taken for that. Brokers of Kafka 4.4 and older "
        f"write none, and of these: {_ENDS[0].lower()}{_ENDS[1:]}. A broker that compacts this topic writes them itself and "
        "reads on (KIP-1266): where cleanup.policy names compact it is a warning.",
        f"Where brokers of Kafka 4.4 or older read it: {_RECOVER[0].lower()}{_RECOVER[1:]}. Where all brokers compact this "
        "topic: nothing, and delete no records because of it.",
    ),
    FindingKind.KEYED: Explanation(
        Severity.NOTICE,
        "A record with a key that does not name what its value names, or with one of no known form. Brokers look at no key "
        "when they read; where the topic is compacted, the record takes the place of another one's.",
        "Find out who wrote it. Kafka up to 4.4 writes no keys.",
    ),
    FindingKind.UNSETTLED_MARKER: Explanation(
        Severity.WARNING,
        "The deletion of a partition was marked or started and never finished.",
        "Run the remote log cleaner, or read in its last report why it refuses the partition.",
    ),
    FindingKind.STUCK_SEGMENT: Explanation(
        Severity.WARNING,
        "The copy or the deletion of a segment began and never ended. Its objects may lie in storage and be paid for.",
        "If the topic exists, its retention or its deletion removes the segment; if not, the remote log cleaner does.",
    ),
    FindingKind.KNOWN_BUG: Explanation(
        Severity.WARNING,
        "A known bug of brokers concerns the topic by one of its settings. A broker's version is told by the settings that "
        "it lists, which tells no patch release from another.",
        "Update the brokers to a version in which it is fixed; until then do without the setting where you can. Find out the "
        "version of a broker of which it is not known, and give the principal DESCRIBE_CONFIGS on the cluster.",
    ),
    FindingKind.TOPIC_SETTINGS: Explanation(
        Severity.CRITICAL,
        "The metadata topic is configured so that records of it are refused or lost: brokers copy no more, or forget "
        "segments whose data still exist. It is a warning where that cannot be told, and a notice where retention.ms is long "
        "enough now for the oldest record that is still needed, and says from when on it is not.",
        "Do what the finding says, and nothing else: what is right for cleanup.policy depends on the brokers' version.",
    ),
    FindingKind.OVERDUE: Explanation(
        Severity.WARNING,
        "Segments of a living topic are still there hours after their leader should have deleted them, by its own rules: its "
        "expiration has ended with an error, or hangs, and the topic grows for good. The task that asks the leaders is red "
        "for it; here stands what it was told last.",
        "Look for errors of RemoteLogManager about the partition in the log of its leading broker, and mend what they say; "
        "then move the leadership to another broker, which begins its task anew. Nothing of a living topic is deleted here.",
    ),
    FindingKind.LEAKED: Explanation(
        Severity.WARNING,
        "Kafka lists these segments for the user partition and for none of their leader epochs: another copy of the same "
        "offsets took their place. No leader ever finds them, so no retention deletes them, and they are paid for.",
        "They go when the topic is deleted. Where they cost too much, make the topic anew.",
    ),
    FindingKind.LEADERS_UNTOLD: Explanation(
        Severity.WARNING,
        "It is not known whether all leaders of living topics delete what they should: they were not asked, or long ago, or "
        "not all could be told.",
        "Unpause remote_log_doctor, whose task leaders asks them daily, or run 'rlmm retention': it says of each user "
        "partition why it cannot be told.",
    ),
}
"""Every kind, explained."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that is wrong.

    :param kind: what.
    :param severity: how bad.
    :param metadata_partition: where, ``None`` where it is about a topic as a whole.
    :param offset: of the record; for incomplete history, and where nothing else is under proof, the first offset that is
        still there; ``None`` where it is about a topic as a whole.
    :param topic_id: Kafka's base64 form, ``None`` where the record names none.
    :param topic: its name, in quotes where Kafka would not allow it.
    :param partition: user partition.
    :param segment_id: Kafka's base64 form.
    :param since_ms: since when, ms since the epoch: the event's timestamp where one can be read, else the record's.
    :param detail: what this one is, in words.
    """

    kind: FindingKind
    severity: Severity
    metadata_partition: int | None
    offset: int | None
    topic_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    segment_id: str | None = None
    since_ms: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        of = where = ""
        if self.topic_id:
            partition = "" if self.partition is None else f"-{self.partition}"
            of = f" of {self.topic_id}:{self.topic}{partition}"
        if self.offset is not None:
            place = f"metadata partition {self.metadata_partition} at offset {self.offset}"
            where = f" in {place}, since {since(self.since_ms)}"
        return f"{self.severity} {self.kind}{of}{where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Recovery:
    """What it costs to get brokers past the last poison pill of a metadata partition, and what can be used afterwards."""

    metadata_partition: int  # which one
    delete_before_offset: int  # DeleteRecords up to here, exclusive: the offset after the pill
    records: int  # records that are lost
    segments: int  # unfinished segments whose first event is among them: brokers know nothing of these afterwards
    bytes: int  # bytes of these segments
    user_partitions: int  # user partitions of these segments: nothing deletes their objects afterwards
    refused: tuple[str, ...]  # the first :data:`NAMED` of these, as ``topic id:topic-partition``
    usable: int  # user partitions with unfinished segments that lose none of them

    def __str__(self) -> str:
        before_and_cost = (
            f"Metadata partition {self.metadata_partition}: first keep a copy of its records "
            "(ReadRemoteLogMetadataOperator) and let the remote log cleaner finish what it can: it goes on with every "
            "user partition that log and storage show to be whole. Then DeleteRecords before offset "
            f"{self.delete_before_offset} and a restart of the brokers that read it. This loses "
            f"{number_of(self.records, 'record')}, and with them {number_of(self.segments, 'unfinished segment')} "
            f"({human_bytes(self.bytes)}) of {number_of(self.user_partitions, 'user partition')}: no broker can read "
            "these any more, and their objects stay in storage."
        )
        text = (
            f"{before_and_cost} Afterwards {number_of(self.usable, 'user partition')} with unfinished segments "
            f"{agreeing(self.usable, 'is', 'are')} whole as before: they are copied, read and, once their topics are "
            "deleted, cleaned, though the metadata partition no longer begins at 0."
        )
        if not self.user_partitions:
            return text
        more = self.user_partitions - len(self.refused)
        names = ", ".join(self.refused) + (f" and {more} more" if more else "")
        return (
            f"{text} Never touched from then on, and refused by name where the log still names them, because storage "
            f"shows segments that the log does not: {names}. "
            "Where such a topic is deleted, delete by hand what storage shows of its topic id, with the copy of the "
            "records beside it; where it lives, its lost segments can be deleted by hand once no consumer misses them."
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor says of a metadata topic."""

    cluster_id: str  # the cluster
    examined_at_ms: int  # ms since the epoch
    read_until: Mapping[int, int]  # metadata partition → offset, exclusive, up to which was read
    records: int  # records read
    segments: int  # segments that are not finished
    counts: Mapping[FindingKind, int]  # exact number of findings per kind
    critical: int = 0  # exact number of those that need a person
    findings: tuple[Finding, ...] = ()  # the first ones of each kind
    recoveries: tuple[Recovery, ...] = ()  # one per metadata partition with a poison pill
    preflight: CompactionPreflight = NOTHING_READ  # what is lost if the topic is ever compacted
    era: LogEra = PLAIN_ERA  # as configuration, earlier runs and all that was read show it
