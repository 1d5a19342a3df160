# SPDX-License-Identifier: Apache-2.0
"""Names of directories and files below a broker's ``log.dirs`` (Kafka: ``LocalLog``, ``LogFileUtils``)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from airflow_provider_rlmm.core.base.quoting import in_quotes, name_in_text

__all__ = ["TopicPartition"]

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
PRODUCER_SNAPSHOT_SUFFIX: Final = ".snapshot"

SEGMENT_SUFFIXES: Final = frozenset(
    {LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, PRODUCER_SNAPSHOT_SUFFIX}
)
"""What belongs to a segment; anything behind them marks a file that is being replaced or deleted."""

PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"

MARKED: Final = {
    "-delete": "its deletion has begun",
    "-future": "a broker was moving it here from another disk: it is not whole",
    "-stray": "a broker has found that the cluster does not want it here any more",
}
"""Suffix of the directory of a user partition → what a broker says with it."""

_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9][0-9]{0,9})")
_SEGMENT_FILE = re.compile(r"(?P<offset>[0-9]{20})(?P<suffix>\.[a-z]+)(?P<rest>\..+)?")
_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


class TopicPartition(NamedTuple):
    """A user partition by its topic's name, as the checkpoints of a disk have it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{name_in_text(self.topic)}-{self.partition}"


class SegmentFileName(NamedTuple):
    """What the name of a segment's file says: ``00000000000000000042.log.deleted`` ends in the rest ``.deleted``."""

    offset: int
    suffix: str
    rest: str


def parse_partition_name(name: str) -> TopicPartition | None:
    """
    Return the user partition that a directory is named after, ``None`` where it is named after none.

    :param name: of the directory, without what is above it.
    """
    match = _PARTITION.fullmatch(name)
    if match is None or match["topic"] in (".", "..") or int(match["partition"]) > _MAX_PARTITION:
        return None
    return TopicPartition(match["topic"], int(match["partition"]))


def why_marked(name: str) -> str | None:
    """Say what a broker has marked a directory for, ``None`` where it is not marked."""
    return next((f"{in_quotes(name)}: {why}" for suffix, why in MARKED.items() if name.endswith(suffix)), None)


def parse_segment_file_name(name: str) -> SegmentFileName | None:
    """Return what the name of a segment's file says, ``None`` for any other file."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or match["suffix"] not in SEGMENT_SUFFIXES or int(match["offset"]) > _MAX_OFFSET:
        return None
    return SegmentFileName(int(match["offset"]), match["suffix"], match["rest"] or "")


def segment_file_name(offset: int, suffix: str) -> str:
    """
    Return the name of a segment's file.

    :param offset: base offset of the segment; of a producer snapshot the offset behind the last one that it knows.
    :param suffix: one of :data:`SEGMENT_SUFFIXES`.
    """
    return f"{offset:020d}{suffix}"
