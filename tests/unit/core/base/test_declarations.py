# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.declarations import (
    Declared,
    Duration,
    Flag,
    Kind,
    Names,
    Share,
    Text,
    Whole,
    Written,
    check_fields,
    read_spelled,
)
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.values import refused


def short(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 1:
        raise refused(name, value, "short")
    return value


def declared(kind: Kind, default: Any, name: str = "most") -> Declared[Any]:
    return Declared(name=name, kind=kind, default=default, title="Most", sentence="The most that may go")


@pytest.mark.parametrize(
    ("kind", "default", "wrong", "allowed"),
    [
        *((Whole(2, 5), 3, wrong, "an integer from 2 to 5") for wrong in (1, 6, True, 3.0, "3", None)),
        *((Duration(2, 5), 3, wrong, "an integer from 2 to 5") for wrong in (1, 6, "3 ms", None)),
        *((Names("ab"), frozenset("a"), wrong, "a list of at most 1000 names") for wrong in ("a", 5, None)),
        *((Written(short), "y", wrong, "short") for wrong in ("long", 5, None)),
        *((Flag(), True, wrong, "true or false") for wrong in (0, 1, "true", None)),
        *((Text(), "a", wrong, "text") for wrong in (5, True, None)),
        *((Text(("dry", "real")), "dry", wrong, "dry or real") for wrong in ("Dry", "", 5, None)),
        *((Share(), 0.5, wrong, "a number from 0 to 1") for wrong in (-0.1, 1.1, True, "0.5", None)),
    ],
    ids=repr,
)
def test_what_is_not_as_declared_is_refused_by_its_name(kind: Kind, default: Any, wrong: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^most must be {allowed}, not "):
        declared(kind, default).check(wrong)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Whole(2, 5), (2, 5)),
        (Duration(2, 5), (2, 5)),
        (Share(), (0, 1, 0.3)),
        (Flag(), (True, False)),
        (Text(), ("a", "")),
        (Text(("dry", "real")), ("dry", "real")),
        (Names("ab"), (frozenset(), frozenset("a"), frozenset("ab"))),
        (Written(short), ("x", "")),
    ],
    ids=repr,
)
def test_what_is_as_declared_passes(kind: Kind, values: tuple[Any, ...]) -> None:
    for value in values:
        declared(kind, value).check(value)


def test_what_may_be_left_out_may_be_none() -> None:
    declared(Whole(1), None).check(None)
    with pytest.raises(ConfigurationError, match="most must be an integer from 1"):
        declared(Whole(1), None).check(0)


def test_an_unknown_name_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown most \['c'\]; known are \['a', 'b'\]"):
        declared(Names("ab"), frozenset()).check(frozenset("c"))


def test_a_default_out_of_its_own_bounds_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="most must be an integer from 1"):
        declared(Whole(1), 0)


def test_the_first_wrong_field_of_an_object_is_named() -> None:
    fields = [declared(Whole(), 0, name) for name in ("first", "second", "third")]
    with pytest.raises(ConfigurationError, match="second must be"):
        check_fields(SimpleNamespace(first=1, second=-1, third=-1), fields)


@pytest.mark.parametrize(
    ("kind", "written", "meant"),
    [
        (Whole(2, 5), " 3 ", 3),
        (Whole(2, 5), 3, 3),
        (Flag(), "TRUE", True),
        (Flag(), False, False),
        (Text(), " a ", "a"),
        (Written(short), " a ", "a"),
    ],
    ids=repr,
)
def test_what_is_written_down_may_be_the_text_of_a_value(kind: Kind, written: object, meant: object) -> None:
    assert read_spelled(declared(kind, meant), written) == meant


@pytest.mark.parametrize(
    ("kind", "default", "wrong", "allowed"),
    [
        *((Whole(2, 5), 3, wrong, "an integer from 2 to 5") for wrong in ("6", "1e0", 3.0, True, "")),
        *((Flag(), False, wrong, "true or false") for wrong in ("yes", "", 1, None)),
        *((Text(), "a", wrong, "text") for wrong in (5, True, ["a"])),
    ],
    ids=repr,
)
def test_what_is_written_down_is_refused_by_its_name(kind: Kind, default: Any, wrong: object, allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^most must be {allowed}, not "):
        read_spelled(declared(kind, default), wrong)
