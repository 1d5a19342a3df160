# SPDX-License-Identifier: Apache-2.0
"""The scrub of contents by operator: what it returns, and when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DamagedContentsError
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.contents.report_document import ContentsReport
from airflow_provider_rlmm.operators.contents import VerifyRemoteSegmentsOperator
from tests.segment_damage import flipped
from tests.tiered_orders import TieredOrders
from tests.unit.airflow.operators.test_operators import connect
from tests.unit.airflow.operators.test_remote_log_operators import context, put_behind


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TieredOrders:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    fake = TieredOrders()
    connect(monkeypatch, allow_writes=False, expected_cluster_id=None)
    put_behind(monkeypatch, fake)
    return fake


def test_what_is_right_is_told(world: TieredOrders) -> None:
    told = VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    assert (told["copied"], told["chosen"], told["looked_at"], told["right"], told["damaged"]) == (6, 6, 6, 6, 0)
    assert ContentsReport.from_json(Path(told["report"]).read_text()).outcomes["RIGHT"].segments == 6


def test_a_share_is_looked_at(world: TieredOrders) -> None:
    told = VerifyRemoteSegmentsOperator(task_id="verify", topic="orders", share="0.5").execute(context())
    assert (told["copied"], told["looked_at"]) == (6, 3)
    with pytest.raises(ConfigurationError, match="share"):
        VerifyRemoteSegmentsOperator(task_id="verify", share=0.0).execute(context())


def test_damage_fails_the_task_after_the_report(world: TieredOrders, tmp_path: Path) -> None:
    key = world.storage.layout.object_key(world.segments[3], IndexType.TIMESTAMP)
    world.storage.put_object(key, flipped(world.storage.fetch_object(key), 3))
    with pytest.raises(DamagedContentsError, match=r"1 segments are DAMAGED \(orders-1 from offset 0"):
        VerifyRemoteSegmentsOperator(task_id="verify").execute(context())
    (report,) = (tmp_path / "work").rglob("contents.json")
    assert ContentsReport.from_json(report.read_text()).findings
    told = VerifyRemoteSegmentsOperator(task_id="verify", fail_on_damage=False).execute(context())
    assert (told["right"], told["damaged"]) == (5, 1)
