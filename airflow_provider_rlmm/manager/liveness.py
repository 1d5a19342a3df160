# SPDX-License-Identifier: Apache-2.0
"""What can be seen of consuming: when it last worked, how far it is, what failed, what could not be applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_rlmm.event_log.event_decoding import QuarantinedRecord

MAX_QUARANTINED_SHOWN = 1_000
"""Records in quarantine that are kept per metadata partition; all are counted."""


@dataclass(frozen=True, slots=True)
class MetadataPartitionLiveness:
    """
    One metadata partition that is followed.

    :param consumed_offset: everything below it was delivered to the user partitions that are up to date.
    :param end_offset: end of the metadata partition, as last heard from the brokers.
    :param bootstrapping: number of user partitions that still catch up with ``consumed_offset``.
    :param quarantined: number of records that cannot be applied.
    """

    consumed_offset: int
    end_offset: int
    bootstrapping: int
    quarantined: int

    @property
    def lag(self) -> int:
        """Offsets that are known to exist and were not consumed."""
        return max(0, self.end_offset - self.consumed_offset)


@dataclass(frozen=True, slots=True)
class Liveness:
    """
    What the consumer saw last.

    :param running: whether the thread that consumes is alive.
    :param last_poll_ms: when a poll last succeeded, ms since the epoch; ``None`` where none has.
    :param metadata_partitions: the metadata partitions that are followed.
    :param last_error: the last failure, in words; it stays after things work again.
    :param last_error_ms: when that was, ms since the epoch.
    :param failures_in_a_row: steps that have failed since the last one that did not.
    """

    running: bool = False
    last_poll_ms: int | None = None
    metadata_partitions: Mapping[int, MetadataPartitionLiveness] = field(default_factory=dict)
    last_error: str | None = None
    last_error_ms: int | None = None
    failures_in_a_row: int = 0


@dataclass(slots=True)
class Quarantine:
    """The records of one metadata partition that cannot be applied."""

    records: list[QuarantinedRecord] = field(default_factory=list)  # the first of them
    total: int = 0  # number of all
    # number of good records, each of which proves our partitioner; some are counted again after a failure
    routed: int = 0
    misrouted: int = 0  # number of records that lie where our partitioner would not put them
    judged: int = 0  # records below this offset were counted

    def take(self, records: Sequence[QuarantinedRecord], routed: int, end: int) -> None:
        """
        Count what a batch holds; after a failure it may begin with records that were counted before, and go beyond them.

        :param records: those that cannot be applied.
        :param routed: number of good ones.
        :param end: offset after its last record.
        """
        if end <= self.judged:
            return
        new = [record for record in records if record.offset >= self.judged]
        self.records += new[: max(0, MAX_QUARANTINED_SHOWN - len(self.records))]
        self.total += len(new)
        self.routed += routed
        self.misrouted += sum(record.code == "MISROUTED" for record in new)
        self.judged = end
