# SPDX-License-Identifier: Apache-2.0
"""The record batches of a log that lies in storage as it lay on the broker's disk, a part of it in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DamagedObjectError
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.recovery.rules import ListedSegment
from airflow_provider_rlmm.features.recovery.segment_reads import Fetch

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.proof.findings import Finding
    from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders

PART_BYTES: Final = 2**20
"""How much of a log is fetched at once: several are read at once."""


class ChangedError(Exception):
    """Raised when an object is not as it was listed."""


@dataclass(frozen=True, slots=True)
class LogObject:
    """
    A :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`: a log alone, as it lay on the disk.

    :param key: of the object.
    :param fetch: reads an object.
    """

    key: str
    fetch: Fetch

    def log(self, start: int, end: int) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`."""
        return self.fetch(self.key, start, end - 1)

    def index(self, index_type: IndexType) -> bytes | None:
        """See :class:`~airflow_provider_rlmm.core.segments.proof.fields.SegmentSource`: it is not known where it lies."""
        raise ConfigurationError(f"nothing says where the {index_type.value} index of {self.key} lies")


def batches_in(listed: ListedSegment, suffix: str, begin: int, fetch: Fetch) -> Iterator[BatchHeaders]:
    """
    Yield the batches of a log from a position on, up to its end; their checksums are right.

    :param listed: the segment.
    :param suffix: of the object that is its log, as it lay on the broker's disk.
    :param begin: where a batch begins, bytes.
    :param fetch: reads an object.
    :raises DamagedObjectError: if it cannot be what a broker has written.
    :raises UnsupportedMessageFormatError: if a batch is older than message format v2.
    :raises ChangedError: if it is not as large as it was listed.
    """
    import numpy as np

    from airflow_provider_rlmm.core.segments.proof.batches_check import with_right_checksums
    from airflow_provider_rlmm.core.segments.proof.findings import DamageKind
    from airflow_provider_rlmm.core.segments.proof.log_walk import LogWalk

    key, size = listed.stem + suffix, listed.sizes[suffix]
    if begin >= size:
        raise DamagedObjectError(f"{key} has {size} bytes, and its records must begin before byte {begin}", key, begin)

    def refuse(finding: Finding) -> None:
        if finding.kind is DamageKind.SIZE:
            raise ChangedError(f"{key} was listed with {size} bytes, and {finding.why}")
        raise DamagedObjectError(f"{key}: {finding.why}", key, finding.position or 0)

    walk = LogWalk(LogObject(key, fetch), size, np.empty(0, np.int64), refuse, PART_BYTES, begin)
    for data, headers in walk.batches():
        assert headers is not None  # noqa: S101 # what is left out was refused
        with_right_checksums(data, headers, refuse)
        yield headers
