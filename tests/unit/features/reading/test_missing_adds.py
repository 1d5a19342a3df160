# SPDX-License-Identifier: Apache-2.0
"""Where the add of a segment is missing, nothing that is read, exported or archived is shorter without saying so."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ArchiveError, TopicInDoubtError
from airflow_provider_rlmm.features.archiving.archiver import archive_user_partitions
from airflow_provider_rlmm.features.reading.steps import remote_log_reader
from tests.exporting import Exported
from tests.tiered_orders import ORDERS, START_MS, TieredOrders

ENDS = pytest.mark.parametrize(
    ("segments", "number"), [(3, 0), (3, 2), (1, 0)], ids=["the first", "the last", "the only one"]
)


@ENDS
def test_an_export_is_refused(tmp_path: Path, segments: int, number: int) -> None:
    exported = Exported(tmp_path)
    exported.world = TieredOrders(exported.storage, segments=segments, without_add={(1, number)})
    with pytest.raises(TopicInDoubtError, match=r"1 segment of .*orders-1 has an incomplete history"):
        exported.plan(allow_incomplete=True)
    assert [piece.tip for piece in exported.plan(partitions=[0]).pieces] == [ORDERS[0]] * segments


@ENDS
def test_a_reader_is_refused(segments: int, number: int) -> None:
    world = TieredOrders(segments=segments, without_add={(1, number)})
    with pytest.raises(TopicInDoubtError, match="incomplete history"):
        remote_log_reader(world.log, world.storage, [ORDERS[1]])


@ENDS
def test_an_archive_is_refused(tmp_path: Path, segments: int, number: int) -> None:
    world = TieredOrders(segments=segments, without_add={(1, number)})
    with pytest.raises(ArchiveError, match="1 segment has an incomplete history, see offset"):
        archive_user_partitions(
            world.log, world.storage, str(tmp_path), ORDERS, {}, cluster_id="cluster-1", name="a",
            clock=lambda: START_MS, allowed_quarantine=frozenset(),
        )  # fmt: skip
    assert {manifest.parts[-3] for manifest in tmp_path.rglob("manifests/*")} == {"0"}


def test_of_a_compacted_log_nobody_exports_archives_or_reads_without_having_said_so(tmp_path: Path) -> None:
    exported = Exported(tmp_path)
    world = exported.world
    world.log.policy = frozenset({"compact", "delete"})
    gone = "records may be gone from anywhere"
    with pytest.raises(TopicInDoubtError, match=gone):
        exported.plan(allow_incomplete=True)
    with pytest.raises(TopicInDoubtError, match=gone):
        remote_log_reader(world.log, world.storage, ORDERS)
    with pytest.raises(ArchiveError, match=gone):
        archive_user_partitions(
            world.log, world.storage, str(tmp_path), ORDERS, {}, cluster_id="cluster-1", name="a",
            clock=lambda: START_MS, allowed_quarantine=frozenset(),
        )  # fmt: skip
