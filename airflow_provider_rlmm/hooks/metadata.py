# SPDX-License-Identifier: Apache-2.0
"""Producer, consumer and admin of ``__remote_log_metadata``, as an Airflow connection describes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.sdk import Connection

from airflow_provider_rlmm.clock import Clock, ProvenClock, TimeBound, TimeProof, system_clock
from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.hooks.connection import DEFAULT_CONN_ID, RlmmHook, extra_of, naming_connection
from airflow_provider_rlmm.hooks.storage import named_connection
from airflow_provider_rlmm.policy.guards import check_cluster
from airflow_provider_rlmm.policy.proven_time import prove_time
from airflow_provider_rlmm.policy.storage_plugin import PLUGIN_CLASS, compare_plugin
from airflow_provider_rlmm.redaction import secrets_of, without_secrets

if TYPE_CHECKING:
    from airflow_provider_rlmm.event_log.protocol import MetadataLogReader, MetadataLogWriter, ProvenLook
    from airflow_provider_rlmm.event_log.snapshot import Snapshot
    from airflow_provider_rlmm.event_log.write_guard import GuardedPublisher
    from airflow_provider_rlmm.kafka.admin import KafkaClusterTopics
    from airflow_provider_rlmm.kafka.cluster import VerifiedCluster
    from airflow_provider_rlmm.kafka.config import KafkaClientConfig
    from airflow_provider_rlmm.kafka.event_log import KafkaMetadataLogReader
    from airflow_provider_rlmm.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig
    from airflow_provider_rlmm.kafka.offsets import KafkaOffsetStore
    from airflow_provider_rlmm.kafka.provisioning import ProvisionedTopic
    from airflow_provider_rlmm.manager.topic_based import TopicBasedRemoteLogMetadataManager

CLEANER_GROUP_ID = "airflow-remote-log-cleaner"
"""Consumer group that keeps the cleaner's offsets; it needs READ on it."""

CLOCK_GROUP_ID = f"{CLEANER_GROUP_ID}-clock"
"""Consumer group whose offset commits tell the brokers' time, and nothing else; READ on it is needed, too."""


class RemoteLogMetadataHook(RlmmHook):
    """Opens what a connection of type ``rlmm`` (:class:`~airflow_provider_rlmm.hooks.connection.RlmmHook`) names."""

    hook_name = "Kafka Remote Log Metadata"

    def __init__(self, rlmm_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__(rlmm_conn_id)
        self._cluster: VerifiedCluster | None = None

    def naming_connection(self) -> AbstractContextManager[None]:
        """Return a context manager: errors of the cluster that leave its block name the Kafka connection."""
        return naming_connection(self.get_connection_settings().kafka_conn_id)

    def get_cluster(self, request_timeout_s: float = 15.0) -> VerifiedCluster:
        """
        Ask every address of the Kafka connection which cluster it is of, once for this hook; all its clients go there.

        :param request_timeout_s: seconds until the first address must have answered.
        :raises ClusterMismatchError: if two addresses name different clusters, or it is not the expected one.
        :raises EventLogUnavailableError: if no broker answers.
        :raises EventLogAccessError: if a login fails.
        """
        from airflow_provider_rlmm.kafka.cluster import verify_cluster

        if self._cluster is None:
            settings = self.get_connection_settings()
            with naming_connection(settings.kafka_conn_id):
                cluster = verify_cluster(self._connection_config(), request_timeout_s=request_timeout_s)
            check_cluster(cluster.cluster_id, settings.expected_cluster_id, frozenset())
            self._cluster = cluster
        return self._cluster

    def get_client_config(self) -> KafkaClientConfig:
        """
        Return the properties of every client: they start from the verified cluster's own addresses.

        :raises ClusterMismatchError: if the addresses of the Kafka connection do not lead to one cluster, the expected one.
        :raises ConfigurationError: if the Kafka connection does not exist, cannot be used, or names a file that is not there.
        """
        return self.get_cluster().config

    def _connection_config(self) -> KafkaClientConfig:
        """Read the Kafka connection; callbacks and managed logins are resolved by the official Kafka provider."""
        from airflow_provider_rlmm.kafka.config import KafkaClientConfig, check_files

        settings = self.get_connection_settings()
        connection = named_connection(settings, "kafka_conn_id", settings.kafka_conn_id)
        with naming_connection(settings.kafka_conn_id):
            config = KafkaClientConfig(_librdkafka_properties(connection))
            check_files(config.properties)
        return config

    def get_event_log(self) -> KafkaMetadataLogReader:
        """
        Open the metadata topic for reading; close it after use, for writing take :meth:`get_publisher`.

        :raises MetadataTopicNotFoundError: if the topic does not exist.
        :raises EventLogUnavailableError: if no broker answers.
        :raises EventLogAccessError: if the login fails or an ACL forbids it.
        """
        from airflow_provider_rlmm.kafka.event_log import KafkaMetadataLogReader

        settings = self.get_connection_settings()
        cluster = self.get_cluster()
        log = KafkaMetadataLogReader(cluster.config, settings.metadata_topic, cluster_id=cluster.cluster_id)
        # Asked here, so that what is wrong with the connection is said once, at the start, and names it.
        with naming_connection(settings.kafka_conn_id):
            self.log.info("metadata topic %s has %d partitions", settings.metadata_topic, log.partition_count)
        return log

    def get_manager_config(
        self, properties: Mapping[str, Any] | None = None
    ) -> TopicBasedRemoteLogMetadataManagerConfig:
        """
        Return the settings of the topic-based manager on this connection.

        :param properties: Kafka's properties, such as ``remote.log.metadata.topic.num.partitions``; client properties among
            them win over the Kafka connection's.
        :raises ConfigurationError: naming the property.
        """
        from airflow_provider_rlmm.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig

        connection = self._connection_config().properties
        return TopicBasedRemoteLogMetadataManagerConfig.from_properties(properties or {}, connection)

    def get_metadata_manager(
        self,
        log: KafkaMetadataLogReader,
        properties: Mapping[str, Any] | None = None,
        *,
        snapshot: Snapshot | None = None,
    ) -> TopicBasedRemoteLogMetadataManager:
        """
        Return Kafka's interface on the metadata topic; close it after use.

        Where the connection allows writes it writes steps of the deletion of topics that do not exist: each batch looks at
        the cluster for them, and passes the write guard. How long a topic must have been absent, and whether its objects are
        gone, is then the caller's business: marker and cleaner see to both.

        :param log: what :meth:`get_event_log` returned.
        :param properties: as for :meth:`get_manager_config`.
        :param snapshot: what is known of the topic already; consumption goes on behind it.
        :raises ConfigurationError: naming the property.
        :raises SnapshotRefusedError: if the snapshot is of another topic.
        """
        from airflow_provider_rlmm.lifecycle.cluster_look import look
        from airflow_provider_rlmm.manager.publication import no_look
        from airflow_provider_rlmm.manager.topic_based import TopicBasedRemoteLogMetadataManager

        def look_at(topic_id: UUID) -> ProvenLook:
            with self.naming_connection():
                return look(self.get_cluster_topics(), log, {topic_id: manager.names_of(topic_id)}).proof

        manager = TopicBasedRemoteLogMetadataManager(
            log,
            self.get_publisher(log),
            look_at=look_at if self.get_connection_settings().allow_writes else no_look,
            consume_wait_s=self.get_manager_config(properties).consume_wait_ms / 1000,
            snapshot=snapshot,
        )
        return manager

    def provision_metadata_topic(self, properties: Mapping[str, Any] | None = None) -> ProvisionedTopic:
        """
        Find the metadata topic; create it if it is absent and the connection allows writes.

        :param properties: as for :meth:`get_manager_config`.
        :raises MetadataTopicNotFoundError: if it is absent and the connection does not allow writes.
        :raises ConfigurationError: if the brokers refuse to create it like that, naming the property.
        :raises EventLogUnavailableError: if no broker answers.
        :raises EventLogAccessError: if the login fails or an ACL forbids it.
        """
        from airflow_provider_rlmm.kafka.provisioning import provision_metadata_topic

        settings = self.get_connection_settings()
        config = self.get_manager_config(properties)
        if settings.allow_writes:
            settings.check_writable()
            self.get_cluster(config.initialization_retry_max_timeout_ms / 1000)
        with naming_connection(settings.kafka_conn_id):
            return provision_metadata_topic(config, allow_create=settings.allow_writes, topic=settings.metadata_topic)

    def get_publisher(
        self, log: KafkaMetadataLogReader | MetadataLogWriter, *, open_ahead: bool = False
    ) -> GuardedPublisher:
        """
        Return the write guard, the only way to write; it writes only where the connection allows writes.

        :param log: what :meth:`get_event_log` returned; a log that can be written to, such as the public fake, does as well.
        :param open_ahead: connect to the brokers in a thread, before the first batch.
        :raises ConfigurationError: if the connection allows writes and does not say to which cluster.
        """
        from airflow_provider_rlmm.event_log.write_guard import GuardedPublisher
        from airflow_provider_rlmm.kafka.event_log import KafkaMetadataLogReader, KafkaMetadataLogWriter

        settings = self.get_connection_settings()
        settings.check_writable()
        if not isinstance(log, KafkaMetadataLogReader):
            return GuardedPublisher(log, allow_writes=settings.allow_writes)
        writer = KafkaMetadataLogWriter(log)
        if open_ahead and settings.allow_writes:
            writer.open_ahead()
        return GuardedPublisher(writer, allow_writes=settings.allow_writes)

    def get_cluster_topics(self) -> KafkaClusterTopics:
        """Return what the cluster says about its topics."""
        from airflow_provider_rlmm.kafka.admin import KafkaClusterTopics

        return KafkaClusterTopics(self.get_client_config(), self.get_connection_settings().metadata_topic)

    def get_proven_clock(
        self,
        log: MetadataLogReader,
        *,
        dry_run: bool = False,
        overrides: frozenset[str] = frozenset(),
        bounds: Sequence[TimeBound] = (),
        worker_clock: Clock = system_clock,
    ) -> ProvenClock:
        """
        Prove what time it is, say so in the log, and return a clock that goes by it.

        Where the connection allows writes a broker's clock is read: by a record in ``clock_topic`` if the connection names
        one, else by an offset commit of a group that serves nothing else. A dry run does the same: nobody reads either.
        Without leave to write, or in a dry run that the brokers let do neither, the time is this worker's own, and the clock
        says that it is unproven.

        :param log: what :meth:`get_event_log` returned: no time may be before what a broker has written there.
        :param dry_run: nothing will be written or deleted by this time.
        :param overrides: named overrides in force.
        :param bounds: what else is known, such as Airflow's own time of the run.
        :param worker_clock: this worker's own clock.
        :raises ClockSkewError: if two clocks contradict each other, here and from the clock's later proofs.
        :raises UnprovenClockError: if nothing proves the time, and writes are allowed.
        :raises ConfigurationError: if ``clock_topic`` does not exist or has not LogAppendTime.
        :raises EventLogUnavailableError: if no broker answers.
        """
        from airflow_provider_rlmm.kafka.broker_time import KafkaTime

        settings = self.get_connection_settings()
        kafka = KafkaTime(
            self.get_client_config(),
            group_id=CLOCK_GROUP_ID,
            metadata_topic=settings.metadata_topic,
            clock_topic=settings.clock_topic,
            worker_clock=worker_clock,
        )

        def prove() -> TimeProof:
            with naming_connection(settings.kafka_conn_id), closing(kafka):
                return prove_time(
                    kafka.sources() if settings.allow_writes else [],
                    [partial(kafka.newest_metadata_record, log), lambda: bounds],
                    worker_clock,
                    required=settings.allow_writes and not dry_run,
                    overrides=overrides,
                )

        clock = ProvenClock(prove, worker_clock=worker_clock)
        self.log.log(logging.INFO if clock.proof.proven else logging.WARNING, "%s", clock)
        return clock

    def get_offset_store(self) -> KafkaOffsetStore:
        """Return where the cleaner remembers which markers are settled."""
        from airflow_provider_rlmm.kafka.offsets import KafkaOffsetStore

        topic = self.get_connection_settings().metadata_topic
        return KafkaOffsetStore(self.get_client_config(), CLEANER_GROUP_ID, topic)

    def bootstrap_servers(self) -> str:
        """Return the brokers that are asked first: comma-separated ``host:port``."""
        return self.get_client_config().bootstrap_servers

    def java_client_properties(self) -> str:
        """
        Return the Kafka connection as the text of a Java properties file, for Spark. It may hold secrets.

        :raises ConfigurationError: naming the connection and a property that Java clients do not have.
        """
        from airflow_provider_rlmm.kafka.config import java_client_properties

        with self.naming_connection():
            return java_client_properties(self.get_client_config().properties)

    def check_cluster(self, overrides: frozenset[str] = frozenset()) -> str:
        """
        Check that the connection reaches the cluster that it expects.

        :param overrides: named overrides in force; any of them requires ``expected_cluster_id``.
        :return: id of the cluster.
        :raises ClusterMismatchError: if it is another one.
        :raises ConfigurationError: if an override is used and no cluster is expected.
        """
        cluster_id = self.get_cluster().cluster_id
        check_cluster(cluster_id, self.get_connection_settings().expected_cluster_id, overrides)
        return cluster_id

    def check_layout(self) -> str:
        """
        Compare the connection's layout with the storage plugin that the brokers run.

        :return: what was seen, in one sentence, also where nothing can be told.
        :raises ConfigurationError: if the plugin has another layout.
        :raises EventLogAccessError: if the login fails.
        :raises EventLogUnavailableError: if no broker answers.
        """
        settings = self.get_connection_settings()
        with self.naming_connection():
            classes = self.get_cluster_topics().broker_setting(PLUGIN_CLASS)
        answer = compare_plugin(settings.layout, classes)
        if answer.fits is False:
            with naming_connection(settings.conn_id):
                raise ConfigurationError(answer.sentence)
        return answer.sentence

    def test_connection(self) -> tuple[bool, str]:
        """
        Look at cluster, metadata topic and storage without changing anything; never raises.

        :return: whether all is well, and one sentence per finding.
        """
        from airflow_provider_rlmm.hooks.connection_check import ConnectionCheck

        findings = ConnectionCheck(self).findings()
        return all(good for good, _ in findings), " ".join(sentence for _, sentence in findings)


def _librdkafka_properties(connection: Connection) -> dict[str, Any]:
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    class ResolvedProperties(KafkaBaseHook):
        """Stops where the other hooks of that provider would build their client."""

        def _get_client(self, config: dict[str, Any]) -> dict[str, Any]:
            return config

    untyped: Any = ResolvedProperties
    try:
        properties: dict[str, Any] = untyped(connection.conn_id).get_conn
    except (ValueError, ImportError, RuntimeError) as e:
        # Text of others, which repeats values.
        raise ConfigurationError(without_secrets(str(e), secrets_of(extra_of(connection)))) from None
    return properties
