# SPDX-License-Identifier: Apache-2.0
"""
A real Kafka of one node (KRaft) with tiered storage, as a process of this one: formatted, started, killed, restarted, wiped.

Remote storage is Kafka's own ``LocalTieredStorage``, metadata are kept by its ``TopicBasedRemoteLogMetadataManager``.
"""

from __future__ import annotations

import base64
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from dev import ensure_jars, java_executable, kafka_class_path
from dev.patience import Patience

if TYPE_CHECKING:
    from confluent_kafka import Consumer

METADATA_TOPIC = "__remote_log_metadata"
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
META_PROPERTIES = "meta.properties"
"""In each log folder: which cluster and which node it belongs to. A checkpoint has the features of a new cluster."""
FAST_START = ("-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""JVM options for short lives. Benchmarks pass their own: ``TieredStopAtLevel=1`` forgoes the optimising compiler."""
CLASS_ARCHIVE = "classes.jsa"
"""Beside the jars, where ``dev.class_archive`` has made it: what JVMs know of their classes."""

_LOG4J = """\
appender.out.type=Console
appender.out.name=out
appender.out.target=SYSTEM_ERR
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
# These print their whole configuration for each client that the broker starts.
logger.config.name=org.apache.kafka.common.config.AbstractConfig
logger.config.level=WARN
logger.serverconfig.name=kafka.server.KafkaConfig
logger.serverconfig.level=WARN
"""

_FORMATTED: dict[tuple[object, ...], dict[str, bytes]] = {}
"""What Kafka's tool wrote into the log folder of the first broker of each kind in this process."""

COMPLAINT = re.compile(r"\] (ERROR|FATAL) |^(Caused by: )?[\w.$]+(Exception|Error)\b")
"""A line of the broker's log that says what went wrong."""

T = TypeVar("T")


class BrokerError(RuntimeError):
    """The broker did not start, ended by itself or did not stop; the message ends with what its log says."""


def await_condition(probe: Callable[[], T | None], what: str, timeout: float, interval: float = 0.05) -> T:
    """
    Ask again and again until the answer is true.

    :param probe: returns something true when the condition holds; what it raises ends the wait.
    :param what: names the condition in the error.
    :param timeout: seconds, of an idle machine (:class:`~dev.patience.Patience`).
    :param interval: seconds between two questions.
    :return: the first true answer.
    :raises TimeoutError: if there is none in time.
    """
    patience = Patience(timeout)
    while not (answer := probe()):
        if patience.over():
            raise TimeoutError(f"not within {timeout:.0f} s: {what}")
        time.sleep(interval)
    return answer


class LocalKafka:
    """
    One broker with its data folder; as a context manager it starts on entry and is gone after the block.

    Ports stay the same across :meth:`restart`, so clients reconnect. Several instances can live side by side.

    :param data_dir: holds logs, remote storage, configuration and the broker's log; a former instance's folder is taken
        over with its data. Default: a temporary folder, removed after the block.
    :param properties: broker properties that win over the ones set here.
    :param metadata_partitions: partitions of ``__remote_log_metadata``.
    :param jvm_options: options of the broker's JVM.
    :param class_path: folders of further classes for the broker.
    :param kafka_version: another Kafka than the one of ``dev/pom.xml``.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        metadata_partitions: int = 5,
        jvm_options: Sequence[str] = FAST_START,
        class_path: Sequence[Path] = (),
        kafka_version: str | None = None,
    ) -> None:
        self._temporary = data_dir is None
        self.data_dir = Path(tempfile.mkdtemp(prefix="rlmm-kafka-") if data_dir is None else data_dir).resolve()
        self.log_dir = self.data_dir / "logs"
        """The local log: one folder per partition."""
        self.remote_dir = self.data_dir / "remote"
        """Kafka's ``rsm.config.dir``."""
        self.remote_root = self.remote_dir / "kafka-tiered-storage"
        """What ``LocalTieredStorage`` makes of it; remote paths are relative to this folder."""
        self.log_path = self.data_dir / "broker.log"
        self.metadata_partitions = metadata_partitions
        self.cluster_id = self._stored_cluster_id() or _new_cluster_id()
        self._port, self._controller_port = free_ports(2)
        self._log_offset = 0
        self._properties = dict(properties or {})
        self._jvm_options = tuple(jvm_options)
        self._class_path = tuple(class_path)
        self._kafka_version = kafka_version
        self._process: subprocess.Popen[bytes] | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        # Runs when the interpreter ends, or when nobody holds this object any more.
        weakref.finalize(self, _clean_up, self._children, self.data_dir if self._temporary else None, os.getpid())

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the broker."""
        return f"127.0.0.1:{self._port}"

    @property
    def segment_bytes_setting(self) -> str:
        """Name of the topic setting for segments below 1 MiB: since Kafka 4.1 ``segment.bytes`` is not meant for them."""
        older = self._kafka_version is not None and [int(n) for n in self._kafka_version.split(".")[:2]] < [4, 1]
        return "segment.bytes" if older else INTERNAL_SEGMENT_BYTES

    @property
    def alive(self) -> bool:
        """Whether the broker's process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """
        Process id of the running broker.

        :raises BrokerError: if it does not run.
        """
        if self._process is None or not self.alive:
            raise BrokerError(f"the broker in {self.data_dir} does not run")
        return self._process.pid

    def client_config(self, **settings: str | int | float | bool) -> dict[str, str | int | float | bool]:
        """
        Configuration of a librdkafka client of this broker.

        :param settings: further ones, underscores in the place of dots.
        """
        # librdkafka reports every lost connection on stderr, and a killed broker loses them all.
        quiet: dict[str, str | int | float | bool] = {"bootstrap.servers": self.bootstrap_servers, "log_level": 2}
        return quiet | {key.replace("_", "."): value for key, value in settings.items()}

    def remote_objects(self) -> dict[str, int]:
        """
        Everything that the plugin keeps in remote storage; the broker need not run.

        :return: path, with slashes → size in bytes; the paths of ``LocalTieredStorage`` are relative to :attr:`remote_root`.
        """
        sizes: dict[str, int] = {}
        for folder, _, names in os.walk(self.remote_root):
            for name in names:
                path = Path(folder, name)
                try:
                    sizes[path.relative_to(self.remote_root).as_posix()] = path.stat().st_size
                except FileNotFoundError:
                    continue  # deleted since it was listed
        return sizes

    # -- life ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> LocalKafka:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._temporary:
            # Nobody will read these data again: an orderly end would only cost time.
            self.kill()
            shutil.rmtree(self.data_dir)
        else:
            self.stop()

    def start(self, timeout: float = 60.0) -> None:
        """
        Format the data folder if that has not been done, start the broker and return when it serves.

        It serves when its log says so, it answers a metadata request with its own cluster id, and it serves every
        partition of ``__remote_log_metadata`` (unless tiered storage is switched off in the properties).

        :param timeout: seconds, until its log says that it started and then until it serves.
        :raises BrokerError: if it runs already, ends, or is too late; with the tail of its log, and no process left.
        :raises DevEnvironmentError: if Java or Maven is missing.
        """
        if self.alive:
            raise BrokerError(f"the broker in {self.data_dir} runs already (pid {self.pid})")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        if self._stored_cluster_id() is None:
            self._format()
        self._log_offset = self.log_path.stat().st_size if self.log_path.exists() else 0
        try:
            self._launch()
            self._await_ready(timeout)
        except TimeoutError as error:
            self.kill()
            raise BrokerError(f"{error}; {self._log_tail()}") from error
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout: float = 120.0) -> None:
        """
        End the broker in an orderly way (SIGTERM). Does nothing if it does not run.

        :param timeout: seconds it has for that; the metadata clients of a busy one may wait 30 s for their last answers.
        :raises BrokerError: if it needs longer; it is killed then.
        """
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired as error:
                self.kill()
                message = f"the broker did not stop within {timeout:.0f} s and was killed; {self._log_tail()}"
                raise BrokerError(message) from error
        self._forget()

    def kill(self) -> None:
        """End the broker as a power failure would (SIGKILL). Does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._forget()

    def restart(self, timeout: float = 60.0) -> None:
        """
        Stop the broker if it still runs, then start it on the same ports and data.

        :param timeout: seconds for the start.
        :raises BrokerError: as :meth:`stop` and :meth:`start`.
        """
        self.stop()
        self.start(timeout)

    def wipe(self) -> None:
        """
        Remove all data, remote storage and log; the next start makes a new cluster with a new id on the same ports.

        :raises BrokerError: if the broker runs.
        """
        if self.alive:
            raise BrokerError(f"stop the broker (pid {self.pid}) before its data are removed")
        for folder in (self.log_dir, self.remote_dir):
            shutil.rmtree(folder, ignore_errors=True)
        self.log_path.unlink(missing_ok=True)
        self.cluster_id = _new_cluster_id()

    # -- command line tools ----------------------------------------------------------------------------------------

    def run_tool(self, main_class: str, *arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """
        Run one of Kafka's Java programs with its class path.

        :param main_class: fully qualified name.
        :param arguments: words of its command line.
        :param timeout: seconds.
        :return: the finished process; its exit code is not checked. Its log is on standard error.
        :raises subprocess.TimeoutExpired: if it needs longer.
        """
        command = self._java(main_class, *arguments, options=FAST_START)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    # -- details ---------------------------------------------------------------------------------------------------

    def _write_configuration(self) -> None:
        settings = self._default_properties() | self._properties
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.data_dir / "server.properties").write_text(lines)
        (self.data_dir / "log4j2.properties").write_text(_LOG4J)

    def _default_properties(self) -> dict[str, str]:
        remote = "org.apache.kafka.server.log.remote"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # After SIGKILL the new process waits until the session of the old one has run out.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "500",
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": f"{remote}.storage.LocalTieredStorage",
            "remote.log.storage.manager.impl.prefix": "rsm.config.",
            "rsm.config.dir": str(self.remote_dir),
            "rsm.config.delete.on.close": "false",
            "remote.log.metadata.manager.class.name": (f"{remote}.metadata.storage.TopicBasedRemoteLogMetadataManager"),
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
            "rlmm.config.remote.log.metadata.topic.num.partitions": str(self.metadata_partitions),
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
            "rlmm.config.remote.log.metadata.common.client.bootstrap.servers": self.bootstrap_servers,
            # Copying and local retention within about a second instead of minutes.
            "remote.log.manager.task.interval.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "500",
            "log.segment.delete.delay.ms": "1000",
        }

    def _stored_cluster_id(self) -> str | None:
        """Cluster id that the data folder was formatted with; None if it was not."""
        try:
            lines = (self.log_dir / META_PROPERTIES).read_text().splitlines()
        except FileNotFoundError:
            return None
        return next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))

    def _format(self) -> None:
        """Have Kafka's tool write what a new log folder holds, once for brokers of one kind: it is a JVM of its own."""
        settings = self._default_properties() | self._properties
        # A tool of another version, another node or other features would write something else.
        kind = (
            self._kafka_version,
            settings["node.id"],
            settings["process.roles"],
            tuple(sorted(self._properties.items())),
        )
        if kind not in _FORMATTED:
            self._run_format()
            files = [path for path in self.log_dir.rglob("*") if path.is_file()]
            _FORMATTED[kind] = {str(path.relative_to(self.log_dir)): path.read_bytes() for path in files}
            return
        for name, content in _FORMATTED[kind].items():
            path = self.log_dir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        ids = {"cluster.id": self.cluster_id, "directory.id": _new_cluster_id()}
        meta = self.log_dir / META_PROPERTIES
        meta.write_text(
            re.sub(r"(?m)^(cluster\.id|directory\.id)=.*$", lambda m: f"{m[1]}={ids[m[1]]}", meta.read_text())
        )

    def _run_format(self) -> None:
        configuration = str(self.data_dir / "server.properties")
        done = self.run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", configuration)
        if done.returncode != 0:
            raise BrokerError(f"the data folder {self.data_dir} could not be formatted: {done.stdout}{done.stderr}")

    def _java(self, main_class: str, *arguments: str, options: Sequence[str]) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.properties'}"
        class_path = os.pathsep.join([*kafka_class_path(self._kafka_version), *map(str, self._class_path)])
        archive = ensure_jars(self._kafka_version) / CLASS_ARCHIVE
        # One of another Java is ignored, and nothing said about it.
        shared = (
            [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=error:stderr"] if archive.exists() else []
        )
        return [java_executable(), *options, *shared, log4j, "-cp", class_path, main_class, *arguments]

    def _launch(self) -> None:
        command = self._java("kafka.Kafka", str(self.data_dir / "server.properties"), options=self._jvm_options)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.data_dir, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._children.append(self._process)

    def _forget(self) -> None:
        self._process = None
        self._children.clear()

    def _await_ready(self, timeout: float) -> None:
        def started() -> bool:
            if not self.alive:
                raise BrokerError(f"the broker ended while it started; {self._log_tail()}")
            with self.log_path.open("rb") as log:
                log.seek(self._log_offset)
                return b"Kafka Server started" in log.read()

        await_condition(started, "the broker's log says that it started", timeout)

        from confluent_kafka import Consumer, KafkaException

        tiered = self._properties.get("remote.log.storage.system.enable", "true") == "true"

        def serves() -> bool:
            if not self.alive:
                raise BrokerError(f"the broker ended while it started; {self._log_tail()}")
            try:
                metadata = client.list_topics(timeout=1.0)
            except KafkaException:
                return False
            if metadata.cluster_id != self.cluster_id:
                raise BrokerError(f"{self.bootstrap_servers} is served by another cluster, {metadata.cluster_id}")
            return not tiered or partitions_served(client, METADATA_TOPIC) > 0

        with Consumer(self.client_config(group_id="unused")) as client:
            await_condition(serves, f"the broker answers and serves {METADATA_TOPIC}", timeout)

    def complaints(self) -> list[str]:
        """Return the errors and exceptions that the broker has logged since its last start."""
        return [line for line in self._log_lines() if COMPLAINT.search(line)]

    def _log_tail(self) -> str:
        """What the log says of the last start: first its complaints, as what ends a broker is followed by a long shutdown."""
        if not self.log_path.exists():
            return "it wrote no log"
        last = self._log_lines()[-10:]
        return "\n".join([f"from {self.log_path}:", *self.complaints()[:10], "its last lines:", *last])

    def _log_lines(self) -> list[str]:
        with self.log_path.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace").splitlines()


def partitions_served(client: Consumer, topic: str) -> int:
    """
    How many partitions of a topic answer; metadata name a leader some time before that leader is ready to.

    :param client: any consumer of the broker, subscribed or not.
    :param topic: looked up in the full list, as asking for it by name could create it.
    :return: 0 if the topic does not exist, and also while one of its partitions does not answer yet.
    """
    from confluent_kafka import KafkaException, TopicPartition

    try:
        metadata = client.list_topics(timeout=5.0).topics.get(topic)
        partitions = [] if metadata is None else [TopicPartition(topic, p) for p in metadata.partitions]
        for partition in partitions:
            client.get_watermark_offsets(partition, timeout=5.0)
    except KafkaException:
        return 0
    return len(partitions)


def _new_cluster_id() -> str:
    """A random id in Kafka's form; Kafka does not accept ids that start with a dash as words of a command line."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _clean_up(children: Sequence[subprocess.Popen[bytes]], temporary: Path | None, owner: int) -> None:
    """Kill a broker that nobody stopped. A forked child inherits the object, yet the broker is not its own to end."""
    if os.getpid() != owner:
        return
    for process in children:
        process.kill()
        process.wait()
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """
    Ports of 127.0.0.1 that nobody listens on, below the range that the system takes for outgoing connections.

    A client that retries while the broker is down could otherwise be given the broker's own port as its source port, connect
    to itself, and keep the broker from binding it.
    """
    ports: list[int] = []
    while len(ports) < count:
        # A test's random seed must not hand two processes the same ports.
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
