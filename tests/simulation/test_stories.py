# SPDX-License-Identifier: Apache-2.0
"""However few stories are played, every trouble happens, or the run is red."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.protections import KIND, PROTECTIONS
from tests.simulation.stories import CLEANER, COPIER, FOLDER, SEARCHED, Stories, recorded_seeds


def stories(trouble: str, played: list[int]) -> Stories:
    """Stories in each of which one thing happens that the seed names, and another one that does not."""

    def play(seed: int) -> Any:
        played.append(seed)
        return SimpleNamespace(happened=Counter({f"at {seed}": 1, "never": 0}))

    return Stories("made up", play, frozenset({trouble}))


def test_a_trouble_without_a_recorded_seed_is_looked_for() -> None:
    played: list[int] = []
    stories("at 7", played).require_every_trouble(Counter())
    assert played == list(range(8))


def test_what_has_happened_is_not_played_again() -> None:
    played: list[int] = []
    stories("at 7", played).require_every_trouble(Counter({"at 7": 1}))
    assert played == []


def test_a_trouble_that_never_happens_is_an_error() -> None:
    played: list[int] = []
    with pytest.raises(AssertionError, match="in 2000 seeds of the made up this never happens: \\['never'\\]"):
        stories("never", played).require_every_trouble(Counter())
    assert len(played) == SEARCHED


@pytest.mark.parametrize("of", [CLEANER, COPIER, FOLDER], ids=lambda of: of.name)
def test_a_seed_is_recorded_for_every_trouble(of: Stories) -> None:
    assert recorded_seeds()[of.name].keys() == of.troubles


def test_seeds_are_recorded_for_protections_that_are_there() -> None:
    assert recorded_seeds()[KIND].keys() <= PROTECTIONS.keys()
