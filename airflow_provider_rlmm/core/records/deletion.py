# SPDX-License-Identifier: Apache-2.0
"""
How far the deletion of one user partition is, and when its absence was observed.

Source: KIP-405, "Remote log metadata topic": DELETE_PARTITION_MARKED, _STARTED and _FINISHED. No Kafka class checks their
order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState

_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


@dataclass(frozen=True, slots=True)
class AbsenceObservation:
    """
    A marker (or a repeated start): a program says that the user partition is deleted.

    :param offset: offset of its record in the metadata partition.
    :param time_ms: when it was written, ms since the epoch: the later of the event's and the record's timestamps, and of
        ``bounded`` ones that another program wrote, the later of that and of the time of the record that bounds them.
    :param bounded: whether the time may be relied on: we write proven times, and what another program wrote is bounded by
        the next record of a broker, or of ours, in the metadata partition. Until there is one its writer's clock is the
        only witness.
    """

    offset: int
    time_ms: int
    bounded: bool


@dataclass(slots=True, kw_only=True)
class PartitionDeletion:
    """
    The deletion of one user partition, event by event.

    :param delete_state: how far it is, ``None`` where the partition was never marked.
    :param observations: the observations of its absence since the last foreign segment event, by offset, their times
        strictly decreasing. Which of them counts depends on the time at which one asks
        (:func:`airflow_provider_rlmm.core.world.absence.first_observation`); one that is not earlier than another before it
        never does, so it is not kept.
    :param unsettled_marker_offset: offset of the first marker of the deletion under way.
    """

    delete_state: RemotePartitionDeleteState | None = None
    observations: list[AbsenceObservation] = field(default_factory=list)
    unsettled_marker_offset: int | None = None

    def deletion_under_way(self) -> bool:
        """Tell whether the partition is marked or started and not finished."""
        return self.delete_state in (_MARKED, _STARTED)

    def forget_observations(self) -> None:
        """Note that another program wrote about a segment: absence must be observed anew."""
        self.observations.clear()

    def apply_deletion(
        self,
        state: RemotePartitionDeleteState,
        offset: int,
        observed_ms: int,
        *,
        ours: bool,
        has_unfinished: Callable[[], bool],
    ) -> None:
        """
        Apply a partition-delete event.

        :param state: the event's state.
        :param offset: its offset in the metadata partition.
        :param observed_ms: the later of the event's and its record's timestamps, ms since the epoch, so that a wrong clock
            can only lengthen the wait.
        :param ours: whether this package wrote it.
        :param has_unfinished: tells whether the partition has segments that are not finished right before the event; asked
            only where it matters.
        """
        if ours:
            self.bound_observations(observed_ms)
        if state is _FINISHED:
            self.delete_state = _FINISHED
            self.observations.clear()
            self.unsettled_marker_offset = None
        elif self.deletion_under_way():
            if state is _STARTED:
                self.delete_state = _STARTED
            self._observe(AbsenceObservation(offset, observed_ms, ours))
        elif state is _MARKED and (self.delete_state is None or has_unfinished()):
            # A marker for a finished partition does nothing, unless segments appeared since: then it opens it again.
            self.delete_state = _MARKED
            self._observe(AbsenceObservation(offset, observed_ms, ours))
            self.unsettled_marker_offset = offset

    def _observe(self, observation: AbsenceObservation) -> None:
        if observation.time_ms < 0:
            return  # Kafka's NO_TIMESTAMP, or as little worth: it says nothing about when
        if not self.observations or observation.time_ms < self.observations[-1].time_ms:
            self.observations.append(observation)

    def awaits_bound(self) -> bool:
        """Tell whether a foreign observation stands of which nothing but its own clock says when it was made."""
        return any(not o.bounded for o in self.observations)

    def bound_observations(self, time_ms: int) -> None:
        """
        Note that a record with a time to rely on followed: all that stands here was written before it, or then.

        How long before is not known, so the later of the two times counts.

        :param time_ms: time of the first such record, ms since the epoch.
        """
        if self.awaits_bound():
            before, self.observations = self.observations, []
            for o in before:
                self._observe(o if o.bounded else replace(o, time_ms=max(o.time_ms, time_ms), bounded=True))
