# SPDX-License-Identifier: Apache-2.0
"""
Is a storage root the one that brokers write to, or a copy of it that is current to this day?

A copy holds all that was copied before it was made, so nothing that is older tells them apart. What tells is a segment whose
copy began after the work folder had recorded where the root lies, and that lies there. Offsets of the metadata topic say what
is older, no clock does. Our own copier writes where the connection says: its copies prove nothing. Who takes a wait away has
no time for such a copy, and names the root.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.plans.limits import WAIT_OVERRIDES
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.storage.root import RootCheck
from airflow_provider_rlmm.core.world.freshness import Freshness, FreshnessVerdict, Sample

COMPARE: Final = "compare it with rsm.config.* in a broker's properties: brokers do not tell it"


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """
    Since when a work folder knows where a place lies.

    :param where: the location, as text.
    :param at_ms: when it was first recorded there, ms since the epoch, for people.
    :param topic_id: id of the metadata topic at that time.
    :param ends: metadata partition → its high watermark at that time.
    """

    where: str
    at_ms: int
    topic_id: UUID
    ends: Mapping[int, int]

    def is_before(self, sample: Sample) -> bool:
        """Tell whether a broker began to copy a segment after this."""
        end, added = self.ends.get(sample.metadata_partition), sample.added_offset
        return sample.broker_id >= 0 and end is not None and added is not None and added >= end


@dataclass(frozen=True, slots=True)
class NotCurrent:
    """
    A root of which nothing shows that it is the one that brokers write to now: no real run works below it.

    :param why: what is missing.
    :param what_to_do: what a person can do.
    """

    why: str
    what_to_do: str

    def __str__(self) -> str:
        return f"{self.why}. What to do: {self.what_to_do}"

    def to_refusal(self) -> Refusal:
        """Return what a dry run or a plan has to say of the real one."""
        return Refusal(
            "the storage root", f"a real run would be refused: {self.why}", self.what_to_do, RefusalKind.STORAGE
        )


class PlaceLedger(Protocol):
    """Remembers since when places lie where they do."""

    def seen(self, places: Mapping[str, str], log: MetadataLogReader) -> Mapping[str, FirstSeen]:
        """
        Return since when each place is known where it lies now; what is new is recorded, as of now.

        :param places: name of the place → its location.
        :param log: the metadata event log.
        :raises PlanError: if what was recorded cannot be read.
        """


class NothingRecorded:
    """The ledger of a caller without a work folder: each place is new."""

    def seen(self, places: Mapping[str, str], log: MetadataLogReader) -> Mapping[str, FirstSeen]:
        """Know nothing."""
        return {}


NOTHING_RECORDED: Final[PlaceLedger] = NothingRecorded()


def why_not_current(
    check: RootCheck,
    freshness: Freshness,
    ledger: PlaceLedger,
    log: MetadataLogReader,
    *,
    named: bool,
    late: Callable[[], str],
    overrides: Collection[str] = (),
) -> NotCurrent | None:
    """
    Tell why nothing shows that a root is the one that brokers write to now, ``None`` where something does.

    Where no living topic has a copy nothing can: other rules hold there, unless the run takes a wait away.

    :param check: whose root it is.
    :param freshness: whether it is up to date.
    :param ledger: since when it is known.
    :param log: the metadata event log.
    :param named: whether a person has named every place.
    :param late: tells which living topics are copied late, in words; asked only where no copy tells.
    :param overrides: overrides in force.
    :raises PlanError: if what was recorded cannot be read.
    :raises EventLogError: if the log does not answer.
    """
    first = check.places[0]
    place, where = first.place.name, str(first.where)
    known = ledger.seen({c.place.name: str(c.where) for c in check.places}, log).get(place)
    pinned = f"set {check.to_paste} in the rlmm connection, and {COMPARE}"
    if named:
        return None
    if hasty := sorted(WAIT_OVERRIDES.intersection(overrides)):
        return NotCurrent(
            f"the override {hasty[0]!r} takes the wait away, and no person has named the storage root, {where}: it may be a "
            "current copy of the root that brokers write to",
            f"wait, without the override, or {pinned}",
        )
    if freshness.verdict(place) not in (FreshnessVerdict.FRESH, FreshnessVerdict.PARTLY_MISSING):
        return None
    there = [sample for sample in freshness.samples if sample.place == place and sample not in freshness.missing]
    if known is not None and known.where == where and any(map(known.is_before, there)):
        return None
    copied_late = late()
    return NotCurrent(
        f"no broker has copied a segment of a living topic to {place} since this work folder first recorded that it lies at "
        f"{where}, so it may be a current copy of the root that brokers write to{copied_late and f'; {copied_late}'}",
        f"look again when one has, or {pinned}",
    )
