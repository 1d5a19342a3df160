# SPDX-License-Identifier: Apache-2.0
"""The generations of a data set: which there are, how the next one gets its manifest, and when old ones go."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from airflow_provider_rlmm.errors import ConfigurationError, PlanError, SnapshotRefusedError
from airflow_provider_rlmm.file_systems import create_file, local_path
from airflow_provider_rlmm.spark.generation import MANIFEST_NAME, MAX_MANIFEST_BYTES, Generation

KEPT = 2
"""Generations that stay: the newest, and the one before it for whoever still reads it."""

_FOLDER = re.compile(r"generation=(\d{1,18})")


class GenerationStore:
    """
    The generations below one URI.

    :param uri: of the data set; executors write below it, so a local folder must be one that they share with the driver.
    :raises ConfigurationError: if it is a local one that is not understood.
    """

    def __init__(self, uri: str) -> None:
        path = local_path(uri) if urlsplit(uri).scheme in ("", "file") else None
        # Spark takes a path without a scheme for one of Hadoop's default file system.
        self.uri = uri.rstrip("/") if path is None else path.absolute().as_uri()

    def require_lasting(self) -> None:
        """
        Refuse a place where no manifest can be created: generations that are used once may lie there.

        :raises ConfigurationError: if no file can be written there only if there is none.
        """
        local_path(self.uri)

    def folder(self, number: int) -> str:
        """Return the URI of a generation's folder."""
        return f"{self.uri}/segments/generation={number}"

    def numbers(self) -> list[int]:
        """
        Return the generations that have a manifest, newest first.

        :raises PlanError: if that cannot be told.
        """
        import pyarrow.fs as pafs

        from airflow_provider_rlmm.spark.executor.files import located

        files, path = located(f"{self.uri}/segments")
        try:
            found = files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
            numbers = [int(match[1]) for info in found if (match := _FOLDER.fullmatch(info.base_name))]
            manifests = files.get_file_info([f"{path}/generation={number}/{MANIFEST_NAME}" for number in numbers])
        except OSError as e:
            raise PlanError(f"the generations below {self.uri} cannot be listed ({_first_line(e)})") from e
        whole = [n for n, info in zip(numbers, manifests, strict=True) if info.type is pafs.FileType.File]
        return sorted(whole, reverse=True)

    def read(self, number: int) -> Generation:
        """
        Read a generation's manifest.

        :param number: which one.
        :raises SnapshotRefusedError: if it cannot be read, or is another one.
        """
        from airflow_provider_rlmm.spark.executor.files import located

        files, path = located(f"{self.folder(number)}/{MANIFEST_NAME}")
        try:
            with files.open_input_file(path) as stream:
                if stream.size() > MAX_MANIFEST_BYTES:
                    raise SnapshotRefusedError(f"its manifest has more than {MAX_MANIFEST_BYTES} bytes")
                generation = Generation.from_json(stream.read().decode("ascii"))
        except (OSError, UnicodeDecodeError) as e:
            raise SnapshotRefusedError(f"its manifest cannot be read ({_first_line(e)})") from e
        if generation.number != number:
            raise SnapshotRefusedError(f"its manifest is that of generation {generation.number}")
        return generation

    def create(self, generation: Generation) -> None:
        """
        Make a generation count: of two runs that write the same one at once, one fails.

        :param generation: its files are written.
        :raises PlanError: if there is such a generation, or its manifest cannot be written.
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

        :param newest: the last one.
        :return: those that are gone.
        :raises OSError: if one cannot be removed.
        """
        import pyarrow.fs as pafs

        from airflow_provider_rlmm.spark.executor.files import located

        files, path = located(f"{self.uri}/segments")
        found = files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        numbers = (int(match[1]) for info in found if (match := _FOLDER.fullmatch(info.base_name)))
        old = sorted(number for number in numbers if number <= newest - KEPT)
        for number in old:
            folder = f"{path}/generation={number}"
            if files.get_file_info(f"{folder}/{MANIFEST_NAME}").type is pafs.FileType.File:
                files.delete_file(f"{folder}/{MANIFEST_NAME}")
            files.delete_dir(folder)
        return old


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
