# SPDX-License-Identifier: Apache-2.0
"""Since when each user partition begins copies and finishes none."""

from __future__ import annotations

import numpy as np

from airflow_provider_rlmm.metadata.columnar.fold.segments import ADDED, ADDED_AGAIN, Part
from airflow_provider_rlmm.metadata.columnar.fold.steps import step
from airflow_provider_rlmm.metadata.columnar.fold.store import NO_OFFSET, Store
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S

_COPIED = step(S.COPY_SEGMENT_FINISHED, S.COPY_SEGMENT_STARTED)
_COPIED_AGAIN = step(S.COPY_SEGMENT_FINISHED, S.COPY_SEGMENT_FINISHED)


def note_copies(store: Store, part: Part) -> None:
    """
    Note the first event that began a copy after the last one that finished a copy.

    A copy that ends in whatever other way, or is begun again, has copied nothing.

    :param store: the store.
    :param part: events of segments.
    """
    partitions, steps = store.partitions, part.steps
    copied = np.flatnonzero((steps.step == _COPIED) | (steps.step == _COPIED_AGAIN))
    begun = np.flatnonzero((steps.step == ADDED) | (steps.step == ADDED_AGAIN))
    if copied.size:
        last = np.full(partitions.size, -1, np.int64)
        last[part.partition.take(copied)] = copied
        partitions.write("copying_offset", part.partition.take(copied), NO_OFFSET)
        begun = begun.take(np.flatnonzero(begun > last.take(part.partition.take(begun))))
    idle = partitions["copying_offset"].take(part.partition.take(begun)) == NO_OFFSET
    # Of several values for one row the last one stays, and the first event is wanted.
    begun = begun.take(np.flatnonzero(idle))[::-1]
    rows, group = part.partition.take(begun), steps.group.take(begun)
    event_ms = part.fields.numbers["event_timestamp_ms"]
    partitions.write("copying_offset", rows, part.offset.take(begun))
    partitions.write("copying_event_timestamp_ms", rows, event_ms.take(part.rows.take(begun)))
    partitions.write("copying_high", rows, steps.high.take(group))
    partitions.write("copying_low", rows, steps.low.take(group))
