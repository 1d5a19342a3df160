# SPDX-License-Identifier: Apache-2.0
"""The commands below a root that nothing shows to be the one that brokers write to now."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_lost_log import CLEAN, GONE, WRITES, cluster, said  # noqa: F401  # cluster is a fixture
from tests.unit.lifecycle.builders import HOUR_MS, Cluster

HERE = "memory://kafka-tiered-storage"
NAMED = ("--expected-root", HERE)


@pytest.mark.parametrize("named", [(), NAMED])
def test_the_first_run_waits_for_a_copy_or_is_told_the_root(
    cluster: Cluster,  # noqa: F811
    named: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(12, 15):
        cluster.segment(GONE, number)
    keys = set(cluster.storage.keys)
    assert said(capsys, *CLEAN)[0] == 0
    for _ in range(2):
        code, text = said(capsys, *CLEAN, *WRITES)
        assert code == 1
        assert "nothing is deleted: no broker has copied a segment of a living topic to kafka-tiered-storage" in text
        assert f"set expected_root = {HERE} in the rlmm connection" in text
        cluster.now_ms += 30 * HOUR_MS
    assert (set(cluster.storage.keys), cluster.ours()) == (keys, [])
    if not named:
        cluster.segment(cluster.alive, 20)
    keys |= set(cluster.storage.keys)
    gone = {key for key in keys if "gone-0-" in key}
    assert said(capsys, *CLEAN, *WRITES, *named)[0] == 0
    assert set(cluster.storage.keys) >= keys
    cluster.now_ms += 30 * HOUR_MS
    code, text = said(capsys, *CLEAN, *WRITES, *named)
    assert code == 0, text
    assert keys - set(cluster.storage.keys) == gone
