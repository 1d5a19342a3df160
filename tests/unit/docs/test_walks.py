# SPDX-License-Identifier: Apache-2.0
"""Nobody has to walk far: the paths of ``docs/architecture.md`` are those of the code, and enter few rooms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dev.walks import PAGE, WALKS, Walk, leads, page, table

EACH_WALK = pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.name)


@EACH_WALK
def test_each_step_leads_to_the_next(walk: Walk) -> None:
    assert list(walk.broken()) == []
    # And a walk without one of its inner steps is none.
    assert any(
        list(replace(walk, steps=[s for s in walk.steps if s != left_out]).broken()) for left_out in walk.steps[1:-1]
    )


@EACH_WALK
def test_a_walk_enters_few_rooms_and_none_twice_without_a_reason(walk: Walk) -> None:
    rooms = walk.rooms()
    assert 1 < len(rooms) <= walk.most
    assert {room for room, times in Counter(rooms).items() if times > 1} == walk.again.keys()
    assert max(Counter(rooms).values()) <= 2


def test_a_step_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"there is no core\.log\.follower:Nobody"):
        leads("core.log.follower:LogFollower", "core.log.follower:Nobody")


def test_the_page_has_the_table() -> None:
    assert page() == PAGE.read_text(), "make it anew: python -m dev.walks"
    assert table() in page()
