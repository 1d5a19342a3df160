# SPDX-License-Identifier: Apache-2.0
"""
What a listing of remote storage and the metadata topic say about each other.

The order is: watermarks W1, the listing of all places, watermarks W2, one read of the log up to W2. So a segment that was
finished below W1 was finished before anything was listed, and one that no record below W2 names had no record when it was
listed. Everything here is pure; nothing is deleted by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.arrow_arrays import (
    array_of,
    at_least,
    equals,
    filled,
    is_among,
    numpy_of,
    scalar_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.features.scrub.log_view import LogView

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class ScrubClass(StrEnum):
    """What an object, or a segment without one, is."""

    IN_USE = "IN_USE"  # its segment is not finished, and nothing is wrong with it
    FINISHED = (
        "FINISHED"  # its segment was finished before it was listed: a changed prefix or bucket leaves that behind
    )
    # no record names its segment, of a topic id that the log names: the log has lost records, or there is a second writer
    UNREFERENCED = "UNREFERENCED"
    COPY_NEVER_FINISHED = "COPY_NEVER_FINISHED"  # its segment's copy began and did not end
    SIZE_DIFFERS = "SIZE_DIFFERS"  # of a segment whose objects are larger or smaller together than its metadata says
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"  # the log never named the topic id: another cluster's, or of no cluster
    NOT_OF_THIS_LAYOUT = "NOT_OF_THIS_LAYOUT"  # no key that the layout would build
    MISSING = "MISSING"  # an object is not there: its segment was COPY_SEGMENT_FINISHED before and after the listing
    UNKNOWN = "UNKNOWN"  # the log or the listing is not whole, or they contradict each other: nothing can be told


LOST = "its metadata partition has lost what an earlier run had read of it"
"""Why nothing is believed of what the log says about an object."""

OTHER_NAME = "the log knows its topic id under another name"
"""Why nothing can be told of an object of two topics."""

DOUBTFUL = "records of its metadata partition are lost or cannot be applied"
"""Why it proves nothing that no record names the segment of an object."""

LISTING_ENDED = "the listing of its folder ended early"
"""Why nothing can be told of an object in a folder that was not listed whole."""

ELSEWHERE = "its folder names a topic id that the log knows, at a place that the connection does not name"
"""Why nothing can be told of an object in a folder that the layout would not build."""

BESIDE_FINISHED = "a file of an unknown suffix beside a finished segment; delete it by the store's own means"
"""Why a file stays whose name begins as those of a finished segment do."""

FOLDER_STUB = "an empty object that a console or a file system has made for a folder; delete the folder there"
"""Why an object is of no layout that shows as its folder's own name, empty."""

_COPYING = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_FINISHED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


def classify_objects(listed: pa.Table, log: LogView, said: pa.Table, wrong_size: NDArray[Any]) -> pa.Table:
    """
    Tell of each object what it is, and why.

    :param listed: with :data:`~airflow_provider_rlmm.core.runs.listed_objects.LISTED_COLUMNS`.
    :param log: what the log says.
    :param said: of these objects, as :meth:`~airflow_provider_rlmm.features.scrub.log_view.LogIndex.said_of` returned it.
    :param wrong_size: of each object whether those of its segment are not as large as recorded.
    :return: the same, in their order, with ``metadata_partition`` and ``offset`` of the segment's last event, null where
        there is none, ``class``, a :class:`ScrubClass`, and ``why``.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows, names, offset = listed, log.names, said["event_offset"]
    is_known, state = pc.is_valid(said["state"]), said["state"]
    id_named = _is_among(rows["topic_id"], names["topic_id"])
    same_name = _is_among(_pair(rows["topic_id"], rows["topic"]), _pair(names["topic_id"], names["topic"]))
    other_name = pc.or_(pc.and_(id_named, pc.invert(same_name)), _true(pc.not_equal(rows["topic"], said["topic"])))
    finished = _true(equals(state, _FINISHED))
    long_ago = _true(pc.less(offset, _below(said["metadata_partition"], log.before)))
    late = _true(pc.invert(at_least(said["event_timestamp_ms"], log.copying_since_ms)))
    copying = pc.and_(_true(equals(state, _COPYING)), pc.and_(long_ago, late))
    beside = pc.and_(pc.is_valid(rows["segment_id"]), pc.invert(rows["is_of_layout"]))
    mentioned = log.mentioned.holds(rows["segment_id"])
    # The first that applies counts.
    cases: list[tuple[Any, ScrubClass, str]] = [
        (_folder_stubs(rows), ScrubClass.NOT_OF_THIS_LAYOUT, FOLDER_STUB),
        (pc.is_null(rows["topic_id"]), ScrubClass.NOT_OF_THIS_LAYOUT, "the layout builds no such key"),
        (pc.is_null(rows["place"]), ScrubClass.UNKNOWN, ELSEWHERE),
        (pc.invert(rows["is_whole"]), ScrubClass.UNKNOWN, LISTING_ENDED),
        (_at_home(rows, log.closed), ScrubClass.UNKNOWN, LOST),
        (other_name, ScrubClass.UNKNOWN, OTHER_NAME),
        (pc.and_(beside, finished), ScrubClass.NOT_OF_THIS_LAYOUT, BESIDE_FINISHED),
        (pc.and_(beside, is_known), ScrubClass.IN_USE, "a file of an unknown suffix beside a segment that is not finished"),
        (pc.and_(finished, long_ago), ScrubClass.FINISHED, "its segment was finished before it was listed"),
        (finished, ScrubClass.IN_USE, "its segment was finished while storage was listed"),
        (copying, ScrubClass.COPY_NEVER_FINISHED, "the copy of its segment began and did not end"),
        (wrong_size, ScrubClass.SIZE_DIFFERS, "its segment's objects are not as large as recorded"),
        (is_known, ScrubClass.IN_USE, "its segment is not finished"),
        (mentioned, ScrubClass.UNKNOWN, "records name its segment and cannot be applied"),
        (_at_home(rows, log.doubtful), ScrubClass.UNKNOWN, DOUBTFUL),
        (beside, ScrubClass.NOT_OF_THIS_LAYOUT, "a file of an unknown suffix beside a segment that no record names"),
        (pc.invert(id_named), ScrubClass.UNKNOWN_TOPIC_ID, "the log never named its topic id"),
    ]  # fmt: skip
    masks = [mask if isinstance(mask, np.ndarray) else numpy_of(mask) for mask, _, _ in cases]
    which = array_of(np.select(masks, range(len(cases)), default=len(cases)))
    kinds = array_of([*(kind.value for _, kind, _ in cases), ScrubClass.UNREFERENCED.value], pa.string())
    whys = array_of([*(why for _, _, why in cases), "no record names its segment"], pa.string())
    rows = rows.append_column("metadata_partition", said["metadata_partition"]).append_column("offset", offset)
    return rows.append_column("class", kinds.take(which)).append_column("why", whys.take(which))


def _folder_stubs(rows: pa.Table) -> Any:
    """Tell of each object whether it is of no layout, empty, and stands for a folder."""
    import pyarrow.compute as pc

    return pc.and_(pc.invert(rows["is_of_layout"]), rows["is_folder"])


def _at_home(rows: pa.Table, metadata_partitions: Collection[int]) -> Any:
    """Tell of each object whether the events of its user partition lie in one of some metadata partitions."""
    return _true(is_among(rows["home"], sorted(metadata_partitions)))


def _true(mask: Any) -> Any:
    """Return a mask in which what is not known is false."""
    return filled(mask, False)


def _is_among(column: Any, values: Any) -> Any:
    """Tell of each value whether it is one of others; null is none of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pc.and_(pc.is_valid(column), pc.is_in(column, value_set=pc.unique(values).cast(column.type)))


def _pair(topic_ids: Any, topics: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    # Ids are of one length, so no two pairs look alike.
    return pc.binary_join_element_wise(topic_ids, topics.cast(pa.binary()), scalar_of(b"", pa.binary()))


def _below(metadata_partitions: Any, before: Mapping[int, int]) -> Any:
    """Return the watermark of each row's metadata partition, 0 where there is none."""
    import pyarrow as pa

    return array_of([before.get(number, 0) for number in metadata_partitions.to_pylist()], pa.int64())
