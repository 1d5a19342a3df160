# SPDX-License-Identifier: Apache-2.0
"""The walk in columns, on the same worlds in each run; others are tried by a property."""

from __future__ import annotations

import pytest

from tests.property.leader_walks import check_worlds

SEED = 20_261_127


@pytest.mark.slow
def test_no_row_is_too_many_and_most_are_told() -> None:
    check_worlds(SEED, 1_000)
