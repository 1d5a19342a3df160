# SPDX-License-Identifier: Apache-2.0
"""
What a Parquet file says of itself: its footer, and the headers of its pages, read without the pages.

Arrow may end the whole process where it is asked for a column of a damaged footer, so it is not asked. The numbers of the
fields are those of the format's description (``parquet.thrift``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, NamedTuple

from airflow_provider_rlmm.core.base.thrift_compact import read_struct

MAX_PAGES: Final = 100_000
"""Pages of one column of a row group."""

_MAX_HEADER_BYTES: Final = 65_536
# Of these a page has no more values in memory than it says; others may repeat a text in part.
_ENCODINGS: Final = frozenset({0, 2, 3, 4, 8})  # PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, RLE_DICTIONARY


# Of a page's header, by the type of the page (data, dictionary, data of version 2): the number of the field that tells of
# it, and in there that of the encoding.
_HEADERS: Final[Mapping[Any, tuple[int, int]]] = {0: (5, 2), 2: (7, 2), 3: (8, 4)}


class Page(NamedTuple):
    """A page, as its header says it; Arrow's reader goes by the same header."""

    values: int  # nulls included
    uncompressed_bytes: int


class Chunk(NamedTuple):
    """A column of a row group, as the footer says it."""

    kind: Any  # its physical type: BOOLEAN 0, INT32 1, INT64 2, FLOAT 4, DOUBLE 5, BYTE_ARRAY 6
    place: int  # where its first page begins
    compressed_bytes: int  # of all its pages
    lowest: bytes | int | None  # value, ``None`` where it is not known
    highest: bytes | int | None
    has_nulls: bool  # or it is not known


class RowGroup(NamedTuple):
    """A row group, as the footer says it."""

    rows: int
    chunks: tuple[Chunk, ...]


def row_groups_of(footer: bytes) -> list[RowGroup]:
    """
    Return the row groups of a file.

    :param footer: its bytes.
    :raises ValueError: if it cannot be read.
    """
    return [_row_group(group) for group in read_struct(footer)[0].get(4) or []]


def _row_group(group: dict[int, Any]) -> RowGroup:
    chunks = [_chunk(chunk[3]) for chunk in group.get(1) or []]
    return RowGroup(_size(group.get(3)), tuple(chunks))


def _chunk(about: dict[int, Any]) -> Chunk:
    kind, place, dictionary = about.get(1), _size(about.get(9)), about.get(11)
    if dictionary is not None and 0 < dictionary < place:
        place = dictionary
    said = about.get(12) or {}
    exact = said.get(7) is not False and said.get(8) is not False
    lowest, highest = (_plain(said.get(field), kind) if exact else None for field in (6, 5))
    return Chunk(kind, place, _size(about.get(7)), lowest, highest, said.get(3) != 0)


def _plain(value: Any, kind: Any) -> bytes | int | None:
    if not isinstance(value, bytes) or kind not in (1, 2, 6):
        return None
    return value if kind == 6 else int.from_bytes(value, "little", signed=True)


def pages_of(file: IO[bytes], chunk: Chunk) -> Iterator[Page]:
    """
    Yield the pages of a column of a row group.

    :param file: the file; it can seek.
    :param chunk: the column.
    :raises ValueError: if a header cannot be read, or a page has an encoding that no file of this package has.
    """
    place, end = chunk.place, chunk.place + chunk.compressed_bytes
    for _ in range(MAX_PAGES):
        if place >= end:
            return
        file.seek(place)
        header, length = read_struct(file.read(min(_MAX_HEADER_BYTES, end - place)))
        page, compressed = _page(header)
        yield page
        place += length + compressed
    raise ValueError(f"more than {MAX_PAGES} pages")


def _page(header: dict[int, Any]) -> tuple[Page, int]:
    own, encoding = _HEADERS.get(header.get(1), (0, 0))
    about = header.get(own)
    if not isinstance(about, dict) or about.get(encoding) not in _ENCODINGS:
        raise ValueError("a page of another kind")
    values, uncompressed, compressed = (_size(number) for number in (about.get(1), header.get(2), header.get(3)))
    return Page(values, uncompressed), compressed


def _size(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError("a page without a size")
    return number
