# SPDX-License-Identifier: Apache-2.0
"""Thrift's compact protocol, as far as Parquet needs it: structs as dictionaries, by the numbers of their fields."""

from __future__ import annotations

from typing import Any, Final

_MAX_DEPTH: Final = 12


def read_struct(data: bytes, place: int = 0, depth: int = 0) -> tuple[dict[int, Any], int]:
    """
    Read a struct; return its fields by number, and the place behind it.

    :param data: that holds it.
    :param place: where it begins.
    :param depth: how many structs it lies in.
    :raises ValueError: if it cannot be read.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("structs in structs")
    found: dict[int, Any] = {}
    field = 0
    while True:
        first = _byte(data, place)
        place += 1
        if first == 0:
            return found, place
        if first >> 4:
            field += first >> 4
        else:
            field, place = _integer(data, place)
        found[field], place = _value(data, place, first & 0x0F, depth)


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # of a field, the type is the value
        return kind == 1, place
    if kind == 3:
        return _byte(data, place), place + 1
    if kind in (4, 5, 6):
        return _integer(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        length, place = _varint(data, place)
        return data[place : place + length], place + length
    if kind in (9, 10):
        return _list(data, place, depth)
    if kind == 12:
        return read_struct(data, place, depth + 1)
    raise ValueError("a field of another kind")


def _list(data: bytes, place: int, depth: int) -> tuple[list[Any], int]:
    first = _byte(data, place)
    size, place = first >> 4, place + 1
    if size == 15:
        size, place = _varint(data, place)
    # Within a list, a truth is a byte.
    kind = 3 if first & 0x0F in (1, 2) else first & 0x0F
    found = []
    for _ in range(size):
        value, place = _value(data, place, kind, depth + 1)
        _byte(data, place - 1)
        found.append(value)
    return found, place


def _integer(data: bytes, place: int) -> tuple[int, int]:
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(data, place)
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number without an end")


def _byte(data: bytes, place: int) -> int:
    if place >= len(data):
        raise ValueError("a header without an end")
    return data[place]
