# SPDX-License-Identifier: Apache-2.0
"""A broker whose remote storage can be made slow, or made to fail, while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from dev import ensure_java_classes
from dev.broker import LocalKafka

Operation = Literal["copy", "fetch", "delete"]
Object = Literal["log", "indexes", "rsm-manifest"]
"""What ``dev/java/s3/AivenKeysRemoteStorageManager.java`` puts, in this order. It can linger after a put, and no more."""


class StorageFaults:
    """
    Switches the faults of ``dev/java/FaultInjectingRemoteStorageManager.java``; calls that have begun are not affected.

    :param folder: the control folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def fail(self, operation: Operation) -> None:
        """
        Let every call fail before it does anything.

        :param operation: which calls.
        """
        self._put(f"{operation}.fail", "")

    def delay(self, operation: Operation, milliseconds: int) -> None:
        """
        Wait before each call.

        :param operation: which calls.
        :param milliseconds: ms.
        """
        self._put(f"{operation}.delay.ms", str(milliseconds))

    def linger(self, operation: Operation | Object, milliseconds: int) -> None:
        """
        Wait after each call, when its work is done and nobody knows.

        :param operation: which calls, or after the put of which object.
        :param milliseconds: ms.
        """
        self._put(f"{operation}.linger.ms", str(milliseconds))

    def heal(self) -> None:
        """Switch all faults off."""
        for path in self._folder.iterdir():
            path.unlink()

    def _put(self, name: str, text: str) -> None:
        # Renamed into place: the broker must not read a number that is half written.
        fresh = self._folder / f"{name}.new"
        fresh.write_text(text)
        fresh.rename(self._folder / name)


def faulty_storage(folder: Path) -> dict[str, str]:
    """
    Return the broker properties that put the fault injector around the remote storage.

    :param folder: the control folder.
    """
    return {
        "remote.log.storage.manager.class.name": "FaultInjectingRemoteStorageManager",
        "rsm.config.faults.dir": str(folder),
    }


class FaultyKafka(LocalKafka):
    """
    A :class:`~dev.broker.LocalKafka` with the fault injector around its remote storage.

    :param data_dir: as there; a temporary folder by default.
    :param properties: as there.
    :param metadata_partitions: as there.
    :raises DevEnvironmentError: if Java has no compiler.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        metadata_partitions: int = 5,
    ) -> None:
        classes = ensure_java_classes()
        super().__init__(data_dir, metadata_partitions=metadata_partitions, class_path=[classes])
        folder = self.data_dir / "faults"
        self.faults = StorageFaults(folder)
        self._properties |= {**faulty_storage(folder), **(properties or {})}
