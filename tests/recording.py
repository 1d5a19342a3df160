# SPDX-License-Identifier: Apache-2.0
"""Everything that a run changes, as seen from outside of the package: records, objects, stamps, committed offsets, files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEEN = {"list", "get", "head", "read", "committed", "high_water_marks", "beginning_offsets"}
"""Effects that change nothing; one that is not among them, and unknown here, counts as a change."""


class Recorder:
    """
    :param work: the work folder.
    :param fakes: logs, stores and offset stores whose hooks tell of their effects; hooks that a test has set go on.
    """

    def __init__(self, work: Path, *fakes: Any) -> None:
        self._work, self._before = work, _files(work)
        self._effects: list[str] = []
        for fake in fakes:
            fake.on_effect = self._noting(type(fake).__name__, fake.on_effect)

    def _noting(self, who: str, before: Callable[[str, Any], Any] | None) -> Callable[[str, Any], Any]:
        def note(effect: str, detail: Any) -> Any:
            if effect not in SEEN:
                self._effects.append(f"{who}: {effect} {detail if isinstance(detail, str) else ''}".strip())
            return before(effect, detail) if before is not None else None

        return note

    def effects(self) -> list[str]:
        """Return what was changed in the log, in storage and in the consumer group, in order."""
        return self._effects

    def files(self) -> set[str]:
        """Return which files of the work folder are new, other than before, or gone; paths below it."""
        after = _files(self._work)
        return {name for name in after.keys() | self._before if after.get(name) != self._before.get(name)}


def _files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }
