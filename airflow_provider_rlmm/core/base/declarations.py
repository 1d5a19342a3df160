# SPDX-License-Identifier: Apache-2.0
"""
Values that people set, each declared once: name, kind with unit and bounds, default, and a sentence that says what it means.

What reads them, the forms, the options of the command and the pages are made from that, each in one small function at its own
edge: ``operators.arguments``, ``dag_factory.params``, ``cli.options``, ``provider_info`` and ``dev.configuration_page``. An
edge may say another sentence where it means something else there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from airflow_provider_rlmm.core.base import values
from airflow_provider_rlmm.core.base.values import MAX_INTEGER, refused

Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer."""

    minimum: int = 0
    maximum: int = MAX_INTEGER
    unit: str = ""  # of what it counts or measures: bytes, ms


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration, ms, that people may write in words."""

    minimum: int = 0
    maximum: int = MAX_INTEGER


@dataclass(frozen=True, slots=True)
class Share:
    """A number from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Names:
    """Any of some known names; a mapping says what each of them means."""

    known: Collection[str]


@dataclass(frozen=True, slots=True)
class Written:
    """A text of a form of its own."""

    read: Callable[[str, object], Any]  # takes name and value, refuses what is not of the form


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts, each of a form of its own."""

    read: Callable[[str, object], tuple[str, ...]]  # takes name and list, refuses what is not of the form
    pattern: str = ""  # of each, for forms that check it while a user types


@dataclass(frozen=True, slots=True)
class Flag:
    """On or off."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text; where words are given, one of them."""

    words: tuple[str, ...] = ()


Kind: TypeAlias = Whole | Duration | Share | Flag | Names | Text | Texts | Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(Generic[Value]):
    """
    A value that people set. Where its default is ``None``, it need not be set.

    :raises ConfigurationError: if its own default is out of its bounds.
    """

    name: str
    kind: Kind
    default: Value
    sentence: str  # what it means, without a full stop
    title: str = ""  # in forms
    absent: str = ""  # what it means that it is not set
    example: str = ""  # as a user would write it

    def __post_init__(self) -> None:
        self.check(self.default)

    def check(self, value: object) -> None:
        """
        Refuse what is not exactly of its kind and within its bounds.

        :param value: of the kind itself, as code holds it: not the text of a number.
        :raises ConfigurationError: naming it, and what is allowed.
        """
        if value is None and self.default is None:
            return
        match self.kind:
            case Whole(minimum, maximum) | Duration(minimum, maximum):
                values.integer(self.name, value, minimum, maximum)
            case Share():
                values.share(self.name, value)
            case Flag():
                if not isinstance(value, bool):
                    raise refused(self.name, value, "true or false")
            case Text(words):
                if not isinstance(value, str) or (words and value not in words):
                    raise refused(self.name, value, " or ".join(words) or "text")
            case Names(known):
                values.names(self.name, value, known)
            case Written(read) | Texts(read):
                read(self.name, value)


def read_spelled(declared: Declared[Value], value: object) -> Value:
    """
    Read what a person has written into a connection, a file or Airflow's configuration, which may be the text of a value.

    :param declared: the value; of its forms only the kind of number, flag or text is judged here.
    :param value: what was written; blanks around a text do not count.
    :raises ConfigurationError: naming it, and what is allowed.
    """
    read: Any
    match declared.kind:
        case Whole(minimum, maximum):
            read = values.spelled_integer(declared.name, value, minimum, maximum)
        case Flag():
            read = values.spelled_flag(declared.name, value)
        case _:
            if not isinstance(value, str):
                raise refused(declared.name, value, "text")
            read = value.strip()
    return cast("Value", read)


def check_fields(of: object, declared: Iterable[Declared[Any]]) -> None:
    """
    Refuse attributes that are not as they are declared.

    :param of: a value object.
    :param declared: its fields, in the order in which they are checked.
    :raises ConfigurationError: naming the first that is wrong.
    """
    for field in declared:
        field.check(getattr(of, field.name))
