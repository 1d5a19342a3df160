# SPDX-License-Identifier: Apache-2.0
"""The records among some that a history is told of, each with the place where it was read, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from typing import Any

from airflow_provider_rlmm.core.base.arrow_arrays import is_among, numpy_of
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.keys import RecordKey
from airflow_provider_rlmm.core.records.outcomes import APPLIED_CODES
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    SegmentEvent,
)


@dataclass(frozen=True, slots=True)
class LocatedEvent:
    """An event and where it was read."""

    offset: int  # offset of its record in the metadata partition
    timestamp_ms: int  # the record's timestamp, ms since the epoch
    event: SegmentEvent | RemotePartitionDeleteMetadata  # the event

    def apply_to(self, history: UserPartitionHistory) -> None:
        """
        Apply the event.

        :param history: of its user partition.
        """
        if isinstance(self.event, RemotePartitionDeleteMetadata):
            history.apply_partition_event(self.event, self.offset, self.timestamp_ms)
        else:
            history.apply_segment_event(self.event, self.offset)


@dataclass(frozen=True, slots=True)
class LocatedForgetting:
    """A record that asks the log cleaner to forget what was said by a key, and where it was read."""

    offset: int  # offset of the record in the metadata partition
    key: RecordKey  # what it names; it may concern every user partition with this topic id and number

    def apply_to(self, history: UserPartitionHistory) -> None:
        """
        Note what is to be forgotten.

        :param history: of a user partition that may be concerned.
        """
        history.forget(self.key, self.offset)


LocatedRecord = LocatedEvent | LocatedForgetting
"""A record that a history is told of. Each is judged by those before it, so they stay in one order."""


def applicable(decoded: Any) -> Any:
    """
    Tell of each record whether it is applied: the good ones and those that say for certain what happened, such as, since
    brokers look at no key, the keyed ones.

    :param decoded: what :func:`~airflow_provider_rlmm.core.records.columnar.decode` returned.
    :return: one boolean per row.
    """
    return is_among(decoded.column("error_code"), list(APPLIED_CODES))


def located_records(decoded: Any, wanted: Any) -> list[LocatedRecord]:
    """
    Return the events that are applied among some records, and between them what the log cleaner is asked to forget.

    :param decoded: what :func:`~airflow_provider_rlmm.core.records.columnar.decode` returned.
    :param wanted: one boolean per record; of what is to be forgotten all is returned.
    :return: in the order of the records.
    """
    import numpy as np
    import pyarrow.compute as pc

    from airflow_provider_rlmm.core.records.decoding.decode import forgotten_keys

    events = located_events(decoded, wanted)
    if not (forgotten := forgotten_keys(decoded)):
        return [*events]
    offsets = decoded.column("offset")
    rows = np.flatnonzero(numpy_of(pc.fill_null(pc.and_(applicable(decoded), wanted), False))).tolist()
    asked = ((row, LocatedForgetting(offsets[row].as_py(), key)) for row, key in forgotten)
    located: Iterator[tuple[int, LocatedRecord]] = merge(zip(rows, events, strict=True), asked, key=itemgetter(0))
    return [record for _, record in located]


def located_events(decoded: Any, wanted: Any) -> list[LocatedEvent]:
    """
    Return the events that are applied among some records, in their order.

    :param decoded: what :func:`~airflow_provider_rlmm.core.records.columnar.decode` returned.
    :param wanted: one boolean per record.
    """
    import pyarrow.compute as pc

    from airflow_provider_rlmm.core.records.columnar import iter_events

    rows = decoded.filter(pc.and_(applicable(decoded), wanted))
    places = zip(rows.column("offset").to_pylist(), rows.column("timestamp_ms").to_pylist(), strict=True)
    return [
        LocatedEvent(offset, timestamp_ms, event)
        for (offset, timestamp_ms), event in zip(places, iter_events(rows), strict=True)
        # Neither gets past the filter above; the type checker does not know.
        if event is not None and not isinstance(event, RemoteLogSegmentMetadataSnapshot)
    ]
