# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import time

import pytest

from dev.patience import Patience


@pytest.mark.parametrize(
    ("load", "lasts_s"),
    [(0.1, 10), (4, 10), (12, 30), (4000, 200)],
    ids=["idle", "a processor for everybody", "three for one processor", "more than is believed"],
)
def test_time_passes_more_slowly_where_processes_wait_for_processors(
    load: float, lasts_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0, 0))
    patience, asked = Patience(10), 0
    while not patience.over():
        now[0] += 0.5
        asked += 1
    assert asked * 0.5 == pytest.approx(lasts_s, abs=0.51)
