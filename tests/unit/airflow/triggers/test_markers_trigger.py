# SPDX-License-Identifier: Apache-2.0
"""The trigger that tells of markers which others write, over the in-process log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import Asset

from airflow_provider_rlmm.assets.markers import markers_asset
from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, RemotePartitionDeleteMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.triggers.markers import RemoteLogMarkersTrigger
from tests.builders import START_MS, Cluster, tip

CONTROLLER = 3
SOON_S = 20.0


def marker(topic_id: int = 7, partition: int = 0, *, broker_id: int = CONTROLLER, state: P = P.DELETE_PARTITION_MARKED):
    return RemotePartitionDeleteMetadata(tip("gone", partition, topic_id), state, START_MS, broker_id)


class Behind:
    """A cluster behind the hook: how often its log was opened, what is open, and by which threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = Cluster(3)
        self.opened = 0
        self.open: list[int] = []
        self.threads: set[str] = set()
        self.followed = 0
        self.down: Exception | None = None
        monkeypatch.setattr(RemoteLogMetadataHook, "get_event_log", lambda hook: self._log())
        self.cluster.log.on_effect = self._effect

    def _effect(self, name: str, detail: Any) -> None:
        if self.down:
            raise self.down
        if name != "publish":
            self.threads.add(threading.current_thread().name)
        self.followed += name == "high_water_marks"

    @contextmanager
    def _log(self) -> Any:
        if self.down:
            raise self.down
        self.opened += 1
        self.open.append(self.opened)
        number = self.opened
        yield self.cluster.log
        self.open.remove(number)


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Behind:
    monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm"}))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    return Behind(monkeypatch)


class Store:
    """What Airflow 3.3 keeps for a watcher."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.value

    async def aset(self, key: str, value: Any) -> None:
        json.dumps(value)
        self.value = value


def quick(store: Store | None = None, **options: Any) -> RemoteLogMarkersTrigger:
    trigger = RemoteLogMarkersTrigger(**{"poll_s": 0.01, "gather_s": 0.1} | options)
    trigger.asset_state_store = store
    return trigger


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(trigger: RemoteLogMarkersTrigger) -> AsyncIterator[list[Any]]:
    """Run a trigger as a triggerer does, to its cancellation; yields the payloads of its events as they come."""
    told: list[Any] = []

    async def consume() -> None:
        async for event in trigger.run():
            told.append(event.payload)  # noqa: PERF401 - the list is looked at while it grows

    task = asyncio.ensure_future(consume())
    try:
        yield told
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def first_event_of(trigger: RemoteLogMarkersTrigger, behind: Behind, then: Callable[[], object]) -> Any:
    """Return the payload of the first event, after something was done once the log is followed."""
    async with running(trigger) as told:
        await until(lambda: behind.followed > 1)
        then()
        await until(lambda: told)
    return told[0]


def test_a_marker_of_another_writer_is_told_of(behind: Behind) -> None:
    payload = asyncio.run(first_event_of(quick(), behind, lambda: behind.cluster.foreign(marker())))
    assert payload == {
        "connection": "rlmm_default",
        "cluster_id": "cluster-1",
        "markers": 1,
        "topics": 1,
        "topic_ids": [kafka_uuid_str(UUID(int=7))],
    }


def test_markers_of_a_while_are_one_event(behind: Behind) -> None:
    def write() -> None:
        for topic_id in (7, 8):
            for partition in range(3):
                behind.cluster.foreign(marker(topic_id, partition))

    payload = asyncio.run(first_event_of(quick(), behind, write))
    assert (payload["markers"], payload["topics"]) == (6, 2)


def test_what_is_ours_and_what_is_no_marker_is_not_told_of(behind: Behind) -> None:
    def write() -> None:
        behind.cluster.foreign(marker(5, broker_id=OWN_BROKER_ID))
        behind.cluster.foreign(marker(6, state=P.DELETE_PARTITION_STARTED))
        behind.cluster.segment(tip("busy", 0, 9), 0)
        behind.cluster.foreign(marker(7))

    payload = asyncio.run(first_event_of(quick(), behind, write))
    assert payload["topic_ids"] == [kafka_uuid_str(UUID(int=7))]


def test_what_was_there_before_is_not_told_of(behind: Behind) -> None:
    behind.cluster.foreign(marker(5))
    payload = asyncio.run(first_event_of(quick(), behind, lambda: behind.cluster.foreign(marker(7))))
    assert payload["markers"] == 1


def test_it_goes_on_where_it_was_left(behind: Behind) -> None:
    store = Store()

    async def restarted() -> Any:
        async with running(quick(store)):
            await until(lambda: store.value)
        before = store.value
        behind.cluster.foreign(marker(7))
        async with running(quick(store)) as told:
            await until(lambda: store.value != before)
        return told[0]

    assert asyncio.run(restarted())["markers"] == 1
    assert sum(store.value["offsets"].values()) == sum(behind.cluster.log.high_water_marks().values())


@pytest.mark.parametrize(
    "kept",
    [
        "nonsense",
        {"cluster_id": "cluster-2", "metadata_topic_id": "AAAAAAAAAAAAAAAAAAAABw", "offsets": {"0": 0}},
        {"cluster_id": "cluster-1", "metadata_topic_id": "AAAAAAAAAAAAAAAAAAAABw", "offsets": {"0": 0}},
        {"cluster_id": "cluster-1", "offsets": {"0": 0}},
    ],
)
def test_a_position_of_something_else_is_not_used(behind: Behind, kept: Any) -> None:
    for partition in range(3):
        behind.cluster.foreign(marker(5, partition))
    trigger = quick(Store(kept))
    payload = asyncio.run(first_event_of(trigger, behind, lambda: behind.cluster.foreign(marker(7))))
    assert payload["topic_ids"] == [kafka_uuid_str(UUID(int=7))]


def test_it_connects_anew_after_the_broker_was_away(behind: Behind, caplog: pytest.LogCaptureFixture) -> None:
    async def away() -> Any:
        async with running(quick()) as told:
            await until(lambda: behind.followed > 1)
            behind.down = EventLogUnavailableError("no broker answers")
            await until(lambda: "no broker answers" in caplog.text and not behind.open)
            behind.down = None
            behind.cluster.foreign(marker(7))
            await until(lambda: told)
        return told[0]

    with caplog.at_level(logging.INFO):
        assert asyncio.run(away())["markers"] == 1
    assert behind.opened == 2
    assert "'rlmm_default' is followed again" in caplog.text


def test_a_connection_that_cannot_be_used_does_not_end_it(
    behind: Behind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_RLMM_DEFAULT")

    async def repaired() -> Any:
        async with running(quick()) as told:
            await until(lambda: "connection 'rlmm_default' does not exist" in caplog.text)
            monkeypatch.setenv("AIRFLOW_CONN_RLMM_DEFAULT", json.dumps({"conn_type": "rlmm"}))
            await until(lambda: behind.followed > 1)
            behind.cluster.foreign(marker(7))
            await until(lambda: told)
        return told[0]

    assert asyncio.run(repaired())["markers"] == 1
    assert caplog.text.count("does not exist") == 1


def test_a_cancelled_trigger_closes_its_clients(behind: Behind) -> None:
    async def cancelled() -> None:
        async with running(quick()):
            await until(lambda: behind.followed > 1)
            assert behind.open == [1]
        await until(lambda: not behind.open)

    asyncio.run(cancelled())
    assert behind.opened == 1


def test_the_event_loop_reads_nothing_itself(behind: Behind) -> None:
    asyncio.run(first_event_of(quick(), behind, lambda: behind.cluster.foreign(marker())))
    assert {name.partition("_")[0] for name in behind.threads} == {"rlmm-trigger"}


def test_a_log_that_was_cut_off_is_followed_from_its_end_on(behind: Behind, caplog: pytest.LogCaptureFixture) -> None:
    store = Store()

    async def restarted() -> Any:
        async with running(quick(store)):
            await until(lambda: store.value)
        behind.followed = 0
        store.value["offsets"] = dict.fromkeys(store.value["offsets"], 10_000)
        return await first_event_of(quick(store), behind, lambda: behind.cluster.foreign(marker(7)))

    assert asyncio.run(restarted())["markers"] == 1
    assert "cannot be followed from offset 10000 on" in caplog.text


def test_it_can_be_made_again_from_what_it_says() -> None:
    path, arguments = RemoteLogMarkersTrigger("rlmm_x", 1.0, 2.0).serialize()
    assert path == "airflow_provider_rlmm.triggers.markers.RemoteLogMarkersTrigger"
    assert RemoteLogMarkersTrigger(**arguments).serialize() == (path, arguments)


@pytest.mark.parametrize(("conn_id", "name"), [("rlmm_default", "remote_log_markers"), ("x", "remote_log_markers__x")])
def test_each_connection_has_its_asset(conn_id: str, name: str) -> None:
    asset = markers_asset(conn_id)
    (watcher,) = asset.watchers
    assert isinstance(asset, Asset)
    assert (asset.name, watcher.name, watcher.trigger.rlmm_conn_id) == (name, name, conn_id)
