# SPDX-License-Identifier: Apache-2.0
"""The scrub of contents under a real scheduler: a flipped bit makes its run red, and the error says first what to type."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from dev import tiering
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from tests.segment_damage import flipped

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.rare, pytest.mark.timeout(900)]

CONTENTS, TOPIC, SEGMENTS = "remote_log_contents", "contents-dag", 3


def test_a_flipped_bit_makes_a_run_red_and_a_mended_one_is_green(connected: LocalAirflow, broker: LocalKafka) -> None:
    topic_id = tiering.create_tiered_topic(broker, TOPIC, 1)
    tiering.produce_until_remote(broker, TOPIC, SEGMENTS)
    conf = {"rlmm_conn_id": "rlmm_up", "topic": TOPIC, "share": 1}
    log = next(
        broker.remote_root / key for key in sorted(tiering.remote_files(broker, topic_id)) if key.endswith(".log")
    )
    data = log.read_bytes()
    log.write_bytes(flipped(data, 8 * (len(data) // 2)))
    try:
        run_id = connected.trigger(CONTENTS, conf)
        assert connected.wait(CONTENTS, run_id, timeout=200) == "failed"
    finally:
        log.write_bytes(data)
    said = connected.task_log(CONTENTS, run_id, "verify")
    assert f"Type 'rlmm verify --topic={kafka_uuid_str(topic_id)}', which looks at all segments" in said
    assert "To acknowledge it" in said
    run_id = connected.trigger(CONTENTS, conf)
    assert connected.wait(CONTENTS, run_id, timeout=200) == "success", connected.task_log(CONTENTS, run_id, "verify")
    told = connected.xcom(CONTENTS, run_id, "verify")
    assert (told["copied"], told["looked_at"], told["right"]) == (SEGMENTS, SEGMENTS, SEGMENTS)
