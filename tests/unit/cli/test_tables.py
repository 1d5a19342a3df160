# SPDX-License-Identifier: Apache-2.0
"""Tables of the command: no name or id is cut, and a row is printed when it is known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from airflow_provider_rlmm.cli.listing import Listing
from airflow_provider_rlmm.cli.tables import lines_of

COLUMNS = {"topic": "topic", "segments": "segments", "why": "why"}
SENTENCE = "its marker is 3 h old, and 24 h are needed before anything of it is deleted"
ROW = {"topic": "g9LiIua4STiXAgIF9bPVMg", "segments": 1_234, "why": SENTENCE}


def test_columns_are_as_wide_as_what_they_hold_and_numbers_stand_below_each_other() -> None:
    rows = [{"topic": "a", "segments": 1, "why": "x"}, ROW]
    assert list(lines_of(rows, {"topic": "topic", "segments": "n"}, None)) == [
        "topic                       n",
        "a                           1",
        "g9LiIua4STiXAgIF9bPVMg  1,234",
    ]


def test_without_headings_there_is_no_line_of_them() -> None:
    assert list(lines_of([{"a": "x", "b": "y"}], {"a": "", "b": ""}, None)) == ["x  y"]
    assert list(lines_of([], COLUMNS, None)) == []


@pytest.mark.parametrize("width", [200, 80, 60, 40, 12])
def test_a_sentence_is_wrapped_to_the_terminal_and_everything_else_stays_whole(width: int) -> None:
    lines = list(lines_of([ROW], COLUMNS, width))
    assert sum(ROW["topic"] in line for line in lines) == 1
    assert " ".join(" ".join(lines).split()) == f"topic segments why {ROW['topic']} 1,234 {SENTENCE}"
    assert all(len(line) <= max(width, 24 + 2) for line in lines if ROW["topic"] not in line and "segments" not in line)
    assert all(line == line.rstrip() for line in lines)


def test_a_pipe_gets_each_row_on_one_line_however_long() -> None:
    assert [len(line) for line in lines_of([{"topic": "a", "segments": 1, "why": "y " * 500}], COLUMNS, None)][
        1
    ] > 1_000


def test_rows_are_printed_before_the_last_one_is_known() -> None:
    def endless() -> Iterator[dict[str, Any]]:
        while True:
            yield ROW

    assert len(list(islice(lines_of(endless(), COLUMNS, 80), 2_000))) == 2_000


def test_a_later_row_that_is_wider_is_not_cut() -> None:
    rows = [{"topic": "a", "segments": 1, "why": "x"}] * 600 + [ROW]
    assert list(lines_of(rows, COLUMNS, None))[-1] == f"{ROW['topic']}     1,234  {SENTENCE}"


def test_a_reader_that_goes_leaves_the_exit_code_of_the_answer() -> None:
    program = (
        "import sys\n"
        "from airflow_provider_rlmm.cli.output import Output\n"
        "Output(as_json=False).rows(({'a': 'x' * 100} for _ in range(20_000)), {'a': 'a'}, 'rows')\n"
        "Output(as_json=False).line('the end')\n"
        "sys.exit(4)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"rows\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 4


def test_a_list_is_sorted_from_the_most_and_says_what_it_leaves_out() -> None:
    rows: list[dict[str, Any]] = [{"topic": "b", "bytes": 1}, {"topic": "a", "bytes": None}, {"topic": "c", "bytes": 3}]
    assert [row["topic"] for row in Listing("bytes").of(rows)] == ["c", "b", "a"]
    assert [row["topic"] for row in Listing("topic").of(rows)] == ["a", "b", "c"]
    assert Listing().of(rows) == rows
    assert [row["topic"] for row in Listing("bytes", 1).of(rows)] == ["c"]
    assert Listing("bytes", 1).left_out(rows) == "2 more are not shown: --limit says how many are"
    assert Listing("bytes", 3).left_out(rows) == Listing().left_out(rows) == ""


@pytest.mark.parametrize("width", [None, 80])
def test_one_long_value_pushes_no_other_row_off_the_screen(width: int | None) -> None:
    rows = [{"key": "k" * 1_900, "n": 1, "why": SENTENCE}, *({"key": "k", "n": n, "why": SENTENCE} for n in range(9))]
    lines = list(lines_of(rows, {"key": "key", "n": "n", "why": "why"}, width))
    assert sum("k" * 1_900 in line for line in lines) == 1
    assert all(len(line) < 64 + 2 + 1 + 2 + len(SENTENCE) + 1 for line in lines if "kk" not in line)
    if width:
        assert all(len(line) <= width for line in lines if "k" not in line[:1])
