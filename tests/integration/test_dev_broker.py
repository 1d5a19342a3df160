# SPDX-License-Identifier: Apache-2.0
"""The local Kafka that all other tests on a real broker stand on."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

import dev
from dev import DevEnvironmentError, formatter, tiering
from dev.broker import METADATA_TOPIC, BrokerError, LocalKafka, await_condition

pytestmark = pytest.mark.integration

LOG_SUFFIX = ".log"


def _listens(kafka: LocalKafka) -> bool:
    host, port = kafka.bootstrap_servers.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _states(lines: Iterable[str], topic: str) -> Counter[str]:
    return Counter(line.split("state=")[1].split(",")[0].rstrip("}") for line in lines if f":{topic}-" in line)


def _remote(kafka: LocalKafka, topic: str) -> dict[str, int]:
    return {path: size for path, size in tiering.remote_listing(kafka).items() if path.startswith(f"{topic}-")}


# -- life --------------------------------------------------------------------------------------------------------------


@pytest.mark.scenarios
def test_address_identity_and_data_survive_stop_kill_and_a_new_instance(tmp_path: Path, kafka: LocalKafka) -> None:
    with LocalKafka(tmp_path / "data", metadata_partitions=2) as first:
        assert first.bootstrap_servers != kafka.bootstrap_servers, "two brokers live side by side"
        topic_id = tiering.create_tiered_topic(first, "kept", 2)
        assert "kept" not in tiering.topic_ids(kafka)
        assert len(list(first.log_dir.glob(f"{METADATA_TOPIC}-*"))) == 2
        pids = [first.pid]
    assert not first.alive
    assert not _runs(pids[0])
    assert not _listens(first)
    with pytest.raises(BrokerError, match="does not run"):
        _ = first.pid

    with LocalKafka(tmp_path / "data", metadata_partitions=2) as second:
        address = second.bootstrap_servers
        pids.append(second.pid)
        with pytest.raises(BrokerError, match="runs already"):
            second.start()
        second.kill()
        assert not second.alive
        assert not _runs(pids[1])
        second.restart()
        pids.append(second.pid)
        assert len(set(pids)) == 3
        assert second.bootstrap_servers == address
        assert second.cluster_id == first.cluster_id != kafka.cluster_id
        assert tiering.topic_ids(second)["kept"] == topic_id


@pytest.mark.rare
def test_a_failed_start_shows_the_log_and_leaves_no_process() -> None:
    broken = LocalKafka(properties={"remote.log.metadata.manager.class.name": "no.such.Manager"})
    with pytest.raises(BrokerError, match=r"(?s)ended while it started.*broker\.log.*ERROR.*no\.such\.Manager"):
        broken.start()
    assert not broken.alive
    assert not _listens(broken)


@pytest.mark.parametrize(("fault", "raised"), [(TimeoutError, BrokerError), (KeyboardInterrupt, KeyboardInterrupt)])
def test_an_interrupted_start_leaves_no_process(
    fault: type[BaseException], raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = []
    slow = LocalKafka()

    def interrupt(*_: object) -> None:
        pids.append(slow.pid)
        raise fault

    monkeypatch.setattr("dev.broker.await_condition", interrupt)
    with pytest.raises(raised):
        slow.start()
    assert [_runs(pid) for pid in pids] == [False]
    assert not slow.alive


@pytest.mark.rare
def test_a_forgotten_broker_ends_with_the_interpreter() -> None:
    program = "from dev.broker import LocalKafka; k = LocalKafka(); k.start(); print(k.pid, k.data_dir)"
    root = Path(dev.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    pid, folder = done.stdout.split()
    assert not _runs(int(pid))
    assert not Path(folder).exists()


# -- tiering -----------------------------------------------------------------------------------------------------------


def test_produced_segments_are_remote_and_served_from_there(kafka: LocalKafka) -> None:
    topic_id = tiering.create_tiered_topic(kafka, "produced", 2)

    assert tiering.produce_until_remote(kafka, "produced", 3) == {0: 3, 1: 3}
    assert tiering.produce_until_remote(kafka, "produced", 2) == {0: 3, 1: 3}, "what is there counts"

    listing = _remote(kafka, "produced")
    segments = Counter(path.split("/")[0] for path in listing if path.endswith(LOG_SUFFIX))
    kafka_id = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    assert segments == {f"produced-{p}-{kafka_id}": 3 for p in (0, 1)}
    assert all(size > 0 for path, size in listing.items() if path.endswith(LOG_SUFFIX))
    for read in tiering.consume_from_beginning(kafka, "produced").values():
        assert (read.first_offset, read.records) == (0, 3 * tiering.RECORDS_PER_SEGMENT)
        assert read.first_offset < read.local_start_offset <= read.end_offset

    for read in tiering.tiering_alive(kafka, "produced").values():
        assert read.records == 4 * tiering.RECORDS_PER_SEGMENT
    assert _states(formatter.formatter_lines(kafka), "produced")["COPY_SEGMENT_FINISHED"] == 8
    assert len([path for path in _remote(kafka, "produced") if path.endswith(LOG_SUFFIX)]) == 8


@pytest.mark.scenarios
def test_scenario_b_orphans_every_segment_and_spares_the_others(kafka: LocalKafka) -> None:
    doomed_id = tiering.create_tiered_topic(kafka, "doomed", 4)
    tiering.create_tiered_topic(kafka, "spared", 1)
    tiering.produce_until_remote(kafka, "spared", 2)
    tiering.produce_until_remote(kafka, "doomed", 5)
    before, spared, pid = _remote(kafka, "doomed"), _remote(kafka, "spared"), kafka.pid

    assert tiering.provoke_scenario_b(kafka, "doomed") == doomed_id

    assert kafka.pid != pid
    assert doomed_id not in tiering.topic_ids(kafka).values()
    # By its start the new broker has deleted what it is ever going to: copying and serving go on, these files stay.
    assert {read.records for read in tiering.tiering_alive(kafka, "spared").values()} == {12}
    assert _remote(kafka, "doomed") == before
    assert _remote(kafka, "spared").items() > spared.items()
    states = _states(formatter.formatter_lines(kafka), "doomed")
    assert states == {"COPY_SEGMENT_STARTED": 20, "COPY_SEGMENT_FINISHED": 20}


def test_a_topic_without_remote_segments_proves_nothing(kafka: LocalKafka) -> None:
    tiering.create_tiered_topic(kafka, "local", 1, **{"local.retention.ms": "-2"})
    with pytest.raises(tiering.TieringError, match=r"local-0: .* still on the broker's own disk"):
        tiering.consume_from_beginning(kafka, "local", timeout=0.5)


@pytest.mark.scenarios
def test_a_poisoned_metadata_topic_is_noticed_and_wiping_makes_a_new_cluster(fresh_kafka: LocalKafka) -> None:
    kafka = fresh_kafka
    tiering.create_tiered_topic(kafka, "victim", 5)
    tiering.produce_until_remote(kafka, "victim", 1)
    # Two events per segment; a busy broker may try a copy again.
    assert len(formatter.formatter_lines(kafka)) >= 10
    producer = Producer(kafka.client_config())
    # All of them: the broker reads only those metadata partitions that its user partitions belong to.
    for metadata_partition in range(kafka.metadata_partitions):
        producer.produce(METADATA_TOPIC, b"\x09no metadata", partition=metadata_partition)
    assert producer.flush(10) == 0

    with pytest.raises(
        formatter.FormatterError, match=r"did not print 5 of \d\d records .*partition 4 offset \d+\nERROR"
    ):
        formatter.formatter_lines(kafka)
    with pytest.raises(tiering.TieringError, match="not all in remote storage"):
        tiering.tiering_alive(kafka, "victim", timeout=3)

    address, cluster_id = kafka.bootstrap_servers, kafka.cluster_id
    with pytest.raises(BrokerError, match="stop the broker"):
        kafka.wipe()
    kafka.kill()
    kafka.wipe()
    assert not kafka.log_dir.exists()
    assert not kafka.remote_dir.exists()
    kafka.start()
    assert kafka.bootstrap_servers == address
    assert kafka.cluster_id != cluster_id
    assert formatter.formatter_lines(kafka) == []
    assert "victim" not in tiering.topic_ids(kafka)


# -- jars --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither jars nor Maven; the folder returned is the whole search path, and holds ``java`` alone."""
    java = Path(dev.java_executable())
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "java").symlink_to(java)
    monkeypatch.setattr(dev, "LIB_FOLDER", tmp_path / "lib")
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return commands


def test_missing_java_and_maven_are_said_in_one_line(bare_machine: Path) -> None:
    with pytest.raises(DevEnvironmentError, match="apt install maven") as maven:
        dev.ensure_jars()
    (bare_machine / "java").unlink()
    with pytest.raises(DevEnvironmentError, match="apt install openjdk-17") as java:
        dev.ensure_jars()
    assert "\n" not in str(maven.value) + str(java.value)


def test_an_old_java_is_refused(bare_machine: Path) -> None:
    (bare_machine / "java").unlink()
    _script(bare_machine / "java", """echo 'openjdk version "11.0.2"' >&2""")
    with pytest.raises(DevEnvironmentError, match="is Java 11: install Java 17"):
        dev.ensure_jars()


def test_jars_are_fetched_once_and_again_when_the_pom_changes(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{bare_machine}:/usr/bin:/bin")
    pom = tmp_path / "pom.xml"
    pom.write_text("<project/>")
    monkeypatch.setattr(dev, "POM", pom)
    calls = tmp_path / "calls"
    _script(
        bare_machine / "mvn",
        f"""
        echo call >> {calls}
        for word in "$@"; do
            case "$word" in -DoutputDirectory=*) mkdir -p "${{word#*=}}" && : > "${{word#*=}}/x.jar";; esac
        done
        """,
    )
    with ThreadPoolExecutor(4) as pool:
        folders = {future.result() for future in [pool.submit(dev.ensure_jars) for _ in range(4)]}
    assert folders == {tmp_path / "lib" / "kafka"}
    assert calls.read_text().split() == ["call"], "those who waited for the lock found the work done"

    pom.write_text("<project></project>")
    dev.ensure_jars()
    assert len(calls.read_text().split()) == 2
    assert (tmp_path / "lib" / "kafka" / "x.jar").exists()


def test_a_failing_maven_leaves_the_jars_alone(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "lib" / "kafka"
    old.mkdir(parents=True)
    (old / "old.jar").touch()
    _script(bare_machine / "mvn", "echo '[ERROR] no such artifact'; exit 1")
    with pytest.raises(DevEnvironmentError, match=r"(?s)profile kafka.*no such artifact"):
        dev.ensure_jars()
    assert (old / "old.jar").exists()


def test_a_java_without_a_compiler_is_said_in_one_line(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "ensure_jars", lambda: tmp_path)
    (bare_machine / "java").unlink()
    _script(
        bare_machine / "java",
        """
        case "$1" in
            -version) echo 'openjdk version "17.0.2"' >&2;;
            *) echo 'java.lang.module.FindException: Module jdk.compiler not found'; exit 1;;
        esac
        """,
    )
    with pytest.raises(DevEnvironmentError, match="apt install openjdk-17-jdk-headless") as error:
        dev.ensure_java_classes()
    assert "\n" not in str(error.value)


@pytest.mark.rare
def test_the_fault_injector_is_compiled_once_and_again_when_its_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "java"
    sources.mkdir()
    monkeypatch.setattr(dev, "JAVA_SOURCES", sources)
    monkeypatch.setattr(dev, "ensure_jars", lambda: tmp_path)
    monkeypatch.setattr(dev, "LIB_FOLDER", tmp_path / "lib")
    (sources / "One.java").write_text("class One {}")
    compiled = dev.ensure_java_classes() / "One.class"
    first = compiled.stat().st_ino
    assert (dev.ensure_java_classes() / "One.class").stat().st_ino == first
    (sources / "One.java").write_text("class One { int x; }")
    dev.ensure_java_classes()
    assert compiled.stat().st_ino != first
    (sources / "One.java").write_text("class One {")
    with pytest.raises(DevEnvironmentError, match="reached end of file"):
        dev.ensure_java_classes()
    assert compiled.exists()


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_condition_that_never_holds_is_named() -> None:
    with pytest.raises(TimeoutError, match="the moon is full"):
        await_condition(lambda: False, "the moon is full", timeout=0.1)
