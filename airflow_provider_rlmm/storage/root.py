# SPDX-License-Identifier: Apache-2.0
"""
The rules by which a storage root is believed to be the one where the cluster's brokers write.

Pure: no call is made here. A stamp proves nothing by being there, since a copy of the root holds a copy of it: it has to lie
where it says, and its root id has to be one that was known before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final
from uuid import uuid4

from airflow_provider_rlmm.errors import StorageRootError
from airflow_provider_rlmm.storage.stamp import Location, Place, Stamp, stamp_key

MOVE_STAMP: Final = "move_stamp"
"""The override under which a stamp that names another location is written anew."""


class RootProof(StrEnum):
    """How a place was verified."""

    OBJECT = "object"
    """An object of this layout of a topic id that the metadata topic names lies there."""

    RECORDED = "recorded"
    """Its stamp lies where it says, and an earlier plan or report of the cluster recorded its root id."""

    EXPECTED_ROOT = "expected_root"
    """The connection's ``expected_root`` names it."""


@dataclass(frozen=True, slots=True)
class RootExpectation:
    """
    What is known about the root before it is looked at.

    :param recorded: root ids that earlier plans and reports of the cluster recorded.
    :param expected_root: the connection's field: the root id, or the location as text where no stamp can be written.
    :param move_stamp: the override of this name: a stamp that names another location is written anew.
    """

    recorded: frozenset[str] = frozenset()
    expected_root: str | None = None
    move_stamp: bool = False


UNKNOWN_ROOT: Final = RootExpectation()
"""Nothing is known about the root but what lies there."""


@dataclass(frozen=True, slots=True)
class PlaceCheck:
    """
    Whether a place is the cluster's.

    :param place: which place.
    :param where: where it lies now.
    :param how: how it was verified, ``None`` where it was not.
    :param root_id: root id of the stamp that lies there; without a stamp the location where ``expected_root`` names it.
    :param reason: what was seen, for reports and errors.
    :param stamped: whether a stamp that may be believed lies there.
    :param shown: whether anything of the cluster was seen there, an object or its stamp; otherwise only ``expected_root``
        names the location, and a mount that is missing looks the same.
    """

    place: Place
    where: Location
    how: RootProof | None
    root_id: str | None
    reason: str
    stamped: bool = False
    shown: bool = True

    @property
    def verified(self) -> bool:
        """Whether the place is the cluster's."""
        return self.how is not None

    @property
    def expected(self) -> bool:
        """Whether it was known before, not only recognised by an object."""
        return self.how in (RootProof.RECORDED, RootProof.EXPECTED_ROOT)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types, for plans and reports."""
        return {
            "place": self.place.name,
            "where": str(self.where),
            "verified": self.verified,
            "how": self.how and self.how.value,
            "root_id": self.root_id,
            "reason": self.reason,
        }


class StampOutcome(StrEnum):
    """What became of a stamp."""

    WRITTEN = "written"
    ALREADY_THERE = "already there"
    CANNOT_BE_WRITTEN = "cannot be written"


@dataclass(frozen=True, slots=True)
class StampResult:
    """
    What became of the stamp of a place.

    :param place: name of the place.
    :param outcome: what became of it.
    :param root_id: root id of the stamp that lies there now, ``None`` where there is none.
    :param reason: why it cannot be written and what to do, else empty.
    """

    place: str
    outcome: StampOutcome
    root_id: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RootCheck:
    """
    Whether the storage root is the one of the cluster.

    :param cluster_id: the cluster.
    :param places: one check per place of the layout.
    :param move_stamp: whether it was made under the override that has a stamp written anew.
    """

    cluster_id: str
    places: tuple[PlaceCheck, ...]
    move_stamp: bool = False

    @property
    def verified(self) -> bool:
        """Whether every place is verified."""
        return all(check.verified for check in self.places)

    @property
    def reason(self) -> str:
        """What was seen, for reports and errors."""
        return "; ".join(check.reason for check in self.places)

    @property
    def root_ids(self) -> Mapping[str, str]:
        """Name of the place → root id, of the verified places that have one: what plans and reports record."""
        return {c.place.name: c.root_id for c in self.places if c.verified and c.root_id is not None}

    @property
    def expected_places(self) -> frozenset[str]:
        """Names of the places that were known before."""
        return frozenset(check.place.name for check in self.places if check.expected)

    def is_verified(self, place: Place) -> bool:
        """
        Tell whether one place is verified.

        :param place: which place.
        """
        return any(check.verified for check in self.places if check.place == place)

    def is_shown(self, place: Place) -> bool:
        """
        Tell whether anything of the cluster was seen at a place.

        :param place: which place.
        """
        return any(check.shown for check in self.places if check.place == place)

    def with_stamps(self, results: tuple[StampResult, ...]) -> RootCheck:
        """
        Return the check as it is after stamps were written.

        :param results: what became of them.
        """
        ids = {r.place: r.root_id for r in results if r.root_id is not None}
        return replace(
            self,
            places=tuple(
                replace(c, root_id=ids[c.place.name], stamped=True) if c.place.name in ids else c for c in self.places
            ),
        )


@dataclass(frozen=True, slots=True)
class PlaceLook:
    """
    One place as it is seen, to be judged.

    :param cluster_id: the cluster that is worked for.
    :param layout: name of the layout.
    :param place: the place.
    :param here: where it lies now.
    :param raw_stamp: content of the object at its stamp's key, ``None`` where there is none.
    """

    cluster_id: str
    layout: str
    place: Place
    here: Location
    raw_stamp: bytes | None

    @property
    def stamp_key(self) -> str:
        """Key of the stamp."""
        return stamp_key(self.cluster_id, self.place.name)

    def judge(self, expectation: RootExpectation, find_object: Callable[[], str | None]) -> PlaceCheck:
        """
        Tell whether the place is the cluster's.

        :param expectation: what is known about the root.
        :param find_object: says which object of a known topic id lies there, ``None`` where there is none; asked only
            where nothing else verifies the place.
        :raises StorageRootError: if the stamp names another location, or ``expected_root`` another root.
        """
        stamp = self.stamp(move_stamp=expectation.move_stamp)
        root_id = stamp.root_id if stamp else None
        if expectation.expected_root is not None:
            self._require_expected(expectation.expected_root, root_id)
            return self._named(expectation.expected_root, root_id, stamp, find_object)
        if root_id in expectation.recorded:
            named = f"{self.stamp_key} names root {root_id}, as an earlier plan or report did"
            return self._check(RootProof.RECORDED, root_id, named, stamp)
        if (seen := find_object()) is not None:
            return self._check(RootProof.OBJECT, root_id, seen, stamp)
        known = f"there is no stamp {self.stamp_key}"
        if stamp:
            known = (
                f"{self.stamp_key} names root {root_id}, which neither a plan or report before nor expected_root names"
            )
        return self._check(None, root_id, f"{known}, and no object of this cluster was seen at {self.here}", stamp)

    def _named(
        self, expected: str, root_id: str | None, stamp: Stamp | None, find_object: Callable[[], str | None]
    ) -> PlaceCheck:
        """Return what is known of the place that ``expected_root`` names."""
        reason = f"expected_root names {expected}"
        shown = stamp is not None
        if not shown:
            seen = find_object()
            shown = seen is not None
            reason = f"{reason}, and {seen or 'neither an object nor a stamp of this cluster was seen there'}"
        check = self._check(RootProof.EXPECTED_ROOT, root_id or str(self.here), reason, stamp)
        return replace(check, shown=shown)

    def stamp(self, *, move_stamp: bool = False) -> Stamp | None:
        """
        Return the cluster's stamp of this place, ``None`` where there is none.

        :param move_stamp: take one that may not be believed for none: it is to be replaced.
        :raises StorageRootError: if it may not be believed, naming why.
        """
        if self.raw_stamp is None:
            return None
        try:
            stamp = Stamp.from_json(self.raw_stamp)
        except ValueError:
            why = "cannot be read"
        else:
            own = Stamp(self.cluster_id, self.layout, self.place.name, stamp.root_id, self.here)
            if stamp == own:
                return stamp
            why = f"says that it lies at {stamp.where}"
            if stamp.where == self.here:
                why = f"is of cluster {stamp.cluster_id}, layout {stamp.layout} and place {stamp.place}"
        if move_stamp:
            return None
        raise StorageRootError(
            f"stamp {self.stamp_key} {why}, and it was read at {self.here}: this may be a copy of the storage root, and "
            f"nothing is deleted or declared deleted below it. If brokers of cluster {self.cluster_id} write here now, the "
            f"override {MOVE_STAMP!r} has the stamp written anew"
        )

    def new_stamp(self) -> Stamp:
        """Return a stamp for this place, with a root id of its own."""
        return Stamp(self.cluster_id, self.layout, self.place.name, str(uuid4()), self.here)

    def _require_expected(self, expected: str, root_id: str | None) -> None:
        if expected in (root_id, str(self.here) if self.here.exists else None):
            return
        found = f"root {root_id}" if root_id else f"no stamp {self.stamp_key} that names it"
        raise StorageRootError(
            f"expected_root of the rlmm connection is {expected!r}, and there is {found} at {self.here}: check the storage "
            "URI and the mount, or correct expected_root"
        )

    def _check(self, how: RootProof | None, root_id: str | None, reason: str, stamp: Stamp | None) -> PlaceCheck:
        return PlaceCheck(self.place, self.here, how, root_id, reason, stamp is not None)
