# SPDX-License-Identifier: Apache-2.0
"""What began and did not end, as the tables of a state (``ColumnarState``) show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.doctor.finding_rows import among, of_topics
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState, RemotePartitionDeleteState

USER_PARTITION = ["topic_id", "topic", "partition"]

_IN_THE_ORDER_OF_THE_TOPIC = [("metadata_partition", "ascending"), ("offset", "ascending")]
_STARTED = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED


def stuck_segments(segments: Any, before_ms: int) -> Any:
    """
    Return the segments that are being copied or deleted for too long, the oldest first.

    :param segments: the state's.
    :param before_ms: the last time that is old enough, ms since the epoch.
    :return: some of the rows; ``offset`` is that of their last event.
    """
    stuck = _until(segments.filter(among(segments, "state", _STARTED)), before_ms)
    return stuck.append_column("offset", stuck.column("event_offset")).sort_by("event_timestamp_ms")


def stopped_copies(user_partitions: Any, topic_ids: Iterable[UUID], before_ms: int) -> Any:
    """
    Return the events that began a copy, and after which none was finished in their user partition.

    :param user_partitions: the state's.
    :param topic_ids: topics whose segments are to be copied.
    :param before_ms: the last time that is old enough, ms since the epoch.
    :return: ``metadata_partition``, ``topic_id``, ``topic``, ``partition``, ``segment_id``, ``offset`` and
        ``event_timestamp_ms``, in the order of the topic.
    """
    begun = {f"copying_{name}": name for name in ("segment_id", "offset", "event_timestamp_ms")}
    mine = user_partitions.filter(of_topics(user_partitions, topic_ids))
    rows = mine.select(["metadata_partition", *USER_PARTITION, *begun])
    rows = rows.rename_columns(["metadata_partition", *USER_PARTITION, *begun.values()])
    # A comparison with what is null is null, which no filter lets pass.
    return _until(rows, before_ms).sort_by(_IN_THE_ORDER_OF_THE_TOPIC)


def deletions_under_way(partition_deletes: Any) -> Any:
    """
    Return the last deletion event of each user partition whose deletion is not finished, in the order of the topic.

    :param partition_deletes: the state's.
    """
    import pyarrow.compute as pc

    rows = partition_deletes.filter(pc.invert(among(partition_deletes, "state", (_FINISHED,))))
    return rows.sort_by(_IN_THE_ORDER_OF_THE_TOPIC)


def unsettled_deletions(partition_deletes: Any, segments: Any, before_ms: int) -> Any:
    """
    Return the deletions that began and did not finish, as :func:`deletions_under_way` does.

    A marker or a start behind DELETE_PARTITION_FINISHED counts as settled while nothing is unfinished: two cleaners at
    once leave such a thing, and the cleaner leaves it alone.

    :param partition_deletes: the state's.
    :param segments: the state's.
    :param before_ms: the last time that is old enough, ms since the epoch.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    deletes = _until(deletions_under_way(partition_deletes), before_ms)
    unfinished = segments.group_by(USER_PARTITION).aggregate([]).to_pylist()
    keys = {tuple(row.values()) for row in unfinished}
    has_unfinished = pa.array(
        [tuple(row.values()) in keys for row in deletes.select(USER_PARTITION).to_pylist()], pa.bool_()
    )
    return deletes.filter(pc.or_(pc.invert(deletes.column("was_finished")), has_unfinished))


def added_before(segments: Any, metadata_partition: int, offset: int) -> Any:
    """
    Return the segments whose first event lies below an offset.

    :param segments: rows of a state's table.
    :param metadata_partition: where.
    :param offset: exclusive.
    """
    import pyarrow.compute as pc

    here = segments.filter(pc.equal(segments.column("metadata_partition"), metadata_partition))
    return here.filter(pc.less(here.column("added_offset"), offset))


def _until(rows: Any, before_ms: int) -> Any:
    import pyarrow.compute as pc

    return rows.filter(pc.less_equal(rows.column("event_timestamp_ms"), before_ms))
