# SPDX-License-Identifier: Apache-2.0
"""The history of a workload as brokers would write it whose records have keys: in each of KIP-1266's two designs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.records.columnar import decode
from airflow_provider_rlmm.core.records.keys import UPDATE_SUFFIX
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.serde import PARTITION_DELETE_API_KEY, SEGMENT_API_KEY, SEGMENT_UPDATE_API_KEY

_SEGMENT_KEY = np.dtype([("topic_id", "V16"), ("partition", ">i4"), ("segment_id", "V16"), ("state", "i1")])
_LEADER_EPOCH = [("tag", "u1"), ("size", "u1"), ("epoch", ">i4")]
_END_OFFSET = [("end_tag", "u1"), ("end_size", "u1"), ("end_offset", ">i8")]
_ADD_TAGS = np.dtype([("count", "u1"), *_LEADER_EPOCH])
# The tagged field that says that there is no transaction index comes first: tag 0 of 1 byte, 1.
_ADD_TXN_TAGS = np.dtype([("count", "u1"), ("txn", "V3"), *_LEADER_EPOCH])
_UPDATE_TAGS = np.dtype([("count", "u1"), *_LEADER_EPOCH, *_END_OFFSET])
_TXN_TAG = b"\x00\x01\x01"
_VERSION = 2
"""Where a value says its api version, behind frame version and api key."""


@dataclass(frozen=True, slots=True)
class KeyedRecords:
    """
    Records in the order of the topic.

    :param keys: binary array; null for a partition delete, which has no key in any design.
    :param values: likewise, without nulls.
    """

    keys: Any
    values: Any

    @property
    def size(self) -> int:
        """Bytes of all keys and values, without what a log has around them."""
        return sum(int(pc.sum(pc.binary_length(column)).as_py() or 0) for column in (self.keys, self.values))


def plain(values: Any) -> KeyedRecords:
    """
    Return the records without keys.

    :param values: a workload's.
    """
    return KeyedRecords(pa.nulls(len(values), pa.binary()), values)


def keyed_by_state(values: Any) -> KeyedRecords:
    """
    Return the records with keys of 37 bytes, and the values as they are.

    :param values: a workload's.
    """
    batch = decode(values)
    keys = np.empty(len(values), _SEGMENT_KEY)
    of_a_segment = pc.is_valid(batch.column("segment_id")).to_numpy(zero_copy_only=False)
    for name in ("topic_id", "segment_id"):
        keys[name][of_a_segment] = np.frombuffer(b"".join(_of(batch, name, of_a_segment).to_pylist()), "V16")
    for name in ("partition", "state"):
        keys[name] = batch.column(name).to_numpy(zero_copy_only=False)
    return KeyedRecords(_binary(keys, of_a_segment), values)


def keyed_by_end_offset(values: Any) -> KeyedRecords:
    """
    Return the records with keys of text, and the values with what api version 1 says more.

    :param values: a workload's; an update of a segment that it does not have names the end offset 0.
    """
    batch = decode(values)
    kind = batch.column("api_key").to_numpy(zero_copy_only=False)
    end_offset, epoch = _ends_and_epochs(batch, kind == SEGMENT_API_KEY)
    updates = kind == SEGMENT_UPDATE_API_KEY
    keys = _texts(batch, end_offset, epoch, updates)
    later = _of_version_1(values, batch.column("txn_idx_empty"), updates, end_offset, epoch)
    deletions = pa.array(kind == PARTITION_DELETE_API_KEY)
    return KeyedRecords(
        pc.if_else(deletions, pa.scalar(None, pa.binary()), keys),
        pc.if_else(deletions, values, later),
    )


def _of(batch: Any, name: str, rows: Any) -> Any:
    return batch.column(name).filter(pa.array(rows))


def _ends_and_epochs(batch: Any, adds: Any) -> tuple[Any, Any]:
    """Return the end offset and the last leader epoch of each record's segment."""
    segments = batch.column("segment_id").dictionary_encode()
    codes = segments.indices.fill_null(0).to_numpy(zero_copy_only=False)
    epochs = _of(batch, "segment_leader_epochs", adds)
    last = epochs.flatten().field("leader_epoch").to_numpy()[np.cumsum(pc.list_value_length(epochs).to_numpy()) - 1]
    by_segment = np.zeros((2, len(segments.dictionary)), np.int64)
    by_segment[:, codes[adds]] = _of(batch, "end_offset", adds).to_numpy(), last
    return by_segment[0][codes], by_segment[1][codes]


def _texts(batch: Any, end_offset: Any, epoch: Any, updates: Any) -> Any:
    ids = batch.column("topic_id").dictionary_encode()
    texts = pa.array([kafka_uuid_str(UUID(bytes=raw)) for raw in ids.dictionary.to_pylist()])
    numbers = (
        pc.cast(column, pa.string()) for column in (batch.column("partition"), pa.array(end_offset), pa.array(epoch))
    )
    end = pc.if_else(pa.array(updates), f":{UPDATE_SUFFIX}", "")
    text = pc.binary_join_element_wise(texts.take(ids.indices), batch.column("topic"), *numbers, ":")
    return pc.binary_join_element_wise(text, end, "").cast(pa.binary())


def _of_version_1(values: Any, txn_idx_empty: Any, updates: Any, end_offset: Any, epoch: Any) -> Any:
    """Return the values with another version and other tagged fields behind their states; nothing of a deletion's counts."""
    said = {"size": 4, "epoch": epoch}
    update_tags = _filled(
        _UPDATE_TAGS, {**said, "count": 2, "tag": 0, "end_tag": 1, "end_size": 8, "end_offset": end_offset}
    )
    txn = np.void(_TXN_TAG)
    add_tags = _filled(_ADD_TAGS, {**said, "count": 1, "tag": 1})
    add_txn_tags = _filled(_ADD_TXN_TAGS, {**said, "count": 2, "txn": txn, "tag": 1})
    of_txn = txn_idx_empty.fill_null(False)
    header, version = pc.binary_slice(values, 0, _VERSION), pa.scalar(b"\x01")
    body = pc.if_else(of_txn, pc.binary_slice(values, _VERSION + 1, -4), pc.binary_slice(values, _VERSION + 1, -1))
    tags = pc.if_else(pa.array(updates), update_tags, pc.if_else(of_txn, add_txn_tags, add_tags))
    return pc.binary_join_element_wise(header, version, body, tags, pa.scalar(b""))


def _filled(dtype: Any, fields: Mapping[str, Any]) -> Any:
    rows = np.empty(len(fields["epoch"]), dtype)
    for name, column in fields.items():
        rows[name] = column
    return _binary(rows, np.ones(len(rows), bool))


def _binary(rows: Any, valid: Any) -> Any:
    """Return structures as binary values, null where they are not valid."""
    offsets = np.concatenate([[0], np.cumsum(np.where(valid, rows.itemsize, 0))]).astype(np.int32)
    buffers = [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(offsets), pa.py_buffer(rows[valid])]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)
