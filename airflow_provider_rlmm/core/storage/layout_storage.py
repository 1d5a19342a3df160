# SPDX-License-Identifier: Apache-2.0
"""
Remote storage as a layout over a handful of calls to a store: everything but the calls themselves.

The real store and the in-memory fake differ only in their :class:`ObjectCalls`: what is proved with the fake holds for the
code that runs in production.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.ahead import ahead
from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    RemoteObjectNotFoundError,
    StorageAccessError,
    StorageError,
    StorageRootError,
)
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.storage.deletion import DeletionBatch, Lookup, listed_folder_of, parent_of
from airflow_provider_rlmm.core.storage.hidden_copies import (
    VERSIONS_SHOW,
    BucketInspector,
    DeletionEffect,
    Freed,
    by_versions,
    together,
    without_settings,
)
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.listing_order import ONLY_FLAT, ListingOrder, lists_by_key
from airflow_provider_rlmm.core.storage.object_calls import ObjectCalls
from airflow_provider_rlmm.core.storage.remote_storage import DeletionReport, Folder, SegmentDeletion, StoredObject
from airflow_provider_rlmm.core.storage.root import (
    UNKNOWN_ROOT,
    Place,
    PlaceCheck,
    RootCheck,
    RootExpectation,
    StampOutcome,
    StampResult,
)
from airflow_provider_rlmm.core.storage.segment_files import LogSegmentData, SegmentPacker
from airflow_provider_rlmm.core.storage.stamping import Stamps
from airflow_provider_rlmm.core.storage.stamps import is_stamp
from airflow_provider_rlmm.core.storage.uploads import BeforeChunk
from airflow_provider_rlmm.core.storage.walk import Walker

logger = logging.getLogger(__name__)

_PAGE: Final = 1_000
"""Objects that one request lists."""

_REPLACED: Final = (
    "is not the one that this run began with, it was unmounted, renamed or replaced: nothing more is deleted or declared "
    "deleted; bring it back and run again"
)


class SegmentsOfKeys:
    """
    Tells of many keys which segment of a user partition they belong to; of the objects of a segment only the first is parsed.

    :param layout: the layout.
    :param place: whose keys they are.
    :param topic_id_partition: the user partition.
    """

    def __init__(self, layout: Layout, place: Place, topic_id_partition: TopicIdPartition) -> None:
        self._layout = layout
        self._place = place
        self._topic_id_partition = topic_id_partition
        # The longest first: one may be the end of another.
        self._suffixes = sorted(layout.suffixes, key=len, reverse=True)
        self._extensions = frozenset(s for s in self._suffixes if s.rfind(".") == 0 and not self._ends_another(s))
        self._by_stem: dict[str, UUID] = {}

    def _ends_another(self, suffix: str) -> bool:
        return any(other.endswith(suffix) for other in self._suffixes if other != suffix)

    def __call__(self, key: str) -> UUID | None:
        """Return the segment's id, ``None`` for a key of no segment or of another user partition's."""
        stem = self._stem_of(key)
        if stem is None:
            return self._parsed(key)
        if (known := self._by_stem.get(stem)) is None and (known := self._parsed(key)) is not None:
            self._by_stem[stem] = known
        return known

    def _stem_of(self, key: str) -> str | None:
        dot = key.rfind(".")
        if key[dot:] in self._extensions:
            return key[:dot]
        return next((key[: len(key) - len(suffix)] for suffix in self._suffixes if key.endswith(suffix)), None)

    def _parsed(self, key: str) -> UUID | None:
        segment = self._layout.parse(key, self._place)
        return segment.id if segment is not None and segment.topic_id_partition == self._topic_id_partition else None


class LayoutRemoteStorageManager:
    """
    A :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager` for any layout over any store.

    :param calls: the store.
    :param layout: where the objects of a segment lie.
    :param inspector: reads the settings of the bucket, ``None`` where they cannot be read.
    """

    def __init__(self, calls: ObjectCalls, layout: Layout, inspector: BucketInspector | None = None) -> None:
        self._calls = calls
        self._layout = layout
        self._stamps = Stamps(calls, layout)
        self._files = layout.segment_files(calls.get)
        self._packer: SegmentPacker | None = None
        self.inspector = inspector
        self._settings: DeletionEffect | None = None
        self._checked_root: tuple[object] | None = None
        self._directories: dict[str, object] = {}

    @property
    def listings_at_once(self) -> int:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._calls.listings_at_once

    @property
    def layout(self) -> Layout:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._layout

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData, before_chunk: BeforeChunk | None = None
    ) -> bytes | None:
        """Copy its objects as the layout makes them; nothing where a local file is missing."""
        packer = self._known_packer()
        for source in data.files:
            if not source.is_file():
                raise FileNotFoundError(f"{source} of segment {metadata.remote_log_segment_id} is no file")
        # Looked at for its links, which are not followed; the folder itself may not be there yet.
        self._calls.identities([parent_of(self._layout.segment_stem(metadata, self._layout.places[0]))])
        objects = packer.objects(metadata, data)
        with self._steady():
            while True:
                try:
                    key, content = next(objects)
                except StopIteration as whole:
                    custom_metadata: bytes | None = whole.value
                    return custom_metadata
                self._calls.put(key, content, before_chunk)

    def learn_to_copy(self, copies: Iterable[RemoteLogSegmentMetadata]) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        self._calls.identities()
        self._packer = self._layout.packer(self._calls.get, copies)

    def obstacle_to_copies(self) -> str | None:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        try:
            self._known_packer()
        except ConfigurationError as e:
            return str(e)
        return None

    def most_custom_metadata_bytes(self, metadata: RemoteLogSegmentMetadata) -> int:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._known_packer().most_custom_metadata_bytes(metadata)

    def _known_packer(self) -> SegmentPacker:
        return self._packer or self._layout.packer(self._calls.get, ())

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        if start_position < 0 or (end_position is not None and end_position < start_position):
            raise ValueError(f"no byte range: {start_position}..{end_position}")
        self._calls.identities()
        return self._files.log(metadata, start_position, end_position)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        self._calls.identities()
        return self._files.index(metadata, index_type)

    def fetch_object(self, key: str, start_position: int = 0, end_position: int | None = None) -> bytes:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        self._calls.identities()
        return self._calls.get(key, start_position, end_position)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> SegmentDeletion:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self.delete_log_segments([metadata]).segments[0]

    def delete_log_segments(
        self, metadatas: Sequence[RemoteLogSegmentMetadata], others: Collection[str] | None = None
    ) -> DeletionReport:
        """
        Look for the objects before and, if anything was deleted, after; see the protocol.

        Without ``others`` the first look is a listing of each prefix, from the batch's lowest key on; with them it ends where
        each segment was seen.
        """
        batch = DeletionBatch(self._layout, metadatas)
        before = self._calls.requests
        lookups = batch.lookups(others or ())
        told = others is not None
        batch.see_before(self._looked_for(lookups, to_the_end=not told, by_name=told, side_by_side=told))
        keys = batch.keys_to_delete()
        if not keys:
            return DeletionReport(batch.outcomes_untouched(), self._calls.requests - before)
        deletion = self._calls.delete(keys)
        try:
            left = self._looked_for(batch.lookups(others or ()), to_the_end=True)
        except StorageError as e:
            logger.warning("The listing after a deletion of %d objects failed: %s", len(keys), e)
            outcomes = batch.outcomes_unknown(f"not confirmed by a listing: {e}", deletion.sent)
        else:
            outcomes = batch.outcomes_after(left, deletion.failures, deletion.sent, deletion.throttled)
        calls = self._calls.requests - before
        return DeletionReport(outcomes, calls, next((deletion.failures[key] for key in deletion.throttled), None))

    def _looked_for(
        self, lookups: Sequence[Lookup], *, to_the_end: bool, by_name: bool = True, side_by_side: bool = False
    ) -> Sequence[StoredObject]:
        """
        Return what is there of the objects of some lookups.

        :param lookups: each of another prefix.
        :param to_the_end: whether what is not returned is not there; otherwise only of a segment of which nothing is.
        :param by_name: whether to look only for the keys that are known, where the store can.
        :param side_by_side: whether to look for many of them at once: where they are probably there.
        """
        while True:
            found: list[StoredObject] = []
            was_trusted = self._order.is_trusted
            with self._steady(lookup.prefix for lookup in lookups):
                to_list: list[Lookup] = []
                for lookup in lookups:
                    if by_name and (named := self._calls.by_name(lookup)) is not None:
                        found += named
                    else:
                        to_list.append(lookup)
                if side_by_side and self.listings_at_once > 1 and self._order.begins_by_key:
                    seen, to_list = self._seen_in_parts(to_list)
                    found += seen
                for lookup in to_list:
                    listed = self._calls.objects(lookup.prefix, self._order.start(lookup.before))
                    found += self._order.wanted(lookup, listed, to_the_end=to_the_end)
            # Of a store that has listed out of order, the listings that ended before prove nothing.
            if self._order.is_trusted == was_trusted:
                return found

    def _seen_in_parts(self, lookups: Sequence[Lookup]) -> tuple[list[StoredObject], list[Lookup]]:
        """
        Look for objects that are probably there, a page of them in each of some listings side by side.

        :return: what was seen, and the lookups for what was not and may still be there.
        """
        parts = [part for lookup in lookups for part in lookup.parts(_PAGE - 1)]  # one more shows the end
        seen = list(chain.from_iterable(ahead(self._listed, parts, self.listings_at_once, "rlmm look")))
        if self._order.is_trusted:
            return seen, []
        return seen, [rest for lookup in lookups if (rest := lookup.without(stored.key for stored in seen)) is not None]

    def _listed(self, lookup: Lookup) -> list[StoredObject]:
        listed = self._calls.objects(lookup.prefix, self._order.start(lookup.before))
        return list(self._order.wanted(lookup, listed, to_the_end=False, only_seen=True))

    @cached_property
    def _order(self) -> ListingOrder:
        location = self._calls.location("")
        by_key = lists_by_key(location, self._layout)
        if by_key and location.scheme in ONLY_FLAT:
            by_key = self.inspector is not None and self.inspector.is_flat()
        return ListingOrder(by_key, location.scheme not in ONLY_FLAT)

    def list_log_segments(self, topic_id_partition: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        prefixes = {place: self._layout.partition_prefix(topic_id_partition, place) for place in self._layout.places}
        found: dict[UUID, dict[str, StoredObject]] = {}
        with self._steady(prefixes.values()):
            for place, prefix in prefixes.items():
                segment_of = SegmentsOfKeys(self._layout, place, topic_id_partition)
                for stored in self._order.watched(self._calls.objects(prefix)):
                    if (segment_id := segment_of(stored.key)) is not None:
                        found.setdefault(segment_id, {})[stored.key] = stored
        return {segment_id: tuple(objects[key] for key in sorted(objects)) for segment_id, objects in found.items()}

    def list_objects(self) -> Sequence[StoredObject]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        self._calls.identities()
        return sorted((stored for stored in self._calls.objects("") if not is_stamp(stored.key)), key=attrgetter("key"))

    def walk(
        self,
        known: Collection[TopicIdPartition],
        topic_ids: Collection[UUID] | None = None,
        layout: Layout | None = None,
    ) -> Iterator[StoredObject | Folder]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        with self._steady():
            yield from Walker(self._calls, layout or self._layout, known, topic_ids).walk()

    def missing_keys(self, keys: Collection[str]) -> frozenset[str]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return frozenset(keys) - self.stored_objects(keys).keys()

    def stored_objects(self, keys: Collection[str]) -> Mapping[str, StoredObject]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._stored(keys, side_by_side=True)

    def _stored(self, keys: Collection[str], *, side_by_side: bool) -> Mapping[str, StoredObject]:
        wanted: dict[str, set[str]] = {}
        for key in keys:
            wanted.setdefault(parent_of(key), set()).add(key)
        lookups = [Lookup(prefix, sorted(inside), inside) for prefix, inside in wanted.items()]
        # Here each key is looked for itself, so a listing ends only where all of them were seen.
        found = self._looked_for(lookups, to_the_end=False, side_by_side=side_by_side)
        seen = {stored.key: stored for stored in found}
        return {key: seen[key] for key in keys if key in seen}

    @property
    def absence_takes_whole_folder(self) -> bool:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        # A local folder is asked for each name.
        return self._calls.location("").scheme != "file" and not self._order.is_trusted

    def delete_objects(self, keys: Collection[str]) -> Mapping[str, str]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return self._calls.delete(sorted(keys)).failures

    def still_there(self, keys: Collection[str], failures: Mapping[str, str]) -> Mapping[str, str]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        try:
            left = self._stored(keys, side_by_side=False)
        except StorageError as e:
            logger.warning("The listing after a deletion of %d objects failed: %s", len(keys), e)
            return dict.fromkeys(keys, f"not confirmed by a listing: {e}")
        return {key: failures.get(key, "still listed although the store reported no error") for key in left}

    def remove_empty_folders(self, keys: Collection[str]) -> Sequence[str]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        removed = []
        with self._steady():
            # The deepest first: one that holds another is not empty.
            for folder in sorted({f for key in keys for f in self._folders_of(key)}, key=len, reverse=True):
                if self._calls.remove_folder(folder):
                    self._directories.pop(folder, None)
                    removed.append(folder)
        return removed

    def _folders_of(self, key: str) -> Iterator[str]:
        """Yield the folders of an object that lie below a place, none that is one or holds one."""
        places = [place.prefix for place in self._layout.places]
        folder = parent_of(key)
        while any(map(folder.startswith, places)) and not any(place.startswith(folder) for place in places):
            yield folder
            folder = parent_of(folder[:-1])

    def deletion_effect(self, keys: Collection[str] = ()) -> DeletionEffect:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        inspector, settings = self.inspector, None
        if inspector is not None:
            # Once: they do not change while a task works.
            self._settings = self._settings or inspector.look([place.prefix for place in self._layout.places])
            settings = self._settings
            if inspector.tells_versions and settings.freed is not Freed.UNKNOWN:
                return settings
        scheme = self._calls.location("").scheme
        objects = by_versions(scheme, list(self._versions(keys)) if scheme in VERSIONS_SHOW else [])
        return together(settings, objects) if settings else without_settings(scheme, objects)

    def _versions(self, keys: Collection[str]) -> Iterator[str | None]:
        for versions in ahead(self._version_of, keys, self.listings_at_once, "rlmm look"):
            yield from versions

    def _version_of(self, key: str) -> Sequence[str | None]:
        # Another program may have deleted it; and a login that may delete need not be allowed to read.
        with suppress(RemoteObjectNotFoundError, StorageAccessError):
            return (self._calls.version(key),)
        return ()

    def check_root(
        self, topic_ids: frozenset[UUID], cluster_id: str, expectation: RootExpectation = UNKNOWN_ROOT
    ) -> RootCheck:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        prefixes = [place.prefix for place in self._layout.places]
        self._checked_root = (self._require_unchanged(prefixes, self._checked_root),)
        checks = tuple(
            self._stamps.look_at(place, cluster_id).judge(expectation, partial(self._known_object, place, topic_ids))
            for place in self._layout.places
        )
        expectation.require_each_found(checks)
        return RootCheck(cluster_id, checks, expectation.move_stamp, expectation.metadata_topic_id)

    def stamp_root(self, check: RootCheck) -> tuple[StampResult, ...]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        return tuple(self._stamp(c, check) for c in check.places if c.verified and c.shown)

    def _stamp(self, place: PlaceCheck, check: RootCheck) -> StampResult:
        if not check.lacks_stamp(place):
            return StampResult(place.place.name, StampOutcome.ALREADY_THERE, place.root_id)
        with self._steady():
            return self._stamps.stamp(place.place, check)

    def stamped_clusters(self) -> Mapping[str, bool]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        with self._steady():
            return self._stamps.clusters()

    def stamped_topics(self, cluster_id: str) -> Mapping[str, UUID]:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        with self._steady():
            return self._stamps.topics(cluster_id)

    def confirm_metadata_topic(self, cluster_id: str, topic_id: UUID, by: str, at_ms: int) -> None:
        """See :class:`~airflow_provider_rlmm.core.storage.remote_storage.RemoteStorageManager`."""
        with self._steady():
            self._stamps.confirm(cluster_id, topic_id, by, at_ms)

    def _known_object(self, place: Place, topic_ids: frozenset[UUID]) -> str | None:
        for prefix in self._where_topics_lie(place, topic_ids):
            for stored in self._calls.objects(prefix):
                parts = self._layout.parts(stored.key, place)
                if parts is None or (topic_id := parts[0].topic_id_partition.topic_id) not in topic_ids:
                    continue
                # What proves the root is not to be gone when it is listed for deletion.
                folder = listed_folder_of(stored.key, parts[1])
                with self._steady([folder]):
                    listed = self._calls.objects(folder, self._order.start(stored.key[:-1]))
                    if any(other.key == stored.key for other in listed):
                        return f"{stored.key} is of topic id {kafka_uuid_str(topic_id)}"
        return None

    def _where_topics_lie(self, place: Place, topic_ids: frozenset[UUID]) -> Iterator[str]:
        if not self._layout.folders_name_topics:
            yield place.prefix
            return
        for directory in self._calls.level(place.prefix)[0]:
            if self._layout.topic_id_of_directory(directory, place) in topic_ids:
                yield f"{directory}/"

    @contextmanager
    def _steady(self, prefixes: Iterable[str] = ()) -> Iterator[None]:
        """
        Put this around a listing: a folder that is unmounted, renamed or replaced lists as empty, and all would look deleted.

        :param prefixes: what is listed.
        :raises StorageRootError: if the root is not the one of :meth:`check_root`, or a folder not the one that was there
            when it was first listed, or if either changes within the block.
        """
        watched = [*(place.prefix for place in self._layout.places), *prefixes]
        root = self._require_unchanged(watched, self._checked_root)
        yield
        self._require_unchanged(watched, (root,))

    def _require_unchanged(self, prefixes: Sequence[str], expected_root: tuple[object] | None) -> object:
        root, *directories = self._calls.identities(prefixes)
        if expected_root not in (None, (root,)):
            raise StorageRootError(f"the storage root {_REPLACED}")
        seen = dict(zip(prefixes, directories, strict=True))
        for prefix, identity in seen.items():
            # One that appears is a broker's doing; no program of ours ever removes one.
            if self._directories.get(prefix, identity) != identity:
                raise StorageRootError(f"the folder {prefix} below the storage root {_REPLACED}")
        self._directories |= {prefix: identity for prefix, identity in seen.items() if identity is not None}
        return root
