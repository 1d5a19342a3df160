# SPDX-License-Identifier: Apache-2.0
"""Producer, consumer and admin of ``__remote_log_metadata``, as settings describe them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from airflow_provider_rlmm.core.base.clock import Clock, ProvenClock, TimeBound, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.guards import check_cluster
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.world.proven_time import prove_time
from airflow_provider_rlmm.core.world.storage_plugin import PLUGIN_CLASS, compare_plugin

if TYPE_CHECKING:
    from uuid import UUID

    from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics
    from airflow_provider_rlmm.core.log.kafka.cluster import VerifiedCluster
    from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
    from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader
    from airflow_provider_rlmm.core.log.kafka.leader import KafkaLeader
    from airflow_provider_rlmm.core.log.kafka.leaders import KafkaLeaders
    from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore
    from airflow_provider_rlmm.core.log.kafka.tiered_topics import KafkaTieredTopics
    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader, MetadataLogWriter
    from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher

logger = logging.getLogger(__name__)

CLEANER_GROUP_ID = "airflow-remote-log-cleaner"
"""Consumer group that keeps the cleaner's offsets; it needs READ on it."""

CLOCK_GROUP_ID = f"{CLEANER_GROUP_ID}-clock"
"""Consumer group whose offset commits tell the brokers' time, and nothing else; READ on it is needed, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSource:
    """
    Where settings, login, kill switch and storage of a cluster come from; nothing is read before it is asked for.

    :param settings: see :meth:`RemoteLogAccess.get_connection_settings`.
    :param read_settings: see :meth:`RemoteLogAccess.read_connection_settings`.
    :param read_client_config: see :meth:`RemoteLogAccess.read_client_config`.
    :param login_owner: see :attr:`RemoteLogAccess.login_owner`.
    :param stop_switch: see :attr:`RemoteLogAccess.stop_switch`.
    :param read_stop: see :meth:`RemoteLogAccess.read_stop`.
    :param storage: see :meth:`RemoteLogAccess.get_storage`.
    :param naming: see :meth:`RemoteLogAccess.naming_connection`.
    :param watched: whether a person waits in front of a terminal: it is said after some seconds which brokers do not answer,
        and those where no broker listens are not waited for. A task waits, as it would not be started again at once.
    """

    settings: Callable[[], RemoteLogSettings]
    read_settings: Callable[[], RemoteLogSettings]
    read_client_config: Callable[[], KafkaClientConfig]
    login_owner: Callable[[], str]
    stop_switch: str
    read_stop: Callable[[], str | None]
    storage: Callable[[], StorageAccess]
    naming: Callable[[], AbstractContextManager[None]] = nullcontext
    watched: bool = False


class RemoteLogAccess:
    """
    Opens what settings name.

    :param source: where settings, login, kill switch and storage come from.
    """

    def __init__(self, source: RemoteLogSource) -> None:
        self._source = source
        self._cluster: VerifiedCluster | None = None

    def get_connection_settings(self) -> RemoteLogSettings:
        """
        Return the settings, read once.

        :raises ConfigurationError: naming the field.
        """
        return self._source.settings()

    def read_connection_settings(self) -> RemoteLogSettings:
        """
        Read the settings as they are now, for what may change while a task works: the hold.

        :raises ConfigurationError: naming the field.
        """
        return self._source.read_settings()

    @property
    def stop_switch(self) -> str:
        """Where a person sets the kill switch, in words."""
        return self._source.stop_switch

    def read_stop(self) -> str | None:
        """
        Read the kill switch as it is now.

        :return: why nothing may be written or deleted, ``None`` where it may.
        :raises Exception: if it cannot be read, of the reader's kind; that stops as well.
        """
        return self._source.read_stop()

    def read_client_config(self) -> KafkaClientConfig:
        """
        Return the properties of every client as they were written down.

        :raises ConfigurationError: if they cannot be used, or name a file that is not there.
        """
        return self._source.read_client_config()

    @property
    def login_owner(self) -> str:
        """What holds the login, for messages about missing rights."""
        return self._source.login_owner()

    def get_storage(self) -> StorageAccess:
        """Return what opens the storage of the same settings."""
        return self._source.storage()

    def naming_connection(self) -> AbstractContextManager[None]:
        """Return a context manager: errors of the cluster that leave its block say where the login comes from."""
        return self._source.naming()

    def get_cluster(self, request_timeout_s: float = 15.0) -> VerifiedCluster:
        """
        Ask every bootstrap address which cluster it is of, once for this object; all its clients go there.

        :param request_timeout_s: seconds until the first address must have answered.
        :raises ClusterMismatchError: if two addresses name different clusters, or it is not the expected one.
        :raises EventLogUnavailableError: if no broker answers.
        :raises EventLogAccessError: if a login fails.
        """
        from airflow_provider_rlmm.core.log.kafka.cluster import verify_cluster
        from airflow_provider_rlmm.core.log.kafka.listening import Listening

        if self._cluster is None:
            listening = Listening() if self._source.watched else None
            with self.naming_connection():
                cluster = verify_cluster(
                    self.read_client_config(), request_timeout_s=request_timeout_s, listening=listening
                )
            check_cluster(cluster.cluster_id, self.get_connection_settings().expected_cluster_id, frozenset())
            self._cluster = cluster
        return self._cluster

    def get_client_config(self) -> KafkaClientConfig:
        """
        Return the properties of every client: they start from the verified cluster's own addresses.

        :raises ClusterMismatchError: if the bootstrap addresses do not lead to one cluster, the expected one.
        :raises ConfigurationError: if the properties cannot be used, or name a file that is not there.
        """
        return self.get_cluster().config

    def get_event_log(self) -> KafkaMetadataLogReader:
        """
        Open the metadata topic for reading; close it after use, for writing take :meth:`get_publisher`.

        :raises MetadataTopicNotFoundError: if the topic does not exist.
        :raises EventLogUnavailableError: if no broker answers.
        :raises EventLogAccessError: if the login fails or an ACL forbids it.
        """
        from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader

        topic, cluster = self.get_connection_settings().metadata_topic, self.get_cluster()
        log = KafkaMetadataLogReader(cluster.config, topic, cluster_id=cluster.cluster_id)
        # Asked here, so that what is wrong with the login is said once, at the start, and names it.
        with self.naming_connection():
            logger.info("metadata topic %s has %d partitions", topic, log.partition_count)
        return log

    def get_publisher(
        self, log: MetadataLogReader | MetadataLogWriter, *, open_ahead: bool = False
    ) -> GuardedPublisher:
        """
        Return the write guard, the only way to write; it writes only where the settings allow writes.

        :param log: what :meth:`get_event_log` returned, or a session has made of it: then what was read is written down
            before anything is changed; a log that can be written to, such as the public fake, does as well.
        :param open_ahead: connect to the brokers in a thread, before the first batch.
        :raises ConfigurationError: if the settings allow writes and do not say to which cluster, or copies without writes.
        """
        from airflow_provider_rlmm.core.log.floored_log import FlooredLog
        from airflow_provider_rlmm.core.log.kafka.event_log import KafkaMetadataLogReader, KafkaMetadataLogWriter
        from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher

        settings = self.get_connection_settings()
        settings.check_writable()
        memory = log if isinstance(log, FlooredLog) else None
        written = log if memory is None else memory.log
        if isinstance(written, KafkaMetadataLogReader):
            writer = KafkaMetadataLogWriter(written)
            if open_ahead and settings.allow_writes:
                writer.open_ahead()
            written = writer
        return GuardedPublisher(
            cast("MetadataLogWriter", written),
            allow_writes=settings.allow_writes,
            allow_copy=settings.allow_copy,
            memory=memory,
        )

    def get_cluster_topics(self) -> KafkaClusterTopics:
        """Return what the cluster says about its topics."""
        from airflow_provider_rlmm.core.log.kafka.admin import KafkaClusterTopics

        return KafkaClusterTopics(self.get_client_config(), self.get_connection_settings().metadata_topic)

    def get_tiered_topics(self) -> KafkaTieredTopics:
        """Return what looks for tiered topics by their settings alone: the metadata topic may be lost."""
        from airflow_provider_rlmm.core.log.kafka.tiered_topics import KafkaTieredTopics

        cluster = self.get_cluster()
        return KafkaTieredTopics(cluster.config, cluster.cluster_id)

    def open_leader(self, cluster_id: str) -> KafkaLeader:
        """
        Return what asks the living leaders of user partitions; close it after use.

        :param cluster_id: the cluster that must answer.
        """
        from airflow_provider_rlmm.core.log.kafka.leader import KafkaLeader

        topic = self.get_connection_settings().metadata_topic
        return KafkaLeader(self.get_client_config(), cluster_id, topic)

    def open_leaders(self, cluster_id: str, metadata_topic_id: UUID) -> KafkaLeaders:
        """
        Return what asks the living leaders of many user partitions in few requests; close it after use.

        :param cluster_id: the cluster that must answer.
        :param metadata_topic_id: id of its metadata topic.
        """
        from airflow_provider_rlmm.core.log.kafka.leaders import KafkaLeaders

        topic = self.get_connection_settings().metadata_topic
        return KafkaLeaders(self.get_client_config(), cluster_id, metadata_topic_id, topic)

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

        Where the settings allow writes a broker's clock is read: by a record in ``clock_topic`` if they name one, else by an
        offset commit of a group that serves nothing else. A dry run does the same: no program reads either.
        Without permission to write, or in a dry run that the brokers let do neither, the time is this worker's own, and the
        clock says that it is unproven.

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
        from airflow_provider_rlmm.core.log.kafka.broker_time import KafkaTime

        settings = self.get_connection_settings()
        kafka = KafkaTime(
            self.get_client_config(),
            group_id=CLOCK_GROUP_ID,
            metadata_topic=settings.metadata_topic,
            clock_topic=settings.clock_topic,
            worker_clock=worker_clock,
        )

        def prove() -> TimeProof:
            with self.naming_connection(), closing(kafka):
                return prove_time(
                    kafka.sources() if settings.allow_writes else [],
                    [partial(kafka.newest_metadata_record, log), lambda: bounds],
                    worker_clock,
                    required=settings.allow_writes and not dry_run,
                    overrides=overrides,
                )

        clock = ProvenClock(prove, worker_clock=worker_clock)
        logger.log(logging.INFO if clock.proof.proven else logging.WARNING, "%s", clock)
        return clock

    def get_offset_store(self) -> KafkaOffsetStore:
        """Return where the cleaner remembers which markers are settled."""
        from airflow_provider_rlmm.core.log.kafka.offsets import KafkaOffsetStore

        topic = self.get_connection_settings().metadata_topic
        return KafkaOffsetStore(self.get_client_config(), CLEANER_GROUP_ID, topic)

    def check_cluster(self, overrides: frozenset[str] = frozenset()) -> str:
        """
        Check that the bootstrap addresses reach the expected cluster.

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
        Compare the layout of the settings with the storage plugin that the brokers run.

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
            with settings.naming():
                raise ConfigurationError(answer.sentence)
        return answer.sentence
