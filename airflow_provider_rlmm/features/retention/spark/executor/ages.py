# SPDX-License-Identifier: Apache-2.0
"""How old the segments of a metadata partition are, by their newest records, topic by topic."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from airflow_provider_rlmm.core.records.fold.living import LivingSegments
from airflow_provider_rlmm.features.retention.record_ages import FIRST_MS, RANGES, AgeRange
from airflow_provider_rlmm.features.retention.spark.columns import AGE_COLUMNS, arrow_schema

AGES = arrow_schema(AGE_COLUMNS)
"""Of what is told of ages."""

_COUNTED_AT_ONCE: Final = 65_536
_UNKNOWN: Final = RANGES.index(AgeRange.UNKNOWN)


def ages_of(segments: LivingSegments, now_ms: int) -> pa.Table:
    """
    Return rows of :data:`AGES`: of each topic id and name, segments and bytes of each range that has any.

    :param segments: all that are not finished, certain or not.
    :param now_ms: the time of the evaluation, ms since the epoch; a record from later on is as new as can be.
    """
    partitions = segments.partitions
    names = list(zip(partitions["topic_id"].to_pylist(), partitions["topic"].to_pylist(), strict=True))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    topic_of = np.array([numbers[name] for name in names], np.int64)
    counts, sizes = (np.zeros(len(numbers) * len(RANGES), np.int64) for _ in range(2))
    for start in range(0, segments.size, _COUNTED_AT_ONCE):
        some = slice(start, min(start + _COUNTED_AT_ONCE, segments.size))
        partition = np.searchsorted(segments.first, np.arange(some.start, some.stop), "right") - 1
        newest = segments.numbers("max_timestamp_ms", some)
        age = np.where(newest < 0, _UNKNOWN, np.searchsorted(np.array(FIRST_MS), now_ms - newest, "right"))
        place = topic_of[partition] * len(RANGES) + age
        np.add.at(counts, place, 1)
        np.add.at(sizes, place, segments.numbers("segment_size_in_bytes", some).astype(np.int64))
    told, keys = np.flatnonzero(counts), list(numbers)
    columns = {
        "topic_id": [keys[place // len(RANGES)][0] for place in told.tolist()],
        "topic": [keys[place // len(RANGES)][1] for place in told.tolist()],
        "age": told % len(RANGES),
        "segments": counts[told],
        "bytes": sizes[told],
    }
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in AGES}, schema=AGES)
