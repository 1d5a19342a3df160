# SPDX-License-Identifier: Apache-2.0
"""
Limits of destructive work, declared: what each is called and means, its bounds and its default.

The value objects that hold them, and what they are together, are in :mod:`~airflow_provider_rlmm.core.plans.guards`.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.declarations import Declared, Duration, Names, Share, Whole, Written
from airflow_provider_rlmm.core.plans.deletion_window import DeletionWindow
from airflow_provider_rlmm.core.records.outcomes import QUARANTINED_CODES

MAX_BATCH_SEGMENTS: Final = 10_000
"""What is started, deleted and finished together is held in memory, and looked at the cluster for once."""

QUARANTINE_KINDS = frozenset(code.name for code in QUARANTINED_CODES)
"""Kinds of records that cannot be used."""

OVERRIDES = {
    "short_min_absence": "min_absence below 24 h, below a storage root that expected_root names",
    "settle_missing": "finish segments whose objects were never seen",
    "settle_changed_prefix": "finish segments that are at none of several places and of whose deletion we have no record",
    "move_stamp": "write the stamp of the storage root anew if it names another location",
    "missing_living_segments": "go on although some of the newest copies of living topics, or of those that may not be "
    "described, are missing",
    "unproven_root": "go on below a storage root that no living topic and no stamp proves",
    "versioned_bucket": "delete in a bucket that keeps what is deleted for good, or whose store refuses deletion",
    "events_by_hand": "write single events that start or finish a deletion, under the cleaner's conditions",
    "short_unreferenced_wait": "delete what no record names after less than 24 h, below a root that expected_root names",
    "unproven_clock": "wait by this worker's own clock if nothing proves the time, or against an old record's time",
}
"""Named overrides; each needs ``expected_cluster_id`` to be set and to match."""

WAIT_OVERRIDES = frozenset({"short_min_absence", "short_unreferenced_wait"})
"""Those of them that take a wait away."""

# --- of everybody who deletes -----------------------------------------------------------------------------------------

MIN_ABSENCE: Final = Declared(
    name="min_absence_ms",
    kind=Duration(),
    default=24 * HOUR_MS,
    title="Wait between looks",
    sentence="Two observations of absence are this far apart",
)
BATCH_SEGMENTS: Final = Declared(
    name="batch_segments",
    kind=Whole(minimum=1, maximum=MAX_BATCH_SEGMENTS),
    # One look at the cluster and two rounds of records for so many segments cost little beside what they are for.
    default=2_000,
    title="Segments per batch",
    sentence="Segments that are started and deleted together",
)
NAMED_OVERRIDES: Final[Declared[frozenset[str]]] = Declared(
    name="overrides",
    kind=Names(OVERRIDES),
    default=frozenset(),
    title="Protections to switch off",
    sentence="Named overrides; they need expected_cluster_id in the connection",
)
OBJECTS_PER_SECOND: Final[Declared[int | None]] = Declared(
    name="objects_per_second",
    kind=Whole(minimum=1),
    default=None,
    title="Objects per second",
    sentence="The most that a run deletes, shared out among its tasks",
    absent="as many as the store allows",
)
DELETION_WINDOW: Final[Declared[str | None]] = Declared(
    name="deletion_window",
    kind=Written(lambda name, value: str(DeletionWindow.of(name, value))),
    default=None,
    title="Time of day",
    sentence="Time of day at which deletion may run",
    example="22:00-06:00 Europe/Berlin",
    absent="any",
)
_OF_EVERY_DELETION: Final[tuple[Declared[Any], ...]] = (
    MIN_ABSENCE,
    BATCH_SEGMENTS,
    NAMED_OVERRIDES,
    OBJECTS_PER_SECOND,
    DELETION_WINDOW,
)

# --- of the cleaner ---------------------------------------------------------------------------------------------------

MAX_MISSING_SEGMENTS: Final = Declared(
    name="max_missing_segments",
    kind=Whole(),
    default=10,
    title="Missing segments",
    sentence="Segments without any object that are tolerated",
)
ALLOWED_QUARANTINE: Final[Declared[frozenset[str]]] = Declared(
    name="allowed_quarantine",
    kind=Names(QUARANTINE_KINDS),
    default=frozenset(),
    title="Unusable records to allow",
    sentence="Kinds of unusable records that stop nothing",
)
MAX_MINUTES: Final[Declared[int | None]] = Declared(
    name="max_minutes",
    kind=Whole(minimum=1, unit="minutes"),
    default=None,
    title="Minutes",
    sentence="Minutes after which a run that deletes begins no further batch; the next run goes on",
    absent="as long as it takes",
)
CLEANER: Final[tuple[Declared[Any], ...]] = (
    *_OF_EVERY_DELETION,
    MAX_MISSING_SEGMENTS,
    ALLOWED_QUARANTINE,
    MAX_MINUTES,
)

# --- of the scrub, and of the doctor ----------------------------------------------------------------------------------

MIN_UNREFERENCED: Final = Declared(
    name="min_unreferenced_ms",
    kind=Duration(),
    default=72 * HOUR_MS,
    title="Wait between scrubs",
    sentence="Two scrubs that find an object without a record are this far apart",
)
SCRUB: Final[tuple[Declared[Any], ...]] = (MIN_UNREFERENCED, *_OF_EVERY_DELETION)

MAX_COPY: Final = Declared(
    name="max_copy_ms",
    kind=Duration(),
    default=4 * HOUR_MS,
    title="Time for a copy",
    sentence="For how long a copy may be under way",
)
"""After that time a copy counts as never finished."""

MIN_AGE: Final = Declared(
    name="min_age_ms",
    kind=Duration(),
    default=72 * HOUR_MS,
    title="Age of unfinished work",
    sentence="From what age on unfinished work counts as stuck",
)

# --- the most that one run may delete ---------------------------------------------------------------------------------

MAX_SEGMENTS: Final = Declared(
    name="max_segments",
    kind=Whole(),
    default=100_000,
    title="Most segments",
    sentence="The most that one run may delete",
)
MAX_BYTES: Final = Declared(
    name="max_bytes",
    kind=Whole(unit="bytes"),
    default=10 * 2**40,
    title="Most bytes",
    sentence="The most bytes that one run may delete",
)
MAX_SHARE: Final = Declared(
    name="max_share",
    kind=Share(),
    default=0.5,
    title="Largest share",
    sentence="Of all known segments, the most that one run may delete",
)
BLAST_RADIUS: Final[tuple[Declared[Any], ...]] = (MAX_SEGMENTS, MAX_BYTES, MAX_SHARE)

_PART_OF_THE_RADIUS: Final = 10
APPROVE_ABOVE_SEGMENTS: Final = Declared(
    name="approve_above_segments",
    kind=Whole(),
    default=MAX_SEGMENTS.default // _PART_OF_THE_RADIUS,
    title="Ask above this many segments",
    sentence="A real run with a larger plan asks a person before it deletes",
)
APPROVE_ABOVE_BYTES: Final = Declared(
    name="approve_above_bytes",
    kind=Whole(unit="bytes"),
    default=MAX_BYTES.default // _PART_OF_THE_RADIUS,
    title="Ask above this many bytes",
    sentence="A real run with a larger plan asks a person before it deletes",
)
APPROVAL: Final[tuple[Declared[Any], ...]] = (APPROVE_ABOVE_SEGMENTS, APPROVE_ABOVE_BYTES)

MAX_SEGMENTS_THIS_RUN: Final[Declared[int | None]] = Declared(
    name="max_segments_this_run",
    kind=Whole(minimum=1),
    default=None,
    title="Segments this run",
    sentence="Take no more segments than these, a canary",
    absent="all",
)
"""A canary: what is beyond it is left for the next run, and nothing is refused."""
