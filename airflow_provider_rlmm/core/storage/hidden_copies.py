# SPDX-License-Identifier: Apache-2.0
"""
Does deletion free space? In a bucket with versions, a lock or soft delete it only hides what is deleted.

A listing cannot tell: it is empty either way. The bucket's own settings tell, where one may read them; an object's version id
tells a little, where the store gives one. What cannot be told is said, and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import HiddenCopiesError

VERSIONED_BUCKET: Final = "versioned_bucket"
"""Name of the override that deletes where deleted objects are kept."""


class Freed(StrEnum):
    """Whether deletion frees space."""

    AT_ONCE = "at once"
    LATER = "later"
    NEVER = "never"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DeletionEffect:
    """
    What becomes of objects that are deleted.

    :param freed: whether their space is freed.
    :param why: what was seen, in words.
    :param days: of what is freed later, after how many days at the latest.
    :param rule: the rule that would free them; empty where there is one, or none is needed.
    :param uploads: what becomes of incomplete multipart uploads, in words; empty where nothing is known.
    :param refused: which single objects the store refuses to delete, in words; empty where none was seen.
    """

    freed: Freed
    why: str
    days: int | None = None
    rule: str = ""
    uploads: str = ""
    refused: str = ""

    @property
    def sentence(self) -> str:
        """One sentence for people, and a second one where single objects cannot be deleted."""
        return ". ".join(filter(None, [self._of_space, self.refused]))

    @property
    def needs_person(self) -> bool:
        """Whether deletion cannot do what it is for before a person has changed something."""
        return self.freed in (Freed.NEVER, Freed.REFUSED) or bool(self.refused)

    @property
    def _of_space(self) -> str:
        match self.freed:
            case Freed.AT_ONCE:
                return f"deletion frees space at once: {self.why}"
            case Freed.LATER:
                time = "a time that is not known" if self.days is None else number_of(self.days, "day")
                return f"deleted objects are hidden, freed in {time}: {self.why}"
            case Freed.NEVER:
                return f"deleted objects are hidden, never freed: {self.why}; {self.rule}"
            case Freed.REFUSED:
                return f"the store refuses deletion: {self.why}; {self.rule}"
        return f"whether deletion frees space is not known: {self.why}"

    def require_freed(self, overrides: Collection[str]) -> None:
        """
        Refuse to delete where nothing ever frees what is deleted, or the store refuses it.

        :param overrides: overrides in force.
        :raises HiddenCopiesError: naming what to change.
        """
        if self.freed in (Freed.NEVER, Freed.REFUSED) and VERSIONED_BUCKET not in overrides:
            first = "set the rule" if self.freed is Freed.NEVER else "do that first"
            raise HiddenCopiesError(
                f"{self.sentence}. Nothing is deleted: {first}, or delete all the same by the override {VERSIONED_BUCKET!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types, for plans and reports."""
        return {"freed": self.freed.value, "days": self.days, "sentence": self.sentence, "uploads": self.uploads}


_IN_A_CONTAINER: Final = (
    "whether a legal hold, an immutability policy or snapshots make Azure refuse deletion is not known: a connection of type "
    "wasb asks, and so does rlmm; else look at the container in the portal"
)


class BucketInspector(Protocol):
    """Reads the settings of a bucket."""

    tells_versions: bool
    """Whether the settings tell if the bucket keeps versions."""

    def look(self, prefixes: Sequence[str]) -> DeletionEffect:
        """
        Say what becomes of objects that are deleted; what cannot be read makes it ``UNKNOWN``, and is no error.

        :param prefixes: where the objects lie, below the storage root.
        """

    def is_flat(self) -> bool:
        """Tell whether the store is known to have no folders, by which it would list in another order than by key."""


EXPIRE_RULES: Final[Mapping[str, str]] = {
    "s3": "set a lifecycle rule for these prefixes with NoncurrentVersionExpiration (NoncurrentDays, without "
    "NewerNoncurrentVersions) and ExpiredObjectDeleteMarker",
    "gs": "set a lifecycle rule that deletes noncurrent versions (daysSinceNoncurrentTime)",
    "az": "set a lifecycle management policy that deletes previous versions (daysAfterCreationGreaterThan)",
}
"""Scheme of a store → the rule that frees versions."""

VERSIONS_SHOW: Final = frozenset({"s3", "az"})
"""Schemes of stores whose objects have a version id only where versions are kept; Google's always have a generation."""


def by_versions(scheme: str, versions: Sequence[str | None]) -> DeletionEffect:
    """
    Say what the version ids of some objects tell.

    :param scheme: of the store.
    :param versions: of each object; ``None`` where it has none.
    """
    if scheme in {"file", "memory"}:
        return DeletionEffect(Freed.AT_ONCE, "a folder keeps no versions")
    if scheme not in VERSIONS_SHOW:
        return DeletionEffect(Freed.UNKNOWN, "objects of this store do not show it")
    if not versions:
        return DeletionEffect(Freed.UNKNOWN, "there is no object that could tell it")
    kept = sum(version is not None for version in versions)
    if kept:
        why = (
            f"{kept} of {number_of(len(versions), 'object that was', 'objects that were')} looked at "
            f"{agreeing(kept, 'has', 'have')} a version id, so the bucket keeps versions"
        )
        return DeletionEffect(Freed.NEVER, why, rule=EXPIRE_RULES[scheme])
    why = (
        f"none of {number_of(len(versions), 'object that was', 'objects that were')} looked at has a version id; "
        "soft delete and older versions do not show"
    )
    return DeletionEffect(Freed.UNKNOWN, why)


def together(bucket: DeletionEffect, objects: DeletionEffect) -> DeletionEffect:
    """Put together what settings that do not tell of versions say, and what objects say."""
    if bucket.freed in (Freed.NEVER, Freed.REFUSED):
        return bucket
    if objects.freed is Freed.NEVER or bucket.freed is Freed.UNKNOWN:
        return replace(objects, why=f"{objects.why} ({bucket.why})", uploads=bucket.uploads, refused=bucket.refused)
    return bucket


def without_settings(scheme: str, objects: DeletionEffect) -> DeletionEffect:
    """
    Add what objects cannot tell where the settings of the bucket are not read.

    :param scheme: of the store.
    :param objects: what they say.
    """
    return replace(objects, why=f"{objects.why}; {_IN_A_CONTAINER}") if scheme == "az" else objects
