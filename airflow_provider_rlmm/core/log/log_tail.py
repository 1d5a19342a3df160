# SPDX-License-Identifier: Apache-2.0
"""Ties two reads of a metadata partition together: the last records of the first must come first in the second."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.arrow_arrays import at_least
from airflow_provider_rlmm.core.base.errors import LogReplacedError
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.read_tail import KEPT, ReadTail, digests

if TYPE_CHECKING:
    import pyarrow as pa


def _never() -> bool:
    return False


def is_same_tail(
    before: Sequence[tuple[int, bytes]], now: Sequence[tuple[int, bytes]], may_lack: Callable[[], bool]
) -> bool:
    """
    Tell whether the last records of a log are the ones that were read before.

    :param before: offset and SHA-256 of those that were read, by offset.
    :param now: of those that are there between the same offsets.
    :param may_lack: tells whether a log cleaner may have taken some; asked where some are gone. What is left has to be the
        same, and the newest has to be among it: nothing else stands for a record.
    """
    before, now = list(before), list(now)
    return before == now or (bool(now) and now[-1:] == before[-1:] and set(now) <= set(before) and may_lack())


class LogTail:
    """
    What the last records of a metadata partition were, by offset.

    Offsets alone prove nothing: a log that lost its end and has grown again has other records at the same offsets, and so
    has the log of another cluster.

    :param metadata_partition: which one.
    :param records: offset and SHA-256 of the last records, by offset, as :attr:`records` gave them.
    """

    def __init__(self, metadata_partition: int, records: Sequence[tuple[int, bytes]] = ()) -> None:
        self._metadata_partition = metadata_partition
        self._records: deque[tuple[int, bytes]] = deque(records, maxlen=KEPT)

    @property
    def records(self) -> tuple[tuple[int, bytes], ...]:
        """Offset and SHA-256 of the last records, by offset."""
        return tuple(self._records)

    def tie(self, position: int, may_lack: Callable[[], bool] = _never) -> Tie:
        """
        Return what a read that goes on at an offset has to show first.

        :param position: offset of the first record that was not read before, inclusive.
        :param may_lack: tells whether all but the last of these records may be gone since; asked where some are.
        """
        return Tie(self._metadata_partition, self.records, position, may_lack)

    def note(self, batch: pa.RecordBatch) -> None:
        """
        Remember the last records of a batch.

        :param batch: as :meth:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader.read` yields it.
        """
        self._records.extend(digests(batch.slice(max(0, batch.num_rows - KEPT))))

    def seen(self) -> ReadTail | None:
        """Return what a later run may know these records by, ``None`` where there was none."""
        if not self._records:
            return None
        records = list(self._records)
        return ReadTail(records[0][0], records[-1][0] + 1, _sha256(records))


class Tie:
    """
    Whether a read begins with the records that were read before: it is given them first, and passes on what follows.

    :param metadata_partition: which one.
    :param records: offset and SHA-256 of the last records that were read before.
    :param position: offset of the first record that was not, inclusive.
    :param may_lack: as of :meth:`LogTail.tie`.
    """

    def __init__(
        self,
        metadata_partition: int,
        records: Sequence[tuple[int, bytes]],
        position: int,
        may_lack: Callable[[], bool] = _never,
    ) -> None:
        self._may_lack = may_lack
        self._metadata_partition = metadata_partition
        self._records = records
        self._position = position
        self._shown: list[tuple[int, bytes]] = []
        self.start = records[0][0] if records else position
        """Offset to read from, inclusive."""
        self._open = self.start < position

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """
        Return the records of a batch that were not read before.

        :param batch: the next of the read.
        :raises LogReplacedError: if those before them are not the same.
        """
        if not self._open:
            return batch
        import pyarrow.compute as pc

        new = at_least(batch.column("offset"), self._position)
        self._shown += digests(batch.filter(pc.invert(new)))
        fresh = batch.filter(new)
        if fresh.num_rows:
            self.close()
        return fresh

    def close(self) -> None:
        """
        Compare the records that were read before with what the read has shown of them; it shows no more.

        :raises LogReplacedError: if they are others.
        """
        if self._open and not is_same_tail(self._records, self._shown, self._may_lack):
            first, last = self._records[0][0], self._records[-1][0]
            raise LogReplacedError(
                f"metadata partition {self._metadata_partition}: offsets {first} to {last} hold other records than before: "
                "the log lost its end and has grown again, or another cluster answers; nothing more is done on this metadata "
                "partition in this run"
            )
        self._open = False


def require_tail(log: MetadataLogReader, metadata_partition: int, tail: ReadTail) -> None:
    """
    Refuse a log that does not hold the records that a plan was made from.

    :param log: the metadata event log.
    :param metadata_partition: which partition.
    :param tail: what the plan says of it.
    :raises OffsetOutOfRangeError: if the log does not reach that far, or begins behind it.
    :raises LogReplacedError: if it holds other records there.
    :raises EventLogUnavailableError: if the range could not be read whole.
    """
    records = [d for batch in log.read(metadata_partition, tail.begin, tail.end) for d in digests(batch)]
    if _sha256(records) != tail.sha256:
        raise LogReplacedError(
            f"metadata partition {metadata_partition}: offsets {tail.begin} to {tail.end - 1} hold other records than when "
            "the plan was made: the log lost its end and has grown again, or another cluster answers; nothing is done on "
            "this metadata partition, make a new plan"
        )


def _sha256(records: list[tuple[int, bytes]]) -> str:
    return hashlib.sha256(repr(records).encode()).hexdigest()
