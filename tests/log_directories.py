# SPDX-License-Identifier: Apache-2.0
"""Folders as brokers leave them, made by hand: small, and wrong in whatever way a test wants."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from tests.kafka_log import (
    ABORT_KEY,
    CONTROL,
    TRANSACTIONAL,
    Batch,
    log_of,
    offset_index,
    producer_snapshot,
    time_index,
    transaction_index,
)

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
TOPIC_ID = UUID(int=0x5EED)
SUFFIXES = (".log", ".index", ".timeindex")


def checkpoint(*lines: str) -> str:
    """A checkpoint file with some entries."""
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))


@dataclass
class HandmadeDisk:
    """One of a broker's ``log.dirs``, which every method changes."""

    path: Path
    properties: dict[str, str] = field(
        default_factory=lambda: {
            "version": "1",
            "cluster.id": CLUSTER_ID,
            "node.id": "1",
            "directory.id": kafka_uuid_str(UUID(int=7)),
        }
    )

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}" for name, value in self.properties.items()]
        (self.path / "meta.properties").write_text("\n".join(["#", "#Mon Nov 23 08:00:00 UTC 2026", *lines, ""]))

    def add(
        self,
        name: str,
        bases: tuple[int, ...] = (0,),
        *,
        topic_id: UUID = TOPIC_ID,
        epochs: tuple[tuple[int, int], ...] = ((0, 0),),
    ) -> Path:
        """A directory of a user partition, whose segments hold their names only."""
        folder = self.path / name
        folder.mkdir()
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {kafka_uuid_str(topic_id)}\n")
        (folder / "leader-epoch-checkpoint").write_text(checkpoint(*(f"{e} {o}" for e, o in epochs)))
        for base in bases:
            for suffix in SUFFIXES:
                content = b"" if suffix == ".timeindex" else f"{name}{base}{suffix}".encode()
                (folder / f"{base:020d}{suffix}").write_bytes(content)
        for base in bases[1:]:
            (folder / f"{base:020d}.snapshot").write_bytes(f"{name}{base}".encode())
        return folder

    def write(
        self,
        name: str,
        segments: Sequence[Sequence[Batch]],
        *,
        epochs: tuple[tuple[int, int], ...] = ((0, 0),),
        index_interval_bytes: int = 150,
        modified_ms: int = 1_700_000_500_000,
    ) -> Path:
        """
        A directory of a user partition as a broker leaves it, with the records, indexes and producer snapshots.

        :param segments: batches of each; an empty segment behind them is the one that the broker appends to.
        :param index_interval_bytes: Kafka's ``index.interval.bytes``.
        :param modified_ms: modification time of all its files.
        """
        folder = self.add(name, (), epochs=epochs)
        transactions = _Transactions()
        offset = _first_offset(segments[0][0])
        for batches in segments:
            indexes = _Indexes(offset)
            for batch in batches:
                indexes.append(batch, index_interval_bytes)
                transactions.append(batch)
            stem = folder / f"{offset:020d}"
            stem.with_suffix(".log").write_bytes(log_of(batches))
            stem.with_suffix(".index").write_bytes(offset_index(offset, indexes.offsets))
            stem.with_suffix(".timeindex").write_bytes(time_index(offset, indexes.closed_times()))
            if transactions.aborted:
                stem.with_suffix(".txnindex").write_bytes(transaction_index(transactions.aborted))
                transactions.aborted = []
            offset = _last_offset(batches[-1]) + 1
            snapshot = producer_snapshot(transactions.producers(), last_offsets=transactions.last_offsets)
            (folder / f"{offset:020d}.snapshot").write_bytes(snapshot)
        for suffix in SUFFIXES:
            (folder / f"{offset:020d}{suffix}").touch()
        for file in folder.iterdir():
            os.utime(file, ns=(0, modified_ms * 1_000_000))
        return folder


class _Indexes:
    """The entries that a broker adds while it appends (Kafka: ``LogSegment.append``)."""

    def __init__(self, base_offset: int) -> None:
        self.offsets: list[tuple[int, int]] = []
        self._times: list[tuple[int, int]] = []
        self._highest = (-1, base_offset)
        self._position = self._since_entry = 0

    def append(self, batch: Batch, interval_bytes: int) -> None:
        size = len(batch.to_bytes())
        timestamp = max((record.timestamp for record in batch.as_read()), default=-1)
        if timestamp > self._highest[0]:
            self._highest = (timestamp, _last_offset(batch))
        if self._since_entry > interval_bytes:
            self.offsets.append((_last_offset(batch), self._position))
            self._add_time()
            self._since_entry = 0
        self._position += size
        self._since_entry += size

    def closed_times(self) -> list[tuple[int, int]]:
        self._add_time()
        return self._times

    def _add_time(self) -> None:
        if self._highest[0] > (self._times[-1][0] if self._times else -1):
            self._times.append(self._highest)


class _Transactions:
    """Whose transactions are open, and which were aborted in the segment."""

    def __init__(self) -> None:
        self.aborted: list[tuple[int, int, int, int]] = []
        self._open: dict[int, int] = {}
        self.last_offsets: dict[int, int] = {}

    def append(self, batch: Batch) -> None:
        if not batch.attributes & TRANSACTIONAL:
            return
        producer_id, offset = batch.producer_id, _first_offset(batch)
        self.last_offsets.setdefault(producer_id, -1)
        if not batch.attributes & CONTROL:
            self.last_offsets[producer_id] = _last_offset(batch)
        if not batch.attributes & CONTROL:
            self._open.setdefault(producer_id, offset)
        elif (first := self._open.pop(producer_id, None)) is not None and batch.records[0].key == ABORT_KEY:
            self.aborted.append((producer_id, first, offset, min([*self._open.values(), offset + 1])))

    def producers(self) -> list[tuple[int, int]]:
        return [(producer_id, self._open.get(producer_id, -1)) for producer_id in sorted(self.last_offsets)]


def _first_offset(batch: Batch) -> int:
    return batch.records[0].offset if batch.base_offset is None else batch.base_offset


def _last_offset(batch: Batch) -> int:
    return batch.records[-1].offset if batch.last_offset is None else batch.last_offset
