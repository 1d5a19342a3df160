# SPDX-License-Identifier: Apache-2.0
"""
What a survey found: every topic that still has remote segments, how far its deletion is, and what it takes up.

It is for people. Nothing that deletes reads it.

One small JSON document, the :class:`Inventory`, names a *generation*: a folder of Parquet files, each with its rows, size and
SHA-256. The files of a generation come first and never change; the document comes last and replaces the one before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.documents import AbsentAs, Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.core.plans.plan import Data
from airflow_provider_rlmm.core.plans.prices import StoragePrice
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.world.visibility import why_not_all_seen, why_not_all_sized

INVENTORY_FORMAT = 2
"""Version of the document; one of another version is not read."""

INVENTORY_DOCUMENT = "inventory.json"
SURVEY_FOLDER = "survey"
"""Where the inventory of some topics lies, in the folder of its run."""
MAX_INVENTORY_BYTES = 4 * 2**20
TOPICS_FILE = "topics.parquet"
PARTITIONS_FILE = "partitions.parquet"
ROW_GROUP_ROWS = 5_000
"""Rows of a row group of the files of segments, at most: a reader of one user partition skips the others."""

_GENERATION = re.compile(r"inventory-(0|[1-9][0-9]{0,18})")
_FILE_NAME = re.compile(r"topics\.parquet|partitions\.parquet|segments-(0|[1-9][0-9]{0,9})\.parquet")


class SurveyedState(StrEnum):
    """What is known of a topic, or of a user partition of it, by one look at the cluster."""

    LIVING = "LIVING"  # the cluster has it
    ORPHANED = "ORPHANED"  # it is gone, and has no marker yet
    WAITING = "WAITING"  # it is marked, and ``min_absence`` is not over
    ELIGIBLE = "ELIGIBLE"  # a run may clean it now
    DELETING = "DELETING"  # DELETE_PARTITION_STARTED is written, DELETE_PARTITION_FINISHED is not
    REFUSED = "REFUSED"  # it is gone, and something stands against its cleaning
    UNSEEN = "UNSEEN"  # it cannot be told whether it is gone, or what of it is left


READY = "READY"
"""Status of an orphaned user partition that a run may clean now."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What is known of a user partition.

    :param state: of it.
    :param status: :data:`READY`, or the kind of what stands against its cleaning.
    :param why: the state in words.
    :param deletion: name of the state of its deletion, ``None`` where it was never marked.
    :param first_absent_ms: since when its absence counts, ms since the epoch; ``None`` where it was not observed.
    :param eligible_ms: when it may be cleaned, ms since the epoch; ``None`` where it does not wait.
    """

    state: SurveyedState
    status: str
    why: str
    deletion: str | None = None
    first_absent_ms: int | None = None
    eligible_ms: int | None = None


TOPIC_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic", "string"),
    ("topic_id", "binary"),  # 16 bytes
    ("state", "string"),  # a SurveyedState: of its user partitions, the one that most needs to be seen
    ("presence", "string"),  # what one look at the cluster said: present, absent, ambiguous, denied or diskless
    ("partitions", "int32"),  # those with unfinished segments or a deletion under way
    ("segments", "int64"),  # not finished
    ("bytes", "int64"),  # of these, summed
    ("oldest_ms", "int64"),  # time of the oldest segment's newest record, null where no segment tells
    ("newest_ms", "int64"),  # time of the newest segment's newest record, null where no segment tells
    ("first_absent_ms", "int64"),  # the earliest from which its absence counts, null where it was not observed
    ("eligible_ms", "int64"),  # when the first of its waiting partitions may be cleaned, null where none waits
    ("why", "string"),  # the state in words
)
"""Name and Arrow type of each column of the file of topics: a row for each topic id, the largest first."""

PARTITION_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("metadata_partition", "int32"),
    ("state", "string"),
    ("segments", "int64"),
    ("bytes", "int64"),
    ("start_offset", "int64"),  # lowest of its segments, inclusive; null where it has none
    ("end_offset", "int64"),  # highest of its segments, inclusive; null where it has none
    ("deletion", "string"),  # state of its deletion, null where it was never marked
    ("first_absent_ms", "int64"),
    ("eligible_ms", "int64"),
    ("why", "string"),
)
"""Name and Arrow type of each column of the file of user partitions, by topic id, topic and number."""

SEGMENT_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic_id", "binary"),  # 16 bytes
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),  # 16 bytes
    ("state", "string"),  # name of a state of a segment
    ("start_offset", "int64"),  # inclusive
    ("end_offset", "int64"),  # inclusive
    ("bytes", "int64"),
    ("max_timestamp_ms", "int64"),
    ("event_timestamp_ms", "int64"),  # of its last event
    ("broker_id", "int32"),  # of its last event's writer
    ("leader_epochs", "epochs"),  # list of {leader_epoch, start_offset}
    ("added_offset", "int64"),  # of its first event in the metadata partition
    ("event_offset", "int64"),  # of its last event there
)
"""Name and Arrow type of each column of a metadata partition's file of segments, by topic id, partition, start offset."""


def generation_name(created_at_ms: int) -> str:
    """
    Return the name of a generation's folder.

    :param created_at_ms: when its survey looked, ms since the epoch.
    """
    return f"inventory-{created_at_ms}"


def generation_time(name: str) -> int | None:
    """Return when the survey of a generation looked, ms since the epoch; ``None`` where a folder is no generation."""
    found = _GENERATION.fullmatch(name)
    return int(found[1]) if found else None


def is_file_of_generation(name: str) -> bool:
    """Tell whether a generation has a file of this name in its folder."""
    return name == INVENTORY_DOCUMENT or _FILE_NAME.fullmatch(name) is not None


def segments_file(metadata_partition: int) -> str:
    """Return the name of the file of the segments of a metadata partition."""
    return f"segments-{metadata_partition}.parquet"


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """One file of a generation."""

    rows: int  # its rows
    bytes: int  # its size
    sha256: Text  # of its bytes, lower-case hex

    @classmethod
    def of(cls, rows: int, data: Data) -> InventoryFile:
        """
        Describe a file.

        :param rows: how many it has.
        :param data: its bytes.
        """
        return cls(rows, len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class Totals:
    """
    What a survey found, summed up.

    :param stored: segments that are not finished, of any topic.
    :param orphaned: those of topic ids that the cluster lacks; the next three are parts of it.
    :param waiting: those of user partitions that wait for ``min_absence``.
    :param eligible: those of user partitions that a run may clean now.
    :param deleting: those of user partitions whose deletion was started.
    :param next_eligible_ms: when the first waiting user partition may be cleaned, ms since the epoch.
    :param oldest_orphan_ms: time of the oldest orphaned segment's newest record, ms since the epoch.
    :param topics: topic ids that have unfinished segments or a deletion under way.
    :param orphaned_topics: those of them that the cluster lacks.
    :param unseen: segments of which it cannot be told whether they are orphaned; no part of ``orphaned``.
    :param unseen_topics: topic ids of which that cannot be told.
    :param quarantined_records: records that cannot be applied.
    :param metadata_partitions_out_of_service: those with a record that ends the consumers of brokers, and those in which
        too many records lie where they do not belong, so that nothing is written there.
    :param unsized: segments that are in none of the counts, as the log tells no size of them; earlier releases did not say.
    """

    stored: Count
    orphaned: Count
    waiting: Count
    eligible: Count
    deleting: Count
    next_eligible_ms: int | None
    oldest_orphan_ms: int | None
    topics: int
    orphaned_topics: int
    unseen: Count
    unseen_topics: int
    quarantined_records: int
    metadata_partitions_out_of_service: tuple[int, ...]
    unsized: Annotated[Unsized | None, AbsentAs(None)] = None

    @property
    def why_not_all_seen(self) -> str:
        """What could not be seen, in words; empty where all was: only then is a count of zero a zero."""
        return why_not_all_seen(self.unseen, self.unseen_topics, self.metadata_partitions_out_of_service)

    @property
    def why_not_all_sized(self) -> str:
        """Of which segments no count tells the bytes, in words; empty where none are known: only then a sum is all."""
        return why_not_all_sized(self.unsized) if self.unsized else ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """
    The document of a survey.

    :param cluster_id: the cluster.
    :param connection: by which it was reached: an Airflow connection id, or what the command was told.
    :param created_at_ms: when the survey looked, ms since the epoch.
    :param artifact: the run that made it.
    :param generation: name of the folder of its files, beside the document.
    :param files: name → file.
    :param totals: summed up.
    :param folded: the generation of the Spark job that its reading began with; ``None`` where there was none.
    :param price: by which costs are reckoned, ``None`` where none is set; earlier releases knew of none.
    """

    cluster_id: Text
    connection: Text
    created_at_ms: int
    artifact: Text
    generation: Text
    files: Mapping[Text, InventoryFile]
    totals: Totals
    folded: Annotated[Folded | None, AbsentAs(None)] = None
    price: Annotated[StoragePrice | None, AbsentAs(None)] = None

    def to_json(self) -> str:
        """
        Return the document.

        :raises DocumentError: if it contradicts itself: it could not be read.
        """
        return sealed_text(self, INVENTORY_FORMAT, self.from_json, DocumentError, f"the inventory of {self.generation}")

    @classmethod
    def from_json(cls, text: str) -> Inventory:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not, to the letter.
        """
        try:
            document = strict.unsealed(text, INVENTORY_FORMAT)
            inventory = _READ(document, "inventory")
            inventory._check_consistent()
        except ValueError as e:
            raise DocumentError(f"{INVENTORY_DOCUMENT} cannot be read ({e}); the next run surveys anew") from e
        return inventory

    def _check_consistent(self) -> None:
        if self.generation != generation_name(self.created_at_ms):
            raise ValueError(f"generation {strict.shown(self.generation)} was not made at {self.created_at_ms} ms")
        if unknown := sorted(name for name in self.files if not _FILE_NAME.fullmatch(name)):
            raise ValueError(f"files has {strict.shown(unknown[0])}, which is no file of a survey")
        if missing := {TOPICS_FILE, PARTITIONS_FILE} - self.files.keys():
            raise ValueError(f"files lacks {sorted(missing)}")
        if self.totals.topics != self.files[TOPICS_FILE].rows:
            raise ValueError(
                f"{TOPICS_FILE} has {number_of(self.files[TOPICS_FILE].rows, 'row')} for "
                f"{number_of(self.totals.topics, 'topic')}"
            )


_READ = reader_of(Inventory)
