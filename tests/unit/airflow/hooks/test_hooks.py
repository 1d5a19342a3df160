# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import traceback
import uuid
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    ConfigurationError,
    EventLogAccessError,
    EventLogError,
    EventLogUnavailableError,
    OffsetOutOfRangeError,
    ReadAfterWriteError,
    StorageRootError,
    UnsafeEventError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.kafka.admin import MetadataTopicDescription, PartitionReplicas
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.hooks.connection import naming_connection
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.hooks.stores.access import store_access
from airflow_provider_rlmm.operators.connection_check import RemoteLogCheckOperator
from tests.contracts.s3_server import running_s3_server

SECRET = "s3cr3t"
LOGIN = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL", "sasl.password": SECRET}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def add(conn_id: str, conn_type: str, extra: dict[str, Any] | None = None, **fields: Any) -> None:
        document = {"conn_type": conn_type, "extra": extra or {}, **fields}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(document))

    return add


def test_a_hook_opens_nothing_when_it_is_built() -> None:
    # No such connection exists: asking for anything would fail.
    assert RemoteLogMetadataHook("nowhere").rlmm_conn_id == "nowhere"
    assert RemoteStorageHook().rlmm_conn_id == "rlmm_default"
    with pytest.raises(
        ConfigurationError, match="connection 'nowhere' does not exist: create it with type Kafka Remote Log Metadata"
    ):
        RemoteLogMetadataHook("nowhere").get_connection_settings()


def test_airflow_finds_the_hook_by_the_type_of_the_connection(connect: Any) -> None:
    assert RemoteLogMetadataHook.conn_name_attr == "rlmm_conn_id"
    connect("rlmm_default", "rlmm", {"layout": "x"})
    assert RemoteLogMetadataHook().get_connection_settings().layout == "x"


def test_the_kafka_connections_properties_reach_the_client(connect: Any) -> None:
    connect("rlmm_default", "rlmm", {"kafka_conn_id": "kafka_prod"})
    connect("kafka_prod", "kafka", LOGIN)
    config = RemoteLogMetadataHook().get_client_config()
    assert config.properties == LOGIN
    assert SECRET not in repr(config)


def test_what_others_say_about_a_connection_is_not_repeated_with_its_secrets(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    def fail(self: Any) -> None:
        raise ValueError(f"no login with {SECRET}")

    monkeypatch.setattr(KafkaBaseHook, "_build_config", fail)
    connect("rlmm_default", "rlmm")
    connect("kafka_default", "kafka", LOGIN)
    with pytest.raises(ConfigurationError, match=r"'kafka_default': no login with \*\*\*$") as caught:
        RemoteLogMetadataHook().get_client_config()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_missing_file_is_named_beside_its_connection(connect: Any) -> None:
    connect("rlmm_default", "rlmm")
    connect("kafka_default", "kafka", LOGIN | {"ssl.ca.location": "/nowhere/ca.pem"})
    with pytest.raises(
        ConfigurationError, match=r"^connection 'kafka_default': ssl.ca.location names '/nowhere/ca.pem'"
    ):
        RemoteLogMetadataHook().java_client_properties()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": "b:9092", "enable.auto.commit": True}, "enable.auto.commit must be"),
        ({"bootstrap.servers": "b:9092", "oauth_cb": "some.module.callback"}, "oauth_cb.*callback_allowlist"),
    ],
)
def test_a_useless_kafka_connection_is_named(connect: Any, extra: dict[str, Any], message: str) -> None:
    connect("rlmm_default", "rlmm", {"kafka_conn_id": "kafka_prod"})
    connect("kafka_prod", "kafka", extra)
    with pytest.raises(ConfigurationError, match=f"^connection 'kafka_prod': .*{message}"):
        RemoteLogMetadataHook().get_client_config()


def test_the_manager_is_configured_from_the_connection_and_kafkas_properties(connect: Any) -> None:
    connect("rlmm_default", "rlmm")
    connect("kafka_default", "kafka", LOGIN | {"linger.ms": 1})
    config = RemoteLogMetadataHook().get_manager_config(
        {"remote.log.metadata.topic.num.partitions": 5, "remote.log.metadata.producer.linger.ms": 2}
    )
    assert config.topic_num_partitions == 5
    assert config.client.producer(1)["linger.ms"] == 2
    assert config.client.producer(1)["sasl.password"] == SECRET
    assert SECRET not in repr(config)


def test_the_manager_reads_what_the_topic_says_about_its_partitions(connect: Any) -> None:
    connect("rlmm_default", "rlmm", {"allow_writes": True, "expected_cluster_id": "cluster-1"})
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    tip = TopicIdPartition(uuid.UUID(int=7), "orders", 0)
    log = InProcessMetadataEventLog(2)
    deletion = RemotePartitionDeleteMetadata(tip, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 1, OWN_BROKER_ID)
    log.append(metadata_partition_for(tip, 2), serialize(deletion))
    wait = {"remote.log.metadata.consume.wait.ms": 20_000}
    with RemoteLogMetadataHook().get_metadata_manager(log, wait) as manager:
        manager.on_partition_leadership_changes([tip], [])
        assert manager.await_ready([tip], timeout_s=20)
        assert manager.partition_delete_state(tip) is RemotePartitionDeleteState.DELETE_PARTITION_MARKED


@pytest.mark.parametrize(("allowed", "exists"), [(True, False), (True, True), (False, False)])
def test_the_manager_writes_about_absent_topics_where_the_connection_allows_writes(
    connect: Any, monkeypatch: pytest.MonkeyPatch, allowed: bool, exists: bool
) -> None:
    connect("rlmm_default", "rlmm", {"allow_writes": allowed, "expected_cluster_id": "cluster-1"})
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    tip = TopicIdPartition(uuid.UUID(int=7), "orders", 0)
    topics = InProcessClusterTopics({"orders": tip.topic_id} if exists else {}, cluster_id="cluster-1")
    monkeypatch.setattr(RemoteLogMetadataHook, "get_cluster_topics", lambda self: topics)
    log = InProcessMetadataEventLog(2)
    deletion = RemotePartitionDeleteMetadata(tip, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 1, OWN_BROKER_ID)
    home = metadata_partition_for(tip, 2)
    log.append(home, serialize(deletion))
    started = replace(deletion, state=RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
    with RemoteLogMetadataHook().get_metadata_manager(log) as manager:
        manager.reconcile_assignment([tip])
        assert manager.await_ready([tip], timeout_s=20)
        if allowed and not exists:
            assert manager.put_remote_partition_delete_metadata(started) == 1
        else:
            with pytest.raises(UnsafeEventError if allowed else WritesNotAllowedError):
                manager.put_remote_partition_delete_metadata(started)
    assert log.high_water_marks()[home] == 1 + (allowed and not exists)


def test_spark_gets_the_same_connection_in_javas_words(connect: Any) -> None:
    connect("rlmm_default", "rlmm")
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092", "security.protocol": "SSL", "group.id": "x"})
    assert RemoteLogMetadataHook().bootstrap_servers() == "b:9092"
    lines = RemoteLogMetadataHook().java_client_properties().splitlines()
    assert sorted(lines) == ["bootstrap.servers=b:9092", "security.protocol=SSL"]


def test_an_override_needs_an_expected_cluster(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connect("rlmm_default", "rlmm")
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    hook = RemoteLogMetadataHook()
    assert hook.check_cluster() == "cluster-1"
    with pytest.raises(ConfigurationError, match="set expected_cluster_id in the rlmm connection"):
        hook.check_cluster(frozenset({"short_min_age"}))


def test_writes_need_the_expected_cluster(connect: Any) -> None:
    connect("rlmm_default", "rlmm", {"allow_writes": True})
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    with pytest.raises(ConfigurationError, match=r"allow_writes needs expected_cluster_id.*prints the id to copy"):
        RemoteLogMetadataHook().get_publisher(InProcessMetadataEventLog(2))


def test_copies_need_the_leave_to_write(connect: Any) -> None:
    connect("rlmm_default", "rlmm", {"allow_copy": True, "expected_cluster_id": "cluster-1"})
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    with pytest.raises(ConfigurationError, match="allow_copy needs allow_writes"):
        RemoteLogMetadataHook().get_publisher(InProcessMetadataEventLog(2))


@pytest.mark.parametrize("allowed", [True, False])
def test_the_publisher_copies_only_where_the_connection_allows_it(connect: Any, allowed: bool) -> None:
    extra = {"allow_writes": True, "expected_cluster_id": "cluster-1"} | ({"allow_copy": True} if allowed else {})
    connect("rlmm_default", "rlmm", extra)
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    publisher = RemoteLogMetadataHook().get_publisher(InProcessMetadataEventLog(2))
    with nullcontext() if allowed else pytest.raises(WritesNotAllowedError, match="allow_copy is off"):
        publisher.require_copying("copy")


def test_a_missing_kafka_connection_is_named_beside_the_one_that_names_it(connect: Any) -> None:
    connect("rlmm_default", "rlmm", {"kafka_conn_id": "nowhere"})
    with pytest.raises(ConfigurationError, match="'rlmm_default': kafka_conn_id names 'nowhere', which does not exist"):
        RemoteLogMetadataHook().get_client_config()


def test_errors_of_the_cluster_name_the_connection_once() -> None:
    cause = OSError("refused")
    with (
        pytest.raises(EventLogUnavailableError, match=r"^connection 'k': no answer$") as caught,
        naming_connection("k"),
        naming_connection("k"),
    ):
        raise EventLogUnavailableError("no answer") from cause
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("error", [OffsetOutOfRangeError("gone", 3, 17), ReadAfterWriteError("no reply", ["unknown"])])
def test_an_error_that_holds_more_than_its_message_stays_what_it_is(error: EventLogError) -> None:
    held = dict(vars(error))
    with pytest.raises(type(error), match=r"^connection 'k': ") as caught, naming_connection("k"):
        raise error
    assert vars(caught.value) == held | {"connection": "k"}


# -- storage ---------------------------------------------------------------------------------------------------------


def test_the_storage_is_opened_from_the_connection(connect: Any, tmp_path: Path) -> None:
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri()})
    manager = RemoteStorageHook().get_storage_manager()
    assert isinstance(manager, ObjectStoreRemoteStorageManager)
    assert manager.list_objects() == []


def test_a_root_that_does_not_exist_is_an_error_and_not_an_empty_storage(connect: Any, tmp_path: Path) -> None:
    connect("rlmm_default", "rlmm", {"storage_uri": (tmp_path / "missing").as_uri()})
    with pytest.raises(StorageRootError, match="missing"):
        RemoteStorageHook().get_storage_manager()
    assert not (tmp_path / "missing").exists()


def test_a_missing_storage_connection_is_named(connect: Any, tmp_path: Path) -> None:
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri(), "storage_conn_id": "nowhere"})
    with pytest.raises(ConfigurationError, match="'rlmm_default': storage_conn_id names 'nowhere'"):
        RemoteStorageHook().get_storage_manager()


def test_an_unknown_layout_is_an_error(connect: Any, tmp_path: Path) -> None:
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri(), "layout": "flat"})
    with pytest.raises(ConfigurationError, match=r"'flat'.*local-tiered-storage"):
        RemoteStorageHook().get_storage_manager()


def storage_connection(**fields: Any) -> Connection:
    return Connection(conn_id="store", conn_type="generic", **fields)


def test_login_password_and_extra_become_the_stores_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    connection = storage_connection(
        login="key", password=SECRET, extra=json.dumps({"aws_region": "eu-1", "allow_http": True, "timeout": 3})
    )
    assert store_access("s3://bucket/x", connection).options == {
        "aws_access_key_id": "key",
        "aws_secret_access_key": SECRET,
        "aws_region": "eu-1",
        "allow_http": "true",
        "timeout": "3",
    }


@pytest.mark.parametrize(
    ("uri", "fields", "message"),
    [
        ("gs://bucket", {"login": SECRET, "password": SECRET}, "login and password mean nothing to a gs://"),
        ("s3://bucket", {"extra": SECRET}, "extra is not a JSON object"),
        ("s3://bucket", {"extra": json.dumps({"aws_region": [SECRET]})}, "aws_region in extra must be text"),
    ],
)
def test_a_useless_storage_connection_is_named_without_its_secrets(
    uri: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"'store': {message}") as caught:
        store_access(uri, storage_connection(**fields))
    assert SECRET not in str(caught.value)


# -- the form's button "Test" -------------------------------------------------------------------------------------------


TOPICS = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2)}


class FakeTopics:
    plugin = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"

    def broker_setting(self, name: str) -> dict[int, str | None]:
        return {1: self.plugin} if name == "remote.log.storage.manager.class.name" else {}

    def __init__(self, *, forbidden: bool = False, in_sync: int = 3, **settings: int | str) -> None:
        self._forbidden = forbidden
        self._in_sync = in_sync
        self._settings = {"cleanup.policy": "delete", "min.insync.replicas": 2, "retention.ms": -1} | settings

    def cluster_id(self) -> str:
        return "cluster-1"

    def topic_names(self) -> frozenset[str]:
        return frozenset(self.list_topics())

    def list_topics(self) -> dict[str, uuid.UUID]:
        if self._forbidden:
            raise EventLogAccessError("topic x may not be described")
        return TOPICS

    def describe_metadata_topic(self, topic: str) -> MetadataTopicDescription:
        replicas = tuple(PartitionReplicas(n, True, self._in_sync, 3) for n in range(5))
        return MetadataTopicDescription(uuid.uuid4(), 5, self._settings, frozenset({"READ", "DESCRIBE"}), replicas)

    def topic_settings(self, names: Any) -> dict[str, dict[str, Any]]:
        return {name: {"remote.storage.enable": name == "a", "retention.ms": 7_000} for name in names}


@pytest.fixture
def hook(connect: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteLogMetadataHook:
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri(), "expected_cluster_id": "cluster-1"})
    connect("kafka_default", "kafka", {"bootstrap.servers": "b:9092"})
    made = RemoteLogMetadataHook()
    monkeypatch.setattr(made, "get_cluster_topics", FakeTopics)
    return made


def test_all_is_well(hook: RemoteLogMetadataHook) -> None:
    good, text = hook.test_connection()
    assert good
    for sentence in (
        "Writing is off.",
        "Cluster cluster-1 answers at b:9092, as expected.",
        "Topic __remote_log_metadata has 5 partitions, one may DESCRIBE, READ.",
        "Its replicas, cleanup policy and retention are as they must be.",
        "2 topics may be described. Others would not show here: the principal needs DESCRIBE on every topic.",
        "can be listed, but nothing shows yet that it belongs to this cluster",
        "Deletion frees space at once: a folder keeps no versions.",
        "This test reads no topic, so it cannot tell whether this is the storage that brokers write to now: 'rlmm check',",
    ):
        assert sentence in text


def test_a_finding_fails_the_task_that_looks_for_more(
    hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemoteLogMetadataHook, "get_cluster_topics", lambda self: FakeTopics(forbidden=True))
    with pytest.raises(
        AirflowFailException, match=r"^1 of \d findings needs a person\. The first: .*topic x may not be"
    ):
        RemoteLogCheckOperator(task_id="check").execute({})


def test_a_root_of_this_cluster_is_recognised(hook: RemoteLogMetadataHook, tmp_path: Path) -> None:
    topic_id = TOPICS["a"]
    segment = f"kafka-tiered-storage/a-0-{kafka_uuid_str(topic_id)}/{0:020d}-{kafka_uuid_str(topic_id)}.log"
    (tmp_path / segment).parent.mkdir(parents=True)
    (tmp_path / segment).touch()
    good, text = hook.test_connection()
    assert good
    assert f"belongs to this cluster: {segment} is of topic id" in text
    assert "Its root id is not stamped yet at file://" in text

    manager = RemoteStorageHook().get_storage_manager()
    (stamp,) = manager.stamp_root(manager.check_root(frozenset({topic_id}), "cluster-1"))
    assert f"Its root id is {stamp.root_id} at file://" in hook.test_connection()[1]


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (
            DeletionEffect(Freed.NEVER, "it has versions", rule="set a rule", uploads="uploads are kept"),
            "Deleted objects are hidden, never freed: it has versions; set a rule. uploads are kept.",
        ),
        (
            DeletionEffect(Freed.REFUSED, "it is held", rule="have that ended"),
            "The store refuses deletion: it is held; have that ended.",
        ),
        (
            DeletionEffect(Freed.AT_ONCE, "it keeps nothing", refused="a blob has snapshots"),
            "Deletion frees space at once: it keeps nothing. a blob has snapshots.",
        ),
    ],
)
def test_what_deletion_cannot_do_in_a_bucket_is_a_finding(
    hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch, effect: DeletionEffect, said: str
) -> None:
    manager = RemoteStorageHook().get_storage_manager()
    monkeypatch.setattr(manager, "deletion_effect", lambda: effect)
    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", lambda self: manager)
    good, text = hook.test_connection()
    assert not good
    assert said in text


def test_another_root_than_the_expected_one_is_a_finding(
    hook: RemoteLogMetadataHook, connect: Any, tmp_path: Path
) -> None:
    expected = "6e5a9d51-37f0-4d9c-8f4b-1d2f3a4b5c6d"
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri(), "expected_root": expected})
    good, text = hook.test_connection()
    assert not good
    assert f"Expected_root of the rlmm connection is '{expected}', and there is no stamp" in text


def test_storage_options_in_any_spelling_do_not_break_the_test(
    hook: RemoteLogMetadataHook, connect: Any, tmp_path: Path
) -> None:
    with running_s3_server() as server:
        extra = {name.upper(): value for name, value in server.options.items()} | {
            "aws_timeout": "5s",
            "Http2_Only": False,
        }
        connect("rlmm_default", "rlmm", {"storage_uri": "s3://bucket/x", "storage_conn_id": "store"})
        connect("store", "generic", extra)
        good, text = hook.test_connection()
        assert good
        assert "Storage s3://bucket/x can be listed" in text
        connect("store", "generic", extra | {"AWS_READ_TIMEOUT": "whenever"})
        good, text = hook.test_connection()
        assert not good
        assert "Cannot open the storage at s3://bucket/x" in text


def test_another_cluster_is_refused(hook: RemoteLogMetadataHook, connect: Any, tmp_path: Path) -> None:
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri(), "expected_cluster_id": "other"})
    with pytest.raises(ClusterMismatchError, match="'cluster-1', expected 'other'"):
        hook.check_cluster()
    good, text = hook.test_connection()
    assert not good
    assert "Connected to cluster 'cluster-1', expected 'other'" in text
    assert "partitions" not in text


def test_missing_permissions_are_a_finding(hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "get_cluster_topics", lambda: FakeTopics(forbidden=True))
    good, text = hook.test_connection()
    assert not good
    assert "Connection 'kafka_default': topic x may not be described." in text
    assert "Topic __remote_log_metadata has 5 partitions" in text


def test_an_unhealthy_metadata_topic_is_a_finding(hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "get_cluster_topics", lambda: FakeTopics(in_sync=2, **{"retention.ms": 5_000}))
    good, text = hook.test_connection()
    assert not good
    assert "Topic __remote_log_metadata has retention.ms=5000, and topic a keeps its data for 7 s: " in text
    assert "of __remote_log_metadata have replicas that are not in sync (2 of 3 are): " in text
    assert "as they must be" not in text


def test_what_is_only_a_warning_does_not_fail_the_test(
    hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "get_cluster_topics", lambda: FakeTopics(in_sync=2))
    good, text = hook.test_connection()
    assert good
    assert "replicas that are not in sync (2 of 3 are)" in text


def test_writing_that_is_allowed_here_and_not_there_is_a_finding(
    hook: RemoteLogMetadataHook, connect: Any, tmp_path: Path
) -> None:
    connect("rlmm_default", "rlmm", {"storage_uri": tmp_path.as_uri(), "allow_writes": True})
    good, text = hook.test_connection()
    assert not good
    assert "WRITE is missing from the ACLs of Kafka connection 'kafka_default'" in text


def test_it_never_raises_and_shows_no_text_of_others(
    hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError(f"password={SECRET}")

    monkeypatch.setattr(hook, "get_cluster", fail)
    good, text = hook.test_connection()
    assert not good
    assert "The cluster cannot be checked (RuntimeError): look at its settings; the log of this process says" in text
    assert SECRET not in text


class Panic(BaseException):
    """As obstore's, which is no Exception."""


@pytest.mark.parametrize("error", [Panic, SystemExit, MemoryError, RecursionError])
@pytest.mark.parametrize("place", ["get_connection_settings", "check_cluster", "get_cluster_topics"])
def test_whatever_happens_becomes_a_sentence(
    hook: RemoteLogMetadataHook,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
    place: str,
) -> None:
    def fail() -> None:
        raise error(f"password={SECRET}")

    monkeypatch.setattr(hook, place, fail)
    good, text = hook.test_connection()
    assert not good
    assert f"cannot be checked ({error.__name__}): look at its settings" in text
    assert SECRET not in text + caplog.text
    assert "in fail" in caplog.text


def test_a_real_panic_of_the_storage_becomes_a_sentence(
    hook: RemoteLogMetadataHook, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obstore.store import from_url

    def panicking(*_: Any, **__: Any) -> Any:
        # An option of the client among the store's own.
        return from_url("s3://bucket", config={"aws_allow_http": "true"})

    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", panicking)
    good, text = hook.test_connection()
    assert not good
    assert "The storage cannot be checked (PanicException): look at its settings" in text
    assert "Cluster cluster-1 answers" in text


def test_the_layout_of_another_plugin_is_red(hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "whose layout is local-tiered-storage." in hook.test_connection()[1]
    monkeypatch.setattr(FakeTopics, "plugin", "com.example.Manager")
    good, text = hook.test_connection()
    assert good
    assert "The brokers run 'com.example.Manager'; nothing is known of whether" in text
    monkeypatch.setattr(FakeTopics, "plugin", "io.aiven.kafka.tieredstorage.RemoteStorageManager")
    good, text = hook.test_connection()
    assert not good
    assert "whose layout is aiven, and the connection's layout is local-tiered-storage" in text


def test_a_person_may_interrupt(hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hook, "get_cluster_topics", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hook.test_connection()


def test_a_sentence_is_one_line(hook: RemoteLogMetadataHook, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise EventLogUnavailableError("first\nsecond\u202e\ud800" + "x" * 3_000)

    monkeypatch.setattr(hook, "get_cluster_topics", fail)
    text = hook.test_connection()[1]
    assert r"first\nsecond\u202e\ud800xxx" in text
    assert "x" * 2_001 not in text


def test_a_connection_that_cannot_be_read_is_the_only_finding(connect: Any) -> None:
    connect("rlmm_default", "rlmm", {"allow_writes": "maybe"})
    assert RemoteLogMetadataHook().test_connection() == (
        False,
        "Connection 'rlmm_default': allow_writes must be true or false, not 'maybe'.",
    )
