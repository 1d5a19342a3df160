# SPDX-License-Identifier: Apache-2.0
"""States of remote log segments and of partition deletion, with Kafka's ids and transitions (KIP-405)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["RemoteLogSegmentState", "RemotePartitionDeleteState"]


class RemoteLogSegmentState(IntEnum):
    """State of one remote log segment (Kafka: ``RemoteLogSegmentState``)."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3

    @staticmethod
    def is_valid_transition(source: RemoteLogSegmentState | None, target: RemoteLogSegmentState) -> bool:
        """
        Tell whether Kafka accepts ``source`` → ``target``; repeating a state is valid, so that retries are harmless.

        :param source: the current state, ``None`` where the segment is not known.
        :param target: the state of the event.
        """
        return source == target or target in _SEGMENT_TARGETS[source]


COPYING = frozenset({RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED})
"""The states that only a copier sets: marker and cleaner take it for another program."""


class RemotePartitionDeleteState(IntEnum):
    """State of the deletion of one user partition (Kafka: ``RemotePartitionDeleteState``)."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2

    @staticmethod
    def is_valid_transition(source: RemotePartitionDeleteState | None, target: RemotePartitionDeleteState) -> bool:
        """
        Tell whether Kafka's table accepts ``source`` → ``target``; repeating a state is valid.

        The broker itself does not check it, so a writer must.

        :param source: the current state, ``None`` where nothing was ever written or the last deletion has finished.
        :param target: the state of the event.
        """
        return source == target or target in _PARTITION_TARGETS[source]


_S = RemoteLogSegmentState
_P = RemotePartitionDeleteState
_SEGMENT_TARGETS: dict[_S | None, frozenset[_S]] = {
    None: frozenset({_S.COPY_SEGMENT_STARTED}),
    _S.COPY_SEGMENT_STARTED: frozenset({_S.COPY_SEGMENT_FINISHED, _S.DELETE_SEGMENT_STARTED}),
    _S.COPY_SEGMENT_FINISHED: frozenset({_S.DELETE_SEGMENT_STARTED}),
    _S.DELETE_SEGMENT_STARTED: frozenset({_S.DELETE_SEGMENT_FINISHED}),
    _S.DELETE_SEGMENT_FINISHED: frozenset(),
}
_PARTITION_TARGETS: dict[_P | None, frozenset[_P]] = {
    None: frozenset({_P.DELETE_PARTITION_MARKED}),
    _P.DELETE_PARTITION_MARKED: frozenset({_P.DELETE_PARTITION_STARTED}),
    _P.DELETE_PARTITION_STARTED: frozenset({_P.DELETE_PARTITION_FINISHED}),
    _P.DELETE_PARTITION_FINISHED: frozenset(),
}
