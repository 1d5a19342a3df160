# SPDX-License-Identifier: Apache-2.0
"""The page quotes what is really said; tests/integration/test_secured_broker.py holds it against a broker's errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from airflow.sdk import Connection
from confluent_kafka import Producer

import tests.airflow_home  # noqa: F401  # its import is what it is for
from airflow_provider_rlmm.core.base import object_stores
from airflow_provider_rlmm.core.base.clock import HOUR_MS, TimeReading, system_clock
from airflow_provider_rlmm.core.base.errors import (
    ClockSkewError,
    ConfigurationError,
    EventLogAccessError,
    StorageRootError,
    StorageUnavailableError,
    UnprovenClockError,
)
from airflow_provider_rlmm.core.base.file_systems import create_file
from airflow_provider_rlmm.core.base.object_stores import require_client
from airflow_provider_rlmm.core.log.broker_versions import BrokerVersion
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.kafka.admin import MetadataTopicDescription, PartitionReplicas
from airflow_provider_rlmm.core.log.kafka.client import METADATA_TOPIC, open_client
from airflow_provider_rlmm.core.log.kafka.client_watch import ClientWatch
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, check_files
from airflow_provider_rlmm.core.log.kafka.health import metadata_topic_findings
from airflow_provider_rlmm.core.log.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig
from airflow_provider_rlmm.core.log.metadata_settings import MetadataWriters, TieredRetention
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.runs.access import CLEANER_GROUP_ID, CLOCK_GROUP_ID
from airflow_provider_rlmm.core.storage.deadline import Deadline
from airflow_provider_rlmm.core.storage.root import Place, PlaceCheck, PlaceLook, RootCheck, RootExpectation
from airflow_provider_rlmm.core.storage.stamps import Location, Stamp
from airflow_provider_rlmm.core.world.current_root import NOTHING_RECORDED, why_not_current
from airflow_provider_rlmm.core.world.freshness import Freshness, Sample
from airflow_provider_rlmm.core.world.proven_time import prove_time
from airflow_provider_rlmm.hooks.connection import RlmmConnection
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.spark_readiness import SparkHere, require_spark_connection, why_not_fetched
from airflow_provider_rlmm.settings import plan_uri, work_uri
from tests.object_store_server import ObjectStoreServer
from tests.spark_jars import jar_of

PAGE = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
DAY_MS = 86_400_000
NOON_MS = 1_800_000_000_000


def quoted(message: str) -> bool:
    return f"```text\n{message}\n```" in PAGE


def open_producer(properties: Mapping[str, object]) -> Producer:
    client = TopicBasedRemoteLogMetadataManagerConfig.from_properties(properties).client
    return open_client(Producer, client.producer(1), ClientWatch(client))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("producer.acks", "1"),
        ("common.client.sasl.jaas.config", "hunter2"),
        ("topic.replication.factor", 0),
        ("producer.linger.msx", 1),
    ],
)
def test_settings(name: str, value: object) -> None:
    properties = {
        "remote.log.metadata.common.client.bootstrap.servers": "127.0.0.1:1",
        f"remote.log.metadata.{name}": value,
    }
    with pytest.raises(ConfigurationError) as caught:
        open_producer(properties)
    assert quoted(str(caught.value))


def test_a_property_of_the_connection_that_nobody_knows() -> None:
    client = KafkaClientConfig({"bootstrap.servers": "127.0.0.1:1", "linger.msx": 1})
    with pytest.raises(ConfigurationError) as caught:
        open_client(Producer, client.producer(1), ClientWatch(client))
    assert quoted(str(caught.value))


def test_an_address_that_means_another_one() -> None:
    with pytest.raises(ConfigurationError) as caught:
        KafkaClientConfig({"bootstrap.servers": "broker.example.com:99093"})
    assert quoted(str(caught.value))


def test_a_connection_of_this_package() -> None:
    with pytest.raises(ConfigurationError) as missing:
        RemoteLogMetadataHook().get_connection_settings()
    connection = Connection(conn_id="rlmm_default", conn_type="rlmm", host="b", password="hunter2")
    with pytest.raises(ConfigurationError) as too_much:
        RlmmConnection.from_connection(connection)
    assert quoted(str(missing.value))
    assert quoted(str(too_much.value))


def test_what_spark_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("airflow_provider_rlmm.features.retention.spark.package.version", lambda name: "4.0.0")
    (tmp_path / "spark-submit").touch(0o755)
    environment = {"PATH": str(tmp_path), "SPARK_HOME": str(tmp_path)}
    (tmp_path / "jars").mkdir()
    here = SparkHere("spark_default", "local[2]", "spark-submit", environment)
    other = jar_of(tmp_path / "other.jar", "x")
    old = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
    refusals: list[Callable[[], object]] = [
        lambda: require_spark_connection("spark_default"),
        replace(here, master="mesos://host:5050").require_usable,
        replace(here, environment={"PATH": ""}).require_usable,
        here.require_usable,
        lambda: here.has_connector(other, ""),
        lambda: here.has_connector("", old),
    ]
    for refuse in refusals:
        with pytest.raises(ConfigurationError) as caught:
            refuse()
        assert quoted(str(caught.value).replace(other, "/opt/jars/other.jar")), caught.value
    missing = "[unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.0.0: not found]"
    assert quoted(str(why_not_fetched(f"java.lang.RuntimeException: {missing}")))


def test_a_work_folder_that_is_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", "plans")
    with pytest.raises(ConfigurationError) as caught:
        work_uri()
    assert quoted(str(caught.value))


def test_a_missing_file() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_files({"security.protocol": "SASL_SSL", "ssl.ca.location": "/etc/kafka/missing.pem"})
    assert quoted(f"connection 'kafka_prod': {caught.value}")


def test_a_login_without_a_protocol() -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "user", "sasl.password": "hunter2"}
    with pytest.raises(ConfigurationError) as caught:
        KafkaClientConfig({"bootstrap.servers": "127.0.0.1:1", **login})
    assert quoted(str(caught.value))


@pytest.mark.parametrize(
    ("work", "source_plan"), [("s3://key:hunter2@bucket/rlmm", "march"), ("/var/rlmm", "/mnt/plans/march")]
)
def test_where_plans_lie(monkeypatch: pytest.MonkeyPatch, work: str, source_plan: str) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", work)
    with pytest.raises(ConfigurationError) as caught:
        plan_uri(source_plan)
    assert quoted(str(caught.value))


@pytest.mark.parametrize(
    ("settings", "in_sync"),
    [({}, 1), ({"cleanup.policy": "compact"}, 3), ({"retention.ms": DAY_MS}, 3)],
)
def test_health(settings: Mapping[str, Any], in_sync: int) -> None:
    replicas = tuple(PartitionReplicas(n, True, in_sync if n == 3 else 3, 3) for n in range(5))
    healthy = {"min.insync.replicas": 2, "cleanup.policy": "delete", "retention.ms": -1}
    description = MetadataTopicDescription(uuid4(), 5, healthy | settings, None, replicas)

    writers = MetadataWriters(versions={1: BrokerVersion((3, 6), (4, 4))})
    (finding,) = metadata_topic_findings(METADATA_TOPIC, description, TieredRetention("orders", 7 * DAY_MS), writers)

    assert quoted(str(finding))


def test_the_groups_that_need_an_acl() -> None:
    page = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text()
    assert f"group `{CLEANER_GROUP_ID}`" in page
    assert f"group `{CLOCK_GROUP_ID}`" in page


def test_the_storage_root() -> None:
    place = Place("kafka-tiered-storage", "kafka-tiered-storage/")
    true, copy = (Location("s3", bucket=name, prefix=place.name) for name in ("tiered", "backup"))
    stamp = Stamp("Kc0f-WwaSVGhMat3QDG9Pg", "local-tiered-storage", place.name, str(UUID(int=1)), true)
    found = [
        (PlaceLook(stamp.cluster_id, stamp.layout, place, copy, stamp.to_json()), RootExpectation()),
        (
            PlaceLook(stamp.cluster_id, stamp.layout, place, copy, None),
            RootExpectation(expected_root="5d7e3a52-4a9b-4c0e-9a52-0f0e1b2c3d4e"),
        ),
    ]
    for look, expectation in found:
        with pytest.raises(StorageRootError) as caught:
            look.judge(expectation, lambda: None)
        assert quoted(str(caught.value))
    samples = tuple(
        Sample(0, TopicIdPartition(UUID(int=topic_id), topic, partition), UUID(int=segment), place.name, (), 0)
        for topic_id, topic, partition, segment in ((7, "orders", 0, 1), (8, "payments", 3, 2))
    )
    check = RootCheck("", (PlaceCheck(place, true, None, None, ""),))
    for freshness in (Freshness(samples, samples), Freshness(())):
        with pytest.raises(StorageRootError) as caught:
            freshness.require([place.name], expected=(), to_paste=check.to_paste)
        assert quoted(str(caught.value))
    log = InProcessMetadataEventLog(1)
    for overrides in ((), ("short_min_absence",)):
        why = why_not_current(
            check, Freshness(samples), NOTHING_RECORDED, log, named=False, late=str, overrides=overrides
        )
        assert quoted(f"nothing is deleted: {why}")


def test_a_gateway_that_takes_no_notice_of_conditions(object_store: ObjectStoreServer) -> None:
    object_store.ignores_conditions = True
    with pytest.raises(ConfigurationError) as caught:
        create_file("s3://airflow/rlmm/plan-1/summary.json", [b"{}"])
    assert quoted(str(caught.value))


def test_a_python_that_opens_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/opt/environment/bin/python")
    with pytest.raises(ConfigurationError) as caught:
        require_client("s3://airflow/rlmm/segments-1")
    assert quoted(str(caught.value))


def test_a_store_that_hangs() -> None:
    with pytest.raises(StorageUnavailableError) as caught:
        Deadline(wait=lambda done, seconds: False).call("list kafka-tiered-storage/", lambda: None)
    assert quoted(str(caught.value))


def test_clocks_that_contradict_each_other() -> None:
    commit = TimeReading(f"an offset commit of group '{CLOCK_GROUP_ID}'", NOON_MS, NOON_MS + 25 * HOUR_MS)
    with pytest.raises(ClockSkewError) as caught:
        prove_time([lambda: commit], [], system_clock, required=True)
    assert quoted(str(caught.value))


def test_a_clock_that_nothing_proves() -> None:
    def denied() -> TimeReading:
        raise EventLogAccessError(
            f"committing offsets of group '{CLOCK_GROUP_ID}', brokers broker.example.com:9093: GROUP_AUTHORIZATION_FAILED: "
            "Broker: Group authorization failed; check the credentials and ACLs of the Kafka connection"
        )

    with pytest.raises(UnprovenClockError) as caught:
        prove_time([denied], [], system_clock, required=True)
    assert quoted(str(caught.value))
