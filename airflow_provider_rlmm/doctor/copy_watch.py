# SPDX-License-Identifier: Apache-2.0
"""Since when a living user partition has begun copies and finished none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.doctor.finding_rows import among, of_topics
from airflow_provider_rlmm.metadata.serde import SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState

_PARTITION = ["metadata_partition", "topic_id", "topic", "partition"]
_COLUMNS = [*_PARTITION, "segment_id", "offset", "timestamp_ms", "event_timestamp_ms"]


class CopyWatch:
    """
    The first COPY_SEGMENT_STARTED of each user partition after its last COPY_SEGMENT_FINISHED.

    A copy that ends in whatever other way, or is begun again, has copied nothing.

    :param topic_ids: topics whose segments are to be copied.
    """

    def __init__(self, topic_ids: Iterable[UUID]) -> None:
        self._topic_ids = frozenset(topic_ids)
        self._begun: Any = None

    def note(self, applied: Any) -> None:
        """
        Take events.

        :param applied: rows of ``decode`` that were applied, in the order of the topic.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        mine = of_topics(applied, self._topic_ids)
        starts = pc.and_(
            among(applied, "api_key", (SEGMENT_API_KEY,)),
            among(applied, "state", (RemoteLogSegmentState.COPY_SEGMENT_STARTED,)),
        )
        ends = pc.and_(
            among(applied, "api_key", (SEGMENT_UPDATE_API_KEY,)),
            among(applied, "state", (RemoteLogSegmentState.COPY_SEGMENT_FINISHED,)),
        )
        begun = applied.filter(pc.and_(mine, starts)).select(_COLUMNS)
        if self._begun is not None:
            begun = pa.concat_tables([self._begun, begun])
        ended = applied.filter(pc.and_(mine, ends)).group_by(_PARTITION).aggregate([("offset", "max")])
        open_since = begun.join(ended, keys=_PARTITION, join_type="left outer")
        still = pc.or_kleene(
            pc.is_null(open_since["offset_max"]), pc.greater(open_since["offset"], open_since["offset_max"])
        )
        self._begun = _first_by_partition(open_since.filter(still).select(_COLUMNS))

    def stopped(self, before_ms: int) -> Any:
        """
        Return the events that began a copy, and after which none was finished.

        :param before_ms: the last time that is old enough, ms since the epoch.
        """
        import pyarrow.compute as pc

        if self._begun is None:
            return None
        return self._begun.filter(pc.less_equal(self._begun["event_timestamp_ms"], before_ms)).sort_by(
            [("metadata_partition", "ascending"), ("offset", "ascending")]
        )


def _first_by_partition(rows: Any) -> Any:
    others = [name for name in _COLUMNS if name not in _PARTITION]
    first = (
        rows.sort_by("offset")
        .group_by(_PARTITION, use_threads=False)
        .aggregate([(name, "first") for name in others])
        .select([*_PARTITION, *(f"{name}_first" for name in others)])
    )
    return first.rename_columns(_COLUMNS)
