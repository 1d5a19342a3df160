# SPDX-License-Identifier: Apache-2.0
"""The page of terms has a dozen words, and every class that has a remedy of its own."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.survey.inventory import SurveyedState

PAGE = (Path(__file__).parents[3] / "docs" / "terms.md").read_text()


def rows(section: str) -> list[str]:
    return re.findall(r"^\| (?:\*\*|`)([^*`]+)", section, re.MULTILINE)


def test_it_has_a_dozen_words_at_most() -> None:
    assert 8 < len(rows(PAGE.partition("\n## ")[0])) <= 12


def test_it_has_each_class_once_and_in_its_order() -> None:
    _, states, classes = PAGE.split("\n## ")
    assert rows(states) == [state.value for state in SurveyedState]
    assert set(rows(classes)) == {kind.value for kind in ScrubClass}
    assert len(rows(classes)) == len(ScrubClass)
