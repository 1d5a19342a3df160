# SPDX-License-Identifier: Apache-2.0
"""Rows as CSV: ids in Kafka's text form, and texts that stay texts in a spreadsheet."""

from __future__ import annotations

import csv
from io import StringIO
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.overview.csv_lines import as_cell, csv_lines


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\u3000=1", "\u200b=1", "\ufeff=1",
        "\uff1d1", "\uff0b1", "\uff0d1", "\uff201", "\ufe661", "\ufe621", "\ufe631", "\ufe6b1", "\u22121", "\x00=1",
        "\u202e=1", " ",
    ],
)  # fmt: skip
def test_a_text_is_none_that_a_spreadsheet_calculates(text: str) -> None:
    assert as_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "orders", "a=1", "1-2", "_x", "'=1", "\u00e9t\u00e9", None])
def test_other_texts_stay_as_they_are(text: str | None) -> None:
    assert as_cell(text) == text


@given(st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.text(st.characters(codec="utf-8"))), max_size=30))
def test_lines_are_read_back(rows: list[tuple[bytes, str]]) -> None:
    ids = pa.array([id_bytes for id_bytes, _ in rows], pa.binary()).dictionary_encode()
    names = pa.array([name for _, name in rows], pa.string()).dictionary_encode()
    states = pa.array([number % 2 for number in range(len(rows))], pa.int8())
    table = pa.table({"id": ids, "name": names, "state": states})
    text = csv_lines(table, ids=["id"], names={"state": {0: "A", 1: "B"}}).decode()
    found = list(csv.reader(StringIO(text, newline="")))
    assert found == [
        [kafka_uuid_str(UUID(bytes=id_bytes)), as_cell(name), "AB"[number % 2]]
        for number, (id_bytes, name) in enumerate(rows)
    ]


def test_what_is_no_id_or_has_no_name_is_refused() -> None:
    ids = pa.array([b"short"], pa.binary()).dictionary_encode()
    with pytest.raises(DocumentError, match="no id of 16 bytes"):
        csv_lines(pa.table({"id": ids}), ids=["id"], names={})
    with pytest.raises(DocumentError, match="stands for nothing"):
        csv_lines(pa.table({"state": pa.array([9], pa.int8())}), ids=[], names={"state": {0: "A"}})
