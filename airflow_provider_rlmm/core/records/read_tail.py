# SPDX-License-Identifier: Apache-2.0
"""What ties what was made from a log to that log: its last records, by hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.core.base.documents import Text

KEPT = 16
"""
Records of each metadata partition that are remembered: one is enough to know a log again, a few more cost nothing.
"""


@dataclass(frozen=True, slots=True)
class ReadTail:
    """The last records of a metadata partition that a plan was made from: they must be there when it is applied."""

    begin: int  # offset of the first of them, inclusive
    end: int  # exclusive
    sha256: Text  # of all of them, lower-case hex


def digests(batch: Any) -> list[tuple[int, bytes]]:
    """
    Return offset and SHA-256 of records.

    :param batch: with the columns ``offset``, ``timestamp_ms``, ``key`` and ``value``.
    """
    columns = (batch.column(name).to_pylist() for name in ("offset", "timestamp_ms", "key", "value"))
    return [
        (offset, hashlib.sha256(repr((timestamp_ms, key, value)).encode()).digest())
        for offset, timestamp_ms, key, value in zip(*columns, strict=True)
    ]
