# SPDX-License-Identifier: Apache-2.0
"""
What a listing of remote storage and the metadata topic say about each other.

The order is: watermarks W1, the listing of all places, watermarks W2, one read of the log up to W2. So a segment that was
finished below W1 was finished before anything was listed, and one that no record below W2 names had no record when it was
listed. Everything here is pure; nothing is deleted by it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

if TYPE_CHECKING:
    import pyarrow as pa


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
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"  # the log never named the topic id: another cluster's, or nobody's
    NOT_OF_THIS_LAYOUT = "NOT_OF_THIS_LAYOUT"  # no key that the layout would build
    MISSING = "MISSING"  # an object is not there: its segment was COPY_SEGMENT_FINISHED before and after the listing
    UNKNOWN = "UNKNOWN"  # the log or the listing is not whole, or they contradict each other: nothing can be told


@dataclass(frozen=True, slots=True)
class LogView:
    """
    What the log says up to W2, or later.

    :param segments: the segments that are not finished, table ``segments`` of a columnar state.
    :param finished: the finished ones of those that were listed, table ``finished_segments``.
    :param user_partitions: all user partitions, table ``user_partitions``.
    :param mentioned: ids of the listed segments that any record is about, of whatever use it was.
    :param before: W1: metadata partition → offset, exclusive.
    :param doubtful: metadata partitions with a lost beginning or end, or with records that cannot be applied.
    :param closed: those of which nothing is believed: they lost what earlier runs had read, and nobody has confirmed that.
    :param copying_since_ms: a copy that began before that should have ended, ms since the epoch.
    """

    segments: pa.Table
    finished: pa.Table
    user_partitions: pa.Table
    mentioned: pa.Array
    before: Mapping[int, int]
    doubtful: Collection[int]
    copying_since_ms: int
    closed: Collection[int] = frozenset()


LOST = "its metadata partition has lost what an earlier run had read of it"
"""Why nothing is believed of what the log says about an object."""

ELSEWHERE = "its folder names a topic id that the log knows, at a place that the connection does not name"
"""Why nothing can be told of an object in a folder that the layout would not build."""

FOLDER_STUB = "an empty object that a console or a file system has made for a folder; delete the folder there"
"""Why an object is of no layout that shows as its folder's own name, empty."""

_SEGMENT = ["topic_id", "partition", "segment_id"]
_COPIED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
_COPYING = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_FINISHED = int(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)


def classify_objects(listed: pa.Table, log: LogView, wrong_size: pa.Table) -> pa.Table:
    """
    Tell of each object what it is, and why.

    :param listed: with :data:`LISTED_COLUMNS`.
    :param log: what the log says.
    :param wrong_size: what :func:`size_differs` returned.
    :return: the same, in any order, with ``metadata_partition`` and ``offset`` of the segment's last event, null where there
        is none, ``class``, a :class:`ScrubClass`, and ``why``.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = listed.join(_known(log, wrong_size), _SEGMENT, join_type="left outer", right_suffix="_of_log")
    names = log.user_partitions.select(["topic_id", "topic"])
    is_known, state = pc.is_valid(rows["state"]), rows["state"]
    id_named = _is_among(rows["topic_id"], names["topic_id"])
    same_name = _is_among(_pair(rows["topic_id"], rows["topic"]), _pair(names["topic_id"], names["topic"]))
    other_name = pc.or_(
        pc.and_(id_named, pc.invert(same_name)), _true(pc.not_equal(rows["topic"], rows["topic_of_log"]))
    )
    finished = _true(pc.equal(state, _FINISHED))
    long_ago = _true(pc.less(rows["offset"], _below(rows["metadata_partition"], log.before)))
    late = _true(pc.less(rows["event_timestamp_ms"], log.copying_since_ms))
    copying = pc.and_(_true(pc.equal(state, _COPYING)), pc.and_(long_ago, late))
    in_doubt = _is_among(rows["home"], pa.array(sorted(log.doubtful), pa.int32()))
    closed = _is_among(rows["home"], pa.array(sorted(log.closed), pa.int32()))
    # The first that applies counts.
    cases: list[tuple[Any, ScrubClass, str]] = [
        (_folder_stubs(rows), ScrubClass.NOT_OF_THIS_LAYOUT, FOLDER_STUB),
        (pc.is_null(rows["topic_id"]), ScrubClass.NOT_OF_THIS_LAYOUT, "the layout builds no such key"),
        (pc.is_null(rows["place"]), ScrubClass.UNKNOWN, ELSEWHERE),
        (pc.invert(rows["is_whole"]), ScrubClass.UNKNOWN, "the listing of its folder ended early"),
        (closed, ScrubClass.UNKNOWN, LOST),
        (other_name, ScrubClass.UNKNOWN, "the log knows its topic id under another name"),
        (pc.and_(finished, long_ago), ScrubClass.FINISHED, "its segment was finished before it was listed"),
        (finished, ScrubClass.IN_USE, "its segment was finished while storage was listed"),
        (copying, ScrubClass.COPY_NEVER_FINISHED, "the copy of its segment began and did not end"),
        (_true(rows["wrong_size"]), ScrubClass.SIZE_DIFFERS, "its segment's objects are not as large as recorded"),
        (is_known, ScrubClass.IN_USE, "its segment is not finished"),
        (_is_among(rows["segment_id"], log.mentioned), ScrubClass.UNKNOWN, "records name its segment and cannot be applied"),
        (in_doubt, ScrubClass.UNKNOWN, "records of its metadata partition are lost or cannot be applied"),
        (pc.invert(id_named), ScrubClass.UNKNOWN_TOPIC_ID, "the log never named its topic id"),
    ]  # fmt: skip
    masks = [np.asarray(mask.to_numpy(), bool) for mask, _, _ in cases]
    kinds = np.select(masks, [kind.value for _, kind, _ in cases], default=ScrubClass.UNREFERENCED.value)
    whys = np.select(masks, [why for _, _, why in cases], default="no record names its segment")
    rows = rows.select([*listed.schema.names, "metadata_partition", "offset"])
    return rows.append_column("class", pa.array(kinds.tolist(), pa.string())).append_column(
        "why", pa.array(whys.tolist(), pa.string())
    )


def _folder_stubs(rows: pa.Table) -> Any:
    """Tell of each object whether it is empty and stands for a folder: by its name, or as other objects lie below it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = rows["key"]
    unknown = pc.and_(pc.is_null(rows["topic_id"]), pc.equal(rows["bytes"], 0))
    if not pc.any(unknown).as_py():
        return unknown
    folders: set[str] = set()
    for parent in pc.unique(pc.replace_substring_regex(keys, "(^|/)[^/]*$", "")).to_pylist():
        folder = parent
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    named = pc.or_(pc.ends_with(keys, "_$folder$"), _is_among(keys, pa.array(sorted(folders), pa.string())))
    return pc.and_(unknown, named)


def settled_copies(log: LogView) -> pa.Table:
    """
    Return the segments that were copied before anything was listed and are neither finished nor being deleted after it.

    :param log: what the log says.
    :return: rows of ``log.segments``.
    """
    import pyarrow.compute as pc

    copied = pc.equal(log.segments["state"], _COPIED)
    return log.segments.filter(
        pc.and_(copied, pc.less(log.segments["event_offset"], _below(log.segments["metadata_partition"], log.before)))
    )


def missing_segments(listed: pa.Table, copied: pa.Table, required: Collection[str]) -> pa.Table:
    """
    Return the segments that must have objects and lack one at every place.

    :param listed: with :data:`LISTED_COLUMNS`.
    :param copied: what :func:`settled_copies` returned.
    :param required: suffixes of the objects that every copied segment has.
    :return: rows of ``copied`` without its lists, with ``objects``, the number of those that are there, 0 or more.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = copied.select([f.name for f in copied.schema if not pa.types.is_nested(f.type)])
    wanted = pa.array(sorted(required), pa.string())
    there = listed.filter(pc.and_(pc.is_valid(listed["segment_id"]), pc.is_in(listed["suffix"], value_set=wanted)))
    per_place = there.group_by([*_SEGMENT, "place"]).aggregate([("suffix", "count_distinct")])
    best = per_place.group_by(_SEGMENT).aggregate([("suffix_count_distinct", "max")])
    best = best.rename_columns({"suffix_count_distinct_max": "objects"})
    rows = plain.join(best, _SEGMENT, join_type="left outer")
    rows = rows.set_column(rows.schema.get_field_index("objects"), "objects", pc.fill_null(rows["objects"], 0))
    return rows.filter(pc.less(rows["objects"], len(required)))


def size_differs(
    listed: pa.Table, copied: pa.Table, recorded: Callable[[int, bytes | None], tuple[Collection[str], int] | None]
) -> pa.Table:
    """
    Return the segments whose objects are larger or smaller together than their metadata says.

    :param listed: with :data:`LISTED_COLUMNS`.
    :param copied: what :func:`settled_copies` returned.
    :param recorded: (segment size in bytes, custom metadata) → the suffixes of some objects and their bytes, summed; ``None``
        where the metadata does not say.
    :return: ``topic_id``, ``partition``, ``segment_id`` and ``wrong_size``, always true.
    """
    import pyarrow as pa

    sizes: dict[tuple[bytes, int, bytes], dict[str, dict[str, int]]] = {}
    said: dict[tuple[bytes, int, bytes], tuple[Collection[str], int]] = {}
    columns = (copied[name].to_pylist() for name in (*_SEGMENT, "segment_size_in_bytes", "custom_metadata"))
    for topic_id, partition, segment_id, size, custom in zip(*columns, strict=True):
        if (found := recorded(size, custom)) is not None:
            said[topic_id, partition, segment_id] = found
    if said:
        columns = (listed[name].to_pylist() for name in (*_SEGMENT, "place", "suffix", "bytes"))
        for topic_id, partition, segment_id, place, suffix, size in zip(*columns, strict=True):
            if (topic_id, partition, segment_id) in said:
                sizes.setdefault((topic_id, partition, segment_id), {}).setdefault(place, {})[suffix] = size
    wrong = [
        key for key, places in sizes.items() if not any(_is_as_said(objects, *said[key]) for objects in places.values())
    ]
    schema = pa.schema(
        {"topic_id": pa.binary(), "partition": pa.int32(), "segment_id": pa.binary(), "wrong_size": pa.bool_()}
    )
    rows = [(*key, True) for key in wrong]
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=schema)


def _is_as_said(objects: Mapping[str, int], suffixes: Collection[str], size: int) -> bool:
    """Tell whether objects have a size; of some that are not all there nobody can tell, and missing ones are told apart."""
    return not objects.keys() >= set(suffixes) or sum(objects[suffix] for suffix in suffixes) == size


def _known(log: LogView, wrong_size: pa.Table) -> pa.Table:
    import pyarrow as pa

    columns = [*_SEGMENT, "topic", "metadata_partition", "event_offset"]
    finished = log.finished.select(columns)
    state = pa.repeat(pa.scalar(_FINISHED, log.segments.schema.field("state").type), finished.num_rows)
    time = pa.nulls(finished.num_rows, log.segments.schema.field("event_timestamp_ms").type)
    finished = finished.append_column("state", state).append_column("event_timestamp_ms", time)
    known = pa.concat_tables([log.segments.select([*columns, "state", "event_timestamp_ms"]), finished])
    known = known.rename_columns({"event_offset": "offset"})
    return known.join(wrong_size, _SEGMENT, join_type="left outer")


def _true(mask: Any) -> Any:
    """Return a mask in which what is not known is false."""
    import pyarrow.compute as pc

    return pc.fill_null(mask, False)


def _is_among(column: Any, values: Any) -> Any:
    """Tell of each value whether it is one of others; null is none of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pc.and_(pc.is_valid(column), pc.is_in(column, value_set=pc.unique(values).cast(column.type)))


def _pair(topic_ids: Any, topics: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(topic_ids, topics.cast(pa.binary()), b"")


def _below(metadata_partitions: Any, before: Mapping[int, int]) -> Any:
    """Return the watermark of each row's metadata partition, 0 where there is none."""
    import pyarrow as pa

    return pa.chunked_array(
        [pa.array([before.get(number, 0) for number in metadata_partitions.to_pylist()], pa.int64())]
    )
