# SPDX-License-Identifier: Apache-2.0
"""
A generation: what one run of the Spark job knew of the whole metadata topic, written down so that the next run reads on.

``segments/generation=<n>/metadata_partition=<p>/`` holds what the tasks of a run have written: for each metadata partition a
Parquet file of what there is to say of some segments, with the columns of
:data:`~airflow_provider_rlmm.features.retention.spark.columns.SEGMENT_COLUMNS`, and what the next task goes on from: a state,
or, where an earlier one is known and little is new, the records since. Files are named by the attempt that wrote them. The
manifest, ``_manifest.json``, comes last and alone says which of them count, those of earlier generations among them. A
generation only saves work: a run that deletes reads the log itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.documents import Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.read_tail import KEPT
from airflow_provider_rlmm.core.records.told_era import ToldEra

GENERATION_FORMAT = 5
"""Of manifests, states and records since; the state of the fold has a version of its own."""

MANIFEST_NAME = "_manifest.json"
"""Begins with an underscore: readers of Parquet data sets pass over it."""

MAX_MANIFEST_BYTES = 64 * 2**20

MAX_ANCHORS = KEPT
"""Records of each metadata partition by which its log is known again."""

MAX_HOLES = 64
"""Of each metadata partition's gaps, these many are named."""

_FILE_NAME = re.compile(r"generation=(\d{1,18})/metadata_partition=(\d+)/[\w.-]+")


def with_gaps(
    holes: tuple[HistoryGap, ...], more_holes: int, found: tuple[HistoryGap, ...]
) -> tuple[tuple[HistoryGap, ...], int]:
    """
    Return the first gaps of a metadata partition, at most :data:`MAX_HOLES`, and how many more there are.

    :param holes: those that are known, by offset.
    :param more_holes: how many more are.
    :param found: those that are new, behind them.
    """
    named = (*holes, *found)
    return named[:MAX_HOLES], more_holes + len(named[MAX_HOLES:])


def unexplained(
    metadata_partition: int, holes: Iterable[HistoryGap], explained: Iterable[HistoryGap]
) -> list[HistoryGap]:
    """
    Return the gaps of a metadata partition of which no person has said why they hold no record.

    :param metadata_partition: which one.
    :param holes: its gaps.
    :param explained: the offsets that people have explained, of any metadata partition.
    """
    said = [gap for gap in explained if gap.metadata_partition == metadata_partition]
    return [hole for hole in holes if not any(hole.within(gap.start, gap.end) for gap in said)]


@dataclass(frozen=True, slots=True)
class GenerationFile:
    """One file."""

    name: Text  # below the folder of all generations
    bytes: int
    sha256: Text  # of its bytes, lower-case hex


@dataclass(frozen=True, slots=True)
class Anchor:
    """A record that was read: offsets alone do not tell a log from one that lost its end and has grown again."""

    offset: int  # of the record
    sha256: Text  # as :func:`~airflow_provider_rlmm.core.records.read_tail.digests` has it, lower-case hex


@dataclass(frozen=True, slots=True)
class GenerationPart:
    """What is known of one metadata partition."""

    next_offset: int  # every record below it is in the state; exclusive
    segments: int = 0  # segments that are not finished
    bytes: Annotated[int, _sum] = 0  # their ``segment_size_in_bytes``, summed
    unresolved: int = 0  # segments whose state is not certain
    quarantined: int = 0  # records that cannot be applied
    anchors: tuple[Anchor, ...] = ()  # the last records below ``next_offset``, by offset
    holes: tuple[HistoryGap, ...] = ()  # the first offsets above the log's beginning that hold no record, by offset
    more_holes: int = 0  # ranges of such offsets that are not among ``holes``
    keyed_at: int | None = None  # offset of the first record whose key names it; ``None`` where none was read
    keyed: int = 0  # records that are applied, as brokers do, whose key contradicts what they say
    routed: int = 0  # records that are good: each of them lies where our partitioner puts it
    begin: int = 0  # where the log began when it was read from there, inclusive; what was below it was not read
    rows: GenerationFile | None = None  # the Parquet file; ``None`` where no record was ever read
    state: GenerationFile | None = None  # the state; ``None`` where no record was ever read
    changes: GenerationFile | None = None  # the records since; ``None`` where the state has all below ``next_offset``

    @property
    def start(self) -> int:
        """Where reading on begins, inclusive: at the first anchor."""
        return self.anchors[0].offset if self.anchors else self.next_offset

    @property
    def files(self) -> tuple[GenerationFile, ...]:
        """All its files."""
        return tuple(file for file in (self.rows, self.state, self.changes) if file is not None)

    def check(self, metadata_partition: int, generation: int) -> None:
        """
        Refuse what contradicts itself.

        :param metadata_partition: which one it is of.
        :param generation: number of its generation.
        :raises ValueError: saying what.
        """
        offsets = [anchor.offset for anchor in self.anchors]
        if (
            offsets != sorted(set(offsets))
            or len(offsets) > MAX_ANCHORS
            or (offsets and offsets[-1] >= self.next_offset)
        ):
            raise ValueError(f"the anchors of metadata partition {metadata_partition} are out of order")
        if self.begin > self.next_offset:
            raise ValueError(f"metadata partition {metadata_partition} begins behind its next offset")
        if len({self.rows is None, self.state is None, not self.anchors}) > 1:
            raise ValueError(f"metadata partition {metadata_partition} has some of rows, state and anchors only")
        if self.changes is not None and self.state is None:
            raise ValueError(f"metadata partition {metadata_partition} has changes of no state")
        if any(hole.metadata_partition != metadata_partition for hole in self.holes) or len(self.holes) > MAX_HOLES:
            raise ValueError(f"metadata partition {metadata_partition} has gaps that are not its own, or too many")
        for file in self.files:
            found = _FILE_NAME.fullmatch(file.name)
            if found is None or found[2] != str(metadata_partition) or int(found[1]) > generation:
                raise ValueError(
                    f"{strict_json.shown(file.name)} is no file of metadata partition {metadata_partition}"
                )


NumberedPart = tuple[int, GenerationPart]
"""A metadata partition, and what is known of it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """The manifest."""

    number: int  # counts the generations of a data set
    cluster_id: Text  # id of the cluster
    topic_id: Text  # id of the metadata topic, in Kafka's text form
    fold_version: int  # of the states
    created_at_ms: int  # time of its evaluation, ms since the epoch
    folded_at_ms: int  # when the topic was last read from its beginning for it, or for one that it goes on from
    parts: Mapping[int, GenerationPart]  # by metadata partition, all of them
    era: ToldEra  # of the log, as this generation and all before it have seen it: it only rises

    @property
    def known(self) -> list[NumberedPart]:
        """The metadata partitions of which a record was ever read, by number."""
        return [(number, part) for number, part in sorted(self.parts.items()) if part.state is not None]

    @property
    def folded(self) -> Folded:
        """What an answer says that begins with this generation."""
        offsets = sum(part.next_offset for part in self.parts.values())
        return Folded(self.number, self.created_at_ms, self.folded_at_ms, offsets)

    def misfit(self, other: Generation, begin: Mapping[int, int], end: Mapping[int, int]) -> str | None:
        """
        Tell why a reader cannot go on from here, ``None`` if only the anchors are left to ask.

        :param other: the generation that would come of it; its parts say how many metadata partitions there are now.
        :param begin: metadata partition → first offset that is there, as of now.
        :param end: metadata partition → high watermark, as of now.
        """
        for what, mine, now in (
            ("cluster", self.cluster_id, other.cluster_id),
            ("topic id", self.topic_id, other.topic_id),
            ("metadata partitions", sorted(self.parts), sorted(other.parts)),
            ("fold version", self.fold_version, other.fold_version),
        ):
            if mine != now:
                return f"its {what} is {mine}, the topic that is read has {now}"
        for number, part in sorted(self.parts.items()):
            if end[number] < part.next_offset:
                return (
                    f"metadata partition {number} was read up to offset {part.next_offset}, and its high watermark is "
                    f"{end[number]} now: the log has lost records, or it is another one"
                )
            if begin[number] > part.start:
                return (
                    f"metadata partition {number} begins at offset {begin[number]} now, and was known by its records from "
                    f"offset {part.start} on"
                )
        return None

    def to_json(self) -> str:
        """
        Return the document; keys of JSON objects are strings.

        :raises SnapshotRefusedError: if it contradicts itself: it could not be read.
        """
        return sealed_text(
            self,
            GENERATION_FORMAT,
            self.from_json,
            SnapshotRefusedError,
            f"the manifest of generation {self.number}",
            indent=None,
        )

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises SnapshotRefusedError: if it is not, to the letter.
        """
        try:
            document = strict_json.unsealed(text, GENERATION_FORMAT)
            generation = _READ(document, "manifest")
            if sorted(generation.parts) != list(range(len(generation.parts))):
                raise ValueError(f"it has the metadata partitions {sorted(generation.parts)}")
            for number, part in generation.parts.items():
                part.check(number, generation.number)
        except ValueError as e:
            raise SnapshotRefusedError(f"its manifest cannot be read ({e})") from e
        return generation


def _sum(value: object, what: str) -> int:
    """Return a sum of sizes: what a record says of its size may be below zero."""
    if type(value) is not int or abs(value) > strict_json.MAX_INTEGER:
        raise ValueError(f"{what} is {strict_json.shown(value)}, not an integer of 64 bits")
    return value


_READ = reader_of(Generation)
