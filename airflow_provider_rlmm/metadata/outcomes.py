# SPDX-License-Identifier: Apache-2.0
"""What becomes of an event where it is replayed: codes to decide by, and a sentence for each to show."""

from __future__ import annotations

from enum import IntEnum


class EventFate(IntEnum):
    """
    What became of an event. The numbers are those of the column ``fate`` in a
    :class:`~airflow_provider_rlmm.metadata.columnar.ApplyReport`.

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
