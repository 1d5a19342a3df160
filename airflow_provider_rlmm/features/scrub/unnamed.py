# SPDX-License-Identifier: Apache-2.0
"""
What no record names, and whether it may go.

A broker writes COPY_SEGMENT_STARTED durably before it uploads. So an object that no record names proves a log that has lost
records, or a second writer, such as a clone of the cluster on the same bucket. Neither is garbage. Such an object goes only
under a topic id that is absent by the full rule, and none goes while one of them lies under an id that lives or may live.

Where the log is not whole nothing is called garbage, and what no record that is left names bars the others all the same: a
broker has written it and the record is lost, or a second writer has, and nothing tells which.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.arrow_arrays import equals, filled, is_among
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.features.scrub.rules import DOUBTFUL, LOST, OTHER_NAME, ScrubClass

if TYPE_CHECKING:
    import pyarrow as pa

UNNAMED = (ScrubClass.UNREFERENCED.value, ScrubClass.UNKNOWN_TOPIC_ID.value)
"""Classes of objects that no record names, where the log can tell."""

BARRING = (*UNNAMED, ScrubClass.UNKNOWN.value)
"""Classes among which some may bar all others that no record names."""

_CANNOT_TELL = (LOST, OTHER_NAME, DOUBTFUL)
"""Why an object is of class UNKNOWN though all that is left of the log was searched for its segment."""

OBSERVED_COLUMNS: tuple[tuple[str, str], ...] = (
    (
        "presence",
        "string",
    ),  # what the cluster says of the topic id, a Presence; null where some record names the segment
    ("marked_ms", "int64"),  # since when a marker says that the user partition is absent, null where none stands
)
"""Name and Arrow type of what a look at the cluster and the markers in the log say of an object that no record names."""


class Kept(StrEnum):
    """Why an object that no record names stays."""

    NOT_ABSENT = "its topic id lives, or may live"
    UNMARKED = "no marker says since when its topic is absent, or a program wrote about it after that"
    UNMARKABLE = "no marker will come, as the log names no unfinished segment of its user partition"
    YOUNGER = "it is younger than the marker of its topic: a program has written it since"
    MIN_ABSENCE = "its topic was marked less than min_absence ago"


def why_kept(
    kind: str,
    *,
    presence: str | None,
    marked_ms: int | None,
    last_modified_ms: int,
    now_ms: int | None,
    min_absence_ms: int,
) -> Kept | None:
    """
    Return why an object that no record names must stay, ``None`` where its topic is absent by the full rule.

    :param kind: its class, one of :data:`UNNAMED`. Of a topic id that the log never named there can be no marker.
    :param presence: what the cluster says of its topic id, ``None`` where it was not asked.
    :param marked_ms: time of the observation that counts, ms since the epoch; ``None`` where none stands.
    :param last_modified_ms: the object's time, ms since the epoch.
    :param now_ms: proven time, ms since the epoch; ``None`` where nothing proves it.
    :param min_absence_ms: how long ago the marker must have been written, ms.
    """
    if presence != Presence.ABSENT.value:
        return Kept.NOT_ABSENT
    if kind == ScrubClass.UNKNOWN_TOPIC_ID.value:
        return None
    if marked_ms is None:
        return Kept.UNMARKED
    if last_modified_ms > marked_ms:
        return Kept.YOUNGER
    if now_ms is None or now_ms - marked_ms < min_absence_ms:
        return Kept.MIN_ABSENCE
    return None


def are_unnamed(rows: pa.Table) -> Any:
    """
    Return a mask of the objects that no record names, or none that is left of a log that is not whole.

    :param rows: with ``class``, ``why`` as the rules gave it, ``segment_id``, and ``offset`` of the segment's last event.
    """
    import pyarrow.compute as pc

    unknown = pc.and_(equals(rows["class"], ScrubClass.UNKNOWN.value), is_among(rows["why"], _CANNOT_TELL))
    without_record = pc.and_(pc.is_valid(rows["segment_id"]), pc.is_null(rows["offset"]))
    return pc.or_(is_among(rows["class"], UNNAMED), pc.and_(unknown, without_record))


def that_bar(rows: pa.Table) -> pa.Table:
    """
    Return the objects that no record names and whose topic id lives or may live: while there is one, none of them goes.

    :param rows: with ``class`` and :data:`OBSERVED_COLUMNS`.
    """
    return rows.filter(bar(rows))


def bar(rows: pa.Table) -> Any:
    """
    Return a mask of the objects that :func:`that_bar` returns.

    :param rows: as it takes them.
    """
    import pyarrow.compute as pc

    # What a record names was not asked for.
    unnamed = pc.or_(is_among(rows["class"], UNNAMED), pc.is_valid(rows["presence"]))
    absent = filled(equals(rows["presence"], Presence.ABSENT.value), False)
    return pc.and_(unnamed, pc.invert(absent))
