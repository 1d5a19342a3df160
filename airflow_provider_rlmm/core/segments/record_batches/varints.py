# SPDX-License-Identifier: Apache-2.0
"""Numbers in Kafka's zigzag encoding of variable length (``ByteUtils.readVarint``), many at a time."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

VARINT_BYTES: Final = 5
"""How many bytes a number of 32 bits takes at most."""
VARLONG_BYTES: Final = 10
"""How many bytes a number of 64 bits takes at most."""

_MORE: Final = 0x80
_BITS: Final = 7
_ONE: Final = np.uint64(1)


def read_varints(data: Array, at: Array) -> tuple[Array, Array]:
    """
    Read a number of 32 bits at each of some positions.

    :param data: bytes. What lies behind them is read as their last one: the caller sees that a number ends too late.
    :param at: positions of the first bytes.
    :return: the numbers, and the positions behind them; -1 for a number that does not end after five bytes.
    """
    raw, behind = _read(data, at, VARINT_BYTES)
    raw &= np.uint64(0xFFFFFFFF)
    return _zigzag(raw), behind


def read_varlongs(data: Array, at: Array) -> tuple[Array, Array]:
    """
    Read a number of 64 bits at each of some positions.

    :param data: bytes; see :func:`read_varints`.
    :param at: positions of the first bytes.
    :return: the numbers, and the positions behind them; -1 for a number that does not end after ten bytes.
    """
    raw, behind = _read(data, at, VARLONG_BYTES)
    return _zigzag(raw), behind


def read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """
    Read a single number of 32 bits.

    :param data: bytes.
    :param at: position of its first byte.
    :param end: where it must have ended.
    :return: the number, and the position behind it; -1 for one that does not end in time.
    """
    raw = 0
    for index, byte in enumerate(data[at : min(at + VARINT_BYTES, end)] if at >= 0 else b""):
        raw |= (byte & (_MORE - 1)) << _BITS * index
        if byte < _MORE:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), at + index + 1
    return 0, -1


def _read(data: Array, at: Array, most: int) -> tuple[Array, Array]:
    byte = data.take(at, mode="clip")
    raw = byte.astype(np.uint64)
    behind = at + 1
    more = np.flatnonzero(byte >= _MORE)
    if more.size:
        raw[more] &= np.uint64(_MORE - 1)
    for index in range(1, most):
        if not more.size:
            break
        byte = data.take(at[more] + index, mode="clip")
        raw[more] |= (byte & np.uint8(_MORE - 1)).astype(np.uint64) << np.uint64(_BITS * index)
        behind[more] += 1
        more = more[byte >= _MORE]
    behind[more] = -1
    return raw, behind


def _zigzag(raw: Array) -> Array:
    signs = (raw & _ONE).view(np.int64)
    numbers: Array = (raw >> _ONE).view(np.int64) ^ -signs
    return numbers
