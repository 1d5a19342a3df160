# SPDX-License-Identifier: Apache-2.0
"""The transaction index of a log segment: the aborted transactions whose end markers lie in it (``TransactionIndex``)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.segments.indexes.entries import Data, damaged

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """
    A transaction that was aborted (Kafka: ``AbortedTxn``).

    :param producer_id: whose records they are.
    :param first_offset: of the transaction's first record.
    :param last_offset: of its end marker, inclusive.
    :param last_stable_offset: below it nothing was undecided any more when the transaction was aborted.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """
    The entries of a transaction index, in the order of their end markers. No checksum protects them.

    :param aborted: the aborted transactions.
    """

    aborted: tuple[AbortedTransaction, ...]

    @classmethod
    def parse(cls, data: Data, *, base_offset: int, location: str) -> TransactionIndex:
        """
        Read a transaction index.

        :param data: all bytes of the index; none are an index without entries.
        :param base_offset: first offset of its segment.
        :param location: key or path of the index, for messages.
        :raises DamagedObjectError: the size is no multiple of 34 bytes, or an entry has another version or what cannot be.
        """
        if len(data) % _ENTRY.size:
            cut = len(data) - len(data) % _ENTRY.size
            raise damaged(location, cut, f"the index has {len(data)} bytes, which is no multiple of {_ENTRY.size}")
        aborted: list[AbortedTransaction] = []
        above = base_offset - 1
        for row, (version, *numbers) in enumerate(_ENTRY.iter_unpack(data)):
            entry = AbortedTransaction(*numbers)
            reason = (
                f"its version is {version}, and {_VERSION} is known" if version != _VERSION else _wrong(entry, above)
            )
            if reason:
                raise damaged(location, row * _ENTRY.size, f"entry {row}: {reason}")
            aborted.append(entry)
            above = entry.last_offset
        return cls(tuple(aborted))

    def overlapping(self, first_offset: int, end_offset: int) -> tuple[tuple[AbortedTransaction, ...], bool]:
        """
        Return the aborted transactions that have records in a range of offsets (Kafka: ``collectAbortedTxns``).

        :param first_offset: first offset of the range, inclusive.
        :param end_offset: end of the range, exclusive.
        :return: the transactions, and whether the indexes of later segments cannot hold any more of them.
        """
        found: list[AbortedTransaction] = []
        for entry in self.aborted:
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return tuple(found), True
        return tuple(found), False


def _wrong(entry: AbortedTransaction, above: int) -> str | None:
    if entry.producer_id < 0:
        return f"producer id {entry.producer_id} is below zero"
    if not 0 <= entry.first_offset <= entry.last_offset:
        return f"a transaction from offset {entry.first_offset} to {entry.last_offset}"
    if entry.last_offset <= above:
        return f"its last offset {entry.last_offset} is not above {above}"
    if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
        return f"last stable offset {entry.last_stable_offset} with the last offset {entry.last_offset}"
    return None
