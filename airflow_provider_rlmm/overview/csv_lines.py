# SPDX-License-Identifier: Apache-2.0
"""Rows as lines of CSV, made column by column; no text of others is one that a spreadsheet would calculate."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from airflow_provider_rlmm.core.base.bounded_parquet import as_texts
from airflow_provider_rlmm.core.base.errors import DocumentError

_ALPHABET: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_ID_BYTES: Final = 16
_ID_TEXT: Final = 22
_BLOCKS: Final = 6  # of four characters, for three bytes each
_MAX_TEXT_BYTES: Final = 64 * 2**20


def csv_lines(rows: pa.Table, *, ids: Collection[str], names: Mapping[str, Mapping[int, str]]) -> bytes:
    """
    Return rows as CSV, without a heading.

    :param rows: a slice of a file; texts are dictionaries.
    :param ids: columns of 16 bytes, which become Kafka's text form of an id.
    :param names: column of small numbers → what each of them is called.
    :raises DocumentError: if they hold what is no id or has no name, or more text than is given out at a time.
    """
    for number, name in enumerate(rows.column_names):
        column = rows.column(name).combine_chunks()
        if name in ids:
            made = pc.take(_id_texts(column.dictionary), column.indices)
        elif name in names:
            made = _named(column, names[name])
        elif pa.types.is_dictionary(column.type):
            harmless = pa.array([as_cell(text) for text in column.dictionary.to_pylist()], pa.string())
            made = pa.DictionaryArray.from_arrays(column.indices, harmless)
        else:
            continue
        rows = rows.set_column(number, name, made)
    sink = pa.BufferOutputStream()
    options = csv.WriteOptions(include_header=False, eol="\r\n", quoting_style="needed")
    csv.write_csv(as_texts(rows, _MAX_TEXT_BYTES), sink, options)
    return bytes(sink.getvalue().to_pybytes())


def as_cell(text: str | None) -> str | None:
    """
    Return a text as no spreadsheet calculates it: with an apostrophe before a sign that begins a formula, wide ones and
    others that mean the same included, and before all that a spreadsheet may leave out in front of one.

    :param text: chosen by others.
    """
    if not text:
        return text
    first = text[0]
    begins = unicodedata.normalize("NFKC", first)[:1] in "=+-@" or unicodedata.category(first)[0] in "ZC"
    return f"'{text}" if begins or first == "\u2212" else text


def _named(column: Any, names: Mapping[int, str]) -> Any:
    found = pc.index_in(column, pa.array(list(names), column.type))
    if found.null_count:
        raise DocumentError("a file holds a number that stands for nothing")
    return pa.array(list(names.values()), pa.string()).take(found)


def _id_texts(ids: Any) -> Any:
    """Return the text form of ids, all at once: base64 without its end, in the alphabet of addresses."""
    if len(ids) and pc.any(pc.not_equal(pc.binary_length(ids), _ID_BYTES)).as_py():
        raise DocumentError("a file holds what is no id of 16 bytes")
    plain = np.frombuffer(b"".join(ids.to_pylist()), np.uint8).reshape(-1, _ID_BYTES)
    padded = np.pad(plain, ((0, 0), (0, 2))).reshape(-1, 3).astype(np.uint32)
    numbers = padded[:, 0] << 16 | padded[:, 1] << 8 | padded[:, 2]
    digits = numbers[:, None] >> np.array([18, 12, 6, 0], np.uint32) & 63
    texts = np.ascontiguousarray(_ALPHABET[digits].reshape(len(plain), 4 * _BLOCKS)[:, :_ID_TEXT])
    offsets = (np.arange(len(plain) + 1) * _ID_TEXT).astype(np.int32)
    return pa.StringArray.from_buffers(len(plain), pa.py_buffer(offsets), pa.py_buffer(texts))
