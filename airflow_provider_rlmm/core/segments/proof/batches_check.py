# SPDX-License-Identifier: Apache-2.0
"""
The batches of a log beside each other and the metadata: checksums, offsets, leader epochs, timestamps.

The checksum of a batch covers neither its first offset nor its leader epoch: offsets have to follow each other, and each
epoch has to be the one in which the segment has that offset.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.indexes.time_index import NO_TIMESTAMP
from airflow_provider_rlmm.core.segments.proof.fields import Epochs
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Report
from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

Array = npt.NDArray[Any]

_MAX_EPOCHS: Final = 1_000
"""Changes of the leader epoch that are told of a log: one with more is damaged."""


class BatchesCheck:
    """
    Checks the batches of a log in their order.

    :param start_offset: first offset of the segment, inclusive.
    :param end_offset: last offset of the segment, inclusive; ``None`` where it is not known.
    :param epochs: leader epochs of the segment, and maybe those before it; nothing where they are not known.
    :param may_have_gaps: whether offsets may be missing.
    :param report: takes what is wrong.
    """

    def __init__(
        self, start_offset: int, end_offset: int | None, epochs: Epochs, *, may_have_gaps: bool, report: Report
    ) -> None:
        self._end_offset = end_offset
        self._epochs = np.array([epoch for epoch, _ in epochs], np.int64)
        self._epoch_starts = np.array([start for _, start in epochs], np.int64)
        self._may_have_gaps = may_have_gaps
        self._report = report
        self._next_offset: int | None = start_offset  # ``None`` behind what could not be read
        self._last_epoch = -1
        self.end_position = 0
        """The byte behind the last batch."""
        self.batches = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.highest_ms = NO_TIMESTAMP
        self.seen_epochs: list[tuple[int, int]] = []

    def take(self, headers: BatchHeaders) -> Array:
        """
        Check some batches.

        :param headers: of at least one batch.
        :return: the highest timestamp of the log up to each of them.
        """
        self._check_offsets(headers)
        self._check_epochs(headers)
        self.batches += len(headers)
        if self.first_offset is None:
            self.first_offset = int(headers.base_offset[0])
        self.last_offset = int(headers.last_offset[-1])
        self._next_offset = self.last_offset + 1
        self.end_position = headers.data_position + int(headers.position[-1] + headers.size_in_bytes[-1])
        highest: Array = np.maximum.accumulate(np.append(self.highest_ms, headers.max_timestamp_ms))[1:]
        self.highest_ms = int(highest[-1])
        return highest

    def skip(self) -> None:
        """Note that some bytes were left out: what follows need not follow what was before."""
        self._next_offset = None

    def finish(self) -> None:
        """Check that the log has ended where it must."""
        end = self._end_offset
        if end is None or self._next_offset is None or (self._may_have_gaps and self.batches):
            return
        if self._next_offset <= end:
            self._report(
                Finding(
                    kind=DamageKind.OFFSETS,
                    position=self.end_position,
                    offset=self._next_offset,
                    expected=str(end + 1),
                    seen=str(self._next_offset),
                    why=f"its records end before offset {self._next_offset}, and the next segment begins with {end + 1}",
                )
            )

    def _check_offsets(self, headers: BatchHeaders) -> None:
        base, known = headers.base_offset, self._next_offset
        expected = np.append(base[0] if known is None else known, headers.last_offset[:-1] + 1)
        wrong = (base < expected) if self._may_have_gaps else (base != expected)
        for row in np.flatnonzero(wrong).tolist():
            why = (
                f"it begins with offset {base[row]} where {expected[row]} must follow: records were lost, or the topic was "
                "compacted once"
            )
            self._wrong(headers, row, DamageKind.OFFSETS, why, str(expected[row]), str(base[row]))
        if self._end_offset is None:
            return
        for row in np.flatnonzero(headers.last_offset > self._end_offset).tolist():
            last, behind = int(headers.last_offset[row]), self._end_offset + 1
            why = f"it reaches to offset {last}, into the next segment, which begins with {behind}"
            self._wrong(headers, row, DamageKind.OFFSETS, why, f"below {behind}", str(last))

    def _check_epochs(self, headers: BatchHeaders) -> None:
        epoch = headers.leader_epoch.astype(np.int64)
        before = np.append(self._last_epoch, epoch[:-1])
        changed = np.flatnonzero(epoch != before)
        if len(self.seen_epochs) < _MAX_EPOCHS:
            self.seen_epochs += [
                (int(epoch[row]), int(headers.base_offset[row])) for row in changed[:_MAX_EPOCHS].tolist()
            ]
        self._last_epoch = int(epoch[-1])
        if not len(self._epochs):
            wrong, known = epoch < before, before
        else:
            entry = np.searchsorted(self._epoch_starts, headers.base_offset, side="right") - 1
            last = np.searchsorted(self._epoch_starts, headers.last_offset, side="right") - 1
            known = self._epochs[np.maximum(entry, 0)]
            # Below the log start offset only the order of epochs is known.
            below = (epoch < before) | (epoch > known)
            wrong = np.where(entry >= 0, (last != entry) | (known != epoch), below)
        for row in np.flatnonzero(wrong).tolist():
            why = (
                f"offsets {headers.base_offset[row]} to {headers.last_offset[row]} were written in leader epoch "
                f"{epoch[row]}, and the leader-epoch-checkpoint says {known[row]}"
            )
            self._wrong(headers, row, DamageKind.LEADER_EPOCH, why, str(known[row]), str(epoch[row]))

    def _wrong(self, headers: BatchHeaders, row: int, kind: DamageKind, why: str, expected: str, seen: str) -> None:
        self._report(
            Finding(
                kind=kind,
                position=headers.data_position + int(headers.position[row]),
                offset=int(headers.base_offset[row]),
                expected=expected,
                seen=seen,
                why=why,
            )
        )


def with_right_checksums(data: Data, headers: BatchHeaders, report: Report) -> bool:
    """
    Compare the checksum of each batch with its bytes; tell whether all are right.

    :param data: what the batches were found in.
    :param headers: the batches.
    :param report: takes each that is wrong.
    """
    left, right = headers, True
    while len(left):
        try:
            left.verify_checksums(data)
        except DamagedObjectError as e:
            right = False
            row = int(np.searchsorted(left.position, e.position - left.data_position))
            report(
                Finding(
                    kind=DamageKind.CHECKSUM,
                    position=e.position,
                    offset=int(left.base_offset[row]),
                    expected=f"{int(left.checksum[row]):#010x}",
                    why=str(e),
                )
            )
            left = left[row + 1 :]
        else:
            break
    return right
