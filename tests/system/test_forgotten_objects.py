# SPDX-License-Identifier: Apache-2.0
"""The scrub under a real scheduler: what a deleted topic left behind goes once a person has approved it, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka, await_condition
from tests.integration.kafka_topics import delete_topic
from tests.scrub import scrub, unfinished_segments

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(900)]

SCRUB = "remote_storage_scrub"
KEPT, GONE, SEGMENTS = "scrub-kept", "scrub-gone", 2


@pytest.fixture
def forgotten(connected: LocalAirflow, broker: LocalKafka, tmp_path: Path) -> Iterator[set[str]]:
    """Objects of a topic that the broker has deleted and finished; somebody has put them back."""
    tiering.create_tiered_topic(broker, KEPT, 1)
    tiering.produce_until_remote(broker, KEPT, 1)
    topic_id = tiering.create_tiered_topic(broker, GONE, 1)
    tiering.produce_until_remote(broker, GONE, SEGMENTS)
    keys = tiering.remote_files(broker, topic_id)
    for key in keys:
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(broker.remote_root / key, tmp_path / key)
    delete_topic(broker, GONE)

    def is_finished() -> bool:
        of_topic = [
            s for s in unfinished_segments(broker) if s.remote_log_segment_id.topic_id_partition.topic_id == topic_id
        ]
        return not of_topic and not tiering.remote_files(broker, topic_id)

    await_condition(is_finished, f"the broker has deleted {GONE}", 60)
    for key in keys:
        (broker.remote_root / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / key, broker.remote_root / key)
    yield keys
    assert scrub(broker) == []


def test_nothing_goes_before_somebody_has_approved_it(
    connected: LocalAirflow, broker: LocalKafka, forgotten: set[str]
) -> None:
    others = set(tiering.remote_listing(broker)) - forgotten
    conf = {"rlmm_conn_id": "rlmm_up", "dry_run": False, "max_share": 1.0, "approve_above_segments": 0}
    run_id = connected.trigger(SCRUB, conf)
    asked = connected.wait_for_request(SCRUB, run_id, "approve")
    assert f"{len(forgotten)} objects" in asked["subject"], asked
    assert set(tiering.remote_listing(broker)) == forgotten | others
    connected.answer(SCRUB, run_id, "approve", "Approve")
    state = connected.wait(SCRUB, run_id, timeout=200)
    assert state == "success", connected.task_log(SCRUB, run_id, "report")
    said = connected.xcom(SCRUB, run_id, "report")
    assert {kind: count["objects"] for kind, count in said["deleted"].items()} == {"FINISHED": len(forgotten)}
    assert set(tiering.remote_listing(broker)) == others
