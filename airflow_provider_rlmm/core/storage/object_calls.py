# SPDX-License-Identifier: Apache-2.0
"""The handful of calls to a store that all else is made of: the real stores and the fake differ in these only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_rlmm.core.storage.deletion import Lookup
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.core.storage.uploads import BeforeChunk, ObjectContent


@dataclass(frozen=True, slots=True)
class DeleteCalls:
    """What a store answered to a deletion. It proves nothing: a listing does."""

    failures: Mapping[str, str]  # key → why the store says that it was not deleted
    sent: Set[str]  # keys that a call was made for, answered or not
    throttled: Collection[str] = ()  # keys that are left because the store throttled or did not answer for too long


class ObjectCalls(Protocol):
    """
    The calls to a store. All keys are relative to the storage root.

    Every method raises :class:`~airflow_provider_rlmm.core.base.errors.StorageError` or a class below it where the store
    fails.
    """

    requests: int
    """Requests for listings and deletions made so far; each page of a listing is one."""

    listings_at_once: int
    """Folders that may be listed at once, by threads of their own."""

    def identities(self, prefixes: Sequence[str] = ()) -> Sequence[object]:
        """
        Return something that changes when another folder takes the place of one, for example by an unmount.

        :param prefixes: folders below the root, each ending in ``/``.
        :return: that of the root, then one per prefix; ``None`` where there is no folder, or nothing to be unmounted.
        :raises StorageRootError: if the root does not exist, or a prefix leads through a symbolic link.
        """

    def location(self, prefix: str) -> Location:
        """Say where a prefix lies: it is empty, or ends in ``/``."""

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """List the objects below a prefix, however deep, in any order, without keys up to ``after``, inclusive."""

    def by_name(self, lookup: Lookup) -> Sequence[StoredObject] | None:
        """
        Look for each of the known keys of some objects, where that costs the same with anything beside them: in a folder.

        :return: those that are there; ``None`` where the store can only list.
        """

    def level(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredObject]]:
        """List the directories right below a prefix, without trailing ``/``, and the objects right there."""

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        """Delete objects; one that fails does not stop the others, and a missing one is no failure."""

    def version(self, key: str) -> str | None:
        """
        Return the version id of an object, ``None`` where the store gives none.

        :raises RemoteObjectNotFoundError: if it does not exist.
        """

    def remove_folder(self, prefix: str) -> bool:
        """Remove a folder if it is empty; tell whether it was there and is gone. Where there are no folders: never."""

    def put(self, key: str, data: ObjectContent, before_chunk: BeforeChunk | None = None) -> None:
        """
        Write an object, replacing an older one, or stream it from a file or chunk by chunk. Of one that fails nothing stays.

        :raises LogDirectoryError: if the file cannot be read.
        :raises StorageFullError: if the store has no room left.
        """

    def put_if_absent(self, key: str, data: bytes, *, replace: bool = False) -> bool:
        """Write a small object if there is none, with ``replace`` over any other; tell whether it was written."""

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """
        Read an object from ``start`` to ``end``, both inclusive; a range beyond its end yields what there is of it.

        :raises RemoteObjectNotFoundError: if it does not exist.
        """
