# SPDX-License-Identifier: Apache-2.0
"""The handful of calls to a store that remote storage is made of: all that the real store and the fake differ in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_rlmm.storage.remote_storage import StoredObject
from airflow_provider_rlmm.storage.stamp import Location


@dataclass(frozen=True, slots=True)
class DeleteCalls:
    """
    What a store answered to a deletion. It proves nothing: a listing does.

    :param failures: key → why the store says that it was not deleted.
    :param calls: calls made.
    :param sent: keys that a call was made for, answered or not.
    """

    failures: Mapping[str, str]
    calls: int
    sent: Collection[str]


class ObjectCalls(Protocol):
    """
    The calls to a store. All keys are relative to the storage root.

    Every method raises :class:`~airflow_provider_rlmm.errors.StorageError` or a class below it where the store fails.
    """

    def identities(self, prefixes: Sequence[str] = ()) -> Sequence[object]:
        """
        Return something that changes when another folder takes the place of one, for example by an unmount.

        :param prefixes: folders below the root, each ending in ``/``.
        :return: that of the root, then one per prefix; ``None`` where there is no folder, or nothing to be unmounted.
        :raises StorageRootError: if the root does not exist, or a prefix leads through a symbolic link.
        """
        ...

    def location(self, prefix: str) -> Location:
        """
        Say where a prefix lies.

        :param prefix: empty, or ending in ``/``.
        """
        ...

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """
        List the objects below a prefix, however deep, in any order.

        :param prefix: empty, or ending in ``/``.
        :param after: leave out keys up to this one, inclusive.
        """
        ...

    def directories(self, prefix: str) -> Sequence[str]:
        """
        List the directories right below a prefix, without trailing ``/``.

        :param prefix: ends in ``/``.
        """
        ...

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        """
        Delete objects; one that fails does not stop the others, and a missing one is no failure.

        :param keys: keys of objects.
        """
        ...

    def put(self, key: str, data: bytes | Path) -> None:
        """
        Write an object, replacing an older one.

        :param key: its key.
        :param data: its content, or the file to stream it from.
        """
        ...

    def put_if_absent(self, key: str, data: bytes, *, replace: bool = False) -> bool:
        """
        Write a small object if there is none.

        :param key: its key.
        :param data: its content.
        :param replace: write it whatever is there.
        :return: whether it was written.
        """
        ...

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """
        Read an object; a range beyond its end yields what there is of it.

        :param key: its key.
        :param start: first byte, inclusive.
        :param end: last byte, inclusive; ``None`` means to the end.
        :raises RemoteObjectNotFoundError: if it does not exist.
        """
        ...
