# SPDX-License-Identifier: Apache-2.0
"""
What two listings, one before and one after a bulk deletion, prove about each segment.

Pure: no call is made here, so every implementation of the protocol comes to the same outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

from airflow_provider_rlmm.core.base.errors import UnsafeObjectKeyError
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.storage.layout import Layout, is_suffix
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, SegmentDeletion, StoredObject


class _Seen(NamedTuple):
    size: int
    suffix: str


class Lookup(NamedTuple):
    """Where the objects of some segments lie."""

    prefix: str  # empty, or ending in ``/``: they lie right below, or each segment's in a folder of its own right below
    stems: Sequence[str]  # what their keys begin with, sorted
    keys: Collection[str]  # their keys, as far as these are known

    @property
    def before(self) -> str:
        """A key after which all of them come in the order of keys."""
        # The stem itself may be a key; without its last character it comes right before.
        return self.stems[0][:-1]

    def parts(self, objects: int) -> Iterator[Lookup]:
        """
        Cut it into lookups whose objects are side by side.

        :param objects: about how many each has at most.
        """
        size = max(1, objects * len(self.stems) // max(len(self.stems), len(self.keys)))
        for first in range(0, len(self.stems), size):
            yield self._replace(stems=self.stems[first : first + size])

    def without(self, seen: Iterable[str]) -> Lookup | None:
        """
        Return the lookup of the segments that were not seen, ``None`` where each was.

        :param seen: keys of objects.
        """
        lengths = {len(stem) for stem in self.stems}
        begun = {key[:length] for key in seen for length in lengths}
        left = [stem for stem in self.stems if stem not in begun]
        return self._replace(stems=left) if left else None


class DeletionBatch:
    """
    The segments of one bulk deletion, and what is seen of them.

    :param layout: where their objects lie.
    :param metadatas: the segments, each once.
    :raises UnsafeObjectKeyError: if the key of any segment is unsafe; nothing may be touched then.
    :raises ValueError: if a segment is named twice.
    """

    def __init__(self, layout: Layout, metadatas: Sequence[RemoteLogSegmentMetadata]) -> None:
        self._layout = layout
        self._segments = [m.remote_log_segment_id for m in metadatas]
        # One for each place at which the copy can lie.
        self._stems = [tuple(layout.segment_stem(m, place) for place in layout.places_of(m)) for m in metadatas]
        self._by_stem = {stem: i for i, stems in enumerate(self._stems) for stem in stems}
        self._stem_lengths = sorted({len(stem) for stem in self._by_stem}, reverse=True)
        self._seen: list[dict[str, _Seen]] = [{} for _ in metadatas]
        self._keys: defaultdict[str, set[str]] = defaultdict(set)
        self._stems_below: defaultdict[str, list[str]] = defaultdict(list)
        for stem in self._by_stem:
            self._stems_below[parent_of(stem)].append(stem)
            self._keys[parent_of(stem)].update(stem + suffix for suffix in layout.suffixes)
        if len(self._by_stem) != sum(map(len, self._stems)):
            raise ValueError("a segment is named twice in one deletion, so that its outcome would be ambiguous")
        for stem, index in self._by_stem.items():
            if not any(stem.startswith(place.prefix) for place in layout.places) or ".." in stem.split("/"):
                prefixes = " or ".join(repr(place.prefix) for place in layout.places)
                raise UnsafeObjectKeyError(
                    f"key {stem!r} of segment {self._segments[index]} leaves the prefix {prefixes}"
                )

    def lookups(self, others: Iterable[str] = ()) -> list[Lookup]:
        """
        Return where to look for all objects of the batch: one for each prefix.

        :param others: further keys, of which those of the batch's segments are looked for; those that were seen are anyway.
        """
        told = ((key, found[1]) for key in others if (found := self._segment_of(key)) is not None)
        known = ((key, o.suffix) for seen in self._seen for key, o in seen.items())
        for key, suffix in chain(told, known):
            self._keys[listed_folder_of(key, suffix)].add(key)
        # Unknown objects may lie in a folder of its own.
        return [
            Lookup(prefix, sorted(self._stems_below.get(prefix, wanted)), wanted)
            for prefix, wanted in self._keys.items()
        ]

    def see_before(self, objects: Iterable[StoredObject]) -> None:
        """
        Take note of objects that were listed before the deletion; objects of other segments are ignored.

        :param objects: any listed objects.
        """
        for index, stored, suffix in self._of_segments(objects):
            self._seen[index][stored.key] = _Seen(stored.size, suffix)

    def keys_to_delete(self) -> list[str]:
        """Return the seen keys that the layout knows. Any other key of a segment is left alone."""
        return [key for seen in self._seen for key, o in seen.items() if o.suffix in self._layout.suffixes]

    def outcomes_after(
        self,
        objects: Iterable[StoredObject],
        failures: Mapping[str, str],
        sent: Set[str],
        throttled: Collection[str] = (),
    ) -> tuple[SegmentDeletion, ...]:
        """
        Derive what became of each segment.

        :param objects: what was found after the deletion by all of :meth:`lookups`.
        :param failures: key → why the store refused to delete it; believed only where the key is still listed.
        :param sent: keys that a delete call was made for.
        :param throttled: keys that were left because the store throttled or did not answer.
        """
        left: list[dict[str, str]] = [{} for _ in self._segments]
        for index, stored, suffix in self._of_segments(objects):
            left[index][stored.key] = suffix
        return tuple(self._outcome(i, left[i], failures, sent, throttled) for i in range(len(self._segments)))

    def outcomes_untouched(self) -> tuple[SegmentDeletion, ...]:
        """Return the outcomes where nothing was deleted: the listing before is the listing after."""
        return tuple(
            self._outcome(i, {key: o.suffix for key, o in seen.items()}, {}, frozenset())
            for i, seen in enumerate(self._seen)
        )

    def outcomes_unknown(self, reason: str, sent: Set[str]) -> tuple[SegmentDeletion, ...]:
        """
        Return the outcomes for a deletion that no listing could confirm.

        :param reason: why not.
        :param sent: keys that a delete call was made for.
        """
        return tuple(
            SegmentDeletion(
                segment, DeleteOutcome.UNKNOWN, 0, 0, dict.fromkeys(seen or stems, reason), _those_in(seen, sent)
            )
            for segment, stems, seen in zip(self._segments, self._stems, self._seen, strict=True)
        )

    def _outcome(
        self,
        index: int,
        left: Mapping[str, str],
        failures: Mapping[str, str],
        sent: Set[str],
        throttled: Collection[str] = (),
    ) -> SegmentDeletion:
        segment, seen = self._segments[index], self._seen[index]
        if not seen and not left:
            unseen = dict.fromkeys(self._stems[index], "no object with this key was listed")
            return SegmentDeletion(segment, DeleteOutcome.NEVER_SEEN, 0, 0, unseen)
        gone = [o.size for key, o in seen.items() if key not in left] if left else [o.size for o in seen.values()]
        return SegmentDeletion(
            remote_log_segment_id=segment,
            outcome=DeleteOutcome.PRESENT if left else DeleteOutcome.GONE,
            objects_deleted=len(gone),
            bytes_deleted=sum(gone),
            reasons={key: self._why_left(index, key, left[key], failures) for key in sorted(left)},
            sent=_those_in(seen, sent),
            throttled=bool(left) and all(key in throttled for key in left),
        )

    def _why_left(self, index: int, key: str, suffix: str, failures: Mapping[str, str]) -> str:
        if suffix not in self._layout.suffixes:
            return f"left alone: layout {self._layout.name} knows no file of this kind"
        if key not in self._seen[index]:
            return "left alone: it appeared after the deletion had begun"
        return failures.get(key, "still listed although the store reported no error")

    def _of_segments(self, objects: Iterable[StoredObject]) -> Iterator[tuple[int, StoredObject, str]]:
        """Yield the objects of the batch's segments, each with the index of its segment and its suffix."""
        for stored in objects:
            if (found := self._segment_of(stored.key)) is not None:
                yield found[0], stored, found[1]

    def _segment_of(self, key: str) -> tuple[int, str] | None:
        """Return the index of the segment that a key belongs to, and its suffix; ``None`` where it is none of the batch's."""
        for length in self._stem_lengths:
            index, suffix = self._by_stem.get(key[:length]), key[length:]
            if index is not None and is_suffix(suffix, self._layout.suffixes):
                return index, suffix
        return None


def _those_in(seen: Iterable[str], sent: Set[str]) -> tuple[str, ...]:
    return tuple(key for key in seen if key in sent)


def parent_of(key: str) -> str:
    """
    Return the prefix of an object's key, ending in ``/``.

    :param key: key below the root.
    """
    return key[: key.rfind("/") + 1]


def listed_folder_of(key: str, suffix: str) -> str:
    """
    Return the prefix, ending in ``/``, by which an object of a segment is listed.

    Where each segment has a folder of its own they are listed together: one by one would take a request for each.

    :param key: key below the root.
    :param suffix: what follows the segment's stem in it.
    """
    return parent_of(key.removesuffix(suffix) if suffix.startswith("/") else key)
