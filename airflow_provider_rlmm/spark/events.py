# SPDX-License-Identifier: Apache-2.0
"""What the executors do with one batch of records: decode it, keep what the fold of the states needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_rlmm.metadata.serde import SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = ("metadata_partition", "offset")
_FIELDS = (
    "state",
    "topic_id",
    "topic",
    "partition",
    "segment_id",
    "start_offset",
    "end_offset",
    "max_timestamp_ms",
    "event_timestamp_ms",
    "segment_size_in_bytes",
)


def segment_events(records: pa.RecordBatch, num_partitions: int) -> pa.RecordBatch:
    """
    Decode a batch; the result has the columns of :data:`~airflow_provider_rlmm.spark.states.EVENT_SCHEMA`.

    Beside the records that do not decode, some decode and yet fit no state: a segment record in another state than
    COPY_SEGMENT_STARTED, an update to that state, a snapshot. They would end a broker's consumer (or be ignored by luck),
    so they count as records that cannot be applied.

    :param records: ``metadata_partition``, ``offset``, ``key``, ``value``.
    :param num_partitions: how many metadata partitions the topic has.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from airflow_provider_rlmm.metadata.columnar import decode

    decoded = decode(
        records["value"],
        keys=records["key"],
        metadata_partition=records["metadata_partition"],
        offset=records["offset"],
        num_partitions=num_partitions,
    )
    good = pc.equal(decoded["error_code"], 0)
    opens = pc.equal(decoded["state"], int(RemoteLogSegmentState.COPY_SEGMENT_STARTED))
    adds = pc.and_(pc.equal(decoded["api_key"], SEGMENT_API_KEY), opens)
    updates = pc.and_(pc.equal(decoded["api_key"], SEGMENT_UPDATE_API_KEY), pc.invert(opens))
    usable = pc.and_(good, pc.fill_null(pc.or_(adds, updates), False))
    about_segments = pc.fill_null(
        pc.is_in(decoded["api_key"], pa.array([SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY])), False
    )
    of_interest = pc.or_(pc.invert(good), about_segments)
    columns = [decoded[name] for name in _PLACE]
    columns += [pc.if_else(usable, decoded[name], None) for name in _FIELDS]
    columns[-1] = columns[-1].cast(pa.int64())
    return pa.RecordBatch.from_arrays(columns, names=[*_PLACE, *_FIELDS]).filter(of_interest)
