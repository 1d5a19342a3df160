# SPDX-License-Identifier: Apache-2.0
"""
Which leader wrote which offsets of a user partition, and which remote segments belong to that history.

Source: Kafka 4.3's ``LeaderEpochFileCache``, ``LeaderEpochCheckpointFile`` and ``RemoteLogManager``. The broker's disk has
the history in ``leader-epoch-checkpoint``; every remote segment keeps it as of its copy.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata

__all__ = ["LeaderEpochCheckpoint", "find_highest_remote_offset", "is_remote_segment_within_leader_epochs"]

UNDEFINED_EPOCH: Final = -1
"""Stands for no leader epoch (Kafka: ``UNDEFINED_EPOCH``)."""
UNDEFINED_EPOCH_OFFSET: Final = -1
"""Stands for no end offset (Kafka: ``UNDEFINED_EPOCH_OFFSET``)."""

_VERSION = "0"
_MAX_EPOCH: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 1
_NUMBER = re.compile(r"[0-9]{1,19}")
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class LeaderEpochCheckpoint:
    """
    The leader epochs of a user partition and where each of them begins: its lineage (Kafka: ``LeaderEpochFileCache``).

    :param entries: (leader epoch, first offset written in it), both ascending.
    :raises ValueError: if a number is negative or too large, or one of the two does not ascend.
    """

    entries: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for epoch, start_offset in self.entries:
            if not (0 <= epoch <= _MAX_EPOCH and 0 <= start_offset <= _MAX_OFFSET):
                raise ValueError(f"leader epoch {epoch} from offset {start_offset} is none that a broker knows")
        for (epoch, start_offset), (next_epoch, next_start_offset) in pairwise(self.entries):
            if next_epoch <= epoch or next_start_offset <= start_offset:
                raise ValueError(
                    f"leader epoch {next_epoch} from offset {next_start_offset} cannot follow epoch {epoch} from offset "
                    f"{start_offset}"
                )

    @classmethod
    def parse(cls, data: bytes, *, location: str) -> LeaderEpochCheckpoint:
        """
        Read a checkpoint file; an empty one has no entries.

        :param data: content of ``leader-epoch-checkpoint``, or of a segment's leader epoch index.
        :param location: path of the file or key of the object, for messages.
        :raises DamagedObjectError: if it is anything that a broker would not have written.
        """
        if not data:
            return cls()
        *lines, rest = _LINE_END.split(data.decode("latin-1"))
        if rest:
            raise _damaged(location, len(data), f"it ends in {rest[-60:]!r} in the middle of a line")
        if lines[0] != _VERSION:
            raise _damaged(location, 0, f"its version is {lines[0][:20]!r} and not 0")
        if len(lines) < 2 or not _NUMBER.fullmatch(lines[1]):
            raise _damaged(location, len(lines[0]) + 1, "its second line is not the number of entries")
        if int(lines[1]) != len(lines) - 2:
            raise _damaged(
                location,
                len(data),
                f"it announces {number_of(int(lines[1]), 'entry', 'entries')} and has {len(lines) - 2}",
            )
        entries = tuple(_entry(line, location) for line in lines[2:])
        try:
            return cls(entries)
        except ValueError as e:
            raise _damaged(location, len(data), str(e)) from None

    def to_text(self) -> str:
        """Return the content of the checkpoint file, ASCII, as a broker writes it."""
        lines = [_VERSION, str(len(self.entries)), *(f"{epoch} {offset}" for epoch, offset in self.entries)]
        return "".join(f"{line}\n" for line in lines)

    def truncate_from_start(self, start_offset: int) -> LeaderEpochCheckpoint:
        """
        Return the lineage of a log that begins at an offset: the epoch of that offset begins there.

        :param start_offset: the log start offset, inclusive.
        """
        count = bisect_right(self.entries, start_offset, key=_offset_of)
        if count == 0:
            return self
        first = (self.entries[count - 1][0], start_offset)
        return LeaderEpochCheckpoint((first, *self.entries[count:]))

    def truncate_from_end(self, end_offset: int) -> LeaderEpochCheckpoint:
        """
        Return the lineage of a log that ends at an offset.

        :param end_offset: the log end offset, exclusive; a negative one changes nothing.
        """
        if end_offset < 0:
            return self
        return LeaderEpochCheckpoint(self.entries[: bisect_left(self.entries, end_offset, key=_offset_of)])

    def in_range(self, start_offset: int, end_offset: int) -> LeaderEpochCheckpoint:
        """
        Return the lineage of a part of the log (Kafka: ``epochEntriesInRange``).

        :param start_offset: first offset, inclusive; a negative one means the beginning.
        :param end_offset: last offset, exclusive; a negative one means the end.
        """
        cut = self.truncate_from_start(start_offset) if start_offset >= 0 else self
        return cut.truncate_from_end(end_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """
        Return the leader epoch that an offset was written in, ``None`` for one before the first epoch.

        :param offset: the offset.
        """
        count = bisect_right(self.entries, offset, key=_offset_of)
        return self.entries[count - 1][0] if count else None

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """
        Return where a leader epoch ends: (the epoch that the answer is about, its end, exclusive); (-1, -1) where that is
        not known.

        One that the lineage does not have is answered by the last one before it.

        :param leader_epoch: the epoch.
        :param log_end_offset: end of the log, exclusive: where the latest epoch ends.
        """
        if leader_epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if self.entries and self.entries[-1][0] == leader_epoch:
            return leader_epoch, log_end_offset
        higher = bisect_right(self.entries, leader_epoch, key=_epoch_of)
        if higher == len(self.entries):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        answered = self.entries[higher - 1][0] if higher else leader_epoch
        return answered, self.entries[higher][1]


def is_remote_segment_within_leader_epochs(
    metadata: RemoteLogSegmentMetadata, log_end_offset: int, leader_epochs: LeaderEpochCheckpoint
) -> bool:
    """
    Tell whether a remote segment belongs to a lineage: the same leaders wrote the same offsets of it.

    A segment that an unclean leader election has made void does not. Epochs below the first of the lineage are not
    compared, as the log may begin later today than when it was copied.

    :param metadata: the segment.
    :param log_end_offset: end of the log, exclusive.
    :param leader_epochs: the lineage; nothing belongs to an empty one.
    """
    of_segment = _with_records(sorted(dict(metadata.segment_leader_epochs).items()))
    lineage = leader_epochs.entries
    if not lineage or not of_segment:
        return False
    first, last = lineage[0][0], of_segment[-1][0]
    if not first <= last <= lineage[-1][0]:
        return False
    known = dict(lineage)
    compared = [(epoch, offset) for epoch, offset in of_segment if epoch >= first]
    if any(epoch not in known for epoch, _ in compared):
        return False
    begin, begin_offset = compared[0]
    if begin != first and begin_offset < known[begin]:
        return False
    if compared[1:] != [entry for entry in lineage if begin < entry[0] <= last]:
        return False
    following = next((offset for epoch, offset in lineage if epoch > last), None)
    if following is not None and metadata.end_offset >= following:
        return False
    return metadata.end_offset < log_end_offset


def lineage_of_segment(metadata: RemoteLogSegmentMetadata, data: bytes, *, location: str) -> LeaderEpochCheckpoint:
    """
    Return the lineage that a segment keeps: of the log from its beginning to the end of the segment.

    :param metadata: the segment.
    :param data: its leader epoch index.
    :param location: key of that index, for messages.
    :raises DamagedObjectError: if it is none, or not that of this segment.
    """
    lineage = LeaderEpochCheckpoint.parse(data, location=location)
    if not is_remote_segment_within_leader_epochs(metadata, metadata.end_offset + 1, lineage):
        raise DamagedObjectError(
            f"the leader epoch checkpoint {location} says {lineage.entries}, and its own segment was written in "
            f"{metadata.segment_leader_epochs}: one of them is damaged, or of another segment",
            location,
            0,
        )
    return lineage


def find_highest_remote_offset(
    leader_epochs: LeaderEpochCheckpoint, highest_offset_for_epoch: Callable[[int], int | None], log_end_offset: int
) -> tuple[int, int] | None:
    """
    Return (offset, its leader epoch) up to which a log is in remote storage, inclusive; ``None`` where nothing is.

    The epochs are asked from the latest down. An epoch that reaches further in remote storage than in the log was
    truncated by a later leader: its end in the log counts.

    :param leader_epochs: the lineage of the log.
    :param highest_offset_for_epoch: largest offset of a leader epoch that was ever copied, inclusive.
    :param log_end_offset: end of the log, exclusive.
    """
    for leader_epoch, _ in reversed(leader_epochs.entries):
        highest = highest_offset_for_epoch(leader_epoch)
        if highest is not None:
            answered, end_offset = leader_epochs.end_offset_for(leader_epoch, log_end_offset)
            return (end_offset - 1, answered) if end_offset <= highest else (highest, leader_epoch)
    return None


def last_shared_offset(
    metadata: RemoteLogSegmentMetadata, leader_epoch: int, leader_epochs: LeaderEpochCheckpoint
) -> int:
    """
    Return up to where a segment holds what a lineage has, inclusive: behind that, other leaders wrote those offsets.

    :param metadata: the segment.
    :param leader_epoch: one that both have; the search begins there.
    :param leader_epochs: the lineage.
    """
    of_segment = _with_records(sorted(dict(metadata.segment_leader_epochs).items()))
    of_segment = [entry for entry in of_segment if entry[0] > leader_epoch]
    lineage = [entry for entry in leader_epochs.entries if entry[0] > leader_epoch]
    for ours, theirs in zip_longest(of_segment, lineage):
        if ours != theirs:
            ends = [entry[1] - 1 for entry in (ours, theirs) if entry is not None]
            return min([metadata.end_offset, *ends])
    return metadata.end_offset


def _with_records(epochs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out the epochs in which nothing was written: the next one begins where they do."""
    return [epoch for epoch, following in pairwise(epochs) if epoch[1] != following[1]] + epochs[-1:]


def _entry(line: str, location: str) -> tuple[int, int]:
    words = line.split(" ")
    if len(words) != 2 or not all(map(_NUMBER.fullmatch, words)):
        raise _damaged(location, 0, f"its line {line[:60]!r} is not a leader epoch and an offset")
    return int(words[0]), int(words[1])


def _damaged(location: str, position: int, what: str) -> DamagedObjectError:
    return DamagedObjectError(f"the leader epoch checkpoint {location} is damaged: {what}", location, position)


def _epoch_of(entry: tuple[int, int]) -> int:
    return entry[0]


def _offset_of(entry: tuple[int, int]) -> int:
    return entry[1]
