# SPDX-License-Identifier: Apache-2.0
"""What the walk in columns tells of leaders is what the walk tells that goes segment by segment, as Kafka's does."""

from __future__ import annotations

from random import SystemRandom

import pytest

from tests.examples import examples
from tests.property.leader_walks import check_worlds

WORLDS = 4_000


@pytest.mark.slow
def test_no_row_is_too_many_and_most_are_told() -> None:
    check_worlds(SystemRandom().randrange(2**32), examples(WORLDS))
