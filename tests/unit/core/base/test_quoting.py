# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import unicodedata
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml

from airflow_provider_rlmm.core.base.quoting import (
    MAX_NAME,
    in_markdown,
    in_quotes,
    list_in_quotes,
    name_in_text,
    printable,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition

TURNED = "safe\u202egnp.exe"
MARKS = [*"\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"]
INVISIBLE = [*"\u200b\u200d\ufeff\u00ad\u2028\u2029\x85\x7f\x1b\0\r\n\ud800"]


@pytest.mark.parametrize("name", ["orders", "a", "__remote_log_metadata", "a.b_c-D9", "-7", "x" * 249])
def test_a_name_that_kafka_allows_stands_as_it_is(name: str) -> None:
    assert name_in_text(name) == name
    assert str(TopicIdPartition(UUID(int=0), name, 3)) == f"AAAAAAAAAAAAAAAAAAAAAA:{name}-3"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "''"),
        ("a b", "'a b'"),
        ("x\nERROR all is lost", r"'x\nERROR all is lost'"),
        ("orders: still exists. To do: nothing", "'orders: still exists. To do: nothing'"),
        (TURNED, r"'safe\u202egnp.exe'"),
        ("שלום-7", r"'\u05e9\u05dc\u05d5\u05dd-7'"),
        ("it's \\n", r"'it\'s \\n'"),
        ("x" * 250, f"'{'x' * 250}'"),
        ("x" * 32_767, f"'{'x' * MAX_NAME}'…"),
    ],
)
def test_any_other_name_is_quoted(name: str, text: str) -> None:
    assert name_in_text(name) == text
    segment = RemoteLogSegmentId(TopicIdPartition(UUID(int=0), name, 3), UUID(int=1))
    assert str(segment) == f"AAAAAAAAAAAAAAAAAAAAAA:{text}-3/AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("character", [*MARKS, *INVISIBLE])
def test_no_mark_and_no_control_character_gets_through(character: str) -> None:
    for shown in (name_in_text(f"a{character}b"), in_quotes(f"a{character}b"), printable(f"a{character}b")):
        assert character not in shown
        assert character.encode("unicode_escape").decode() in shown


def test_a_list_of_names_is_short() -> None:
    assert list_in_quotes({"b", "a\n"}) == r"['a\n', 'b']"
    assert list_in_quotes(map(str, range(9)), shown=2) == "['0', '1', …]"


def test_a_cut_leaves_no_half_of_an_escape() -> None:
    assert in_quotes("abc\u200f", limit=8) == "'abc'…"
    assert in_quotes("ab\u200f", limit=8) == r"'ab\u200f'"
    assert printable("abc\u200f", limit=8) == "abc…"


def test_a_text_keeps_its_letters() -> None:
    assert printable("größer, 大") == "größer, 大"
    assert printable("x" * 300) == "x" * 300
    assert printable("x" * 301) == "x" * 300 + "…"


@pytest.mark.slow
@given(st.text())
def test_whatever_it_says_it_is_one_short_line_of_visible_characters(text: str) -> None:
    for shown in (name_in_text(text), printable(text)):
        assert len(shown) <= 303
        assert len(shown.splitlines()) <= 1
        assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
    assert name_in_text(text).rstrip("…").isascii()


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_names_never_look_the_same(one: str, other: str) -> None:
    assert (name_in_text(one) == name_in_text(other)) == (one == other)


@given(
    st.text(
        st.one_of(st.characters(min_codepoint=32, max_codepoint=126), st.sampled_from("\n\t\u00e9\u4e2d")), max_size=60
    )
)
def test_nothing_in_a_text_means_anything_in_markdown(text: str) -> None:
    shown = MarkdownIt("commonmark").enable("table").render(f"x{in_markdown(text)}x")
    assert shown == f"<p>{escapeHtml('x' + ' '.join(text.split()) + 'x')}</p>\n"
