# SPDX-License-Identifier: Apache-2.0
"""
What a listing of remote storage and the metadata topic say about each other.

The order is: watermarks W1, the listing of all places, watermarks W2, one read of the log up to W2. So a segment that was
finished below W1 was finished before anything was listed, and one that no record below W2 names had no record when it was
listed. Everything here is pure; nothing is deleted by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState

if TYPE_CHECKING:
    import pyarrow as pa


class ScrubClass(StrEnum):
    """What an object, or a segment without one, is."""

    IN_USE = "IN_USE"  # its segment is not finished, and nothing is wrong with it
    FINISHED = (
        "FINISHED"  # its segment was finished before it was listed: a changed prefix or bucket leaves that behind
    )
    UNREFERENCED = "UNREFERENCED"  # no record names its segment, of a topic id that the log names
    COPY_NEVER_FINISHED = "COPY_NEVER_FINISHED"  # its segment's copy began and did not end
    SIZE_DIFFERS = "SIZE_DIFFERS"  # of a segment whose objects are larger or smaller together than its metadata says
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"  # the log never named the topic id: another cluster's, or nobody's
    NOT_OF_THIS_LAYOUT = "NOT_OF_THIS_LAYOUT"  # no key that the layout would build
    MISSING = "MISSING"  # no object: its segment was COPY_SEGMENT_FINISHED before and after the listing
    UNKNOWN = "UNKNOWN"  # the log has lost records or holds some that cannot be applied: nothing can be told


@dataclass(frozen=True, slots=True)
class LogView:
    """
    What the log says up to W2.

    :param segments: the segments that are not finished, table ``segments`` of a columnar state.
    :param finished: the finished ones, table ``finished_segments``.
    :param user_partitions: all user partitions, table ``user_partitions``.
    :param before: W1: metadata partition → offset, exclusive.
    :param doubtful: metadata partitions with a lost beginning or with records that cannot be applied.
    """

    segments: pa.Table
    finished: pa.Table
    user_partitions: pa.Table
    before: Mapping[int, int]
    doubtful: Collection[int]


_SEGMENT = ["topic_id", "partition", "segment_id"]
_FINISHED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


def classify_objects(listed: pa.Table, log: LogView, homes: Mapping[tuple[bytes, str, int], int]) -> pa.Table:
    """
    Tell of each object what it is.

    :param listed: ``key``, ``bytes``, and of those that the layout can build ``topic_id``, ``topic``, ``partition`` and
        ``segment_id``; null where it cannot.
    :param log: what the log says.
    :param homes: (topic id, topic, partition) → metadata partition, for every user partition that was listed.
    :return: the same with ``class``, a :class:`ScrubClass`, in any order.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = listed.join(_known(log), _SEGMENT, join_type="left outer", right_suffix="_of_log")
    is_ours = pc.is_valid(rows["topic_id"])
    is_known = pc.is_valid(rows["state"])
    home = pa.array([homes.get(place, -1) for place in _places(rows)], pa.int32())
    in_doubt = pc.is_in(home, value_set=pa.array(list(log.doubtful), pa.int32()))
    other_name = pc.fill_null(pc.not_equal(rows["topic"], rows["topic_of_log"]), False)
    before = pa.array([log.before.get(number, 0) for number in home.to_pylist()], pa.int64())
    is_finished = pc.fill_null(pc.equal(rows["state"], _FINISHED), False)
    long_ago = pc.fill_null(pc.less(rows["event_offset"], before), False)
    copying = pc.fill_null(pc.equal(rows["state"], int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)), False)
    named = pc.is_in(rows["topic_id"], value_set=log.user_partitions["topic_id"].combine_chunks())
    # The first that applies counts.
    cases: list[tuple[Any, ScrubClass]] = [
        (pc.invert(is_ours), ScrubClass.NOT_OF_THIS_LAYOUT),
        (pc.and_(is_known, other_name), ScrubClass.UNKNOWN),
        (pc.and_(is_finished, long_ago), ScrubClass.FINISHED),
        (is_finished, ScrubClass.IN_USE),
        (pc.and_(copying, long_ago), ScrubClass.COPY_NEVER_FINISHED),
        (is_known, ScrubClass.IN_USE),
        (in_doubt, ScrubClass.UNKNOWN),
        (pc.invert(named), ScrubClass.UNKNOWN_TOPIC_ID),
    ]
    masks = [np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), bool) for mask, _ in cases]
    found = np.select(masks, [kind.value for _, kind in cases], default=ScrubClass.UNREFERENCED.value)
    return rows.select(listed.schema.names).append_column("class", pa.array(found.tolist(), pa.string()))


def missing_segments(listed: pa.Table, log: LogView) -> pa.Table:
    """
    Return the segments that must have objects and have none.

    :param listed: as in :func:`classify_objects`.
    :param log: what the log says.
    :return: rows of ``log.segments``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    segments = log.segments
    before = pa.array([log.before.get(number, 0) for number in segments["metadata_partition"].to_pylist()], pa.int64())
    copied = pc.equal(segments["state"], int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    must_be_there = segments.filter(pc.and_(copied, pc.less(segments["event_offset"], before)))
    plain = [f.name for f in segments.schema if not pa.types.is_nested(f.type)]
    there = listed.select(_SEGMENT).filter(pc.is_valid(listed["segment_id"])).group_by(_SEGMENT).aggregate([])
    return must_be_there.select(plain).join(there, _SEGMENT, join_type="left anti")


def _known(log: LogView) -> pa.Table:
    import pyarrow as pa

    columns = [*_SEGMENT, "topic", "event_offset"]
    finished = log.finished.select(columns)
    state = pa.repeat(pa.scalar(_FINISHED, log.segments.schema.field("state").type), finished.num_rows)
    return pa.concat_tables([log.segments.select([*columns, "state"]), finished.append_column("state", state)])


def _places(rows: pa.Table) -> list[tuple[bytes, str, int]]:
    columns = (rows[name].to_pylist() for name in ("topic_id", "topic", "partition"))
    return list(zip(*columns, strict=True))
