# SPDX-License-Identifier: Apache-2.0
"""
How far the cleaning of a metadata partition is: a small document in the folder of its run, replaced while the task works.

It is for people. Nothing that deletes reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AtMost, Number, Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import DocumentError

PROGRESS_FORMAT = 1
"""Version of the document; one of another version is not read."""

MAX_PROGRESS_BYTES = 256 * 2**10
MAX_PROGRESS_REFUSALS = 20


class ProgressState(StrEnum):
    """Whether a cleaning task works."""

    RUNNING = "running"  # it did when it said so last; a killed one cannot say that it ended
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Left:
    """Something that the task refused or left."""

    what: Text  # which partition or segment
    why: Text  # the reason
    what_to_do: Text  # what a person can do about it


@dataclass(frozen=True, slots=True)
class CleaningProgress:
    """
    The document of a cleaning task.

    :param artifact: the run.
    :param metadata_partition: which one is cleaned.
    :param dry_run: whether the task changes nothing, and says what it would do.
    :param began_at_ms: when this try began, ms since the epoch.
    :param updated_at_ms: when it said so, ms since the epoch.
    :param segments_total: segments that this try may delete.
    :param segments_done: those of them that are deleted.
    :param bytes_total: their sizes, summed.
    :param bytes_done: of those that are deleted.
    :param objects_per_second: deleted within the last minute.
    :param partitions_total: user partitions that the try cleans.
    :param partitions_done: those of them that are finished.
    :param refused: what it refused or left, the first :data:`MAX_PROGRESS_REFUSALS` of it.
    :param state: whether it works.
    """

    artifact: Text
    metadata_partition: int
    dry_run: bool
    began_at_ms: int
    updated_at_ms: int
    segments_total: int
    segments_done: int
    bytes_total: int
    bytes_done: int
    objects_per_second: Number
    partitions_total: int
    partitions_done: int
    refused: Annotated[tuple[Left, ...], AtMost(MAX_PROGRESS_REFUSALS)]
    state: ProgressState

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps({"format_version": PROGRESS_FORMAT, **plain_of(self)}, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> CleaningProgress:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it has another form.
        """
        try:
            document = strict.versioned_fields(strict.parse_object(text), PROGRESS_FORMAT)
            return _READ(document, "progress")
        except ValueError as e:
            raise DocumentError(f"how far a cleaning task is cannot be read ({e})") from e


def progress_name(metadata_partition: int) -> str:
    """
    Return the name of the document of a cleaning task.

    :param metadata_partition: which one it cleans.
    """
    return f"progress-{metadata_partition}.json"


_READ = reader_of(CleaningProgress)
