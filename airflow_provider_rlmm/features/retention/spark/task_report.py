# SPDX-License-Identifier: Apache-2.0
"""What a Spark task tells the driver of the metadata partition that it has read: one row of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.generations.manifest import GenerationPart

TOLD_COLUMNS: tuple[tuple[str, str], ...] = (
    ("told", "string"),
    ("unlisted", "binary"),
    ("uncertain", "binary"),
    ("ages", "binary"),
    ("leaders", "binary"),
)
"""
Name and Arrow type of the columns that tasks return: a :class:`TaskReport` each row, and as Arrow IPC streams the topics that
the listing lacks (:data:`UNLISTED_COLUMNS`), the user partitions of which something is not certain
(:data:`UNCERTAIN_COLUMNS`), how old the segments of topics are (:data:`AGE_COLUMNS`), and what is known of leaders
(:data:`LEADER_COLUMNS`).
"""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What the task of a metadata partition tells the driver of it."""

    metadata_partition: int
    part: GenerationPart  # what is known of it now, and the files that hold it
    records: int = 0  # records that were not read before
    in_order: bool = True  # whether their offsets ascended
    user_partitions: int = 0  # user partitions with unfinished segments
    largest_user_partition: int = 0  # the most segments that one of them has
    milliseconds: Mapping[Text, int] = field(default_factory=dict)  # step → how long it took
    versions: Mapping[Text, Text] = field(default_factory=dict)  # what the executor runs
    refused: Text | None = None  # why it could not go on from the generation before; nothing was written then
    # how the log differs from a generation that was to be compared with it; ``None`` where it does not, or none was
    differs: Text | None = None

    def to_json(self) -> str:
        """Return the report as text."""
        return json.dumps(plain_of(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> TaskReport:
        """
        Read the text.

        :param text: what :meth:`to_json` returned.
        :raises ValueError: if it is not.
        """
        return _READ(strict_json.parse_object(text), "report of a task")


_READ = reader_of(TaskReport)
