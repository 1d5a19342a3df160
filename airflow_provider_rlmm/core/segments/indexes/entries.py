# SPDX-License-Identifier: Apache-2.0
"""What the indexes have in common: entries of one size, one after the other, without a checksum."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from airflow_provider_rlmm.core.base.errors import DamagedObjectError

Array = npt.NDArray[Any]
Data = bytes | bytearray | memoryview


def parse_entries(data: Data, entry: np.dtype[Any], location: str) -> Array:
    """
    Return the entries of an index.

    :param data: all bytes of the index.
    :param entry: the fields of an entry.
    :param location: key or path of the index, for messages.
    :raises DamagedObjectError: the last entry is cut.
    """
    size = entry.itemsize
    if len(data) % size:
        cut = len(data) - len(data) % size
        raise damaged(location, cut, f"the index has {len(data)} bytes, which is no multiple of {size}")
    return np.frombuffer(data, entry)


def require(ok: Array, entry: np.dtype[Any], reason: str, location: str) -> None:
    """
    Refuse an index that has an entry which cannot be.

    :param ok: of each entry, whether it may be so.
    :param entry: the fields of an entry.
    :param reason: what is wrong with it otherwise.
    :param location: key or path of the index, for messages.
    :raises DamagedObjectError: of the first entry that may not.
    """
    if not ok.all():
        row = int(np.argmin(ok))
        raise damaged(location, row * entry.itemsize, f"entry {row}: {reason}")


def damaged(location: str, position: int, reason: str) -> DamagedObjectError:
    """
    Return the error that says of an index that it is damaged.

    :param location: key or path of the index.
    :param position: first byte in doubt.
    :param reason: what is wrong.
    """
    return DamagedObjectError(f"{location} is damaged at byte {position}: {reason}", location, position)
