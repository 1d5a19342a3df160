# SPDX-License-Identifier: Apache-2.0
"""The law of :mod:`tests.simulation.compaction_law`, over many stories."""

from __future__ import annotations

import pytest

from tests.simulation.compaction import KeyForm
from tests.simulation.compaction_law import play_law
from tests.simulation.conftest import WHOLE
from tests.simulation.runs import play_many


@pytest.mark.timeout(0)  # --seeds decides how long it takes
def test_keys_change_nothing_and_compaction_only_takes_away(seeds: range) -> None:
    # Each is cleaned a dozen times: where few stories are played, these are fewer.
    happened = play_many(seeds if len(seeds) >= WHOLE else seeds[: max(20, len(seeds) // 20)], play_law)
    assert happened["refused"], happened
    for form in (KeyForm.STATE, KeyForm.END_OFFSET):
        assert happened[f"{form.value}: planned"] >= happened["planned"] / 3, happened
        assert happened[f"{form.value}: finished"], happened
