# SPDX-License-Identifier: Apache-2.0
"""
Remote storage in a dict: a fake for tests and simulations, with a hook before and after every effect.

It is the production code over other calls, runs in one thread, and answers the same way every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from airflow_provider_rlmm.core.base.errors import RemoteObjectNotFoundError, StorageError, StorageRootError
from airflow_provider_rlmm.core.storage.deletion import Lookup
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layout_storage import LayoutRemoteStorageManager
from airflow_provider_rlmm.core.storage.object_calls import DeleteCalls
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.core.storage.uploads import BeforeChunk, ObjectContent, chunks_of

EffectHook = Callable[[str, str], None]
"""Called with ``"list"``, ``"get"``, ``"put"`` or ``"delete"`` and the key, for a listing the prefix."""


class InMemoryRemoteStorageManager(LayoutRemoteStorageManager):
    """
    Remote storage of a test.

    A hook that raises a :class:`~airflow_provider_rlmm.core.base.errors.StorageError` plays a failing store: in a
    deletion that is one object's failure, the others go on. Anything else that it raises goes through, as a crash does,
    and leaves what was done until then. Raised from ``after_effect``, the effect took place and only its reply is lost.

    ``on_effect``, ``after_effect``, ``root_exists``, ``where``, ``arrange`` and ``folders`` are attributes that may be set at
    any time. ``arrange`` says in which order a listing comes: as objects were put, unless it is set. A root that does not
    exist plays an unmounted one; another ``where`` a copy of it; ``folders`` (prefix → identity, empty for the root's) the
    folders of a local root, which may be replaced by others: one without identity is not there.

    :param layout: where the objects of a segment lie.
    :param on_effect: called before each effect.
    :param after_effect: called after each effect.
    :param clock: time of an object that is put, ms since the epoch.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        on_effect: EffectHook | None = None,
        after_effect: EffectHook | None = None,
        clock: Callable[[], int] = lambda: 0,
    ) -> None:
        self.on_effect = on_effect
        self.after_effect = after_effect
        self.root_exists = True
        self.where = Location("memory")
        self.arrange: Callable[[list[StoredObject]], Iterable[StoredObject]] = iter
        self.folders: dict[str, object] = {}
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._clock = clock
        super().__init__(_MemoryCalls(self, self._objects), layout)

    @property
    def keys(self) -> frozenset[str]:
        """All keys, stamps included, without calling a hook."""
        return frozenset(self._objects)

    def put_object(self, key: str, data: bytes, last_modified_ms: int | None = None) -> None:
        """
        Place any object, without calling a hook.

        :param key: key below the root.
        :param data: its content.
        :param last_modified_ms: its time, ms since the epoch; ``None`` means now by the clock.
        """
        self._objects[key] = (data, self._clock() if last_modified_ms is None else last_modified_ms)


class _MemoryCalls:
    def __init__(self, owner: InMemoryRemoteStorageManager, objects: dict[str, tuple[bytes, int]]) -> None:
        self._owner = owner
        self._objects = objects
        self.requests = 0
        self.listings_at_once = 1

    def identities(self, prefixes: Sequence[str] = ()) -> Sequence[object]:
        if not self._owner.root_exists:
            raise StorageRootError("the storage root in memory was taken away")
        return [self._owner.folders.get(prefix) for prefix in ("", *prefixes)]

    def location(self, prefix: str) -> Location:
        return replace(self._owner.where, prefix=f"{self._owner.where.prefix}/{prefix}".strip("/"))

    def objects(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        self.requests += 1
        self._before("list", prefix)
        listed = [
            StoredObject(key, len(data), time_ms)
            for key, (data, time_ms) in self._objects.items()
            if key.startswith(prefix) and (after is None or key > after)
        ]
        self._after("list", prefix)
        return iter(self._owner.arrange(listed))

    def by_name(self, lookup: Lookup) -> None:
        return None

    def level(self, prefix: str) -> tuple[Sequence[str], Sequence[StoredObject]]:
        listed = list(self.objects(prefix))
        below = (stored.key[len(prefix) :] for stored in listed)
        directories = sorted({prefix + rest.partition("/")[0] for rest in below if "/" in rest})
        return directories, [stored for stored in listed if "/" not in stored.key[len(prefix) :]]

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        failures: dict[str, str] = {}
        sent: set[str] = set()
        self.requests += 1
        for key in keys:
            sent.add(key)
            try:
                self._before("delete", key)
                self._objects.pop(key, None)
                self._after("delete", key)
            except StorageError as e:
                failures[key] = str(e)
        return DeleteCalls(failures, sent)

    def version(self, key: str) -> str | None:
        return None

    def remove_folder(self, prefix: str) -> bool:
        return False

    def put(self, key: str, data: ObjectContent, before_chunk: BeforeChunk | None = None) -> None:
        self._before("put", key)
        sent = []
        for chunk in chunks_of(data):
            if before_chunk is not None:
                before_chunk(len(chunk))
            sent.append(chunk)
        self._owner.put_object(key, b"".join(sent))
        self._after("put", key)

    def put_if_absent(self, key: str, data: bytes, *, replace: bool = False) -> bool:
        self._before("put", key)
        absent = replace or key not in self._objects
        if absent:
            self._owner.put_object(key, data)
        self._after("put", key)
        return absent

    def get(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        self._before("get", key)
        if key not in self._objects:
            raise RemoteObjectNotFoundError(f"cannot read {key}: no such object")
        data = self._objects[key][0][start : None if end is None else end + 1]
        self._after("get", key)
        return data

    def _before(self, effect: str, key: str) -> None:
        if self._owner.on_effect is not None:
            self._owner.on_effect(effect, key)

    def _after(self, effect: str, key: str) -> None:
        if self._owner.after_effect is not None:
            self._owner.after_effect(effect, key)
