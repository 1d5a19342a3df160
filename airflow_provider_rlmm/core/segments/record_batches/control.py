# SPDX-License-Identifier: Apache-2.0
"""Control records: the end markers of transactions, which the transaction coordinator writes behind their records."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from airflow_provider_rlmm.core.segments.record_batches.batch_sizes import Data
from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow

_KEY: Final = struct.Struct(">hh")  # version, type
_MOST_BYTES: Final = 1 << 16  # a marker has seventeen, and is not compressed


class ControlRecordType(IntEnum):
    """What a control record says, with Kafka's ids; those of the metadata quorum are not among the records of topics."""

    ABORT = 0
    COMMIT = 1


_END_MARKERS: Final = frozenset(ControlRecordType)


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """
    The end of a transaction (Kafka: ``EndTransactionMarker``).

    :param offset: of the marker itself: the last offset of the transaction.
    :param producer_id: whose transaction ends.
    :param control_type: aborted or committed.
    """

    offset: int
    producer_id: int
    control_type: ControlRecordType


def read_markers(data: Data, headers: BatchHeaders) -> list[EndTransactionMarker]:
    """
    Read the end markers of transactions.

    :param data: what the headers were found in.
    :param headers: control batches, ``headers[headers.is_control]``.
    :return: the markers, in their order; control records of other types, which consumers pass over, are left out.
    :raises DamagedObjectError: a control batch holds no control record.
    """
    if not len(headers):
        return []
    records = to_arrow(data, headers, max_decompressed_bytes=max(len(data), _MOST_BYTES))
    batch = np.repeat(np.arange(len(headers)), headers.record_count)
    offsets, keys = records.column("offset").to_pylist(), records.column("key").to_pylist()
    markers: list[EndTransactionMarker] = []
    for row, offset, key in zip(batch.tolist(), offsets, keys, strict=True):
        if key is None or len(key) < _KEY.size or (version_and_type := _KEY.unpack_from(key))[0] < 0:
            raise headers.damaged(int(headers.position[row]), "it is a control batch and holds no control record")
        if version_and_type[1] in _END_MARKERS:
            control_type = ControlRecordType(version_and_type[1])
            markers.append(EndTransactionMarker(offset, int(headers.producer_id[row]), control_type))
    return markers
