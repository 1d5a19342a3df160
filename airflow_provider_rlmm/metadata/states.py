# SPDX-License-Identifier: Apache-2.0
"""States of remote log segments and of partition deletion, with Kafka's ids and transitions (KIP-405)."""

from __future__ import annotations

from enum import IntEnum


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


_SEGMENT_TARGETS: dict[RemoteLogSegmentState | None, frozenset[RemoteLogSegmentState]] = {
    None: frozenset({RemoteLogSegmentState.COPY_SEGMENT_STARTED}),
    RemoteLogSegmentState.COPY_SEGMENT_STARTED: frozenset(
        {RemoteLogSegmentState.COPY_SEGMENT_FINISHED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED}
    ),
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED: frozenset({RemoteLogSegmentState.DELETE_SEGMENT_STARTED}),
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED: frozenset({RemoteLogSegmentState.DELETE_SEGMENT_FINISHED}),
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED: frozenset(),
}

_PARTITION_TARGETS: dict[RemotePartitionDeleteState | None, frozenset[RemotePartitionDeleteState]] = {
    None: frozenset({RemotePartitionDeleteState.DELETE_PARTITION_MARKED}),
    RemotePartitionDeleteState.DELETE_PARTITION_MARKED: frozenset(
        {RemotePartitionDeleteState.DELETE_PARTITION_STARTED}
    ),
    RemotePartitionDeleteState.DELETE_PARTITION_STARTED: frozenset(
        {RemotePartitionDeleteState.DELETE_PARTITION_FINISHED}
    ),
    RemotePartitionDeleteState.DELETE_PARTITION_FINISHED: frozenset(),
}
