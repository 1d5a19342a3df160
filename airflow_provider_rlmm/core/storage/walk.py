# SPDX-License-Identifier: Apache-2.0
"""
All that lies at the places of a layout, folder by folder.

One key that a store cannot address, such as ``a//b``, ends every listing that would name it. So the folders right below a
place are listed one by one, those of no topic not at all, and where a listing ends early only its folder is not known. One
that names a topic id of the log, or holds a folder that does, is of a topic, even if the layout has another name for it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import StorageError, StorageRootError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.listings_ahead import ListingsAhead
from airflow_provider_rlmm.core.storage.remote_storage import Folder, FolderState, StoredObject
from airflow_provider_rlmm.core.storage.root import Place
from airflow_provider_rlmm.core.storage.stamps import is_stamp

_MAX_FAILURES: Final = 10
"""Folders in a row that cannot be listed before the others are not asked for any more: each may cost a time-out."""


MAX_PEEKS: Final = 1_000
"""Folders of others that are looked into, one level deep: a shared bucket may hold any number of them."""

_ID_LENGTHS: Final = 22, 36
"""Characters of a topic id as Kafka writes it, and as a UUID."""


def spelled(topic_id: UUID) -> tuple[str, ...]:
    """Return how folders spell a topic id: as Kafka does, and as a UUID."""
    return kafka_uuid_str(topic_id), str(topic_id)


def named_id(path: str, ids: Container[str]) -> str | None:
    """
    Return the first of some topic ids that a path names, ``None`` where it names none.

    :param path: of a folder or an object.
    :param ids: each as :func:`spelled`.
    """
    parts = (path[at : at + length] for length in _ID_LENGTHS for at in range(len(path) - length + 1))
    return next((part for part in parts if part in ids), None)


class ListingCalls(Protocol):
    """
    What a walk asks of a store; see
    :class:`~airflow_provider_rlmm.core.storage.layout_storage.LayoutRemoteStorageManager`.
    """

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """List the objects below a prefix, however deep, in any order."""

    def level(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredObject]]:
        """List the directories right below a prefix, without trailing ``/``, and the objects there."""

    listings_at_once: int
    """Folders that may be listed at once; with 1 everything is done by the thread of the caller."""


@dataclass(slots=True)
class Walker:
    """
    One walk.

    :param calls: the store.
    :param layout: where objects of segments lie.
    :param known: user partitions that are looked for by name where the folder above them cannot be listed.
    :param topic_ids: folders that name another topic are not looked into, and not told of; ``None`` looks into all.
    """

    calls: ListingCalls
    layout: Layout
    known: Collection[TopicIdPartition]
    topic_ids: Collection[UUID] | None = None
    _failures: int = field(default=0, init=False)
    _peeks: int = field(default=0, init=False)
    _why: str = field(default="", init=False)
    _ahead: ListingsAhead | None = field(default=None, init=False)

    def walk(self) -> Iterator[StoredObject | Folder]:
        """Yield objects and folders; an object may come twice where the listing of its folder ended early."""
        prefixes = {place.prefix for place in self.layout.places}
        for prefix in sorted(prefixes):
            # One below another is met on the way.
            if not any(prefix.startswith(other) for other in prefixes - {prefix}):
                yield from self._place(prefix)

    def _place(self, prefix: str) -> Iterator[StoredObject | Folder]:
        """Yield what lies below a prefix at which places lie, or below which they do."""
        places = [place for place in self.layout.places if place.prefix == prefix]
        deeper = [place.prefix for place in self.layout.places if place.prefix != prefix]
        try:
            directories, objects = self.calls.level(prefix)
        except StorageRootError:
            raise
        except StorageError as e:
            yield self._broken(prefix, e)
            yield from self._by_name(prefix)
            return
        self._failures = 0
        yield Folder(prefix, FolderState.WHOLE)
        yield from (stored for stored in objects if not is_stamp(stored.key))
        folders = [directory for name in directories if not is_stamp(directory := f"{name}/")]
        # In their order: each is asked for by the layout once.
        listed = {directory: None for directory in folders if self._is_listed(directory, places, deeper)}
        with self._listing_ahead(list(listed)):
            for directory in folders:
                if any(place.startswith(directory) for place in deeper):
                    yield from self._place(directory)
                elif directory in listed:
                    yield from self._folder(directory)
                elif any(self._is_of_topics(directory, place) for place in places):
                    continue
                elif (peeked := self._peek(directory)) is None:
                    yield from self._folder(directory)
                else:
                    yield peeked

    def _is_listed(self, directory: str, places: Sequence[Place], deeper: Sequence[str]) -> bool:
        """Tell whether a folder is of topics that are looked for, by its name alone."""
        if any(place.startswith(directory) for place in deeper):
            return False
        return any(self._is_of_topics(directory, p) for p in places) and any(
            self._is_wanted(directory, p) for p in places
        )

    @contextmanager
    def _listing_ahead(self, prefixes: Sequence[str]) -> Iterator[None]:
        """Have folders listed some at a time, where the store allows it, while they are asked for one after the other."""
        if self.calls.listings_at_once < 2:
            yield
            return
        ahead, before = ListingsAhead(self.calls.objects, prefixes, self.calls.listings_at_once), self._ahead
        self._ahead = ahead
        try:
            with ahead.running():
                yield
        finally:
            self._ahead = before

    def _peek(self, directory: str) -> Folder | None:
        """
        Return what a folder is that the layout would not build; ``None`` where it, or one right in it, names a topic id that
        is known.
        """
        ids = {text for tip in self.known for text in spelled(tip.topic_id)}
        if not ids or self.topic_ids is not None:
            return Folder(directory, FolderState.FOREIGN)
        if named_id(directory, ids) is not None:
            return None
        self._peeks += 1
        if self._peeks > MAX_PEEKS:
            return Folder(directory, FolderState.UNSEEN, f"no more than {MAX_PEEKS} of them are looked into")
        try:
            holds = any(named_id(name, ids) is not None for name in self.calls.level(directory)[0])
        except StorageRootError:
            raise
        except StorageError as e:
            return Folder(directory, FolderState.UNSEEN, str(e))
        return None if holds else Folder(directory, FolderState.FOREIGN)

    def _is_of_topics(self, directory: str, place: Place) -> bool:
        if not self.layout.folders_name_topics:
            return True
        return self.layout.topic_id_of_directory(directory, place) is not None

    def _is_wanted(self, directory: str, place: Place) -> bool:
        if self.topic_ids is None or not self.layout.folders_name_topics:
            return True
        return self.layout.topic_id_of_directory(directory, place) in self.topic_ids

    def _by_name(self, prefix: str) -> Iterator[StoredObject | Folder]:
        """Yield what lies in the folders of known user partitions below a prefix that cannot be listed itself."""
        folders = set()
        for place in self.layout.places:
            for tip in self.known if place.prefix.startswith(prefix) else ():
                try:
                    folders.add(self.layout.partition_prefix(tip, place))
                except UnsafeObjectKeyError:
                    # A record that lies about its topic; the doctor tells of it.
                    continue
        for folder in sorted(folders - {prefix}):
            yield from self._folder(folder)

    def _folder(self, prefix: str) -> Iterator[StoredObject | Folder]:
        """Yield all that lies in a folder of topics; where it cannot be listed at once, level by level."""
        if self._failures >= _MAX_FAILURES:
            yield Folder(prefix, FolderState.BROKEN, self._why)
            return
        try:
            yield from (self._ahead or self.calls).objects(prefix)
        except StorageRootError:
            raise
        except StorageError:
            yield Folder(prefix, FolderState.AGAIN)
            yield from self._by_levels(prefix)
        else:
            self._failures = 0
            yield Folder(prefix, FolderState.WHOLE)

    def _by_levels(self, prefix: str) -> Iterator[StoredObject | Folder]:
        try:
            directories, objects = self.calls.level(prefix)
        except StorageRootError:
            raise
        except StorageError as e:
            yield self._broken(prefix, e)
            return
        self._failures = 0
        yield Folder(prefix, FolderState.WHOLE)
        yield from objects
        for name in directories:
            yield from self._folder(f"{name}/")

    def _broken(self, prefix: str, error: StorageError) -> Folder:
        self._failures += 1
        self._why = str(error)
        return Folder(prefix, FolderState.BROKEN, str(error))
