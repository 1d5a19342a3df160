# SPDX-License-Identifier: Apache-2.0
"""A principal that may not describe every topic: the job as it is really run, on a real broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, java_client_properties
from airflow_provider_rlmm.core.plans.plan_files import read_plan
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.cluster_look import observe_cluster
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from dev import tiering
from dev.authorized import AuthorizedKafka
from dev.broker import METADATA_TOPIC, await_condition
from tests.spark.test_segment_retention import JOB, submit

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(1800), pytest.mark.rare]

USER, PASSWORD = "planner", "correct-horse-battery-staple"
VISIBLE, HIDDEN, GONE, GONE_UNSEEN = "visible", "hidden", "gone", "gone-unseen"
SEGMENTS = 4


@dataclass(frozen=True)
class Scene:
    kafka: AuthorizedKafka
    ids: dict[str, UUID]
    state: ClusterState


def allow(kafka: AuthorizedKafka, rights: Iterable[tuple[str, AclOperation]]) -> None:
    bindings = [
        AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", right, AclPermissionType.ALLOW
        )
        for topic, right in rights
    ]
    admin = AdminClient(kafka.client_config())
    for future in admin.create_acls(bindings).values():
        future.result(30)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Two living topics and two deleted ones whose segments stay; of each pair the principal may describe one name."""
    with AuthorizedKafka({USER: PASSWORD}) as kafka:
        ids = {name: tiering.create_tiered_topic(kafka, name, 1) for name in (VISIBLE, HIDDEN, GONE, GONE_UNSEEN)}
        for name in ids:
            tiering.produce_until_remote(kafka, name, SEGMENTS)
        for name in (GONE, GONE_UNSEEN):
            tiering.provoke_scenario_b(kafka, name)
        described = [(name, AclOperation.DESCRIBE) for name in (VISIBLE, GONE)]
        allow(kafka, [("*", AclOperation.DESCRIBE_CONFIGS), (METADATA_TOPIC, AclOperation.READ), *described])
        principal = AdminClient(kafka.login(USER))
        await_condition(
            lambda: {VISIBLE, METADATA_TOPIC} <= principal.list_topics(timeout=30).topics.keys(), "the rights count", 60
        )
        topics = KafkaClusterTopics(KafkaClientConfig(kafka.login(USER)))
        try:
            state = observe_cluster(topics, METADATA_TOPIC, system_clock)
        finally:
            topics.close()
        yield Scene(kafka, ids, state)


def test_a_topic_that_may_not_be_described_is_refused_by_name_and_never_orphaned(scene: Scene, tmp_path: Path) -> None:
    assert {topic.name for topic in scene.state.topics} == {VISIBLE, METADATA_TOPIC}, (
        "the listing does not say what it lacks"
    )
    (tmp_path / "cluster_state.json").write_text(scene.state.to_json())
    (tmp_path / "client.properties").write_text(java_client_properties(scene.kafka.login(USER)))
    output = tmp_path / "plan"
    arguments = {
        "--bootstrap-servers": scene.kafka.login(USER)["bootstrap.servers"],
        "--kafka-properties": str(tmp_path / "client.properties"),
        "--cluster-state": str(tmp_path / "cluster_state.json"),
        "--output": output.as_uri(),
        "--plan-id": "plan-1",
    }
    topics = tiering.topic_ids(scene.kafka)
    done = submit(JOB, tmp_path, *(word for pair in arguments.items() for word in pair))
    assert done.returncode == 0, done.stdout

    summary = read_plan(str(output))
    rows = [row for file in summary.files.values() for row in pq.read_table(output / file.name).to_pylist()]
    assert {(row["topic"], row["reason"]) for row in rows} == {(GONE, "ORPHANED")}
    assert len(rows) == SEGMENTS
    refused = {refusal.topic: refusal for refusal in summary.refusals}
    assert set(refused) == {HIDDEN, GONE_UNSEEN}, "the living and the deleted get the same answer"
    for name, refusal in refused.items():
        assert (refusal.kind, refusal.kind.needs_person) == (RefusalKind.ACCESS_DENIED, True)
        assert refusal.what == f"topic {name}, id {kafka_uuid_str(scene.ids[name])}"
        assert f"{SEGMENTS} segments" in refusal.why
        assert "DESCRIBE on every topic" in refusal.what_to_do
        assert f"refused (ACCESS_DENIED): {refusal.what}" in done.stdout
    assert tiering.topic_ids(scene.kafka) == topics, "asking for names creates no topic"
    assert PASSWORD not in done.stdout + done.stderr
