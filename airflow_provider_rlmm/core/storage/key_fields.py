# SPDX-License-Identifier: Apache-2.0
"""
The fields of a pattern of object keys: how each is spelled, and which characters it may have in a key.

A field that names a function, such as ``{md5(topic,'-',partition):4}``, is the salt that plugins put before their keys to
spread them over a store: it says nothing that the other fields do not say, and is computed again from them.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.base.quoting import in_quotes

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
OF_THE_PARTITION: Final = ("topic", "topic_id", "partition")
"""Fields that all segments of a user partition have in common."""

_MOST: Final = {"partition": MAX_INT32, "start_offset": MAX_INT64, "end_offset": MAX_INT64}
_ID: Final = "[a-zA-Z0-9_-]{22}"
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# An id has 22 characters, "-" and "_" among them, and a topic name may end in "-7": only the fixed width tells.
_TEXTS: Final = {
    ("topic", ""): "[a-zA-Z0-9._-]+",
    ("topic_id", ""): _ID,
    ("topic_id", "uuid"): _UUID,
    ("segment_id", ""): _ID,
    ("segment_id", "uuid"): _UUID,
}
_WIDTH: Final = re.compile("0[1-9][0-9]?")
_CALL: Final = re.compile(r"([a-z][a-z0-9_]*)\(([^()]*)\)")
_QUOTED: Final = re.compile(r"'([a-zA-Z0-9._/=+@~,-]*)'")
_LENGTH: Final = re.compile("[1-9][0-9]?")
KNOWN: Final = (
    "{topic}, {topic_id}, {topic_id:uuid}, {partition}, {partition:05}, {start_offset}, {start_offset:020}, {end_offset}, "
    "{end_offset:020}, {segment_id}, {segment_id:uuid}, {md5(topic_id):4}"
)
"""What fields look like, for people; widths and functions may be others."""

KEY_FUNCTIONS_GROUP: Final = "airflow_provider_rlmm.key_functions"
"""Entry points of this group are further functions of keys: name → :data:`KeyFunction`."""

KeyFunction = Callable[[str], str]
"""Returns letters, digits, ``-`` and ``_`` for a text, always the same for the same."""


def _digest_of(name: str) -> KeyFunction:
    return lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


_FUNCTIONS: Final[Mapping[str, KeyFunction]] = MappingProxyType(
    {
        "crc32": lambda text: f"{zlib.crc32(text.encode()):08x}",
        "md5": _digest_of("md5"),
        "sha1": _digest_of("sha1"),
        "sha256": _digest_of("sha256"),
    }
)


@dataclass(frozen=True, slots=True)
class Field:
    """
    A field that is spelled from what it names.

    :param name: ``topic``, ``topic_id``, ``partition``, ``start_offset``, ``end_offset`` or ``segment_id``.
    :param form: ``uuid`` of an id, ``0`` and a least number of digits of a number, empty for Kafka's own spelling.
    """

    name: str
    form: str

    @property
    def group(self) -> str:
        """What it is called in an expression, and in a format string."""
        return self.name

    @property
    def expression(self) -> str:
        """What its spelling matches."""
        if self.name not in _MOST:
            return _TEXTS[self.name, self.form]
        if not self.form:
            return "0|[1-9][0-9]*"
        width = int(self.form)
        return f"[0-9]{{{width}}}" + ("" if self._is_fixed else f"|[1-9][0-9]{{{width},}}")

    @property
    def varies(self) -> bool:
        """Whether its length does."""
        return self.name == "topic" or (self.name in _MOST and not self._is_fixed)

    @property
    def _is_fixed(self) -> bool:
        return bool(self.form) and int(self.form) >= len(str(_MOST[self.name]))

    @property
    def format(self) -> str:
        """It, in a format string."""
        return f"{{{self.name}:{self.form}}}" if self.name in _MOST else f"{{{self.name}}}"

    @property
    def is_of_the_partition(self) -> bool:
        """Whether it is the same for all segments of a user partition."""
        return self.name in OF_THE_PARTITION


@dataclass(frozen=True, slots=True)
class Salt:
    """
    A field that is computed from others.

    :param number: which one of the pattern's.
    :param function: its name.
    :param text: what it is computed from, a format string of other fields.
    :param names: which ones these are.
    :param length: characters of its result that are in the key, the first ones.
    """

    number: int
    function: str
    text: str
    names: frozenset[str]
    length: int

    @property
    def group(self) -> str:
        """See :class:`Field`."""
        return f"salt{self.number}"

    @property
    def expression(self) -> str:
        """See :class:`Field`."""
        return f"[a-zA-Z0-9_-]{{{self.length}}}"

    @property
    def varies(self) -> bool:
        """See :class:`Field`."""
        return False

    @property
    def format(self) -> str:
        """See :class:`Field`."""
        return f"{{{self.group}}}"

    @property
    def is_of_the_partition(self) -> bool:
        """See :class:`Field`."""
        return self.names <= set(OF_THE_PARTITION)

    def of(self, values: Mapping[str, object]) -> str:
        """
        Compute it.

        :param values: of all other fields, as they are spelled.
        :raises UnsafeObjectKeyError: if its function returns something else than it may.
        """
        text = self.text.format(**values)
        found = function_named(self.function)(text)[: self.length]
        if not re.fullmatch(self.expression, found):
            raise UnsafeObjectKeyError(
                f"the key function {self.function} returns {in_quotes(found)} for {in_quotes(text)}: there have to be "
                f"{self.length} of a-z A-Z 0-9 - _"
            )
        return found


def field_of(name: str, form: str, fields: Mapping[str, Field], salts: int) -> Field | Salt:
    """
    Return what a field of a pattern means.

    :param name: what stands before its ``:``.
    :param form: what stands behind.
    :param fields: all others that are no salts, by their names: a salt is computed from these.
    :param salts: how many salts come before it.
    :raises ConfigurationError: if there is no such field.
    """
    if (call := _CALL.fullmatch(name)) is None:
        if (name, form) in _TEXTS or (name in _MOST and (not form or _WIDTH.fullmatch(form))):
            return Field(name, form)
        raise ConfigurationError(f"{{{name}{':' + form if form else ''}}} is none of {KNOWN}")
    if not _LENGTH.fullmatch(form):
        raise ConfigurationError(
            f"{{{name}}} does not say how many characters of it are in the key, as {{{name}:4}} does"
        )
    function, arguments = call[1], [argument.strip() for argument in _arguments(call[2])]
    text = ""
    for argument in arguments:
        if quoted := _QUOTED.fullmatch(argument):
            text += quoted[1]
        elif argument in fields:
            text += fields[argument].format
        else:
            raise ConfigurationError(
                f"{in_quotes(argument)} in {{{name}:{form}}} is neither another field of the pattern nor a text in single "
                "quotes"
            )
    if (most := len(function_named(function)(""))) < int(form):
        raise ConfigurationError(f"{{{name}:{form}}} takes {form} characters of {function}, which returns {most}")
    return Salt(salts, function, text, frozenset(arguments) & fields.keys(), int(form))


def _arguments(text: str) -> list[str]:
    """Return what stands between commas, of which those in quotes separate nothing."""
    return re.findall(r"(?:'[^']*'|[^,'])+", text)


@lru_cache(maxsize=64)
def function_named(name: str) -> KeyFunction:
    """
    Return a function of keys: one of this package, or an entry point of :data:`KEY_FUNCTIONS_GROUP`.

    :raises ConfigurationError: for an unknown name, the message lists the known ones.
    """
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    others = {point.name: point for point in entry_points(group=KEY_FUNCTIONS_GROUP)}
    if name not in others:
        known = ", ".join(sorted({*_FUNCTIONS, *others}))
        raise ConfigurationError(f"unknown key function {name!r}; choose one of: {known}")
    function: KeyFunction = others[name].load()
    return function
