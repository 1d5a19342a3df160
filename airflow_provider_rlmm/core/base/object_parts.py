# SPDX-License-Identifier: Apache-2.0
"""An object of a store as a file of Python: only what is read of it is fetched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from typing import IO, Any

_PART = 256 * 2**10
"""What is fetched at once where less is asked for, bytes."""


def in_parts(reader: Any) -> IO[bytes]:
    """
    Return a file.

    :param reader: obstore's reader of an object.
    """
    return BufferedReader(_Parts(reader), _PART)


def in_order(answer: Any) -> IO[bytes]:
    """
    Return a file that is read from its beginning to its end.

    :param answer: obstore's answer to a request for an object.
    """
    return BufferedReader(_InOrder(iter(answer.stream(_PART))), _PART)


class _InOrder(RawIOBase):
    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces, self._left = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


class _Parts(RawIOBase):
    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)
