# SPDX-License-Identifier: Apache-2.0
"""
Reads JSON documents that decide about deletions: every field is there, none besides, each of exactly its kind.

Python's own reader takes ``NaN``, ``1e3`` for a count, repeated names and numbers without bounds. Every function here
raises ``ValueError`` with the field's name and the beginning of its value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar

from airflow_provider_rlmm.core.base.agreement import number_of

MAX_INTEGER = 2**63 - 1
MAX_TEXT = 10_000
MAX_DEPTH = 16

K = TypeVar("K")
T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

Reader = Callable[[object, str], T]
"""
Takes a value as it was read, and what the error calls its field; returns the value if it is of exactly the reader's kind.

Raises ``ValueError`` if it is not.
"""


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e
    if not isinstance(document, dict):
        raise ValueError(f"a JSON object is expected, not {shown(document)}")
    return document


def checksum(document: Mapping[str, Any]) -> str:
    """
    Return the SHA-256, in lower-case hex, of the document's canonical form: names sorted, no spaces, ASCII only.

    :param document: plain JSON types.
    """
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def sealed(plain: Mapping[str, Any], format_version: int) -> dict[str, Any]:
    """
    Return a document that says which form it has and what its bytes are.

    :raises ValueError: if a number is not finite.
    """
    document = json.loads(json.dumps({"format_version": format_version, **plain}, allow_nan=False))
    return {**document, "sha256": checksum(document)}


def unsealed(text: str, format_version: int) -> dict[str, Any]:
    """
    Return the fields of a document.

    :param text: what :func:`sealed` returned, as JSON.
    :param format_version: of the form that is understood.
    :raises ValueError: if it is of another form, or not as it was written.
    """
    return unsealed_fields(parse_object(text), format_version)


def unsealed_fields(sealed: Mapping[str, Any], format_version: int) -> dict[str, Any]:
    """
    Return the fields of a document that stands in another one.

    :param sealed: what :func:`sealed` returned.
    :param format_version: of the form that is understood.
    :raises ValueError: if it is of another form, or not as it was written.
    """
    fields = versioned_fields(sealed, format_version)
    given = fields.pop("sha256", None)
    document = {"format_version": format_version, **fields}
    if given != checksum(document):
        raise ValueError("its bytes are not those that were written: sha256 differs")
    return fields


def versioned_fields(document: Mapping[str, Any], format_version: int) -> dict[str, Any]:
    """
    Return the fields of a document that says which form it has.

    :param document: its fields and ``format_version``.
    :param format_version: of the form that is understood.
    :raises ValueError: if it is of another form.
    """
    fields = dict(document)
    version = fields.pop("format_version", None)
    if type(version) is not int or version != format_version:
        raise ValueError(f"format_version is {shown(version)}, this package reads {format_version}")
    return fields


def shown(value: object) -> str:
    """
    Return the beginning of a value for a message.

    :param value: anything.
    """
    # The repr of a huge integer is refused by Python itself.
    huge = isinstance(value, int) and value.bit_length() > 256
    text = "a huge integer" if huge else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def integer(value: object, what: str) -> int:
    """Read an integer from 0 to 2^63 − 1 (a :data:`Reader`); no boolean, and no float however whole."""
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise ValueError(f"{what} is {shown(value)}, not an integer from 0 to 2^63 - 1")
    return value


def signed(value: object, what: str) -> int:
    """Read an integer, which may be negative (a :data:`Reader`); no boolean, and no float however whole."""
    if type(value) is not int:
        raise ValueError(f"{what} is {shown(value)}, not an integer")
    return value


def share(value: object, what: str) -> float:
    """Read a number from 0 to 1 (a :data:`Reader`)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{what} is {shown(value)}, not a number from 0 to 1")
    return float(value)


def number(value: object, what: str) -> float:
    """Read a finite number from 0 on (a :data:`Reader`)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_INTEGER:
        raise ValueError(f"{what} is {shown(value)}, not a number from 0 to 2^63 - 1")
    return float(value)


def boolean(value: object, what: str) -> bool:
    """Read a boolean (a :data:`Reader`)."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {shown(value)}, not a boolean")
    return value


def string(value: object, what: str) -> str:
    """Read a text of at most :data:`MAX_TEXT` characters (a :data:`Reader`)."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError(f"{what} is {shown(value)}, not a text of at most {MAX_TEXT} characters")
    return value


def text(value: object, what: str) -> str:
    """Read a text of any length (a :data:`Reader`), where the document as a whole is bounded."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {shown(value)}, not a text")
    return value


def any_json(value: object, what: str, depth: int = 0) -> Any:
    """Read plain JSON without floats (a :data:`Reader`), at most :data:`MAX_DEPTH` deep; its integers have 64 bits."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{what} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {string(k, what): any_json(v, f"{what}.{shown(k)}", depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [any_json(v, what, depth + 1) for v in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and -MAX_INTEGER <= value <= MAX_INTEGER:
        return value
    return string(value, what)


def one_of(kind: type[E]) -> Reader[E]:
    """
    Return a reader of an enum's values.

    :param kind: the enum.
    """

    def read(value: object, what: str) -> E:
        try:
            return kind(string(value, what))
        except ValueError as e:
            raise ValueError(f"{what} is {shown(value)}, not one of {[k.value for k in kind]}") from e

    return read


def optional(read: Reader[T]) -> Reader[T | None]:
    """
    Return a reader of a value or ``null``.

    :param read: reader of the value.
    """
    return lambda value, what: None if value is None else read(value, what)


def array(read: Reader[T]) -> Reader[tuple[T, ...]]:
    """
    Return a reader of an array.

    :param read: reader of each element.
    """
    return lambda value, what: tuple(
        read(element, f"{what}[{number}]") for number, element in enumerate(_elements(value, what))
    )


def array_of(*reads: Reader[Any]) -> Reader[tuple[Any, ...]]:
    """
    Return a reader of an array that has as many elements as there are readers.

    :param reads: reader of each element.
    """

    def read_all(value: object, what: str) -> tuple[Any, ...]:
        elements = _elements(value, what)
        if len(elements) != len(reads):
            raise ValueError(f"{what} has {number_of(len(elements), 'element')}, not {len(reads)}")
        return tuple(read(e, f"{what}[{i}]") for i, (read, e) in enumerate(zip(reads, elements, strict=True)))

    return read_all


def by_key(read_name: Reader[K], read: Reader[T]) -> Reader[dict[K, T]]:
    """
    Return a reader of an object with any names of a kind.

    :param read_name: reader of each name.
    :param read: reader of each value.
    """

    def read_all(value: object, what: str) -> dict[K, T]:
        if not isinstance(value, dict):
            raise ValueError(f"{what} is {shown(value)}, not an object")
        return {read_name(k, what): read(v, f"{what}.{shown(k)}") for k, v in value.items()}

    return read_all


def by_name(read: Reader[T]) -> Reader[dict[str, T]]:
    """
    Return a reader of an object with any names.

    :param read: reader of each value.
    """
    return by_key(string, read)


def by_partition(read: Reader[T]) -> Reader[dict[int, T]]:
    """
    Return a reader of an object whose names are partitions.

    :param read: reader of each value.
    """
    return by_key(partition_name, read)


def partition_name(value: object, what: str) -> int:
    """Read the number of a partition from the name of a field (a :data:`Reader`): below 2^31, written in one way only."""
    name = string(value, what)
    if not name.isascii() or not name.isdecimal() or len(name) > 10 or str(int(name)) != name or int(name) >= 2**31:
        raise ValueError(f"{what} names the partition {shown(name)}")
    return int(name)


def record(
    kind: Callable[..., T],
    readers: Mapping[str, Reader[Any]],
    defaults: Mapping[str, Any] = MappingProxyType({}),
    *,
    further: bool = False,
) -> Reader[T]:
    """
    Return a reader of an object with exactly these fields.

    :param kind: makes the value object out of them.
    :param readers: field → its reader.
    :param defaults: field that documents of earlier releases lack → the value that it has in them.
    :param further: whether there may be further fields, which are left out.
    """

    def read(value: object, what: str) -> T:
        if not isinstance(value, dict):
            raise ValueError(f"{what} is {shown(value)}, not an object")
        value = {**defaults, **value}
        if missing := sorted(readers.keys() - value.keys()):
            raise ValueError(f"{what} lacks {missing}")
        if unknown := [] if further else sorted(value.keys() - readers.keys()):
            raise ValueError(f"{what} has unknown fields {shown(unknown)}")
        return kind(**{name: reader(value[name], f"{what}.{name}") for name, reader in readers.items()})

    return read


def _elements(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is {shown(value)}, not an array")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
