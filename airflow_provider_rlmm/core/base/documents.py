# SPDX-License-Identifier: Apache-2.0
"""
The strict reader of a document, derived from the data class that the document is made of, and what writes it: its form is
said once.

What is written is what the fields hold, in their order (:func:`plain_of`). The writer of plans, manifests and archives reads
them back first; a document for people is written in any case, and a reader that fails says so.

The module of a data class derives the reader once, when it is imported, so that a field without a reader of its own is found
then and not when the first document is read. These types have one:

- ``bool``; ``int``, from 0 to 2^63 − 1; a ``StrEnum``; a data class, with exactly its fields;
- ``X | None``; ``tuple[X, ...]``; ``tuple[X, Y]``, of this length;
- ``Mapping[X, Y]``: an object whose names are read as ``X``; where ``X`` is ``int``, the names are partitions.

A bare ``str``, ``float`` or ``Any`` has none, as it has no bounds. What a type cannot say stands in ``Annotated``: a
:data:`~airflow_provider_rlmm.core.base.strict_json.Reader`, as in :data:`Text` and :data:`Share`, which then reads the value,
an :class:`AtMost` or an :class:`AbsentAs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from math import isfinite
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.strict_json import Reader

T = TypeVar("T")

Text = Annotated[str, strict.string]
"""A text of at most :data:`~airflow_provider_rlmm.core.base.strict_json.MAX_TEXT` characters."""

LongText = Annotated[str, strict.text]
"""A text of any length: of documents for people, which are bounded as a whole."""

Share = Annotated[float, strict.share]
"""A number from 0 to 1."""

Number = Annotated[float, strict.number]
"""A finite number from 0 on."""

PlainJson = Annotated[Mapping[str, Any], strict.by_name(strict.any_json)]
"""An object with any plain JSON, of bounded depth and without floats."""


@dataclass(frozen=True, slots=True)
class AtMost:
    """Bounds an array or an object."""

    length: int  # elements


@dataclass(frozen=True, slots=True)
class AbsentAs:
    """Says of a field that documents of earlier releases lack it, and what it is in them."""

    value: object  # as JSON


def reader_of(kind: type[T], /, *, further: bool = False, **instead: Reader[Any]) -> Reader[T]:
    """
    Derive the reader of a data class from the types of its fields.

    :param kind: the data class; all that its fields name is defined in its module.
    :param further: whether the document may have further fields, which are left out; those of its parts may not.
    :param instead: field that has a reader of its own here → that one.
    :raises TypeError: naming the field, if one has no reader.
    """
    if not is_dataclass(kind):
        raise TypeError(f"{kind!r} is no data class")
    hints = get_type_hints(kind, include_extras=True)
    if unknown := sorted(instead.keys() - hints.keys()):
        raise TypeError(f"{kind!r} has no fields {unknown}")
    types = {field.name: _taken_apart(hints[field.name]) for field in fields(kind)}
    absent = {name: note.value for name, (_, notes) in types.items() for note in notes if isinstance(note, AbsentAs)}
    readers = {
        name: instead.get(name)
        or _noted(hint, [note for note in notes if not isinstance(note, AbsentAs)], f"{kind.__qualname__}.{name}")
        for name, (hint, notes) in types.items()
    }
    return strict.record(kind, readers, absent, further=further)


def plain_of(document: object) -> dict[str, Any]:
    """
    Return what a document holds as plain JSON types, in the order of its fields: what its derived reader reads.

    :param document: a data class.
    :raises TypeError: naming the field, if one holds what no reader returns.
    :raises ValueError: naming the field, if one holds a number that is not finite.
    """
    if not is_dataclass(document) or isinstance(document, type):
        raise TypeError(f"{document!r} is no document")
    return {
        field.name: _plain_value(getattr(document, field.name), f"{type(document).__qualname__}.{field.name}")
        for field in fields(document)
    }


def sealed_text(
    document: T,
    version: int,
    read: Callable[[str], T],
    refused: Callable[[str], Exception],
    what: str,
    *,
    plain: Mapping[str, Any] | None = None,
    indent: int | None = 2,
) -> str:
    """
    Return a document as sealed text, once it was read back: what contradicts itself cannot be read later.

    :param document: a data class.
    :param version: its ``format_version``.
    :param read: reads such a text.
    :param refused: makes the error where it does not read back; given the message.
    :param what: names the document in that message.
    :param plain: what of it is written, where that is not all.
    :param indent: spaces of each level; ``None`` for a single line.
    :raises Exception: of ``refused``, or what ``read`` raises.
    """
    fields_of = plain_of(document) if plain is None else plain
    text = json.dumps(strict.sealed(fields_of, version), indent=indent, sort_keys=True)
    if read(text) != document:
        raise refused(f"{what} does not read back as it was written")
    return text


def _plain_value(value: object, where: str) -> Any:
    if isinstance(value, str):
        return str.__str__(value)  # of an enum its value
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        if not isfinite(value):
            raise ValueError(f"{where} is {value}, which is no JSON")
        return value
    if is_dataclass(value):
        return plain_of(value)
    if isinstance(value, tuple | list):
        return [_plain_value(element, where) for element in value]
    if isinstance(value, Mapping):
        named = {_plain_name(name, where): _plain_value(each, where) for name, each in value.items()}
        if len(named) == len(value):
            return named
    raise TypeError(f"{where} holds {strict.shown(value)}, which no reader of a document returns")


def _plain_name(name: object, where: str) -> str:
    if isinstance(name, str):
        return str.__str__(name)
    if type(name) is int:
        return str(name)
    raise TypeError(f"{where} has the name {strict.shown(name)}, which no reader of a document returns")


def value_of(kind: type[StrEnum]) -> Reader[str]:
    """
    Return a reader of an enum's values that leaves them texts.

    :param kind: the enum.
    """
    read = strict.one_of(kind)
    return lambda value, what: read(value, what).value


def _taken_apart(hint: Any) -> tuple[Any, list[object]]:
    """Return a type and what its annotation says besides."""
    if get_origin(hint) is Annotated:
        plain, *notes = get_args(hint)
        return plain, notes
    return hint, []


def _reader(hint: Any, where: str) -> Reader[Any]:
    """Return the reader of a type; the error says where it stands."""
    plain, notes = _taken_apart(hint)
    return _noted(plain, notes, where)


def _noted(hint: Any, notes: list[object], where: str) -> Reader[Any]:
    """Return the reader that the notes of a type name, else that of the type, within the bounds of the notes."""
    named = [note for note in notes if callable(note)]
    bounds = [note.length for note in notes if isinstance(note, AtMost)]
    if len(named) > 1 or len(named) + len(bounds) < len(notes) or (bounds and get_origin(hint) not in (tuple, Mapping)):
        raise TypeError(
            f"{where} is {hint!r} with {notes!r}: one reader is understood, and AtMost of arrays and objects"
        )
    read: Reader[Any] = named[0] if named else _plain(hint, where)
    for bound in bounds:
        read = _bounded(read, bound)
    return read


def _plain(hint: Any, where: str) -> Reader[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is bool:
        return strict.boolean
    if hint is int:
        return strict.integer
    if origin in (Union, UnionType) and len(arguments) == 2 and type(None) in arguments:
        return strict.optional(_reader(next(a for a in arguments if a is not type(None)), where))
    if origin is tuple:
        return _array(arguments, where)
    if origin is Mapping:
        name, value = arguments
        read_name = strict.partition_name if name is int else _reader(name, where)
        return strict.by_key(read_name, _reader(value, where))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return strict.one_of(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return reader_of(hint)
    raise TypeError(f"{where} is {hint!r}, which has no strict reader of its own: annotate it with one")


def _array(elements: tuple[Any, ...], where: str) -> Reader[tuple[Any, ...]]:
    if len(elements) == 2 and elements[1] is Ellipsis:
        return strict.array(_reader(elements[0], where))
    return strict.array_of(*(_reader(element, where) for element in elements))


def _bounded(read: Reader[Any], length: int) -> Reader[Any]:
    def read_bounded(value: object, what: str) -> Any:
        if isinstance(value, list | dict) and len(value) > length:
            raise ValueError(f"{what} has {number_of(len(value), 'entry', 'entries')}, more than {length}")
        return read(value, what)

    return read_bounded
