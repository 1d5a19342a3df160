# SPDX-License-Identifier: Apache-2.0
"""
Makes a catalogue in a process that is killed at its n-th step: ``python -m tests.killed_recovery STORAGE OUTPUT POINT``.

A step is a request to the storage, rows that go to a temporary file, or anything that is done to a file of the output, those
of its progress among them. With
the point 0 it comes to its end, and its steps are printed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from airflow_provider_rlmm.core.base import spool
from airflow_provider_rlmm.core.base.spool import Spool
from airflow_provider_rlmm.core.generations.files import HashedFile
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.recovery import cataloguing, progress
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue

LATER_MS = 10_000_000_000_000
"""When a catalogue is made: long after its objects were written."""

FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.link")


class Steps:
    """
    Counts steps.

    :param point: which one is the last; 0 for none.
    :param output: folder of the catalogue.
    """

    def __init__(self, point: int, output: str) -> None:
        self._point = point
        self._output = output
        self.names: list[str] = []

    def step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: Any, name: str) -> None:
        """Count calls of a method as steps."""
        call: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.step(name)
            return call(*arguments, **named)

        setattr(owner, name, counted)

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and any(str(argument).startswith(self._output) for argument in arguments[:2]):
            self.step(event)


def main(storage_uri: str, output: str, point: int) -> None:
    """Make the catalogue; each segment is read by this thread, so that a point is always the same step."""
    spool._IN_MEMORY = 1  # type: ignore[misc]
    cataloguing.SPOOLED_ROWS = 2  # type: ignore[attr-defined]
    progress.PART_ROWS = 2  # type: ignore[misc]
    storage, steps = ObjectStoreRemoteStorageManager(storage_uri, LocalTieredStorageLayout()), Steps(point, output)
    steps.before(storage, "fetch_object")
    steps.before(storage, "walk")
    steps.before(Spool, "append")
    steps.before(HashedFile, "write")
    sys.addaudithook(steps.on_event)
    request = CatalogueRequest(storage_uri=storage_uri, output=output, at_once=1, prove=True)
    make_catalogue(storage, request, clock=lambda: LATER_MS)
    print(" ".join(steps.names))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
