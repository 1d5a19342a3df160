# SPDX-License-Identifier: Apache-2.0
"""Whether all records up to a time are in remote storage: what the leader has, beside what was copied."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_rlmm.core.log.answers import OffsetsByTime
from airflow_provider_rlmm.core.segments.read_range import OffsetRange


def why_not_copied(partition: int, offsets: OffsetsByTime, copied: Iterable[OffsetRange]) -> str | None:
    """
    Return why not all records before the time are in remote storage, ``None`` where they are.

    :param partition: number of the user partition, for the sentence.
    :param offsets: what its leader says.
    :param copied: offsets of the copied segments that belong to the leader's history.
    """
    wanted, ranges = offsets.wanted, sorted((r.start, r.end) for r in copied)
    if wanted.start >= wanted.end:
        return None
    if ranges and max(end for _, end in ranges) > offsets.log_end_offset:
        return (
            f"partition {partition}: remote storage goes beyond offset {offsets.log_end_offset - 1}, where its leader's log "
            "ends: another leader wrote that"
        )
    reached = wanted.start
    for start, end in ranges:
        if start > reached:
            break
        reached = max(reached, end)
    if reached >= wanted.end:
        return None
    return f"partition {partition}: offsets {reached} to {wanted.end - 1} are not in remote storage"
