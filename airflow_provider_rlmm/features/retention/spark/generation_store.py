# SPDX-License-Identifier: Apache-2.0
"""The generations of a data set: which there are, when one counts, and when old ones go."""

from __future__ import annotations

import logging
import re

from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import (
    absolute,
    create_file,
    list_files,
    list_folders,
    read_file,
    remove_file,
    remove_folder,
)
from airflow_provider_rlmm.features.retention.spark.generation import MANIFEST_NAME, MAX_MANIFEST_BYTES, Generation

log = logging.getLogger(__name__)

KEPT = 2
"""Generations that stay: the newest, and the one before it for whoever still reads it."""

_FOLDER = re.compile(r"generation=(\d{1,18})")


class GenerationStore:
    """
    The generations below one URI.

    :param uri: of the data set; executors write below it, so a local folder must be one that they share with the driver.
    :raises ConfigurationError: if it is not understood.
    """

    def __init__(self, uri: str) -> None:
        self.uri = absolute(uri)

    def folder(self, number: int) -> str:
        """Return the URI of a generation's folder."""
        return f"{self.uri}/segments/generation={number}"

    def numbers(self) -> list[int]:
        """
        Return the generations that have a manifest, newest first.

        :raises PlanError: if that cannot be told.
        """
        try:
            whole = [n for n in self._folders() if MANIFEST_NAME in list_files(self.folder(n))]
        except OSError as e:
            raise PlanError(f"the generations below {self.uri} cannot be listed ({_first_line(e)})") from e
        return sorted(whole, reverse=True)

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
        Remove the generations before the last :data:`KEPT`, the manifest of each first.

        :return: those that are gone.
        :raises OSError: if one cannot be removed.
        """
        old = sorted(number for number in self._folders() if number <= newest - KEPT)
        for number in old:
            remove_file(f"{self.folder(number)}/{MANIFEST_NAME}")
            remove_folder(self.folder(number))
        return old

    def _folders(self) -> list[int]:
        """Return the numbers of the generations that have a folder, with a manifest or without."""
        found = map(_FOLDER.fullmatch, list_folders(f"{self.uri}/segments"))
        return [int(match[1]) for match in found if match]


def newest_readable(store: GenerationStore) -> Generation | None:
    """
    Return the newest generation, ``None`` where there is none that can be read: for whoever reckons with its sizes.

    :param store: the data set.
    """
    try:
        return next((store.read(number) for number in store.numbers()), None)
    except (PlanError, SnapshotRefusedError) as e:
        log.info("what earlier runs have read is not known: %s", e)
        return None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
