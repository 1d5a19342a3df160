# SPDX-License-Identifier: Apache-2.0
"""
The rules by which a storage root is believed to be the one where the cluster's brokers write.

Pure: no call is made here. A *place* is one prefix below the root at which copies of segments can lie. A *stamp* is a small
object beside the places, one per cluster and place, that says to which cluster the place belongs and where it lay when it was
written. It proves nothing by being there, since a copy of the root holds a copy of it: it has to lie where it says, and its
root id has to be one that was known before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid4

from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.core.storage.stamps import Location, Stamp, stamp_key


@dataclass(frozen=True, slots=True)
class Place:
    """
    :param name: names it in stamps, plans and reports; part of an object key.
    :param prefix: the prefix of its keys: empty, or ending in ``/``.
    :param twin: the key prefix that differs from that of the place in its last ``/`` only: another place, and easily typed
        instead. ``None`` where there is none.
    """

    name: str
    prefix: str
    twin: str | None = field(default=None, compare=False)

    @property
    def did_you_mean(self) -> str:
        """Ask whether the key prefix lacks its ``/``, or has one too many."""
        return f"did you mean the key prefix {self.twin!r}?"


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
    :param expected_root: the connection's field: for each place its root id, or its location as text; see
        :func:`expected_roots`.
    :param move_stamp: the override of this name: a stamp that names another location is written anew.
    :param metadata_topic_id: id of the metadata topic, which a stamp that is written names; ``None`` where none is known.
    """

    recorded: frozenset[str] = frozenset()
    expected_root: str | None = None
    move_stamp: bool = False
    metadata_topic_id: UUID | None = None

    @property
    def expected(self) -> tuple[str, ...]:
        """What a person has named: every place must be among it, and nothing else."""
        return expected_roots(self.expected_root or "")

    def require_each_found(self, checks: Sequence[PlaceCheck]) -> None:
        """
        Refuse what ``expected_root`` names and no place is: a former prefix may be missing in the connection.

        :raises StorageRootError: naming it.
        """
        found = {name for check in checks for name in (check.root_id, str(check.where))}
        if unknown := [name for name in self.expected if name not in found]:
            raise StorageRootError(
                f"expected_root of the rlmm connection names {', '.join(unknown)}, and no place of the connection is that; "
                f"these are {', '.join(f'{c.place.name} at {c.where}' for c in checks)}: name a missing one in "
                "former_key_prefixes, or correct expected_root"
            )


def expected_roots(text: str) -> tuple[str, ...]:
    """
    Return what ``expected_root`` names: root ids and locations, separated by blanks or commas, or as a JSON list.

    :raises ValueError: if it begins like a JSON list and is none of texts.
    """
    if not text.lstrip().startswith("["):
        return tuple(text.replace(",", " ").split())
    names = json.loads(text)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a list of something else than texts")
    return tuple(names)


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
    :param metadata_topic_id: id of the metadata topic that the stamp names, ``None`` where it names none.
    """

    place: Place
    where: Location
    how: RootProof | None
    root_id: str | None
    reason: str
    stamped: bool = False
    shown: bool = True
    metadata_topic_id: UUID | None = None

    @property
    def verified(self) -> bool:
        """Whether the place is the cluster's."""
        return self.how is not None

    @property
    def expected(self) -> bool:
        """Whether it was known before, not only recognised by an object."""
        return self.how in (RootProof.RECORDED, RootProof.EXPECTED_ROOT)


class StampOutcome(StrEnum):
    """What became of a stamp."""

    WRITTEN = "written"
    ALREADY_THERE = "already there"
    CANNOT_BE_WRITTEN = "cannot be written"


@dataclass(frozen=True, slots=True)
class StampResult:
    """What became of the stamp of a place."""

    place: str  # name of the place
    outcome: StampOutcome  # what became of it
    root_id: str | None  # root id of the stamp that lies there now, ``None`` where there is none
    reason: str = ""  # why it cannot be written and what to do, else empty


@dataclass(frozen=True, slots=True)
class RootCheck:
    """Whether the storage root is the one of the cluster."""

    cluster_id: str  # the cluster
    places: tuple[PlaceCheck, ...]  # one check per place of the layout
    move_stamp: bool = False  # whether it was made under the override that has a stamp written anew
    # Id of the metadata topic that stamps are to name, ``None`` where it is not known.
    metadata_topic_id: UUID | None = None

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
    def to_paste(self) -> str:
        """What pins these places, as a person may copy it into the connection."""
        return f"expected_root = {' '.join(str(check.where) for check in self.places)}"

    @property
    def expected_places(self) -> frozenset[str]:
        """Names of the places that were known before."""
        return frozenset(check.place.name for check in self.places if check.expected)

    @property
    def verified_places(self) -> frozenset[str]:
        """Names of the places that are the cluster's."""
        return frozenset(check.place.name for check in self.places if check.verified)

    @property
    def shown_places(self) -> frozenset[str]:
        """Names of the places where anything of the cluster was seen."""
        return frozenset(check.place.name for check in self.places if check.shown)

    def lacks_stamp(self, place: PlaceCheck) -> bool:
        """
        Tell whether a stamp is to be written, or to name the metadata topic.

        :param place: one of the places.
        """
        return place.verified and not (
            place.stamped and (self.metadata_topic_id is None or place.metadata_topic_id is not None)
        )

    def with_stamps(self, results: tuple[StampResult, ...]) -> RootCheck:
        """
        Return the check as it is after stamps were written.

        :param results: what became of them.
        """
        ids = {r.place: r.root_id for r in results if r.root_id is not None}
        places = (
            replace(c, root_id=ids[c.place.name], stamped=True) if c.place.name in ids else c for c in self.places
        )
        return replace(self, places=tuple(places))


@dataclass(frozen=True, slots=True)
class PlaceLook:
    """One place as it is seen, to be judged."""

    cluster_id: str  # the cluster that is worked for
    layout: str  # name of the layout
    place: Place  # the place
    here: Location  # where it lies now
    raw_stamp: bytes | None  # content of the object at its stamp's key, ``None`` where there is none

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
        if expectation.expected:
            named = self._require_expected(expectation.expected, root_id)
            return self._named(named, root_id, stamp, find_object)
        if root_id in expectation.recorded:
            named = f"{self.stamp_key} names root {root_id}, as an earlier plan or report did"
            return self._check(RootProof.RECORDED, root_id, named, stamp)
        if (seen := find_object()) is not None:
            return self._check(RootProof.OBJECT, root_id, seen, stamp)
        known = f"there is no stamp {self.stamp_key}"
        if stamp:
            by_nobody = "which neither a plan or report before nor expected_root names"
            known = f"{self.stamp_key} names root {root_id}, {by_nobody}"
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
        return replace(self._check(RootProof.EXPECTED_ROOT, root_id or str(self.here), reason, stamp), shown=shown)

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
            if self._is_of_the_twin(stamp.where):
                raise StorageRootError(
                    f"{self.place.did_you_mean} It was read at {self.here}, and stamp {self.stamp_key} {why}: these are two "
                    "key prefixes, and nothing is deleted or declared deleted. If brokers do write below the one that the "
                    "rlmm connection names, remove that object"
                )
        if move_stamp:
            return None
        raise StorageRootError(
            f"stamp {self.stamp_key} {why}, and it was read at {self.here}: this may be a copy of the storage root, and "
            f"nothing is deleted or declared deleted below it. If brokers of cluster {self.cluster_id} write here now, the "
            f"override {MOVE_STAMP!r} has the stamp written anew"
        )

    def _is_of_the_twin(self, where: Location) -> bool:
        """Tell whether a stamp was written for the key prefix that differs from the place's in the last ``/`` only."""
        twin, here = self.place.twin, self.here
        if twin is None or (where.scheme, where.endpoint, where.bucket) != (here.scheme, here.endpoint, here.bucket):
            return False
        root = here.prefix.strip("/").removesuffix(self.place.prefix.strip("/")).strip("/")
        return where.prefix.strip("/") == f"{root}/{twin[: twin.rfind('/') + 1]}".strip("/")

    @property
    def read_stamp(self) -> Stamp | None:
        """The cluster's stamp, wherever it says that it lies; ``None`` where none can be read."""
        try:
            stamp = None if self.raw_stamp is None else Stamp.from_json(self.raw_stamp)
        except ValueError:
            return None
        return stamp if stamp is not None and stamp.cluster_id == self.cluster_id else None

    def new_stamp(self, metadata_topic_id: UUID | None) -> Stamp:
        """
        Return a stamp for this place, with a root id of its own; the former metadata topics of the one before stay on record.

        :param metadata_topic_id: id of the metadata topic, ``None`` where it is not known.
        """
        before = self.read_stamp
        former = before.former_metadata_topics if before else ()
        root_id = str(uuid4())
        return Stamp(self.cluster_id, self.layout, self.place.name, root_id, self.here, metadata_topic_id, former)

    def _require_expected(self, expected: Collection[str], root_id: str | None) -> str:
        """Return the name by which a person expects this place."""
        for name in (root_id, str(self.here) if self.here.exists else None):
            if name in expected:
                return str(name)
        found = f"root {root_id}" if root_id else f"no stamp {self.stamp_key} that names it"
        raise StorageRootError(
            f"expected_root of the rlmm connection is {', '.join(map(repr, expected))}, and there is {found} at {self.here}: "
            f"check the storage URI and the mount, or correct expected_root, which names each place"
        )

    def _check(self, how: RootProof | None, root_id: str | None, reason: str, stamp: Stamp | None) -> PlaceCheck:
        topic_id = stamp.metadata_topic_id if stamp else None
        return PlaceCheck(self.place, self.here, how, root_id, reason, stamp is not None, metadata_topic_id=topic_id)
