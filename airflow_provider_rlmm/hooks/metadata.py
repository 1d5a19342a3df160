# SPDX-License-Identifier: Apache-2.0
"""Producer, consumer and admin of ``__remote_log_metadata``, as an Airflow connection describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.sdk import Connection

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.redaction import secrets_of, without_secrets
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess, RemoteLogSource
from airflow_provider_rlmm.hooks.connection import TYPE_NAME, RlmmHook, extra_of, naming_connection
from airflow_provider_rlmm.hooks.kill_switch import read_stop, stop_variables
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook, aread_named_connection, named_connection

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
    from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
    from airflow_provider_rlmm.core.log.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig
    from airflow_provider_rlmm.core.log.kafka.provisioning import ProvisionedTopic
    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader, ProvenLook
    from airflow_provider_rlmm.core.log.snapshot import Snapshot
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
    from airflow_provider_rlmm.library.topic_based import TopicBasedRemoteLogMetadataManager

__all__ = ["RemoteLogMetadataHook"]


class RemoteLogMetadataHook(RemoteLogAccess, RlmmHook):
    """
    Opens what a connection of type ``rlmm`` (:class:`~airflow_provider_rlmm.hooks.connection.RlmmHook`) names.

    The login is that of the Kafka connection: callbacks and managed logins are resolved by the official Kafka provider. The
    kill switch is the Airflow variables of :func:`~airflow_provider_rlmm.hooks.kill_switch.stop_variables`.

    :param rlmm_conn_id: id of the connection.
    """

    hook_name = TYPE_NAME
    # They say more than those of any access: which Airflow connections lead there.
    get_connection_settings = RlmmHook.get_connection_settings
    read_connection_settings = RlmmHook.read_connection_settings

    def __init__(self, rlmm_conn_id: str = DEFAULT_CONN_ID) -> None:
        RlmmHook.__init__(self, rlmm_conn_id)
        self._read_ahead: KafkaClientConfig | None = None

        def kafka_conn_id() -> str:
            return self.get_connection_settings().kafka_conn_id

        source = RemoteLogSource(
            settings=self.get_connection_settings,
            read_settings=self.read_connection_settings,
            read_client_config=self._read_client_config,
            login_owner=lambda: f"Kafka connection {kafka_conn_id()!r}",
            stop_switch="the Airflow variables " + " and ".join(stop_variables(rlmm_conn_id)),
            read_stop=partial(read_stop, rlmm_conn_id),
            storage=partial(RemoteStorageHook.beside, self),
            naming=lambda: naming_connection(kafka_conn_id()),
        )
        RemoteLogAccess.__init__(self, source)

    def get_remote_log_reader(
        self,
        log: MetadataLogReader,
        partitions: Collection[TopicIdPartition],
        *,
        bytes_per_second: int | None = None,
        index_cache_size_in_bytes: int | None = None,
        allowed_quarantine: frozenset[str] = frozenset(),
    ) -> RemoteLogReader:
        """
        Return what reads user partitions from remote storage, without a broker that serves them; see
        :class:`~airflow_provider_rlmm.features.reading.reader.RemoteLogReader`. The metadata topic is read at once.

        :param log: what :meth:`get_event_log` returned; keep it open while the reader is used.
        :param partitions: the user partitions, topic ids included.
        :param bytes_per_second: most bytes of logs that are fetched per second, ``None`` for no limit.
        :param index_cache_size_in_bytes: most bytes of indexes that are kept in memory, ``None`` for the default.
        :param allowed_quarantine: kinds of records that cannot be applied and are known not to be about these partitions.
        :raises TopicInDoubtError: if the metadata topic lost records, or has some that cannot be applied.
        :raises EventLogError: if the metadata topic cannot be read.
        :raises ConfigurationError: if the settings name no storage, or one that cannot be opened.
        """
        from airflow_provider_rlmm.features.reading.steps import remote_log_reader

        return remote_log_reader(
            log,
            self.get_storage().get_storage_manager(),
            partitions,
            bytes_per_second=bytes_per_second,
            index_cache_size_in_bytes=index_cache_size_in_bytes,
            allowed_quarantine=allowed_quarantine,
        )

    def _read_client_config(self) -> KafkaClientConfig:
        if self._read_ahead is not None:
            return self._read_ahead
        settings = self.get_connection_settings()
        return _client_config(named_connection(settings, "kafka_conn_id", settings.kafka_conn_id))

    async def read_ahead(self) -> None:
        """
        Read the connections that lead to the cluster without holding up an event loop: see the base class.

        :raises ConfigurationError: naming the connection and the field.
        """
        await super().read_ahead()
        settings = self.get_connection_settings()
        connection = await aread_named_connection(settings, "kafka_conn_id", settings.kafka_conn_id)
        self._read_ahead = _client_config(connection)

    def get_manager_config(
        self, properties: Mapping[str, Any] | None = None
    ) -> TopicBasedRemoteLogMetadataManagerConfig:
        """
        Return the settings of the topic-based manager on this connection.

        :param properties: Kafka's properties, such as ``remote.log.metadata.topic.num.partitions``; client properties among
            them win over the Kafka connection's.
        :raises ConfigurationError: naming the property.
        """
        from airflow_provider_rlmm.core.log.kafka.manager_config import TopicBasedRemoteLogMetadataManagerConfig

        connection = self.read_client_config().properties
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
        from airflow_provider_rlmm.core.world.cluster_look import look
        from airflow_provider_rlmm.library.publication import no_look
        from airflow_provider_rlmm.library.topic_based import TopicBasedRemoteLogMetadataManager

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
        from airflow_provider_rlmm.core.log.kafka.provisioning import provision_metadata_topic

        settings = self.get_connection_settings()
        config = self.get_manager_config(properties)
        if settings.allow_writes:
            settings.check_writable()
            self.get_cluster(config.initialization_retry_max_timeout_ms / 1000)
        with naming_connection(settings.kafka_conn_id):
            return provision_metadata_topic(config, allow_create=settings.allow_writes, topic=settings.metadata_topic)

    def bootstrap_servers(self) -> str:
        """Return the brokers that are asked first: comma-separated ``host:port``."""
        return self.get_client_config().bootstrap_servers

    def java_client_properties(self) -> str:
        """
        Return the Kafka connection as the text of a Java properties file, for Spark. It may hold secrets.

        :raises ConfigurationError: naming the connection and a property that Java clients do not have.
        """
        from airflow_provider_rlmm.core.log.kafka.config import java_client_properties

        with self.naming_connection():
            return java_client_properties(self.get_client_config().properties)

    def test_connection(self) -> tuple[bool, str]:
        """
        Look at cluster, metadata topic and storage without changing anything or reading a topic; never raises.

        :return: whether all is well, and one sentence per finding.
        """
        from airflow_provider_rlmm.core.runs.connection_check import READS_NO_TOPIC, ConnectionCheck

        findings = ConnectionCheck(self).findings()
        good = all(good for good, _ in findings)
        return good, " ".join([*(sentence for _, sentence in findings), *([READS_NO_TOPIC] if good else [])])


def _client_config(connection: Connection) -> KafkaClientConfig:
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, check_files

    with naming_connection(connection.conn_id):
        config = KafkaClientConfig(_librdkafka_properties(connection))
        check_files(config.properties)
    return config


def _librdkafka_properties(connection: Connection) -> dict[str, Any]:
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    class ResolvedProperties(KafkaBaseHook):
        """Stops where the other hooks of that provider would build their client, and reads nothing again."""

        @classmethod
        def get_connection(cls, conn_id: str) -> Connection:
            return connection

        def _get_client(self, config: dict[str, Any]) -> dict[str, Any]:
            return config

    extra = extra_of(connection)
    if not isinstance(extra.get("bootstrap.servers"), str):
        raise ConfigurationError("bootstrap.servers in extra must be a text: a comma-separated list of host:port")
    untyped: Any = ResolvedProperties
    try:
        properties: dict[str, Any] = untyped(connection.conn_id).get_conn
    except (ValueError, ImportError, RuntimeError) as e:
        # Text of others, which repeats values.
        raise ConfigurationError(without_secrets(str(e), secrets_of(extra))) from None
    return properties
