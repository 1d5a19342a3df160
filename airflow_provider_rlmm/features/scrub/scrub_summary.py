# SPDX-License-Identifier: Apache-2.0
"""
What a scrub found, as one table and one small JSON document beside it, and what of it needs a person.

The document names the table with its size, rows and SHA-256 and carries a SHA-256 of itself. A later scrub takes from the
table since when an object has been without a record, and a plan takes from it what may go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.documents import (
    AbsentAs,
    PlainJson,
    Text,
    plain_of,
    reader_of,
    sealed_text,
    value_of,
)
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.quoting import human_bytes, in_quotes, list_in_quotes
from airflow_provider_rlmm.core.plans.log_refusals import refusals_of_era
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.era import LogEra
from airflow_provider_rlmm.core.records.told_era import ToldEra, without_unsaid_era
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.features.scrub.rules import ELSEWHERE, ScrubClass
from airflow_provider_rlmm.features.scrub.unnamed import OBSERVED_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

SCRUB_FORMAT = 2
"""Version of the document; one of another version is not read."""

SCRUB_DOCUMENT = "scrub.json"
SCRUB_TABLE = "scrub.parquet"
MAX_LISTED = 1_000
"""Topics, folders and problems that the document lists; all are counted."""

MAX_KEYS = 20
"""Keys that the document lists of the objects of one topic that no record names; all are counted."""

_SHOWN = 3
"""Of what a sentence shows at most."""

SCRUB_COLUMNS: tuple[tuple[str, str], ...] = (
    ("class", "string"),  # a ScrubClass, never IN_USE: what is in use is counted only
    ("key", "string"),  # null for a segment that lacks an object
    ("bytes", "int64"),  # null for a folder; of a segment that lacks an object: the segment's
    ("last_modified_ms", "int64"),  # the store's own time
    ("first_seen_ms", "int64"),  # since when scrubs by proven time have found it without a record, else null
    ("place", "string"),
    ("suffix", "string"),
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("metadata_partition", "int32"),
    ("offset", "int64"),  # of the segment's last event, null where there is none
    ("why", "string"),
    *OBSERVED_COLUMNS,
)
"""Name and Arrow type of every column of the table: one row per object, segment that lacks one, or folder of no topic."""


SCRUB_AGAIN = "scrub again"
"""What a person does where a document or a table of a scrub is not as it was written."""


class ScrubProblem(StrEnum):
    """Kinds of what needs a person after a scrub, besides missing objects."""

    SCRUB_UNKNOWN = "SCRUB_UNKNOWN"  # of some objects nothing can be told
    LISTING_INCOMPLETE = "LISTING_INCOMPLETE"  # a folder could not be listed whole
    # finished segments name a key prefix that the connection does not, and objects lie there, or may do so
    FORGOTTEN_PREFIX = "FORGOTTEN_PREFIX"
    UNSEEN_FOLDERS = "UNSEEN_FOLDERS"  # it is not known whether folders of no topic hold folders of topics
    SCRUB_NOT_LISTED = "SCRUB_NOT_LISTED"  # there is more than the document lists


@dataclass(frozen=True, slots=True)
class Amount:
    """How much there is of something."""

    objects: int  # number of objects; of missing ones, of segments
    bytes: int  # their sizes, summed

    @classmethod
    def of(cls, rows: pa.Table) -> Amount:
        """
        Count rows.

        :param rows: with ``bytes``; null counts as 0.
        """
        import pyarrow.compute as pc

        return cls(rows.num_rows, pc.sum(rows.column("bytes")).as_py() or 0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.objects + other.objects, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class TopicAmount:
    """How much of one class there is of one topic."""

    kind: ScrubClass  # the class
    topic: Text  # its name in the keys, or in the log
    topic_id: Text  # Kafka's base64 form
    objects: int  # number of objects; of missing ones, of segments
    bytes: int  # their sizes, summed
    oldest_ms: int | None  # time of the oldest object, ms since the epoch


@dataclass(frozen=True, slots=True)
class UnnamedTopic:
    """Objects of one topic that no record names, and that no deletion of ours takes."""

    topic: Text  # its name in the keys
    topic_id: Text  # Kafka's base64 form
    why: Text  # why they stay
    bars: bool  # whether no object that no record names goes while these are there, under any topic id
    objects: int  # number of objects
    bytes: int  # their sizes, summed
    keys: tuple[Text, ...]  # the first of them, at most :data:`MAX_KEYS`


FORGOTTEN = "it lies below a key prefix that finished segments name and the connection does not"
"""Why nothing is told of an object below a key prefix that the connection does not name; the prefix follows."""


@dataclass(frozen=True, slots=True)
class ForgottenPrefix:
    """A key prefix that only finished segments name, and that the connection does not."""

    prefix: Text  # as their custom metadata name it
    objects: int  # objects of segments that lie there
    bytes: int  # their sizes, summed
    why: Text  # why not all of it was listed, empty where it was


@dataclass(frozen=True, slots=True)
class Told:
    """Something and why."""

    what: Text  # a folder or a metadata partition
    why: Text  # the reason


@dataclass(frozen=True, slots=True)
class ScrubSummary:
    """
    The small JSON document of a scrub.

    :param scrub_id: names this scrub in logs, reports and links.
    :param cluster_id: the cluster.
    :param metadata_topic_id: of the metadata topic, Kafka's base64 form: what a log of another id never named means nothing.
    :param began_at_ms: when its reading began, ms since the epoch.
    :param clock: which clock was used and how it was proven, in words.
    :param time_is_proven: whether waits may be measured by it.
    :param read_until: metadata partition → offset, exclusive, up to which the topic was read.
    :param root: what was seen of the storage root, plain JSON.
    :param listed: everything that was listed.
    :param listed_segments: segments of which an object was listed.
    :param classes: per :class:`~airflow_provider_rlmm.features.scrub.rules.ScrubClass`.
    :param topics: per class and topic, the largest first, at most :data:`MAX_LISTED`.
    :param topics_left_out: how many more there are.
    :param unnamed: objects that no record names, and that must stay: per topic, at most :data:`MAX_LISTED`.
    :param unnamed_left_out: how many more topics there are.
    :param incomplete: folders that could not be listed whole, at most :data:`MAX_LISTED`.
    :param incomplete_left_out: how many more there are.
    :param doubtful: metadata partitions of which not all records count.
    :param lost: those of them that have lost what an earlier run had read, and that is not confirmed: what to do.
    :param forgotten: key prefixes that only finished segments name, and that the connection does not.
    :param forgotten_left_out: how many records name further prefixes, below which was not looked.
    :param foreign_folders: folders of no topic, which were not looked into.
    :param unseen_folders: how many of these were not looked into to see whether they hold folders of topics.
    :param unseen: the first of them, at most :data:`MAX_KEYS`, and why.
    :param price_micros: what a gigabyte costs in a month, in millionths of a unit of money, ``None`` where none is set.
    :param file: the table.
    :param era: the era of the log, ``None`` where it is not said: earlier releases did not say it.
    :param storage_class: in which costs are reckoned, ``None`` where none is named: earlier releases knew of none.
    """

    scrub_id: Text
    cluster_id: Text
    metadata_topic_id: Text
    began_at_ms: int
    clock: Text
    time_is_proven: bool
    read_until: Mapping[int, int]
    root: PlainJson
    listed: Amount
    listed_segments: int
    classes: Mapping[Annotated[str, value_of(ScrubClass)], Amount]
    topics: tuple[TopicAmount, ...]
    topics_left_out: int
    unnamed: tuple[UnnamedTopic, ...]
    unnamed_left_out: int
    incomplete: tuple[Told, ...]
    incomplete_left_out: int
    doubtful: Mapping[int, Text]
    lost: Mapping[int, Text]
    forgotten: tuple[ForgottenPrefix, ...]
    forgotten_left_out: int
    foreign_folders: int
    unseen_folders: int
    unseen: tuple[Told, ...]
    price_micros: int | None
    file: PlanFile
    era: Annotated[ToldEra | None, AbsentAs(None)] = None
    storage_class: Annotated[StorageClass | None, AbsentAs(None)] = None

    @property
    def price(self) -> StoragePrice | None:
        """By which costs are reckoned, ``None`` where no price is set."""
        return None if self.price_micros is None else StoragePrice(self.price_micros, self.storage_class)

    def month(self, kind: str, amount: Amount | TopicAmount) -> int | None:
        """
        Return what objects cost in a month, in millionths of a unit of money.

        :param kind: their class.
        :param amount: how much there is of them.
        :return: ``None`` where no price is set, and for what is missing: that costs nothing.
        """
        if self.price is None or kind == ScrubClass.MISSING:
            return None
        # A folder that was not looked into is counted there, and is no object.
        folders = self.foreign_folders if kind == ScrubClass.NOT_OF_THIS_LAYOUT else 0
        return self.price.month(amount.bytes, max(0, amount.objects - folders))

    def to_json(self) -> str:
        """
        Return the document; keys of JSON objects are strings.

        :raises PlanError: if it does not read back as it was written.
        """
        plain = without_unsaid_era(plain_of(self))
        if self.storage_class is None:
            del plain["storage_class"]
        return sealed_text(
            self, SCRUB_FORMAT, self.from_json, PlanError, f"the document of scrub {self.scrub_id}", plain=plain
        )

    @classmethod
    def from_json(cls, text: str) -> ScrubSummary:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises PlanError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, SCRUB_FORMAT), "scrub")
        except ValueError as e:
            raise PlanError(f"the document of a scrub cannot be read ({e}); scrub again") from e


_READ = reader_of(ScrubSummary)

UNNAMED_ADVICE = (
    "a broker names a segment before it uploads it: look whether the metadata topic has lost records (the doctor tells), "
    "whether a second cluster writes to this storage (a clone of this one), and whether the principal may describe every "
    "topic. Nothing deletes these objects: once you know whose they are, delete them by the store's own means (the keys are "
    f"in {SCRUB_TABLE}), or acknowledge them"
)
_ELSEWHERE_ADVICE = (
    "if they lie below a former key.prefix of the brokers, add it to former_key_prefixes of the rlmm connection, then scrub "
    "again"
)
_BARS = "; while they are there, no object that no record names is deleted, under any topic id"


def _losses(summary: ScrubSummary) -> Iterator[Attention]:
    """Yield what is lost, by cause: of a topic that was made anew every metadata partition says the same."""
    causes: dict[tuple[str, str], list[int]] = {}
    for number, todo in summary.lost.items():
        causes.setdefault((summary.doubtful[number], todo), []).append(number)
    for (why, todo), numbers in causes.items():
        one = numbers[0] if len(numbers) == 1 else None
        what = number_of(len(numbers), "metadata partition") if one is None else f"metadata partition {one}"
        yield Attention(RefusalKind.LOST_RECORDS.value, what, why, todo, metadata_partition=one)


def _of_the_root(summary: ScrubSummary) -> Iterator[Attention]:
    """Yield why nothing would be deleted below the storage root, as far as that was known when it was scrubbed."""
    if (refused := summary.root.get("not_current")) is not None:
        why = f"a real run would be refused: {refused['why']}"
        yield Attention(
            RefusalKind.STORAGE.value, "the storage root", why, refused["what_to_do"], acknowledgeable=False
        )


def _of_the_era(summary: ScrubSummary) -> Iterator[Attention]:
    """Yield why nothing would be deleted in the era of the log."""
    if summary.era is not None:
        yield from map(Attention.of_refusal, refusals_of_era(LogEra.of(summary.era)))


def problems(
    summary: ScrubSummary, missing: Sequence[Mapping[str, Any]], unknown: Sequence[Mapping[str, Any]]
) -> Iterator[Attention]:
    """
    Yield what needs a person: a root below which nothing would be deleted, an era in which nothing would be, missing objects,
    what no record names and must stay, folders that were not listed whole, and what nothing can be told of.

    :param summary: of the scrub.
    :param missing: the first rows of class ``MISSING``, one per segment.
    :param unknown: one row per topic, metadata partition and reason of class ``UNKNOWN``, the first of them.
    """
    yield from _of_the_root(summary)
    yield from _of_the_era(summary)
    for row in missing:
        yield Attention(
            RefusalKind.MISSING_OBJECTS.value,
            f"segment {row['segment']} of {row['topic']}-{row['partition']}",
            f"the log calls it copied before and after the listing: {row['why']}",
            "look whether a prefix, a bucket or a rule of the bucket has changed; consumers that read this far back fail",
            row["topic"],
            row["metadata_partition"],
            row["offset"],
        )
    for unnamed in summary.unnamed:
        yield Attention(
            RefusalKind.UNNAMED_OBJECTS.value,
            # A person who has acknowledged these has not seen those that come after them.
            f"storage holds what the log does not name: {number_of(unnamed.objects, 'object')} of topic id "
            f"{unnamed.topic_id}",
            f"{unnamed.why}; {number_of(unnamed.objects, 'object')}, {human_bytes(unnamed.bytes)}, the first are "
            f"{list_in_quotes(unnamed.keys)}{_BARS if unnamed.bars else ''}",
            UNNAMED_ADVICE,
            unnamed.topic,
        )
    for told in summary.incomplete:
        yield Attention(
            ScrubProblem.LISTING_INCOMPLETE.value,
            f"folder {in_quotes(told.what)}",
            f"it could not be listed whole, so nothing there was judged: {told.why}",
            "give the principal the right to list it, or move the key that the store cannot address out of it",
        )
    yield from _losses(summary)
    for forgotten in summary.forgotten:
        if forgotten.objects or forgotten.why:
            broken = f"; it cannot be listed whole, so it cannot be told what else lies there: {forgotten.why}"
            yield Attention(
                ScrubProblem.FORGOTTEN_PREFIX.value,
                f"key prefix {in_quotes(forgotten.prefix)} with {number_of(forgotten.objects, 'object')}",
                f"finished segments name it and the connection does not; {number_of(forgotten.objects, 'object')}, "
                f"{human_bytes(forgotten.bytes)} lie there{broken if forgotten.why else ''}",
                "if it is a former key.prefix of the brokers, add it to former_key_prefixes of the rlmm connection: the next "
                "scrub then says what lies there, and what is finished goes",
            )
    yield from _unseen(summary)
    for row in unknown:
        yield Attention(
            ScrubProblem.SCRUB_UNKNOWN.value,
            f"objects of topic id {row['topic_id']}",
            f"of some of its objects nothing can be told: {row['why']}",
            _ELSEWHERE_ADVICE if row["why"] == ELSEWHERE else "have the doctor examine the metadata partition",
            row["topic"],
            row["metadata_partition"],
        )
    counted = summary.classes.get(ScrubClass.MISSING.value, Amount(0, 0)).objects
    left_out = {
        "segments that lack an object": counted - len(missing),
        "folders that were not listed whole": summary.incomplete_left_out,
        "topics with objects that no record names": summary.unnamed_left_out,
    }
    for what, count in left_out.items():
        if count > 0:
            yield Attention(
                ScrubProblem.SCRUB_NOT_LISTED.value,
                f"{count} more {what}",
                "the document lists the first ones only",
                f"look into {SCRUB_TABLE}",
                acknowledgeable=False,
                count=count,
            )


def _unseen(summary: ScrubSummary) -> Iterator[Attention]:
    """Yield what a scrub did not look at, with its size."""
    if count := summary.forgotten_left_out:
        yield Attention(
            ScrubProblem.FORGOTTEN_PREFIX.value,
            f"{number_of(count, 'record that names', 'records that name')} further key prefixes",
            f"{number_of(len(summary.forgotten), 'key prefix', 'key prefixes')} that the connection does not name "
            f"{agreeing(len(summary.forgotten), 'was', 'were')} looked below, and no more are: "
            "it cannot be told what lies below the others",
            "add those that are former key.prefixes of the brokers to former_key_prefixes of the rlmm connection, then scrub "
            "again",
        )
    if count := summary.unseen_folders:
        first = ", ".join(f"{in_quotes(told.what)} ({told.why})" for told in summary.unseen[:_SHOWN])
        yield Attention(
            ScrubProblem.UNSEEN_FOLDERS.value,
            f"{number_of(count, 'folder')} of no topic",
            f"it is not known whether they hold folders of topics that the log knows: {first}",
            "give the principal the right to list them, or the storage a bucket of its own; acknowledge it if you know that "
            "they belong to others",
        )
