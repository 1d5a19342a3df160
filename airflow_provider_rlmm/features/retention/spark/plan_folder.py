# SPDX-License-Identifier: Apache-2.0
"""The folder of a plan, as the driver sees it: what tasks have written gets its name there, and the summary comes last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from uuid import uuid4

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.file_systems import (
    absolute,
    create_file,
    list_files,
    list_folders,
    move_file,
    remove_file,
    remove_folder,
)
from airflow_provider_rlmm.core.plans.plan import SUMMARY_NAME
from airflow_provider_rlmm.features.retention.record_ages import AGES_DOCUMENT
from airflow_provider_rlmm.features.retention.spark.what_if_document import WHAT_IF_DOCUMENT

_FILES: Final = re.compile(r"metadata-partition-\d+\.parquet")
_ROWS: Final = re.compile(r"rows-\w+\.tmp")


class PlanFolder:
    """
    A folder of :mod:`~airflow_provider_rlmm.core.base.file_systems`. What is in the way there is a :class:`PlanError`.

    :param uri: of the folder; executors write below it, so a local folder must be one that they share with the driver.
    :raises ConfigurationError: if it is not understood.
    """

    def __init__(self, uri: str) -> None:
        self.uri = absolute(uri)

    def clear(self) -> None:
        """
        Remove the plan that is there, its summary first, what lies beside it, and what killed tries left.

        A file is created and removed, too: a job that cannot write the summary as it must be finds out before it reads a
        topic.

        :raises PlanError: if that cannot be done.
        :raises ConfigurationError: as :meth:`create`.
        """
        self.remove(SUMMARY_NAME)
        for beside in (WHAT_IF_DOCUMENT, AGES_DOCUMENT):
            self.remove(beside)
        with self._told():
            for name in filter(_FILES.fullmatch, list_files(self.uri)):
                remove_file(f"{self.uri}/{name}")
            for name in filter(_ROWS.fullmatch, list_folders(self.uri)):
                remove_folder(f"{self.uri}/{name}")
        with self.new_rows() as rows:
            self.create(f"{rows}/begun", b"")

    @contextmanager
    def new_rows(self) -> Iterator[str]:
        """
        Return the name of a folder for tasks to write into, of this try alone; it is gone after the block.

        :raises PlanError: if it cannot be removed after a block that ended well.
        """
        name = f"rows-{uuid4().hex}.tmp"
        try:
            yield name
        except BaseException:
            with suppress(OSError):
                remove_folder(f"{self.uri}/{name}")
            raise
        with self._told():
            remove_folder(f"{self.uri}/{name}")

    def take(self, source: str, name: str) -> None:
        """
        Give a file below the folder its final name, in the place of an older one.

        :raises PlanError: if it is not there any more.
        """
        try:
            with self._told():
                move_file(self.uri, source, name)
        except FileNotFoundError as e:
            raise PlanError(f"{self.uri}/{source} is gone: another try writes this plan; run again") from e

    def create(self, name: str, data: bytes) -> None:
        """
        Write a small file where there is none, whole or not at all: of two that do it at once one fails.

        :raises PlanError: if there is one already.
        :raises ConfigurationError: if the folder's store writes over what is there.
        """
        try:
            with self._told():
                create_file(f"{self.uri}/{name}", [data])
        except FileExistsError as e:
            raise PlanError(
                f"{self.uri}/{name} exists already: another try wrote this plan at the same time; run again"
            ) from e

    def remove(self, name: str) -> None:
        """
        Remove a file, if it is there.

        :raises PlanError: if it cannot be removed.
        """
        with self._told():
            remove_file(f"{self.uri}/{name}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as e:
            raise PlanError(f"the folder of the plan, {self.uri}, cannot be used: {e}") from e
