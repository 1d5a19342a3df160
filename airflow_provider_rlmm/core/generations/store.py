# SPDX-License-Identifier: Apache-2.0
"""The generations of a data set: which there are, when one counts, and when old ones go."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import (
    absolute,
    create_file,
    files_below,
    read_file,
    remove_file,
    remove_folder,
)
from airflow_provider_rlmm.core.generations.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, Generation

log = logging.getLogger(__name__)

KEPT = 2
"""Generations that stay: the newest, and the one before it for runs that still read it."""

_FILE = re.compile(r"generation=(\d{1,18})/(.+)")


class GenerationStore:
    """
    The generations below one URI.

    :param uri: of the data set; executors write below it, so a local folder must be one that they share with the driver.
    :raises ConfigurationError: if it is not understood.
    """

    def __init__(self, uri: str) -> None:
        self.uri = absolute(uri)

    @property
    def root(self) -> str:
        """URI of the folder of all generations, which the names of their files are below."""
        return f"{self.uri}/segments"

    def folder(self, number: int) -> str:
        """Return the URI of a generation's folder."""
        return f"{self.root}/generation={number}"

    def numbers(self) -> list[int]:
        """
        Return the generations that have a manifest, newest first.

        :raises PlanError: if that cannot be told.
        """
        try:
            return sorted(self._whole(files_below(self.root)), reverse=True)
        except OSError as e:
            raise PlanError(f"the generations below {self.uri} cannot be listed ({_first_line(e)})") from e

    def read(self, number: int) -> Generation:
        """
        Read a generation's manifest.

        :raises SnapshotRefusedError: if it cannot be read, or is another one.
        """
        try:
            text = str(read_file(f"{self.folder(number)}/{MANIFEST_NAME}", MAX_MANIFEST_BYTES), "ascii")
        except (OSError, UnicodeDecodeError) as e:
            raise SnapshotRefusedError(f"its manifest cannot be read ({_first_line(e)})") from e
        generation = Generation.from_json(text)
        if generation.number != number:
            raise SnapshotRefusedError(f"its manifest is that of generation {generation.number}")
        return generation

    def create(self, generation: Generation) -> None:
        """
        Make a generation count: of two runs that write the same one at once, one fails.

        :param generation: its files are written.
        :raises PlanError: if there is such a generation, or its manifest cannot be written, by a store that writes over what
            is there, too.
        """
        try:
            create_file(f"{self.folder(generation.number)}/{MANIFEST_NAME}", [generation.to_json().encode("ascii")])
        except FileExistsError as e:
            raise PlanError(
                f"another run has written generation {generation.number} of {self.uri} at the same time; run again"
            ) from e
        except (OSError, ConfigurationError) as e:
            raise PlanError(f"generation {generation.number} of {self.uri} cannot be written: {_first_line(e)}") from e

    def remove_old(self, newest: int) -> list[int]:
        """
        Remove the generations before the last :data:`KEPT`, the manifest of each first, but for files that a later one names.

        :return: those that are gone.
        :raises OSError: if one cannot be removed.
        :raises SnapshotRefusedError: if it is not known what a later one names; nothing is removed then.
        """
        names = files_below(self.root)
        whole = self._whole(names)
        kept = [self.read(number) for number in whole if number > newest - KEPT]
        needed = {file.name for generation in kept for part in generation.parts.values() for file in part.files}
        files: dict[int, list[str]] = {}
        for name in names:
            if (found := _FILE.match(name)) and int(found[1]) <= newest - KEPT:
                files.setdefault(int(found[1]), []).append(name)
        for number, mine in sorted(files.items()):
            remove_file(f"{self.folder(number)}/{MANIFEST_NAME}")
            if needed.isdisjoint(mine):
                remove_folder(self.folder(number))
                continue
            for name in set(mine) - needed:
                remove_file(f"{self.root}/{name}")
        return sorted(number for number, mine in files.items() if number in whole or needed.isdisjoint(mine))

    @staticmethod
    def _whole(names: Iterable[str]) -> set[int]:
        """Return the generations that have a manifest among files."""
        return {int(found[1]) for name in names if (found := _FILE.fullmatch(name)) and found[2] == MANIFEST_NAME}


def newest_readable(store: GenerationStore) -> Generation | None:
    """
    Return the newest generation, ``None`` where there is none that can be read: for a caller that reckons with its sizes.

    :param store: the data set.
    """
    try:
        return next((store.read(number) for number in store.numbers()), None)
    except (PlanError, SnapshotRefusedError) as e:
        log.info("what earlier runs have read is not known: %s", e)
        return None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
