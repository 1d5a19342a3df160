# SPDX-License-Identifier: Apache-2.0
"""A real leader that passes seldom: `rlmm retention` is asked what it deletes next, then it is watched."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from airflow_provider_rlmm.cli.main import run
from dev import tiering
from dev.broker import LocalKafka, await_condition
from dev.faults import StorageFaults

PASS_MS = 10_000
"""Between two passes of a leader: long enough to ask in between."""

HOUR_MS = 3_600_000

VALUE = b"x" * (tiering.SEGMENT_BYTES // tiering.RECORDS_PER_SEGMENT - tiering.RECORD_OVERHEAD_BYTES)
"""So many bytes that :data:`dev.tiering.RECORDS_PER_SEGMENT` of them fill a segment."""

Ask = Callable[..., list[dict[str, Any]]]


@dataclass(frozen=True)
class Leading:
    """A broker, or one that knows its cluster, whose leaders pass seldom; and the faults of a leader's storage."""

    kafka: LocalKafka
    faults: StorageFaults
    tail: tiering.MetadataTail

    @property
    def admin(self) -> AdminClient:
        """
        A client that knows no broker yet but the one that is there: an older one may ask one that is not any more.

        It is to be held until it has answered: one that nobody holds ends at once.
        """
        return AdminClient(self.kafka.client_config())

    def segments(self, topic_id: UUID, partition: int = 0) -> dict[UUID, int]:
        """Segments that are copied and not deleted: id → end offset, inclusive."""
        self.tail.catch_up()
        return self.tail.finished(topic_id, partition)

    def set(self, topic: str, **configs: str) -> None:
        """Change settings of a topic, with underscores for dots."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        admin = self.admin
        admin.incremental_alter_configs([resource])[resource].result(60)

    def end(self, topic: str, partition: int = 0) -> int:
        """Where a log ends, exclusive."""
        place = TopicPartition(topic, partition)
        admin = self.admin
        return int(admin.list_offsets({place: OffsetSpec.latest()})[place].result(60).offset)

    def cut(self, topic: str, offset: int, partition: int = 0) -> None:
        """Let a log begin at an offset."""
        place = TopicPartition(topic, partition, offset)
        admin = self.admin
        admin.delete_records([place])[place].result(60)


@contextmanager
def leading_of(kafka: LocalKafka, faults: StorageFaults) -> Iterator[Leading]:
    """
    Follow what leaders do.

    :param kafka: running.
    :param faults: of a leader's storage.
    """
    with tiering.MetadataTail(kafka) as tail:
        yield Leading(kafka, faults, tail)


def asking(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], work: Path) -> Ask:
    """
    Return the command: it returns the lines that it prints.

    :param kafka: that it asks.
    :param work: its work folder.
    """
    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", kafka.bootstrap_servers)
    monkeypatch.setenv("RLMM_STORAGE_URI", kafka.remote_dir.as_uri())
    monkeypatch.setenv("RLMM_WORK_URI", str(work))

    def asked(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
        ended, printed = run(["retention", *arguments, "--json"]), capsys.readouterr()
        assert ended == code, printed
        return [json.loads(line) for line in printed.out.splitlines()]

    return asked


def write(leading: Leading, topic: str, ages_ms: list[int], partition: int = 0) -> None:
    """Fill a segment for each age, with records that are that old."""
    now_ms = int(time.time() * 1000)
    producer = Producer(leading.kafka.client_config(linger_ms=0, batch_num_messages=1))
    for age_ms in ages_ms:
        for _ in range(tiering.RECORDS_PER_SEGMENT):
            producer.produce(topic, VALUE, b"0", partition, timestamp=now_ms - age_ms)
    assert producer.flush(120) == 0


def copied(leading: Leading, topic: str, topic_id: UUID, count: int, partition: int = 0) -> dict[UUID, int]:
    """Wait until so many segments are copied."""
    return await_condition(
        lambda: found if len(found := leading.segments(topic_id, partition)) >= count else None,
        f"{topic} is copied",
        90,
    )


def all_copied(
    leading: Leading, topic: str, topic_id: UUID, besides: Iterable[UUID] = (), partition: int = 0
) -> dict[UUID, int]:
    """Wait until nothing of a log is on the disk only; the copies of a lost leader do not count."""
    end, lost = leading.end(topic, partition), set(besides)

    def found() -> dict[UUID, int] | None:
        segments = leading.segments(topic_id, partition)
        reached = max((to for segment, to in segments.items() if segment not in lost), default=-1)
        return segments if reached + 1 == end else None

    return await_condition(found, f"{topic} is copied up to {end}", 120)


def deleted_of(leading: Leading, topic_id: UUID, before: dict[UUID, int], count: int, partition: int = 0) -> set[UUID]:
    """Wait until the leader has deleted so many segments; return them."""

    def gone() -> set[UUID] | None:
        found = before.keys() - leading.segments(topic_id, partition).keys()
        return set(found) if len(found) >= count else None

    return await_condition(gone, f"{count} segments are deleted", 60)


def deleted_until_quiet(
    leading: Leading, topic_id: UUID, before: dict[UUID, int], count: int, pass_ms: int, partition: int = 0
) -> set[UUID]:
    """Wait until so many segments are gone, and then until a whole pass has taken no other one; return them."""
    if count:
        deleted_of(leading, topic_id, before, count, partition)
    gone, since = set[UUID](), time.monotonic()

    def quiet() -> bool:
        nonlocal gone, since
        now = set(before.keys() - leading.segments(topic_id, partition).keys())
        if now != gone:
            gone, since = now, time.monotonic()
        return time.monotonic() - since > 1.2 * pass_ms / 1000

    await_condition(quiet, "a pass deletes nothing", 300, interval=0.2)
    return gone


def ids(rows: list[dict[str, Any]]) -> set[UUID]:
    return {UUID(row["segment_id"]) for row in rows}


def say(request: pytest.FixtureRequest, topology: str, told: set[UUID], gone: set[UUID]) -> None:
    """Print how many segments a leader has deleted, and how many of them nobody was told of."""
    terminal: Any = request.config.pluginmanager.getplugin("terminalreporter")
    more = len(gone - told)
    terminal.write_line(f"\n{topology}: {len(told)} told, {len(gone)} deleted, {more} more than told")
