# SPDX-License-Identifier: Apache-2.0
"""What a run refused or left, and whether a person has to look at it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from airflow_provider_rlmm.core.base.documents import AbsentAs, Text


class RefusalKind(StrEnum):
    """Why something was refused or left. :attr:`needs_person` tells what passes by itself from what does not."""

    WAITING = "WAITING"  # a normal wait, such as ``min_absence``: neither an error nor a refusal
    NEXT_RUN = "NEXT_RUN"  # left for the next run, which goes on by itself
    TOPIC_PRESENT = "TOPIC_PRESENT"  # the topic id still exists
    AMBIGUOUS = "AMBIGUOUS"  # it cannot be shown that the topic id is absent: several names, contradicting answers
    ACCESS_DENIED = "ACCESS_DENIED"  # the cluster does not allow the look that the rule needs
    DISKLESS = "DISKLESS"  # a topic without disks (Inkless) has the name
    INCOMPLETE_HISTORY = "INCOMPLETE_HISTORY"  # segment events without their beginning, or not shown to be all there
    QUARANTINED = "QUARANTINED"  # a record that cannot be applied
    MISROUTED = "MISROUTED"  # too many records of a metadata partition lie where our partitioner would not put them
    LOG_ERA = "LOG_ERA"  # records of the metadata topic have keys, or it is compacted
    LOST_RECORDS = "LOST_RECORDS"  # the metadata partition has lost records at its beginning or its end
    STORAGE = "STORAGE"  # the storage refused, or objects are where they should not be
    MISSING_OBJECTS = "MISSING_OBJECTS"  # objects that must exist were not seen
    UNNAMED_OBJECTS = "UNNAMED_OBJECTS"  # storage holds objects that no record names, and that must stay
    HELD = "HELD"  # a hold names it: a person has said that it is not to be touched
    UNKNOWN_HOLD = "UNKNOWN_HOLD"  # a hold names a topic that neither log nor cluster knows: nothing is held by it
    BLAST_RADIUS = "BLAST_RADIUS"  # more than one run may delete
    STOPPED = "STOPPED"  # the kill switch is on, or cannot be read
    CLOCK = "CLOCK"  # times contradict each other, or cannot be proven
    ARCHIVE = "ARCHIVE"  # what was to be archived before its deletion is not in the archive, or did not compare
    AUDIT = "AUDIT"  # the audit log lacks what became of a deletion
    REPORT = "REPORT"  # a report is missing or cannot be read
    OTHER = "OTHER"  # anything else that a person has to look at

    @property
    def needs_person(self) -> bool:
        """Whether it stays until a person acts."""
        return self not in (RefusalKind.WAITING, RefusalKind.NEXT_RUN, RefusalKind.HELD)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was refused or left, for reports."""

    what: Text  # which partition, segment or record
    why: Text  # the reason
    what_to_do: Text  # what an operator can do about it
    kind: RefusalKind  # what kind of reason
    metadata_partition: int | None = None  # where it was found, ``None`` where it concerns none
    offset: int | None = None  # of the record that it is about, ``None`` where there is none
    topic: Text | None = None  # name of the user topic that it is about, ``None`` where it concerns none or several
    # how many it stands for: where a list ends early its last one stands for the rest
    count: Annotated[int, AbsentAs(1)] = 1
