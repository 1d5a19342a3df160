# SPDX-License-Identifier: Apache-2.0
"""What is asked about a segment: the fields of its metadata as far as they are known, and where its bytes come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.index_type import IndexType

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot

Epochs = tuple[tuple[int, int], ...]
"""(Leader epoch, first offset written in it), both ascending."""


class SegmentSource(Protocol):
    """
    Hands out the bytes of one segment as they lay on the broker's disk.

    Both methods raise :class:`~airflow_provider_rlmm.core.base.errors.DamagedObjectError` where what the plugin has packed
    cannot be unpacked, and the error that keeps the storage from answering.
    """

    def log(self, start: int, end: int) -> bytes:
        """
        Return bytes of the log; fewer than are asked for only where it ends.

        :param start: first position, inclusive.
        :param end: last position, exclusive.
        """

    def index(self, index_type: IndexType) -> bytes | None:
        """
        Return an index, ``None`` where there is none.

        :param index_type: which one.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFields:
    """
    What is said of a segment. ``None`` is not known: it is not compared, and the proof says what the log has.

    :param start_offset: first offset, inclusive.
    :param end_offset: last offset, inclusive.
    :param size_in_bytes: of the log.
    :param max_timestamp_ms: highest timestamp, ms since the epoch; where no record has one it is the time of the file.
    :param leader_epochs: of the segment, by epoch; the first may begin behind its first offset, where the log did so.
    :param txn_index_empty: whether no transaction was aborted in it; a broker before 4.0 always says ``False``.
    """

    start_offset: int
    end_offset: int | None = None
    size_in_bytes: int | None = None
    max_timestamp_ms: int | None = None
    leader_epochs: Epochs | None = None
    txn_index_empty: bool | None = None

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata) -> SegmentFields:
        """
        Return what the metadata topic says of a copied segment.

        :param metadata: of the segment.
        """
        return cls(
            start_offset=metadata.start_offset,
            end_offset=metadata.end_offset,
            size_in_bytes=metadata.segment_size_in_bytes,
            max_timestamp_ms=metadata.max_timestamp_ms,
            leader_epochs=metadata.segment_leader_epochs,
            txn_index_empty=metadata.txn_idx_empty,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """
    What is known of the log around a segment; the more, the more can be told.

    :param lineage: the leader epochs of the log up to the end of the segment, as far as other segments' metadata tell: the
        first one begins at its offset or before. ``None`` for those of the segment alone.
    :param producers_before: the producers where the segment begins, as the segment before keeps them.
    :param may_have_gaps: whether offsets may be missing, as where the topic was compacted once.
    """

    lineage: Epochs | None = None
    producers_before: ProducerSnapshot | None = None
    may_have_gaps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFields:
    """
    What the log itself says, as far as it could be read.

    :param size_in_bytes: bytes of the log that were read.
    :param batches: record batches in it.
    :param first_offset: of the first batch, inclusive; ``None`` without batches.
    :param last_offset: of the last batch, inclusive; ``None`` without batches.
    :param max_timestamp_ms: highest timestamp; -1 where no record has one.
    :param leader_epochs: of the batches: (leader epoch, first offset of its first batch).
    :param aborted_transactions: end markers of aborted transactions in it.
    """

    size_in_bytes: int
    batches: int
    first_offset: int | None
    last_offset: int | None
    max_timestamp_ms: int
    leader_epochs: Epochs
    aborted_transactions: int
