# SPDX-License-Identifier: Apache-2.0
"""Whether a topic can take archived records as they were: asked before the first of them is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import HOUR_MS, time_text
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.segments.read_range import ReadRange

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.answers import TargetTopic
    from airflow_provider_rlmm.features.reading.undecided import OpenTransaction

INCOMPLETE_ARCHIVE: Final = "incomplete_archive"
"""The override that restores what there is of an archive that is not whole; the restore needs a person then."""
INCOMPLETE_CATALOGUE: Final = "incomplete_catalogue"
"""The same of a catalogue: what there is round holes, and round what cannot be read."""
RESTORE_OVERRIDES: Final = frozenset({INCOMPLETE_ARCHIVE, INCOMPLETE_CATALOGUE})

OFFSET_HEADER: Final = "rlmm.source.offset"
"""The header that says the offset that a restored record had, in decimal digits, where that is asked for."""
OFFSET_HEADER_BYTES: Final = len(OFFSET_HEADER) + 19 + 4
"""At most what that header adds to a record."""

RECORD_OVERHEAD_BYTES: Final = 256
"""At most what a record batch with one record has besides key, value and headers."""

_MARGIN_MS: Final = 24 * HOUR_MS


class Undecided(StrEnum):
    """What becomes of transactions whose end no segment of the source has."""

    ABORT = "abort"
    """They count as aborted: their records are left out, and what lies behind them is restored."""
    KEEP = "keep"
    """Their records are restored, too."""


@dataclass(frozen=True, slots=True)
class RestoreRange:
    """
    From where on user partitions are restored, and up to where. A bucket does not tell what retention had deleted, so
    a person says the start.

    :param beginning: each from where it begins.
    :param time_ms: each from the first record on whose timestamp is this or later, ms since the epoch.
    :param offsets: user partition → first offset, inclusive; it wins over both.
    :param ends: user partition → last offset, exclusive; another one ends where the bucket does.
    :raises ConfigurationError: if no start is named, both the beginning and a time are, or an end lies before its start.
    """

    beginning: bool = False
    time_ms: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.beginning and self.time_ms is not None:
            raise ConfigurationError("the start is named as the beginning and as a time: name one of them")
        if not self.beginning and self.time_ms is None and not self.offsets:
            raise ConfigurationError(
                "no start is named, and the bucket cannot tell what retention had deleted: restore from a time on "
                "(start_time), from an offset on in each partition (start_offsets), or from_beginning"
            )
        for partition in self.ends:
            self.range_of(partition)

    def __str__(self) -> str:
        rest = "the beginning" if self.beginning else "" if self.time_ms is None else time_text(self.time_ms)
        named = [f"offset {offset} of partition {partition}" for partition, offset in sorted(self.offsets.items())]
        ends = [f"up to offset {offset} of partition {partition}" for partition, offset in sorted(self.ends.items())]
        return ", ".join([*named, *filter(None, [rest]), *ends])

    def range_of(self, partition: int) -> ReadRange:
        """
        Return which records of a user partition are restored.

        :param partition: the user partition.
        """
        end = self.ends.get(partition)
        if partition in self.offsets:
            return ReadRange(start_offset=self.offsets[partition], end_offset=end)
        return ReadRange(start_ms=self.time_ms, end_offset=end)

    def require_all(self, partitions: Sequence[int]) -> None:
        """
        Refuse a start that leaves a user partition open, and a start or an end of one that is not there.

        :param partitions: all that there are.
        :raises ConfigurationError: if it does.
        """
        for what, named in (("start", self.offsets), ("end", self.ends)):
            if strangers := sorted(named.keys() - set(partitions)):
                raise ConfigurationError(
                    f"the {what} names partitions {strangers}, and the source has {sorted(partitions)}"
                )
        open_ones = sorted(set(partitions) - self.offsets.keys())
        if open_ones and not self.beginning and self.time_ms is None:
            raise ConfigurationError(
                f"the start names no offset of partitions {open_ones}: name one of each, or add start_time or "
                "from_beginning for the others"
            )


@dataclass(frozen=True, slots=True)
class RecordsToRestore:
    """
    What is to be written into one partition.

    :param partition: which one.
    :param count: records.
    :param bytes: of their keys, values and headers.
    :param largest_bytes: of the largest of them.
    :param min_timestamp_ms: ms since the epoch; 0 where there are none.
    :param max_timestamp_ms: ms since the epoch; 0 where there are none.
    :param without_time: offset of the first record whose timestamp is 0 or less, ``None`` where there is none.
    :param content_sha256: checksum of the records without their offsets.
    :param left_out: records of transactions that were aborted, or count as such.
    :param gaps: offsets that the archive does not hold, first and last of each gap.
    :param first_offset: of the source's partition, ``None`` where there is none: above 0 what lies before was not remote when
        it was archived, or is not asked for.
    :param end_offset: of the source's partition, exclusive, ``None`` where there is none.
    :param differs_from: the first offset that is another one in the new topic, ``None`` where all stay the same.
    :param last_offset: of the last record, ``None`` where there is none.
    :param new_last_offset: what becomes of it, ``None`` where there is none.
    :param undecided: transactions whose end no segment of the source has.
    :param offsets_sha256: checksum of the records with their offsets, where these go into a header; it is not among the
        headers that count, and ``bytes`` and ``largest_bytes`` have it.
    :param has_header: offset of the first record that has a header of that name already, where it is asked for.
    """

    partition: int
    count: int
    bytes: int
    largest_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    without_time: int | None
    content_sha256: str
    left_out: int
    gaps: tuple[tuple[int, int], ...]
    first_offset: int | None = None
    end_offset: int | None = None
    differs_from: int | None = None
    last_offset: int | None = None
    new_last_offset: int | None = None
    undecided: tuple[OpenTransaction, ...] = ()
    offsets_sha256: str | None = None
    has_header: int | None = None

    @property
    def written_sha256(self) -> str:
        """The checksum that is compared with what is read back."""
        return self.content_sha256 if self.offsets_sha256 is None else self.offsets_sha256

    @property
    def reaches(self) -> str:
        """How far it reaches, and where offsets differ: a sentence."""
        if self.end_offset is None:
            return f"partition {self.partition}: nothing is there to restore"
        what = f"partition {self.partition} reaches to offset {self.end_offset - 1}"
        if self.last_offset is None:
            return f"{what}, and no record of it is restored"
        what += f"; its newest record is of {time_text(self.max_timestamp_ms)}"
        if self.differs_from is None:
            return f"{what}; all offsets stay the same"
        return (
            f"{what}; offsets differ from {self.differs_from} on, and {self.last_offset} becomes {self.new_last_offset}"
        )


def holes(records: Sequence[RecordsToRestore]) -> list[str]:
    """
    Return the offsets that no segment of the source holds, though there are earlier and later ones: each a sentence.

    :param records: what is to be written, by partition.
    """
    return [
        f"partition {found.partition}: no segment that can be read holds offsets {first} to {last}"
        for found in records
        for first, last in found.gaps
    ]


def beginnings(records: Sequence[RecordsToRestore]) -> list[str]:
    """
    Return where partitions begin behind offset 0, each a sentence: what lay before was deleted before it was archived.

    :param records: what is to be written, by partition.
    """
    return [
        f"partition {found.partition} begins at offset {found.first_offset}: what lay before was not remote any more"
        for found in records
        if found.first_offset
    ]


def undecided(records: Sequence[RecordsToRestore], choice: Undecided | None) -> list[str]:
    """
    Return what becomes of transactions whose end no segment of the source has, each a sentence.

    :param records: what is to be written, by partition.
    :param choice: what a person has said; without it they count as aborted.
    """
    became = (
        "its records are restored" if choice is Undecided.KEEP else "it counts as aborted, and its records are left out"
    )
    return [
        f"partition {found.partition}: the source has no end of a transaction ({transaction}): {became}"
        for found in records
        for transaction in found.undecided
    ]


def obstacles(
    target: TargetTopic, records: Sequence[RecordsToRestore], now_ms: int, *, resumed: bool = False
) -> list[str]:
    """
    Return what keeps a topic from holding the records as they were: each a sentence that says what to set. None is missing.

    :param target: the topic.
    :param records: what is to be written, by partition.
    :param now_ms: ms since the epoch.
    :param resumed: whether a restore of the same goes on: what it has written is compared, record by record.
    """
    return [
        *_of_topic(target, records, resumed=resumed),
        *(why for found in records for why in _of_partition(target, found, now_ms)),
    ]


def _of_topic(target: TargetTopic, records: Sequence[RecordsToRestore], *, resumed: bool) -> Iterator[str]:
    settings, name = target.settings, target.topic
    needed = max((found.partition for found in records), default=-1) + 1
    if len(target.ends) < needed:
        yield (
            f"topic {name} has {number_of(len(target.ends), 'partition')}, {needed} are to be restored: create it "
            "with as many"
        )
    mine = {found.partition for found in records} if resumed else set()
    used = sorted(p for p, end in target.ends.items() if end != target.begins.get(p) and p not in mine)
    if used:
        yield f"topic {name} is not empty, see partitions {used[:10]}: restore into a topic that was never written to"
    if (kind := settings.get("message.timestamp.type")) != "CreateTime":
        yield f"topic {name} has message.timestamp.type={kind}: set CreateTime, or all records get the time of today"
    if "compact" in str(settings.get("cleanup.policy", "")):
        yield f"topic {name} has cleanup.policy={settings['cleanup.policy']}: set delete, or older records of a key would go"


def _of_partition(target: TargetTopic, found: RecordsToRestore, now_ms: int) -> Iterator[str]:
    if not found.count:
        return
    where = f"{target.topic}-{found.partition}"
    if found.without_time is not None:
        yield (
            f"{where}: the record at offset {found.without_time} of the source has no time that a producer could write: "
            "read it from Parquet files instead"
        )
    if found.has_header is not None:
        yield (
            f"{where}: the record at offset {found.has_header} of the source has a header {OFFSET_HEADER} already: restore "
            "without it"
        )
    yield from _of_times(target.settings, found, where, now_ms)
    yield from _of_sizes(target.settings, found, where)


def _of_times(
    settings: Mapping[str, int | bool | str], found: RecordsToRestore, where: str, now_ms: int
) -> Iterator[str]:
    oldest, newest = time_text(found.min_timestamp_ms), time_text(found.max_timestamp_ms)
    before = _limit(settings, "message.timestamp.before.max.ms")
    if before is not None and found.min_timestamp_ms < now_ms - before:
        yield f"{where}: the oldest record is of {oldest}: raise message.timestamp.before.max.ms, it is {before}"
    after = _limit(settings, "message.timestamp.after.max.ms")
    if after is not None and found.max_timestamp_ms > now_ms + after:
        yield f"{where}: the newest record is of {newest}: raise message.timestamp.after.max.ms, it is {after}"
    retention = _limit(settings, "retention.ms")
    if retention is not None and found.min_timestamp_ms < now_ms - retention + _MARGIN_MS:
        yield (
            f"{where}: the oldest record is of {oldest}, and retention.ms={retention} would delete it within a day: set "
            "retention.ms=-1, or more"
        )


def _of_sizes(settings: Mapping[str, int | bool | str], found: RecordsToRestore, where: str) -> Iterator[str]:
    size = found.bytes + found.count * RECORD_OVERHEAD_BYTES
    retention = _limit(settings, "retention.bytes")
    if retention is not None and size > retention:
        yield f"{where}: about {size} bytes are to be written, and retention.bytes={retention}: set retention.bytes=-1"
    largest = found.largest_bytes + RECORD_OVERHEAD_BYTES
    most = _limit(settings, "max.message.bytes")
    if most is not None and largest > most:
        yield f"{where}: the largest record has about {largest} bytes: raise max.message.bytes, it is {most}"


def _limit(settings: Mapping[str, int | bool | str], name: str) -> int | None:
    """Return a limit, ``None`` where there is none, or the broker does not know it."""
    value = settings.get(name)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
