# SPDX-License-Identifier: Apache-2.0
"""Readers are derived from data classes, and a field without one is found when its class is imported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from enum import StrEnum
from typing import Annotated, Any

import pytest

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import (
    AbsentAs,
    AtMost,
    LongText,
    Number,
    PlainJson,
    Share,
    Text,
    plain_of,
    reader_of,
    value_of,
)


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    name: Text
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    maybe: Inner | None
    color: Color
    flag: bool
    long: LongText
    sign: Annotated[int, strict.signed]
    share: Share
    rate: Number
    several: Annotated[tuple[Inner, ...], AtMost(2)]
    pair: tuple[int, Text]
    by_partition: Mapping[int, Inner]
    by_color: Mapping[Annotated[str, value_of(Color)], int]
    plain: PlainJson
    later: Annotated[Mapping[Text, int], AbsentAs({})]


READ = reader_of(Outer)
INNER = {"name": "a", "size": 1}
DOCUMENT: dict[str, Any] = {
    "inner": INNER,
    "maybe": None,
    "color": "red",
    "flag": True,
    "long": "x" * 20_000,
    "sign": -5,
    "share": 1,
    "rate": 2.5,
    "several": [INNER, {"name": "b", "size": None}],
    "pair": [1, "x"],
    "by_partition": {"0": INNER, "2147483647": INNER},
    "by_color": {"blue": 3},
    "plain": {"a": [1, {"b": None}]},
    "later": {"n": 1},
}


def test_every_kind_of_field_is_read() -> None:
    read = READ(DOCUMENT, "it")
    assert read == Outer(
        inner=Inner("a", 1), maybe=None, color=Color.RED, flag=True, long="x" * 20_000, sign=-5, share=1.0, rate=2.5,
        several=(Inner("a", 1), Inner("b")), pair=(1, "x"), by_partition={0: Inner("a", 1), 2**31 - 1: Inner("a", 1)},
        by_color={"blue": 3}, plain={"a": [1, {"b": None}]}, later={"n": 1},
    )  # fmt: skip
    assert type(read.share) is float
    assert type(next(iter(read.by_color))) is str


def test_what_earlier_releases_lacked_is_what_it_was() -> None:
    assert READ({name: value for name, value in DOCUMENT.items() if name != "later"}, "it").later == {}


BAD: list[tuple[str, Any, str]] = [
    ("inner", {"name": "a"}, r"it.inner lacks \['size'\]"),  # a default of the class is none of the document
    ("inner", {**INNER, "more": 1}, r"it.inner has unknown fields \['more'\]"),
    ("inner", None, "it.inner is None, not an object"),
    ("maybe", [], r"it.maybe is \[\], not an object"),
    ("color", "green", r"it.color is 'green', not one of \['red', 'blue'\]"),
    ("flag", 1, "it.flag is 1, not a boolean"),
    ("long", 5, "it.long is 5, not a text"),
    ("sign", True, "it.sign is True, not an integer"),
    ("sign", -5.0, "it.sign is -5.0, not an integer"),
    ("share", 1.5, "it.share is 1.5, not a number from 0 to 1"),
    ("share", True, "it.share is True, not a number"),
    ("rate", float("inf"), "it.rate is inf, not a number"),
    ("several", [INNER] * 3, "it.several has 3 entries, more than 2"),
    ("several", [INNER, {"name": 1, "size": None}], r"it.several\[1\].name is 1, not a text"),
    ("several", INNER, "it.several is .*, not an array"),
    ("pair", [1], "it.pair has 1 element, not 2"),
    ("pair", [1, "x", 2], "it.pair has 3 elements, not 2"),
    ("pair", ["x", 1], r"it.pair\[0\] is 'x', not an integer"),
    ("by_partition", {"00": INNER}, "it.by_partition names the partition '00'"),
    ("by_partition", {"-1": INNER}, "it.by_partition names the partition '-1'"),
    ("by_partition", {"2147483648": INNER}, "names the partition '2147483648'"),
    ("by_partition", {"0": {"name": "a", "size": 1.0}}, "it.by_partition.'0'.size is 1.0, not an integer"),
    ("by_color", {"green": 1}, "it.by_color is 'green', not one of"),
    ("by_color", {"red": -1}, "it.by_color.'red' is -1, not an integer from 0"),
    ("by_color", {"red": True}, "it.by_color.'red' is True, not an integer"),
    ("plain", {"a": 0.5}, "it.plain.'a' is 0.5, not a text"),
    ("later", {"n" * 10_001: 1}, "it.later is .*, not a text of at most 10000 characters"),
    ("later", None, "it.later is None, not an object"),
]


@pytest.mark.parametrize(("name", "value", "why"), BAD)
def test_what_is_not_of_its_kind_is_refused_by_name(name: str, value: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        READ({**DOCUMENT, name: value}, "it")


@pytest.mark.parametrize(
    "hint",
    [
        str, float, Any, object, list, list[int], dict[str, int], tuple, Mapping, int | str, int | str | None,
        tuple[str, ...], tuple[int, float], str | None, Mapping[str, int], Mapping[Text, Any], bytes,
        Annotated[str, "a comment"], Annotated[str, strict.string, strict.string], Annotated[str, AtMost(3)],
        Annotated[int, AtMost(3)], Annotated[str, strict.string, AtMost(3)],
        Annotated[int, AbsentAs(0)] | None, tuple[Annotated[int, AbsentAs(0)], ...],
    ],
    ids=str,
)  # fmt: skip
def test_a_field_without_a_reader_fails_before_anything_is_read(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"Made\.field is "):
        reader_of(make_dataclass("Made", [("field", hint)]))


def test_only_a_data_class_has_a_derived_reader() -> None:
    with pytest.raises(TypeError, match="is no data class"):
        reader_of(int)


def test_a_field_may_have_a_reader_of_its_own_in_one_document() -> None:
    read = reader_of(Inner, name=strict.text)
    assert read({"name": "x" * 20_000, "size": 1}, "it") == Inner("x" * 20_000, 1)
    with pytest.raises(ValueError, match=r"it\.size is -1"):
        read({"name": "", "size": -1}, "it")
    with pytest.raises(TypeError, match=r"has no fields \['nam'\]"):
        reader_of(Inner, nam=strict.text)


def test_a_document_without_a_version_may_have_further_fields_which_are_left_out() -> None:
    later = {"name": "a", "size": 1, "of a later release": []}
    assert reader_of(Inner, further=True)(later, "it") == Inner("a", 1)
    with pytest.raises(ValueError, match="it has unknown fields"):
        reader_of(Inner)(later, "it")
    with pytest.raises(ValueError, match=r"it lacks \['size'\]"):
        reader_of(Inner, further=True)({"name": "a"}, "it")


def test_what_is_read_is_written_in_the_order_of_the_fields() -> None:
    written = plain_of(READ({name: DOCUMENT[name] for name in reversed(DOCUMENT)}, "it"))
    assert written == DOCUMENT
    assert list(written) == list(DOCUMENT)
    assert json.loads(json.dumps(written)) == written
    assert type(written["color"]) is str


@pytest.mark.parametrize(
    "value",
    [b"x", {1, 2}, object(), {("a",): 1}, {1: "a", "1": "b"}, {True: 1}, [1, b"x"], 1j],
    ids=repr,
)
def test_what_no_reader_returns_is_not_written(value: object) -> None:
    with pytest.raises(TypeError, match=r"Made\.field has|Made\.field holds"):
        plain_of(make_dataclass("Made", [("field", Any)])(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), (1, float("-inf")), {"a": float("nan")}], ids=repr)
def test_a_number_that_is_not_finite_is_not_written(value: object) -> None:
    with pytest.raises(ValueError, match=r"Made\.field is -?(nan|inf), which is no JSON"):
        plain_of(make_dataclass("Made", [("field", Any)])(value))


def test_a_text_of_whatever_kind_is_written_as_a_text() -> None:
    class Told(str):
        def __str__(self) -> str:
            return "something else"

    written = plain_of(Inner(Told("a"), 1))
    assert (written, type(written["name"])) == ({"name": "a", "size": 1}, str)


@pytest.mark.parametrize("document", [{"name": "a"}, Inner, None, 1])
def test_only_a_data_class_is_written(document: object) -> None:
    with pytest.raises(TypeError, match="is no document"):
        plain_of(document)
