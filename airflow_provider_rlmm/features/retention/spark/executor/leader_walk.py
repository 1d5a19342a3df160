# SPDX-License-Identifier: Apache-2.0
"""
The pass of :func:`~airflow_provider_rlmm.features.retention.expiration.first_pass` over many user partitions at once, in
columns: of those whose leader has told what it knows.

A state does not know what a broker's cache knows of the past: whose place a segment took in the list of a leader epoch. So it
is for partitions in which that did not happen for certain, and whose segments come in the order of their leader epochs: there
the walk, which goes epoch by epoch, meets all of them, by start offset. Of any other partition it tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint, is_remote_segment_within_leader_epochs
from airflow_provider_rlmm.features.retention.spark.executor.retention_walk import (
    DELETION_RETRIED,
    LOG_START_OFFSET,
    NONE,
    RETENTION_BYTES,
    RETENTION_MS,
    UNREFERENCED_EPOCH,
    Step,
    WalkedSegments,
    by_partition,
    walk,
)

Array = Any

_LAST = 2**63 - 1
_EPOCHS = 1 << 32  # more than there are leader epochs


@dataclass(frozen=True, slots=True)
class ToldPartition:
    """
    What the leader of a user partition has told, and its lineage.

    :param lineage: as a segment keeps it, cut at the log start offset; never empty.
    :param log_start_offset: inclusive.
    :param log_end_offset: exclusive.
    :param retention_ms: ``retention.ms``; negative means unlimited.
    :param retention_bytes: ``retention.bytes``; negative means unlimited.
    :param known_up_to: the last leader epoch of the segment that keeps the lineage, and its last offset; ``None`` where the
        lineage knows the epoch in which the leader leads, so that it is whole.
    """

    lineage: LeaderEpochCheckpoint
    log_start_offset: int
    log_end_offset: int
    retention_ms: int
    retention_bytes: int
    known_up_to: tuple[int, int] | None

    @property
    def known_end(self) -> int:
        """Up to which offset the lineage is known, inclusive."""
        return _LAST if self.known_up_to is None else self.known_up_to[1]

    def until_ms(self, now_ms: int) -> int | None:
        """Return the time before which the newest record of a segment is too old at some time, ``None`` for no limit."""
        until_ms = now_ms - self.retention_ms
        return until_ms if self.retention_ms >= 0 and until_ms >= 0 else None


class Epochs(NamedTuple):
    """The leader epochs of some segments."""

    count: Array  # of each segment
    epoch: Array  # of all segments, one after the other
    offset: Array  # from which the epoch is in its segment


@dataclass(frozen=True, slots=True)
class LeadersPass:
    """
    What the leaders of user partitions delete next.

    :param codes: of each segment, of its reason.
    :param told: of each user partition, whether anything is told; its segments have no codes otherwise.
    :param stale: of each user partition, whether its lineage is older than its newest segment.
    :param copying: of each user partition, how many segments are being copied, or were.
    :param undecided: of each user partition, of how many segments it cannot be told whether they are of the lineage.
    :param later: of each user partition, how many more go by this machine's clock.
    :param outruns: of each user partition, whether something stays, and the log begins behind all that is known of its
        lineage by then.
    """

    codes: Array
    told: Array
    stale: Array
    copying: Array
    undecided: Array
    later: Array
    outruns: Array


@dataclass(frozen=True, slots=True)
class _Standing:
    """What each segment is to its leader."""

    met: Array  # listed for an epoch of the lineage
    valid: Array  # of the lineage
    undecided: Array  # reaching behind all that is known of it: a copy that has not ended, or a deletion
    within_start: Array  # none of its epochs lies above the first one of the lineage
    last: Array  # the last of its epochs
    stale: Array  # of each user partition
    ordered: Array  # likewise, whether the walk meets its segments by start offset


def pass_of_leaders(
    segments: WalkedSegments,
    epochs: Epochs,
    partitions: Sequence[ToldPartition],
    doubted: Array,
    *,
    now_ms: int,
    passed_ms: int | None,
) -> LeadersPass:
    """
    Return what leaders delete in their next pass.

    :param segments: the segments, each partition's by start offset.
    :param epochs: theirs.
    :param partitions: what is told of each user partition.
    :param doubted: of each user partition, whether something else stands against telling anything.
    :param now_ms: the time by this machine's clock, ms since the epoch.
    :param passed_ms: a time that has passed for certain; ``None`` where none is told.
    """
    standing = _standing(segments, epochs, partitions)
    number, state = segments.partition, segments.columns["state"]
    odd = _sharing_a_place(segments, epochs)
    odd[number[(segments.columns["segment_size_in_bytes"] < 0) | _is_forged(segments, epochs)]] = True
    told = ~doubted & ~odd & standing.ordered & ~standing.stale
    certain_ms = -1 if passed_ms is None else min(passed_ms, now_ms)
    codes = _codes(segments, standing, partitions, certain_ms)
    later = codes if certain_ms == now_ms else _codes(segments, standing, partitions, now_ms)
    codes[~told.take(number)] = NONE
    begins, known = _log_starts_after(segments, codes, partitions), by_partition(partitions, "known_end")
    outruns = (begins > known) & (_count(codes == NONE, segments) > 0)
    return LeadersPass(
        codes,
        told,
        standing.stale,
        _count(state == S.COPY_SEGMENT_STARTED, segments),
        _count(standing.undecided, segments),
        np.maximum(_count(later != NONE, segments) - _count(codes != NONE, segments), 0),
        outruns,
    )


def _count(which: Array, segments: WalkedSegments) -> Array:
    """Return of each user partition how many of its segments are some."""
    return np.add.reduceat(which.astype(np.int64), segments.first)


def _codes(segments: WalkedSegments, standing: _Standing, partitions: Sequence[ToldPartition], now_ms: int) -> Array:
    columns, number = segments.columns, segments.partition
    state = columns["state"]
    copying, retried = standing.met & (state == S.COPY_SEGMENT_STARTED), state == S.DELETE_SEGMENT_STARTED
    below = columns["end_offset"] < by_partition(partitions, "log_start_offset").take(number)
    until_ms = _until_ms(partitions, now_ms).take(number)
    reason = np.full(state.size, NONE, np.int8)
    reason[standing.valid & (columns["max_timestamp_ms"] < until_ms)] = RETENTION_MS
    reason[below & standing.within_start] = LOG_START_OFFSET
    reason[retried] = DELETION_RETRIED
    reason[~standing.met | copying] = NONE
    counts = standing.valid & (state == S.COPY_SEGMENT_FINISHED)
    # Which of those with one start offset comes first is not known.
    stops = _beside(copying, segments)
    skips = ~standing.met | (~standing.valid & ~stops & (reason == NONE))
    codes = walk(segments, Step(reason, counts, stops, skips), by_partition(partitions, "retention_bytes"))
    # What time and size take moves the log start offset, and with it the earliest epoch, before anything is deleted.
    begins = _log_starts_after(segments, codes, partitions)
    earliest = np.fromiter(map(_earliest_epoch, partitions, begins.tolist()), np.int64, len(partitions))
    codes[(codes == NONE) & (standing.last < earliest.take(number))] = UNREFERENCED_EPOCH
    return codes


def _log_starts_after(segments: WalkedSegments, codes: Array, partitions: Sequence[ToldPartition]) -> Array:
    """Return where the log of each user partition begins once what time and size take has moved it."""
    moves = (codes == RETENTION_MS) | (codes == RETENTION_BYTES)
    behind = np.maximum.reduceat(np.where(moves, segments.columns["end_offset"], -1), segments.first) + 1
    return np.maximum(behind, by_partition(partitions, "log_start_offset"))


def _earliest_epoch(partition: ToldPartition, log_start_offset: int) -> int:
    epoch = partition.lineage.epoch_for_offset(log_start_offset)
    return partition.lineage.entries[0][0] if epoch is None else epoch


def _beside(which: Array, segments: WalkedSegments) -> Array:
    """Return of each segment whether it is one of some, or has the start offset of one."""
    number, start = segments.partition, segments.columns["start_offset"]
    first = np.flatnonzero(
        np.diff(start, prepend=start[:1] - 1).astype(bool) | np.diff(number, prepend=-1).astype(bool)
    )
    return np.logical_or.reduceat(which, first).repeat(np.diff(first, append=start.size))


def _is_forged(segments: WalkedSegments, epochs: Epochs) -> Array:
    """Return of each segment whether its first leader epoch does not begin where it does, as no leader writes it."""
    forged = epochs.count == 0
    some = np.flatnonzero(~forged)
    begins = (np.cumsum(epochs.count) - epochs.count).take(some)
    forged[some] = epochs.offset.take(begins) != segments.columns["start_offset"].take(some)
    return forged


def _sharing_a_place(segments: WalkedSegments, epochs: Epochs) -> Array:
    """Return of each user partition whether a copied segment and another one share a place in the list of an epoch."""
    found = np.zeros(segments.first.size, bool)
    state = segments.columns["state"]
    owner = np.repeat(np.arange(state.size), epochs.count)
    # What is being copied is in no such list.
    some = np.flatnonzero(state.take(owner) != S.COPY_SEGMENT_STARTED)
    number = segments.partition.take(owner.take(some))
    epoch, offset = epochs.epoch.take(some), epochs.offset.take(some)
    is_copied = state.take(owner.take(some)) == S.COPY_SEGMENT_FINISHED
    order = np.lexsort((offset, epoch, number))
    number, epoch, offset, is_copied = (column.take(order) for column in (number, epoch, offset, is_copied))
    same = (number[1:] == number[:-1]) & (epoch[1:] == epoch[:-1]) & (offset[1:] == offset[:-1])
    found[number[1:][same & (is_copied[1:] | is_copied[:-1])]] = True
    return found


def _until_ms(partitions: Sequence[ToldPartition], now_ms: int) -> Array:
    until = (one.until_ms(now_ms) for one in partitions)
    return np.fromiter((-(2**63) if ms is None else ms for ms in until), np.int64, len(partitions))


@dataclass(frozen=True, slots=True)
class _Lineages:
    """The lineages of user partitions, one after the other."""

    key: Array  # number of the partition and leader epoch, ascending
    begin: Array  # first offset of the epoch
    end: Array  # first one of the next, exclusive

    @classmethod
    def of(cls, partitions: Sequence[ToldPartition]) -> _Lineages:
        entries = [
            (number * _EPOCHS + epoch, offset)
            for number, one in enumerate(partitions)
            for epoch, offset in one.lineage.entries
        ]
        key, begin = np.array(entries, np.int64).reshape(-1, 2).T
        end = np.append(begin[1:], _LAST)
        end[:-1][key[1:] // _EPOCHS != key[:-1] // _EPOCHS] = _LAST
        return cls(key, begin, end)


def _standing(segments: WalkedSegments, epochs: Epochs, partitions: Sequence[ToldPartition]) -> _Standing:
    lineages, number, size = _Lineages.of(partitions), segments.partition, segments.columns["state"].size
    end_offset = segments.columns["end_offset"]
    owner = np.repeat(np.arange(size), epochs.count)
    key = number.take(owner) * _EPOCHS + epochs.epoch
    at = np.minimum(np.searchsorted(lineages.key, key), lineages.key.size - 1)
    known = (lineages.key.take(at) == key) & (epochs.epoch >= 0)
    last = np.full(size, -1, np.int64)
    np.maximum.at(last, owner, epochs.epoch)
    # The first of its epochs that the lineage has: there the walk comes to it.
    listed = np.flatnonzero(known)
    listed = listed[np.diff(owner.take(listed), prepend=-1) != 0]
    segment, place, begins = owner.take(listed), np.full(size, -1, np.int64), np.zeros(size, np.int64)
    place[segment], begins[segment] = at.take(listed), epochs.offset.take(listed)
    met = place >= 0
    earliest = np.fromiter((one.lineage.entries[0][0] for one in partitions), np.int64, len(partitions)).take(number)
    valid = np.zeros(size, bool)
    single = np.flatnonzero(epochs.count.take(owner) == 1)
    valid[owner.take(single)] = (
        known & ((epochs.epoch == earliest.take(owner)) | (epochs.offset >= lineages.begin.take(at)))
    )[single] & (end_offset.take(owner) < lineages.end.take(at))[single]
    valid &= end_offset < by_partition(partitions, "log_end_offset").take(number)
    _of_several_epochs(segments, epochs, partitions, valid)
    behind, stale = _behind_what_is_known(segments, last, partitions)
    return _Standing(
        met=met,
        valid=valid,
        undecided=behind,
        within_start=last <= earliest,
        last=last,
        stale=stale,
        ordered=_ordered(segments, place, begins, met),
    )


class _SegmentFacts(NamedTuple):
    """What a lineage is asked by."""

    segment_leader_epochs: tuple[tuple[int, int], ...]
    end_offset: int


def _of_several_epochs(
    segments: WalkedSegments, epochs: Epochs, partitions: Sequence[ToldPartition], valid: Array
) -> None:
    """Say of the segments with several leader epochs, one by one, whether they are of the lineage: they are few."""
    some = np.flatnonzero(epochs.count > 1)
    begins = np.cumsum(epochs.count) - epochs.count
    for index, at, count, number in zip(
        some.tolist(),
        begins.take(some).tolist(),
        epochs.count.take(some).tolist(),
        segments.partition.take(some).tolist(),
        strict=True,
    ):
        run, one = slice(at, at + count), partitions[number]
        of_segment = zip(epochs.epoch[run].tolist(), epochs.offset[run].tolist(), strict=True)
        facts: Any = _SegmentFacts(tuple(of_segment), int(segments.columns["end_offset"][index]))
        valid[index] = is_remote_segment_within_leader_epochs(facts, one.log_end_offset, one.lineage)


def _behind_what_is_known(
    segments: WalkedSegments, last: Array, partitions: Sequence[ToldPartition]
) -> tuple[Array, Array]:
    """
    Return of each segment whether it reaches behind what a lineage knows that is not whole, and of each user partition
    whether a newer segment keeps more of its lineage.
    """
    number, end_offset = segments.partition, segments.columns["end_offset"]
    up_to = [one.known_up_to or (_LAST, _LAST) for one in partitions]
    epoch, offset = (column.take(number) for column in np.array(up_to, np.int64).reshape(-1, 2).T)
    behind = (end_offset > offset) & (last >= epoch)
    is_copied = segments.columns["state"] == S.COPY_SEGMENT_FINISHED
    newer = is_copied & ((last > epoch) | ((last == epoch) & (end_offset > offset)))
    return behind, np.logical_or.reduceat(newer, segments.first)


def _ordered(segments: WalkedSegments, place: Array, begins: Array, met: Array) -> Array:
    """
    Return of each user partition whether the walk by leader epochs meets its segments by start offset.

    Within an epoch Kafka takes them by start offset, or by where the epoch begins in them: both have to be one order.
    """
    where = np.flatnonzero(met)
    number, place, begins = (column.take(where) for column in (segments.partition, place, begins))
    same = place[1:] == place[:-1]
    ordered = np.ones(segments.first.size, bool)
    ordered[number[1:][(place[1:] < place[:-1]) | (same & (begins[1:] < begins[:-1]))]] = False
    return ordered
