# SPDX-License-Identifier: Apache-2.0
"""Numbers stand beside nouns and verbs that agree with them."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 segments"), (1, "1 segment"), (2, "2 segments"), (1_204, "1,204 segments")],
)
def test_a_noun_agrees_with_its_number(count: int, shown: str) -> None:
    assert number_of(count, "segment") == shown


def test_more_than_a_noun_agrees_with_its_number() -> None:
    assert [number_of(n, "entry is", "entries are") for n in (1, 3)] == ["1 entry is", "3 entries are"]


def test_a_verb_agrees_with_a_number_that_stands_elsewhere() -> None:
    assert [agreeing(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]
