# SPDX-License-Identifier: Apache-2.0
"""
Whether all that was ever said about a user partition can be seen, judged one user partition at a time.

A metadata partition that lost its beginning, or holds a record that cannot be applied, may have said more than can be read.
That is no reason to leave every topic in it alone for ever: a user partition is whole if every segment in the log has its
first event, and storage shows no segment that the log does not name.

Where nothing suggests a loss, what the log names may go. Yet no user partition is declared deleted while storage shows a
segment that the log does not name: its first event was durable before its first object was there, so the log has lost
records, or another program writes to the same storage.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import kafka_uuid_str

_ADVICE = (
    "reconcile storage and metadata of this user partition by hand: the log does not say all of it, so it is never "
    "deleted"
)

_UNNAMED_ADVICE = (
    "find out whether the metadata topic has lost records, or another cluster writes to the same storage; the scrub removes "
    "these objects by its own rules after its waits, and the next run then finishes the user partition"
)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why more may have been said about a user partition than was read."""

    why: str  # in words
    metadata_partition: int  # where
    offset: int  # of the first record that is there after those that are lost, or of the one that cannot be applied


def incompleteness(
    history: UserPartitionHistory, listed: Collection[UUID], doubt: Doubt, *, root_shown: bool
) -> Refusal | None:
    """
    Return why a user partition in doubt must be left alone, ``None`` where it was shown to be whole.

    :param history: its history.
    :param listed: the segments that storage lists at every place of the user partition, as of now.
    :param doubt: why it is in doubt.
    :param root_shown: whether every place is verified, and showed something of this cluster: an empty listing of any other
        place proves nothing.
    """
    if history.without_add:
        return incomplete_history(history, doubt.metadata_partition)
    if not root_shown:
        why = f"{doubt.why}, and nothing of this cluster was seen in the storage that was listed instead"
        return _refusal(history, why, doubt.metadata_partition, doubt.offset)
    if (what := _what_is_unnamed(history, listed)) is not None:
        return _refusal(history, f"{doubt.why}, and {what}", doubt.metadata_partition, doubt.offset)
    return None


def unnamed_segments(
    history: UserPartitionHistory, listed: Collection[UUID], metadata_partition: int
) -> Refusal | None:
    """
    Return why a user partition must not be declared deleted, ``None`` where the log names all that storage lists of it.

    :param history: its history, read on after the listing.
    :param listed: the segments that storage listed before, at every place of the user partition.
    :param metadata_partition: where its records lie.
    """
    what = _what_is_unnamed(history, listed)
    if what is None:
        return None
    tip = history.topic_id_partition
    why = f"not declared deleted: {what}"
    return Refusal(str(tip), why, _UNNAMED_ADVICE, RefusalKind.INCOMPLETE_HISTORY, metadata_partition, topic=tip.topic)


def _what_is_unnamed(history: UserPartitionHistory, listed: Collection[UUID]) -> str | None:
    unknown = sorted(set(listed) - history.known_segments)
    if not unknown:
        return None
    return (
        f"storage holds {number_of(len(unknown), 'segment')} that the log does not name, the first is "
        f"{kafka_uuid_str(unknown[0])}"
    )


def incomplete_history(history: UserPartitionHistory, metadata_partition: int) -> Refusal:
    """
    Return the refusal of a user partition of which an update came without its add.

    :param history: its history; it has such an update.
    :param metadata_partition: where its records lie.
    """
    offset, number = min(history.without_add.values()), len(history.without_add)
    why = f"{number_of(number, 'segment has', 'segments have')} an incomplete history, see offset {offset}"
    return _refusal(history, why, metadata_partition, offset)


def _refusal(history: UserPartitionHistory, why: str, metadata_partition: int, offset: int) -> Refusal:
    tip = history.topic_id_partition
    kind = RefusalKind.INCOMPLETE_HISTORY
    return Refusal(str(tip), why, _ADVICE, kind, metadata_partition, offset, tip.topic)
