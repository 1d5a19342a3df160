# SPDX-License-Identifier: Apache-2.0
"""What a metadata partition is known to have lost of what a run had read of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.given import DELETING_DAGS, parameters
from airflow_provider_rlmm.core.base.quoting import in_quotes

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class LostRecords:
    """
    A metadata partition that does not hold what an earlier run has read of it: it lost its end, and may have grown again.

    :param metadata_partition: which one.
    :param read_until: offset up to which an earlier run had read it, exclusive.
    :param end: offset at which it ended when that was noticed, exclusive.
    :param confirmed: in words, when and by whom it was confirmed; ``None`` where no person has: no real run does anything
        then.
    :param replaced: why, and what to do, where the whole topic is another one than earlier runs have read; else ``None``.
    """

    metadata_partition: int
    read_until: int
    end: int
    confirmed: str | None = None
    replaced: tuple[str, str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is not confirmed yet."""
        return self.confirmed is None

    @property
    def name(self) -> str:
        """What a person names it by, such as ``3@24``."""
        return f"{self.metadata_partition}@{self.read_until}"

    @property
    def why(self) -> str:
        """What was seen, in words."""
        if self.replaced is not None:
            return self.replaced[0]
        read = f"metadata partition {self.metadata_partition} was read up to offset {self.read_until} by an earlier run"
        if self.confirmed is not None:
            return f"{read} and has lost records of that, as was confirmed {self.confirmed}"
        if self.end < self.read_until:
            return f"{read}, and it ends at offset {self.end}: it has lost its last records"
        return f"{read}, and its last records below that are others now: it has lost its end and has grown again"

    @property
    def what_to_do(self) -> str:
        """What a person can do about it."""
        if self.replaced is not None:
            return self.replaced[1]
        causes = "an unclean leader election, a disk that lost its last writes, a restored broker"
        if self.confirmed is not None:
            return "look at what is refused by name: storage may hold segments that the log does not name any more"
        return (
            f"find out how ({causes}); to go on without the lost records say so once, by {_confirmed(self.name)}; the "
            "metadata partition is in doubt from then on, and what storage does not show to be whole stays"
        )


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """
    Offsets of a metadata partition that hold no record: what is known of it is incomplete history.

    :param metadata_partition: which one.
    :param start: the first of them, inclusive.
    :param end: the last of them, exclusive; where records were deleted before they were read, the beginning of the log then.
    """

    metadata_partition: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """What a person names it by, such as ``3@17-18``."""
        return f"{self.metadata_partition}@{self.start}-{self.end - 1}"

    @property
    def why(self) -> str:
        """What was seen, in words, of one that has records before it."""
        return (
            f"metadata partition {self.metadata_partition} has no record at offsets {self.start} to {self.end - 1}: what was "
            "said there cannot be known"
        )

    @property
    def what_to_do(self) -> str:
        """What a person can do about one that has records before it."""
        return (
            "find out what took them: Kafka writes none but by transactions, and removes none but by compaction; where they "
            f"said nothing, say why once, by {_confirmed(f'{self.name}=the marker of a transaction')}"
        )

    def within(self, start: int, end: int) -> bool:
        """Tell whether some offsets, the last one exclusive, hold all of these."""
        return start <= self.start and self.end <= end

    def __str__(self) -> str:
        return f"metadata partition {self.metadata_partition}: the records of offsets {self.start} to {self.end - 1} are gone"


@dataclass(frozen=True, slots=True)
class LostBeginning:
    """Why nothing may be concluded from what a metadata partition does not name: records of it are gone."""

    why: str  # what was seen, in words
    offset: int  # where what is left begins, or ends
    what_to_do: str | None = None  # what a person can do, where that depends on what was lost

    @property
    def advice(self) -> str:
        """What a person can do, as the end of a sentence; empty where that depends on who asks."""
        return "" if self.what_to_do is None else f". What to do: {self.what_to_do}"


def lost_beginning(metadata_partition: int, begin: int, lost: LostRecords | None) -> LostBeginning | None:
    """
    Return which records of a metadata partition are gone, ``None`` where none are.

    :param metadata_partition: which one.
    :param begin: the first offset that it holds, inclusive.
    :param lost: what it does not hold of what earlier runs have read, ``None`` where nothing is known to be lost.
    """
    if lost is not None:
        return LostBeginning(lost.why, lost.end, lost.what_to_do)
    if begin > 0:
        return LostBeginning(f"metadata partition {metadata_partition} begins at offset {begin}", begin)
    return None


_NUMBER, _OFFSET = r"(0|[1-9]\d{0,9})", r"(0|[1-9]\d{0,18})"
_NAME = re.compile(rf"{_NUMBER}@{_OFFSET}")
_EXPLAINED = re.compile(rf"{_NUMBER}@{_OFFSET}-{_OFFSET}=([^\x00-\x1f\x7f]{{1,200}})")
WORDS_PATTERN = r"^\d+@\d+(-\d+=.{1,200})?$"
"""What a person may say of missing records, for forms."""


def lost_records_named(field: str, names: Iterable[str]) -> tuple[str, ...]:
    """
    Return names of lost records, and of offsets that hold none with their causes, once each.

    :param field: what the error calls them.
    :param names: as a person spells them.
    :raises ConfigurationError: if one of them can name none.
    """
    for name in (found := tuple(dict.fromkeys(names))):
        if not _NAME.fullmatch(name) and explained_gap(name) is None:
            raise ConfigurationError(
                f"{field} must be METADATA_PARTITION@OFFSET, such as 3@24, or METADATA_PARTITION@FIRST-LAST=CAUSE, such as "
                f"3@17-18=a transaction, as the refusal names it, not {in_quotes(name)}"
            )
    return found


def explained_gap(word: str) -> tuple[HistoryGap, str] | None:
    """
    Return which offsets hold no record, and why, as a person says it; ``None`` where the word is of another form.

    :param word: such as ``3@17-18=a transaction``, the last offset inclusive.
    """
    match = _EXPLAINED.fullmatch(word)
    if match is None or int(match[2]) > int(match[3]) or not match[4].strip():
        return None
    return HistoryGap(int(match[1]), int(match[2]), int(match[3]) + 1), match[4].strip()


def holes_of(
    metadata_partition: int, start: int, end: int, batches: Iterable[pa.RecordBatch]
) -> tuple[HistoryGap, ...]:
    """
    Return the offsets of a range that hold no record.

    :param metadata_partition: which one.
    :param start: the first offset to look at, inclusive.
    :param end: the last one, exclusive.
    :param batches: all records of the range, by offset, as
        :meth:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader.read` yields them.
    """
    found = []
    for batch in batches:
        offsets = batch.column("offset")
        if offsets[-1].as_py() + 1 - start != batch.num_rows:
            for offset in offsets.to_pylist():
                if offset > start:
                    found.append(HistoryGap(metadata_partition, start, offset))
                start = offset + 1
        start = max(start, offsets[-1].as_py() + 1)
    if start < end:
        found.append(HistoryGap(metadata_partition, start, end))
    return tuple(found)


NOTHING_LOST: Mapping[int, LostRecords] = MappingProxyType({})
"""What is known of a log that is compared with nothing."""

NOTHING_EXPLAINED: Mapping[int, Sequence[tuple[int, int]]] = MappingProxyType({})
"""Why offsets of a log hold no record, where no person has said so."""


def _confirmed(name: str) -> str:
    """Say by what a person confirms a loss."""
    return parameters({"confirm_lost_records": name}, DELETING_DAGS)
