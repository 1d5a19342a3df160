# SPDX-License-Identifier: Apache-2.0
"""A copier of living topics: what it copies, in which order, and when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.remote_log.copying import CopyWorld

STARTED, FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"


@pytest.fixture
def world(tmp_path: Path) -> CopyWorld:
    return CopyWorld(tmp_path)


def test_closed_segments_are_copied_one_after_the_other(world: CopyWorld) -> None:
    report = world.copy()
    assert (report.stopped_by, report.needs_person, report.remote_end) == (None, False, 40)
    assert [m.start_offset for m in report.copied] == [0, 10, 20, 30]
    assert world.said() == [(start, state) for start in (0, 10, 20, 30) for state in (STARTED, FINISHED)]
    world.check()
    assert world.objects_of_nobody() == set()
    assert report.copied_bytes == 4000
