# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a record, and what becomes of an event that is replayed: codes to decide by, sentences to show."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """
    What is wrong with a record; of several things the one that Kafka would stumble over.

    ``TOMBSTONE`` (a null value), ``NEWER_VERSION``, ``UNKNOWN_API_KEY``, ``MALFORMED`` and ``SNAPSHOT`` end a
    broker's consumer. ``KEYED`` and ``MISROUTED`` (a metadata partition that is not the user partition's) do not, as
    a broker looks at neither; the fields of these and of snapshots are decoded. A record that is both is ``MISROUTED``:
    keyed ones are applied, and events of one user partition from two metadata partitions have no order. For the same reason
    it goes before ``BEYOND_LIMITS``.

    A key that names what its record names makes no record bad: ``KEYED`` has one that names something else, or nothing that
    is known. ``FORGOTTEN`` is a null value whose key names a segment: a broker asks the log cleaner by it to forget records,
    and it says nothing of what was deleted. Whether one ends a broker's consumer depends on the broker's version.

    ``BEYOND_LIMITS`` ends a consumer of Kafka 4.4 and newer, which read so many tagged fields and leader epochs and no more;
    older brokers apply it. It is applied here: it says what happened, to any reader.
    """

    GOOD = 0
    TOMBSTONE = 1
    KEYED = 2
    NEWER_VERSION = 3
    UNKNOWN_API_KEY = 4
    MALFORMED = 5
    SNAPSHOT = 6
    MISROUTED = 7
    FORGOTTEN = 8
    BEYOND_LIMITS = 9


APPLIED_CODES = frozenset({ErrorCode.GOOD, ErrorCode.KEYED, ErrorCode.BEYOND_LIMITS})
"""Of records that are applied; what is quarantined among them is so for what it does to brokers, or may come to mean."""

DECODED_CODES = APPLIED_CODES | {ErrorCode.MISROUTED}
"""Of records that say for certain whom they are about."""

QUARANTINED_CODES = frozenset(ErrorCode) - {ErrorCode.GOOD, ErrorCode.FORGOTTEN}
"""Of records that a person has to look at. One that asks to forget others says nothing that could be believed, or not."""


class EventFate(IntEnum):
    """
    What became of an event. The numbers are those of the column ``fate`` in a
    :class:`~airflow_provider_rlmm.core.records.columnar.ApplyReport`.

    Kafka drops what it cannot apply with no more than a line in the broker's log, and ends its consumer where it throws.
    """

    APPLIED = 0
    DROPPED_INVALID_TRANSITION = 1
    DROPPED_UNKNOWN_SEGMENT = 2
    THROWN = 3
    AFTER_FINISHED = 4
    BAD_RECORD = 5
    """It is no event to apply; its ``error_code`` says why."""

    @property
    def applied(self) -> bool:
        """Whether the event changed the replayed state."""
        return self is EventFate.APPLIED

    @property
    def reason(self) -> str:
        """What this means, in words."""
        return _REASONS[self]


_REASONS = {
    EventFate.APPLIED: "applied",
    EventFate.DROPPED_INVALID_TRANSITION: "the segment's state does not allow this step",
    EventFate.DROPPED_UNKNOWN_SEGMENT: (
        "the segment is not known: its first event is missing, or it was deleted before"
    ),
    EventFate.THROWN: "the state machine of the brokers throws at this step",
    EventFate.AFTER_FINISHED: (
        "an event after DELETE_PARTITION_FINISHED, on every broker that still serves the partition"
    ),
    EventFate.BAD_RECORD: "the record is no event that can be applied",
}
