# SPDX-License-Identifier: Apache-2.0
"""The walk in columns, on the same worlds in each run; others are tried by a property."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.differential.expiration_worlds import ExpirationWorld
from tests.leader_views import RECORDED
from tests.property.leader_walks import check_worlds, judge

SEED = 20_261_127


@pytest.mark.slow
def test_no_row_is_too_many_and_most_are_told() -> None:
    check_worlds(SEED, 1_000)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda world: world["kind"])
def test_no_row_is_too_many_where_almost_the_same_partition_has_it(recorded: dict[str, Any]) -> None:
    deleted = {segment_id for segment_id, _ in recorded["deleted"]}
    # With another number the lineage may be what a segment tells of it.
    for number in range(5):
        (judged,) = judge([ExpirationWorld(recorded["kind"], frozenset(), (), recorded)], Random(number))
        assert judged.in_columns.keys() <= deleted
        assert judged.in_columns.items() <= judged.certain.items()
