# SPDX-License-Identifier: Apache-2.0
"""A real Kafka of several nodes: KRaft processes on this machine that share one remote storage."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dev import ensure_java_classes, tiering
from dev.broker import FAST_START, METADATA_TOPIC, LocalKafka, await_condition
from dev.faults import StorageFaults, faulty_storage

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

SMALL = tuple("-Xmx512m" if option.startswith("-Xmx") else option for option in FAST_START)
"""JVM options for several brokers on one machine."""


class ClusterNode(LocalKafka):
    """
    One node: broker, and controller if it is among the voters.

    :param node_id: 1 or more.
    :param cluster: that it belongs to.
    """

    def __init__(self, node_id: int, cluster: LocalKafkaCluster) -> None:
        folder = cluster.data_dir / f"node-{node_id}"
        self.faults = StorageFaults(folder / "faults")
        """Of its own copies and deletions, in a cluster with faults."""
        super().__init__(
            folder,
            properties=(faulty_storage(folder / "faults") if cluster.with_faults else {}) | cluster.properties,
            metadata_partitions=cluster.metadata_partitions,
            jvm_options=SMALL,
            class_path=[ensure_java_classes()] if cluster.with_faults else (),
            kafka_version=cluster.kafka_version,
        )
        self.node_id = node_id
        self.remote_dir = cluster.data_dir / "remote"
        self.remote_root = self.remote_dir / "kafka-tiered-storage"
        self.cluster_id = cluster.cluster_id or self.cluster_id
        self._cluster = cluster

    @property
    def voter(self) -> str:
        """How the controllers' quorum names this node."""
        return f"{self.node_id}@127.0.0.1:{self._controller_port}"

    def _default_properties(self) -> dict[str, str]:
        voters = self._cluster.voters
        replicas = str(len(self._cluster.nodes))
        properties = super()._default_properties()
        if self not in voters:
            properties |= {"process.roles": "broker", "listeners": f"PLAINTEXT://{self.bootstrap_servers}"}
        return properties | {
            "node.id": str(self.node_id),
            "controller.quorum.voters": ",".join(node.voter for node in voters),
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            "rlmm.config.remote.log.metadata.topic.replication.factor": str(len(voters)),
            "rlmm.config.remote.log.metadata.common.client.bootstrap.servers": self._cluster.bootstrap_servers,
            # Long enough for a topic to be deleted before the controllers take a killed leader's partitions from it.
            "broker.session.timeout.ms": "6000",
            # Every partition soon returns to the node that is to lead it.
            "leader.imbalance.check.interval.seconds": "1",
            "leader.imbalance.per.broker.percentage": "0",
        }


class LocalKafkaCluster:
    """
    Several brokers; as a context manager they start together on entry and are gone, with their data, after the block.

    :param size: number of nodes.
    :param metadata_partitions: partitions of ``__remote_log_metadata``, each replicated to every voter.
    :param voters: how many of the nodes, the first ones, are controllers too and hold ``__remote_log_metadata``: the
        cluster goes on without the others. Default: all of them.
    :param properties: broker properties that win over the ones set here.
    :param with_faults: whether each node's storage has a fault injector of its own.
    :param kafka_version: another Kafka than the one of ``dev/pom.xml``.
    """

    def __init__(
        self,
        size: int = 3,
        *,
        metadata_partitions: int = 5,
        voters: int | None = None,
        properties: Mapping[str, str] | None = None,
        with_faults: bool = False,
        kafka_version: str | None = None,
    ) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="rlmm-cluster-")).resolve()
        self.metadata_partitions = metadata_partitions
        self.properties = dict(properties or {})
        self.with_faults = with_faults
        self.kafka_version = kafka_version
        self._voter_count = size if voters is None else voters
        self.cluster_id = ""
        self.nodes: list[ClusterNode] = []
        for node_id in range(1, size + 1):
            self.nodes.append(ClusterNode(node_id, self))
            self.cluster_id = self.nodes[0].cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every node."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    @property
    def voters(self) -> list[ClusterNode]:
        """The nodes that are controllers too."""
        return self.nodes[: self._voter_count]

    def __enter__(self) -> LocalKafkaCluster:
        try:
            # A node is ready when it finds a majority of the controllers, so none is without the others.
            with ThreadPoolExecutor(len(self.nodes)) as pool:
                for started in [pool.submit(node.start, 120.0) for node in self.voters]:
                    started.result()
            # The metadata topic exists by now, on the voters only.
            for node in self.nodes[self._voter_count :]:
                node.start(120.0)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def create_tiered_topic(self, name: str, replicas: Sequence[Sequence[int]], **config: str) -> UUID:
        """
        Create a topic as :func:`dev.tiering.create_tiered_topic` does, on the nodes given.

        :param name: topic.
        :param replicas: per partition the ids of its nodes, the one that is to lead it first.
        :param config: topic configuration, with Kafka's names; wins over :data:`dev.tiering.TIERED_TOPIC_CONFIG`.
        :return: the topic id.
        """
        from confluent_kafka.cimpl import NewTopic

        assignment = [list(nodes) for nodes in replicas]
        settings = tiering.TIERED_TOPIC_CONFIG | config
        topic = NewTopic(name, len(assignment), replica_assignment=assignment, config=settings)
        self._create(topic)
        for partition, nodes in enumerate(assignment):
            self.await_leader(name, partition, nodes[0])
        # One node may have told of it before another one knows.
        ids = [self._await_topic_id(node, name) for node in self.nodes if node.alive]
        return ids[0]

    def _create(self, topic: Any) -> None:
        """Create a topic, by a second request where the client forgot the node of the first, as it does while nodes start."""
        from confluent_kafka import KafkaError, KafkaException

        admin = self._admin()  # a client that nothing holds is gone before it has an answer
        try:
            admin.create_topics([topic])[topic.topic].result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._DESTROY_BROKER:
                raise
            again = admin.create_topics([topic])[topic.topic].exception(30)
            if again is not None and again.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise again from error

    def _await_topic_id(self, node: ClusterNode, name: str) -> UUID:
        return await_condition(lambda: tiering.topic_ids(node).get(name), f"node {node.node_id} knows topic {name}", 60)

    def delete_topic(self, name: str, timeout: float = 60.0) -> None:
        """
        Delete a topic; returns when the cluster has acknowledged it.

        :param name: topic.
        :param timeout: seconds.
        :raises TimeoutError: if it is not acknowledged in time.
        """
        from confluent_kafka import KafkaError, KafkaException

        def deleted() -> bool:
            # A broker that was just killed may still be named as the one to send this to, and a client sticks to it.
            admin = self._admin()
            try:
                admin.delete_topics([name], request_timeout=2)[name].result(10)
            except KafkaException as error:
                # By id: the controller had found the name when a request whose reply was lost took the topic away.
                gone = error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID)
                if not gone and error.args[0].code() != KafkaError._TIMED_OUT:
                    raise
                return gone
            return True

        await_condition(deleted, f"topic {name} is deleted", timeout)

    def living_node(self) -> ClusterNode:
        """Return any node that runs."""
        return next(node for node in self.nodes if node.alive)

    def await_leader(self, topic: str, partition: int, node_id: int, timeout: float = 60.0) -> None:
        """
        Wait until a node leads a partition and every replica of the partition is in sync.

        :param topic: topic.
        :param partition: partition.
        :param node_id: the node.
        :param timeout: seconds.
        :raises TimeoutError: if it does not come to that.
        """
        self._await_partition(
            topic,
            partition,
            lambda p: p.leader == node_id and set(p.isrs) == set(p.replicas),
            f"node {node_id} leads {topic}-{partition}, and all replicas are in sync",
            timeout,
        )

    def await_leads(self, topic: str, partition: int, node_id: int, timeout: float = 60.0) -> None:
        """
        Wait until a node leads a partition, whatever its other replicas do.

        :param topic: topic.
        :param partition: partition.
        :param node_id: the node.
        :param timeout: seconds.
        :raises TimeoutError: if it does not come to that.
        """
        what = f"node {node_id} leads {topic}-{partition}"
        self._await_partition(topic, partition, lambda p: p.leader == node_id, what, timeout)

    def await_metadata_topic(self, timeout: float = 60.0) -> None:
        """
        Wait until every replica of ``__remote_log_metadata`` is in sync.

        :param timeout: seconds.
        :raises TimeoutError: if it does not come to that.
        """
        for partition in range(self.metadata_partitions):
            self._await_partition(
                METADATA_TOPIC,
                partition,
                lambda p: p.leader >= 0 and set(p.isrs) == {node.node_id for node in self.voters},
                f"all replicas of {METADATA_TOPIC}-{partition} are in sync",
                timeout,
            )

    def _await_partition(
        self, topic: str, partition: int, condition: Callable[[Any], bool], what: str, timeout: float
    ) -> None:
        admin = self._admin()

        def holds() -> bool:
            known = admin.list_topics(timeout=10).topics.get(topic)
            return known is not None and partition in known.partitions and condition(known.partitions[partition])

        await_condition(holds, what, timeout, interval=0.2)

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})
