# SPDX-License-Identifier: Apache-2.0
"""A topic in memory that records are restored into, and access to its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.log.answers import TargetTopic
from airflow_provider_rlmm.core.log.kafka import restore_target, restoring
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess, StorageSource
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from tests.access import OpenStorage, refuse
from tests.builders import CLUSTER_ID

RUN = RunIdentity("rlmm restore", "restore.1", "restore.1", "ada")
GONE_ID = "AAAAAAAAAAAAAAAAAAAABw"
SETTINGS: dict[str, int | bool | str] = {
    "message.timestamp.type": "CreateTime", "retention.ms": -1, "max.message.bytes": 1_000_000,
}  # fmt: skip


class Killed(BaseException):
    """The process ends here."""


@dataclass
class FakeTopic:
    """A topic in memory, in the place of the one in Kafka."""

    topic_id: UUID = field(default_factory=lambda: UUID(int=5))
    settings: dict[str, int | bool | str] = field(default_factory=lambda: dict(SETTINGS))
    rows: list[dict[str, Any]] = field(default_factory=list)
    spoil: Callable[[FakeTopic], object] = lambda topic: None
    later: Callable[[FakeTopic], object] = lambda topic: None

    dies_at: int | None = None  # the restore is killed once so many records are there
    writers: int = 0

    def take_the_place_of_kafkas(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(restore_target, "RestoreTarget", lambda *_: self)
        monkeypatch.setattr(restoring, "RestoringTopic", self._writer)

    def _writer(self, *_: object) -> Self:
        self.writers += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def look(self) -> TargetTopic:
        return TargetTopic("restored", self.topic_id, {0: 0}, {0: len(self.rows)}, self.settings)

    def write(self, partition: int, batches: Iterable[pa.RecordBatch], begin: int, max_message_bytes: int) -> int:
        assert (partition, begin, max_message_bytes) == (0, len(self.rows), 1_000_000)
        for row in (row for batch in batches for row in batch.to_pylist()):
            if self.dies_at is not None and len(self.rows) >= self.dies_at:
                raise Killed
            self.rows.append(row)
        self.spoil(self)
        return len(self.rows) - begin

    def read_back(self, partition: int, begin: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(self.rows[begin:end], schema)
        self.later(self)


@dataclass
class FakeAccess:
    """Settings and a cluster, in the place of a connection."""

    settings: RemoteLogSettings
    stopped: str | None = None
    storage: Callable[[], Any] = refuse
    work_uri: str = ""

    def get_connection_settings(self) -> RemoteLogSettings:
        return self.settings

    def check_cluster(self) -> str:
        return CLUSTER_ID

    def get_client_config(self) -> None:
        return None

    def get_storage(self) -> StorageAccess:
        settings = self.settings
        return OpenStorage(StorageSource(settings=lambda: settings, open_store=refuse), self.storage)

    def naming_connection(self) -> nullcontext[None]:
        return nullcontext()

    def read_stop(self) -> str | None:
        return self.stopped
