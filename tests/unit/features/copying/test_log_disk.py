# SPDX-License-Identifier: Apache-2.0
"""A broker's disk: whose it is, what lies there, and whether a broker holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import LogDirectoryError
from airflow_provider_rlmm.features.copying.log_directory.broker_lock import kept_from_brokers
from airflow_provider_rlmm.features.copying.log_directory.disk import LogDisk
from airflow_provider_rlmm.features.copying.log_directory.names import TopicPartition
from tests.log_directories import CLUSTER_ID, HandmadeDisk, checkpoint

_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[None]:
    """An exclusive lock on ``.lock``, as a running broker has it."""
    command = [sys.executable, "-c", _HOLDER, str(path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate()


@pytest.fixture
def disk(tmp_path: Path) -> HandmadeDisk:
    return HandmadeDisk(tmp_path / "data")


def test_it_says_whose_it_is_and_what_lies_there(disk: HandmadeDisk) -> None:
    for name in ("orders-0", "orders-11", "with-dashes.and_dots-3", "__consumer_offsets-7"):
        disk.add(name)
    for name in ("__cluster_metadata-0", "orders-2.0123456789abcdef-delete", "orders-4.a-future", "orders-5.b-stray"):
        disk.add(name)
    (disk.path / "lost+found").mkdir()
    (disk.path / "replication-offset-checkpoint").write_text(checkpoint("orders 0 40", "orders 11 7"))
    (disk.path / "log-start-offset-checkpoint").write_text(checkpoint("orders 0 3"))
    (disk.path / "recovery-point-offset-checkpoint").write_text(checkpoint("orders 0 0"))
    (disk.path / "cleaner-offset-checkpoint").write_text("")

    found = LogDisk.open(disk.path)

    assert (found.cluster_id, found.node_id, found.directory_id) == (CLUSTER_ID, 1, UUID(int=7))
    assert not found.clean_shutdown
    assert found.partitions == (
        TopicPartition("__consumer_offsets", 7),
        TopicPartition("orders", 0),
        TopicPartition("orders", 11),
        TopicPartition("with-dashes.and_dots", 3),
    )
    assert set(found.passed_over) == {
        "__cluster_metadata-0",
        "orders-2.0123456789abcdef-delete",
        "orders-4.a-future",
        "orders-5.b-stray",
        "lost+found",
    }
    orders = TopicPartition("orders", 0)
    assert found.high_watermarks == {orders: 40, TopicPartition("orders", 11): 7}
    assert found.log_start_offsets == {orders: 3}
    assert found.recovery_points == {orders: 0}
    assert found.cleaned_offsets == {}


def test_the_properties_of_an_earlier_kafka_name_a_broker(tmp_path: Path) -> None:
    disk = HandmadeDisk(tmp_path, {"version": "0", "broker.id": "12", "cluster.id": "a\\:b"})
    (disk.path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":5}')
    found = LogDisk.open(disk.path)
    assert (found.cluster_id, found.node_id, found.directory_id, found.clean_shutdown) == ("a:b", 12, None, True)


def test_a_running_broker_s_disk_is_refused_and_one_that_died_is_not(disk: HandmadeDisk) -> None:
    with held_by_another_process(disk.path), pytest.raises(LogDirectoryError, match="held by a running broker"):
        LogDisk.open(disk.path)
    assert (disk.path / ".lock").exists()
    assert LogDisk.open(disk.path).cluster_id == CLUSTER_ID


def test_a_broker_cannot_start_during_the_block(disk: HandmadeDisk) -> None:
    (disk.path / ".lock").touch()
    command = [sys.executable, "-c", _HOLDER, str(disk.path / ".lock")]
    with kept_from_brokers(disk.path):
        refused = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert "BlockingIOError" in refused.stderr
    assert subprocess.run(command, input="", capture_output=True, check=False).returncode == 0


def test_a_broker_that_starts_meanwhile_is_noticed(disk: HandmadeDisk) -> None:
    with pytest.raises(LogDirectoryError, match="meanwhile"), kept_from_brokers(disk.path):
        (disk.path / ".lock").touch()


def test_a_lock_that_is_a_link_is_in_doubt(disk: HandmadeDisk) -> None:
    (disk.path / ".lock").symlink_to("elsewhere")
    with pytest.raises(LogDirectoryError, match="it cannot be told"):
        LogDisk.open(disk.path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("meta.properties", None, "none of a broker's log.dirs"),
        ("meta.properties", "version=1\nnode.id=1\n", "names no cluster.id"),
        ("meta.properties", "cluster.id=a\nnode.id=one\n", "'one' is no id of a broker"),
        ("meta.properties", "cluster.id=a\ndirectory.id=x\n", "'x' is no directory.id"),
        ("meta.properties", "cluster.id\n", "line 1 is 'cluster.id'"),
        ("meta.properties", b"cluster.id=\xff", "byte 11 is no UTF-8"),
        ("replication-offset-checkpoint", "1\n0\n", "line 1 is '1', not the version 0"),
        ("replication-offset-checkpoint", "0\n2\norders 0 5\n", "holds 1 entry, but says 2"),
        ("replication-offset-checkpoint", "0\nmany\norders 0 5\n", "line 2 is 'many'"),
        ("replication-offset-checkpoint", "0\n1\norders 0\n", "line 3 is 'orders 0'"),
        ("replication-offset-checkpoint", "0\n2\norders 0 5\norders 0 6\n", "line 4 is 'orders 0 6', not another"),
        ("log-start-offset-checkpoint", "0\n1\n../x 0 5\n", "line 3"),
    ],
)
def test_what_is_no_disk_or_a_damaged_one_is_refused(
    disk: HandmadeDisk, file: str, content: str | bytes | None, message: str
) -> None:
    (disk.path / file).unlink(missing_ok=True)
    if content is not None:
        (disk.path / file).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(LogDirectoryError, match=message) as refused:
        LogDisk.open(disk.path)
    assert str(disk.path) in str(refused.value)


def test_a_pipe_in_the_place_of_a_file_blocks_nobody(disk: HandmadeDisk) -> None:
    os.mkfifo(disk.path / "replication-offset-checkpoint")
    with pytest.raises(LogDirectoryError, match="no regular file"):
        LogDisk.open(disk.path)


def test_a_link_to_another_folder_is_passed_over(disk: HandmadeDisk, tmp_path: Path) -> None:
    disk.add("orders-0").rename(tmp_path / "elsewhere")
    (disk.path / "orders-0").symlink_to(tmp_path / "elsewhere")
    found = LogDisk.open(disk.path)
    assert found.partitions == ()
    assert "symbolic link" in found.passed_over["orders-0"]
