# SPDX-License-Identifier: Apache-2.0
"""Two clusters behind one list of addresses: no client may read the one while another asks the other for its topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations

import pytest

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, EventLogUnavailableError
from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
from airflow_provider_rlmm.core.log.kafka.cluster import verify_cluster
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataEventLog
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.operators.cleaner import MarkDeletedPartitionsOperator, PlanRemoteLogCleanupOperator
from dev.broker import LocalKafka, free_ports
from tests.integration.kafka_topics import config_of
from tests.integration.test_remote_log_cleaner import context

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def other() -> Iterator[LocalKafka]:
    with LocalKafka() as broker:
        yield broker


def both(kafka: LocalKafka, other: LocalKafka) -> Iterator[KafkaClientConfig]:
    """The same mistake in either order: which cluster a client takes is up to it."""
    for pair in permutations((kafka.bootstrap_servers, other.bootstrap_servers)):
        yield KafkaClientConfig({"bootstrap.servers": ",".join(pair)})


def test_addresses_of_two_clusters_are_refused_and_named(kafka, other):
    for config in both(kafka, other):
        with pytest.raises(ClusterMismatchError) as caught:
            verify_cluster(config)
        for broker in (kafka, other):
            assert f"{broker.bootstrap_servers} is of cluster {broker.cluster_id}" in str(caught.value)


def test_every_step_refuses_a_connection_to_two_clusters_before_it_does_anything(kafka, other, monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path))
    for config in both(kafka, other):
        for expected in (kafka.cluster_id, other.cluster_id):
            extra = {"allow_writes": True, "expected_cluster_id": expected, "storage_uri": kafka.remote_dir.as_uri()}
            for conn_id, conn_type, values in (
                ("KAFKA_DEFAULT", "kafka", {"bootstrap.servers": config.bootstrap_servers}),
                ("RLMM_DEFAULT", "rlmm", extra),
            ):
                monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id}", json.dumps({"conn_type": conn_type, "extra": values}))
            mark = MarkDeletedPartitionsOperator(task_id="mark", dry_run_only=True)
            for operator in (mark, PlanRemoteLogCleanupOperator(task_id="plan")):
                with pytest.raises(ClusterMismatchError, match="names different clusters"):
                    operator.execute(context("run"))
            good, text = RemoteLogMetadataHook().test_connection()
            assert not good
            assert "names different clusters" in text


def test_one_cluster_is_verified_and_its_own_addresses_are_used(kafka):
    verified = verify_cluster(config_of(kafka))
    assert verified.cluster_id == kafka.cluster_id
    assert verified.config.bootstrap_servers == kafka.bootstrap_servers
    assert (verified.answered, verified.silent) == ((kafka.bootstrap_servers,), ())


def test_an_address_that_does_not_answer_is_not_used(kafka):
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    config = KafkaClientConfig({"bootstrap.servers": f"{nobody},{kafka.bootstrap_servers}"})
    verified = verify_cluster(config, request_timeout_s=10)
    assert verified.config.bootstrap_servers == kafka.bootstrap_servers
    assert verified.silent == (nobody,)
    assert f"named by 1 of 2 given addresses, each asked alone: {kafka.bootstrap_servers}; " in str(verified)
    assert f"no answer from {nobody}" in str(verified)


def test_without_an_answer_there_is_no_cluster():
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(EventLogUnavailableError, match=nobody):
        verify_cluster(KafkaClientConfig({"bootstrap.servers": nobody}), request_timeout_s=2)


def test_a_client_that_reached_another_cluster_reads_and_writes_nothing(kafka, other):
    log = KafkaMetadataEventLog(config_of(kafka), cluster_id=other.cluster_id)
    high = log.high_water_marks()
    with pytest.raises(ClusterMismatchError, match="the producer of"):
        log.publish([(0, b"never written")])
    with pytest.raises(ClusterMismatchError, match="the subscription's consumer of"):
        log.subscribe({0: 0})
    assert log.high_water_marks() == high
    for partition, end in high.items():
        if end:
            with pytest.raises(ClusterMismatchError, match="the consumer of"):
                list(log.read(partition, 0, end))
    log.close()


def test_the_metadata_topics_of_two_clusters_have_different_ids(kafka, other):
    """It is what ties a look at the topics to the log that is read."""
    ids = {KafkaClusterTopics(config_of(broker)).describe_topics(()).metadata_topic_id for broker in (kafka, other)}
    assert len(ids) == 2
    assert KafkaMetadataEventLog(config_of(kafka)).topic_id in ids
