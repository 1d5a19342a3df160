# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import CopyCancelledError
from airflow_provider_rlmm.features.copying.copy_pace import CopyPace


def test_within_a_segment_it_waits_for_the_quota_and_asks_on_while_it_waits() -> None:
    now, asked = [0.0], [0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def why_stop() -> str | None:
        asked[0] += 1
        return "the kill switch is on" if now[0] >= 4 else None

    pace = CopyPace(100, why_stop, clock=lambda: now[0], sleep=sleep)
    for _ in range(3):
        pace(100)
    assert now[0] >= 2
    before = asked[0]
    pace(100)
    with pytest.raises(CopyCancelledError, match="the kill switch is on"):
        pace(100)
    assert now[0] == pytest.approx(4, abs=0.5)
    assert asked[0] - before > 2, "more often than there were chunks"
