# SPDX-License-Identifier: Apache-2.0
"""
Whether a segment may be finished although no object of it was ever seen (I2 of docs/architecture.md).

Stores say that what was never there is deleted. So a segment without objects is finished only where having none is
legitimate, at a place that was listed and is verified; where its objects must have been is *missing*.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

SETTLE_MISSING: Final = "settle_missing"
SETTLE_CHANGED_PREFIX: Final = "settle_changed_prefix"

_COPY_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_COPY_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


class UnseenVerdict(StrEnum):
    """What may be done with a segment that has no object."""

    MAY_FINISH = "may finish"  # DELETE_SEGMENT_FINISHED may be written
    MISSING = "missing"  # its objects must have been there: it stays, and counts against the limit of missing segments
    # Having no objects would be legitimate, but nothing shows that they would have been seen: it stays, and is reported.
    NOT_PROVEN = "not proven"


@dataclass(frozen=True, slots=True)
class UnseenSegment:
    """
    What is known of a segment of which no listing of this run showed an object.

    :param state: its state when the run began.
    :param was_copied: whether it was ever COPY_SEGMENT_FINISHED; true where that is not known.
    :param places_proven: whether every place that its copy could have used was listed in this run and is verified.
    :param places_shown: whether something of the cluster was seen at each of them; where not, only ``expected_root`` names
        the location, and a mount that is missing looks the same.
    :param only_place: whether the layout admits one place only.
    :param root_is_fresh: whether the newest copies of living topics were seen at its place, or its stamp was expected and no
        topic lives.
    :param started_by_us: whether its DELETE_SEGMENT_STARTED is ours (broker id -1), written after a listing had shown its
        objects.
    :param same_root: whether each of its places has the root id below which an earlier run worked.
    :param on_record: whether the audit log has a batch of it that found, or may have found, objects to delete. A folder may
        have been away between that listing and the deletion, and be away still.
    :param unread: why some of the audit log says nothing, ``None`` where all of it was read.
    """

    state: RemoteLogSegmentState
    was_copied: bool
    places_proven: bool
    only_place: bool
    root_is_fresh: bool
    started_by_us: bool = False
    places_shown: bool = True
    same_root: bool = False
    on_record: bool = False
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class UnseenDecision:
    """What follows."""

    verdict: UnseenVerdict  # what may be done
    why: str  # in words, without the segment's name
    override: str | None = None  # the override under which it may be finished, ``None`` where there is none


def decide_unseen(segment: UnseenSegment, overrides: Collection[str] = ()) -> UnseenDecision:
    """
    Tell whether a segment may be finished although no object of it was seen.

    :param segment: what is known of it.
    :param overrides: overrides in force.
    :raises ValueError: for a segment that is finished.
    """
    decision = _overridden(_decide(segment), overrides)
    if decision.verdict is UnseenVerdict.MAY_FINISH and not segment.places_shown:
        return _overridden(_NOT_SHOWN, overrides)
    return decision


def _overridden(decision: UnseenDecision, overrides: Collection[str]) -> UnseenDecision:
    if decision.override is None or decision.override not in overrides:
        return decision
    why = f"the override {decision.override!r} is in force: {decision.why}"
    return UnseenDecision(UnseenVerdict.MAY_FINISH, why, decision.override)


_NOT_SHOWN: Final = UnseenDecision(
    UnseenVerdict.NOT_PROVEN,
    "it has no object, and at its place, which only expected_root names, neither an object nor a stamp of this cluster was "
    "seen",
    SETTLE_MISSING,
)


def _decide(segment: UnseenSegment) -> UnseenDecision:
    if segment.state not in (_COPY_STARTED, _COPY_FINISHED, _DELETE_STARTED):
        raise ValueError(f"a segment in state {segment.state.name} has nothing to finish")
    unlisted = "and not every place that its copy could have used was listed in this run and is verified"
    if segment.state is _COPY_FINISHED:
        copied = "its copy was finished, and storage lists no object of it"
        if segment.places_proven:
            return UnseenDecision(UnseenVerdict.MISSING, copied, SETTLE_MISSING)
        return UnseenDecision(UnseenVerdict.MISSING, f"{copied}, {unlisted}")
    if not segment.places_proven:
        return UnseenDecision(UnseenVerdict.NOT_PROVEN, f"it has no object, {unlisted}")
    if segment.state is _COPY_STARTED or not segment.was_copied:
        return UnseenDecision(UnseenVerdict.MAY_FINISH, "its copy was never finished, so that it may have no object")
    if segment.started_by_us and not segment.on_record:
        why = (
            "its copy was finished and a run began to delete it, storage lists no object of it, and the audit log has no "
            "deletion of it that found an object"
        )
        unread = f"; of the audit log this cannot be read: {segment.unread}" if segment.unread else ""
        # Without a record no less is asked for than with one: at several places it may lie below another prefix.
        override = SETTLE_MISSING if segment.only_place else SETTLE_CHANGED_PREFIX
        return UnseenDecision(UnseenVerdict.MISSING, f"{why}{unread}", override)
    if segment.started_by_us and segment.same_root:
        why = "an earlier run of ours had seen its objects at this place and begun to delete them"
        return UnseenDecision(UnseenVerdict.MAY_FINISH, why)
    if not segment.only_place:
        return UnseenDecision(
            UnseenVerdict.MISSING,
            "its copy was finished and another program began to delete it, and storage lists no object of it at any of "
            "several places: the program that deleted it may have looked below another prefix",
            SETTLE_CHANGED_PREFIX,
        )
    if not segment.root_is_fresh:
        return UnseenDecision(
            UnseenVerdict.MISSING,
            "its copy was finished and another program began to delete it, and storage lists no object of it below a root "
            "that nothing shows to be up to date",
            SETTLE_MISSING,
        )
    why = "another program had deleted its objects, at the only place where they can have been"
    return UnseenDecision(UnseenVerdict.MAY_FINISH, why)
