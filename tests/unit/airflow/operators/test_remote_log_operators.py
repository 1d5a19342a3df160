# SPDX-License-Identifier: Apache-2.0
"""Reading remote segments by operator, and waiting for them, over the in-process log and an in-memory store."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, TaskDeferred

from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import (
    CatalogueError,
    ConfigurationError,
    OffsetNotInRemoteLogError,
    RemoteLogError,
    RemoteObjectNotFoundError,
    StorageUnavailableError,
    TopicInDoubtError,
)
from airflow_provider_rlmm.core.log.answers import OffsetsByTime
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.world.catalogue_reads import AuditedRange, CatalogueRead
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from airflow_provider_rlmm.operators.remote_log import RemoteLogReadOperator
from airflow_provider_rlmm.sensors.remote_log_copied import RemoteLogCopiedSensor
from tests.catalogued import CLUSTER, ID, CataloguedTopic, files_of
from tests.tiered_orders import ORDERS, START_MS, TieredOrders, batches, record
from tests.unit.airflow.operators.test_operators import connect

ALL = list(range(90))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TieredOrders:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    fake = TieredOrders()
    connect(monkeypatch, allow_writes=False, expected_cluster_id=None)
    put_behind(monkeypatch, fake)
    return fake


def put_behind(monkeypatch: pytest.MonkeyPatch, fake: TieredOrders) -> None:
    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(START_MS + 3_600_000, system_clock(), "a test", proven=True))

    monkeypatch.setattr(RemoteLogMetadataHook, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogMetadataHook, "check_cluster", lambda self, *_: "cluster-1")
    for hook, name, value in (
        (RemoteLogMetadataHook, "get_event_log", nullcontext(fake.log)),
        (RemoteLogMetadataHook, "get_cluster_topics", fake.topics),
        (RemoteStorageHook, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(hook, name, lambda self, value=value: value)


def context() -> Any:
    return {"ti": SimpleNamespace(), "dag_run": SimpleNamespace(dag_id="dag", run_id="run", start_date=None)}


def read(tmp_path: Path, **arguments: Any) -> tuple[dict[str, Any], dict[int, list[dict[str, Any]]]]:
    operator = RemoteLogReadOperator(
        task_id="read", **{"topic": "orders", "output_uri": str(tmp_path / "out"), **arguments}
    )
    told = operator.execute(context())
    files = {int(number): pq.read_table(one["file"]).to_pylist() for number, one in told["partitions"].items()}
    return told, files


def test_all_of_a_topic_is_read_and_the_log_stays_as_it_is(world: TieredOrders, tmp_path: Path) -> None:
    events = world.events
    told, files = read(tmp_path)
    assert files == {number: [record(offset).as_row() for offset in ALL] for number in (0, 1)}
    assert (told["records"], told["next_offsets"]) == (180, {"0": 90, "1": 90})
    assert told["bytes"] > 0
    assert world.events == events


@pytest.mark.parametrize(
    ("segments", "number"), [(3, 0), (3, 2), (1, 0)], ids=["the first", "the last", "the only one"]
)
def test_a_segment_whose_add_is_missing_shortens_nothing(
    monkeypatch: pytest.MonkeyPatch, world: TieredOrders, tmp_path: Path, segments: int, number: int
) -> None:
    put_behind(monkeypatch, TieredOrders(segments=segments, without_add={(1, number)}))
    with pytest.raises(TopicInDoubtError, match="incomplete history"):
        read(tmp_path, allow_incomplete=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"partitions": [1]}, {1: ALL}),
        ({"partitions": ["1", 0], "start_offsets": {0: 85, "1": 90}}, {0: ALL[85:], 1: []}),
        ({"end_offsets": {0: 3}, "start_time": START_MS + 2_000}, {0: ALL[2:3], 1: ALL[2:]}),
        ({"start_time": START_MS + 2_500, "end_time": START_MS + 60_000, "partitions": [0]}, {0: ALL[3:60]}),
        (
            {
                "start_time": datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(seconds=88),
                "end_time": None,
                "partitions": [0],
            },
            {0: ALL[88:]},
        ),
        ({"start_time": START_MS + 999_999, "partitions": [0]}, {0: []}),
        ({"topic": kafka_uuid_str(ORDERS[0].topic_id), "partitions": [0]}, {0: ALL}),
        ({"partitions": [0], "end_offsets": {0: 1_000}, "allow_incomplete": True}, {0: ALL}),
        ({"partitions": [0], "end_time": START_MS + 999_999, "allow_incomplete": "true"}, {0: ALL}),
    ],
)
def test_a_range_is_read(
    world: TieredOrders, tmp_path: Path, arguments: dict[str, Any], found: dict[int, list[int]]
) -> None:
    _, files = read(tmp_path, **arguments)
    assert {number: [row["offset"] for row in rows] for number, rows in files.items()} == found


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"end_offsets": {0: 91}}, OffsetNotInRemoteLogError, r"offset 90 of .*orders-0 is wanted.*0 to 89.*Wait"),
        ({"start_offsets": {1: 91}}, OffsetNotInRemoteLogError, r"offset 90 of .*orders-1 is wanted"),
        (
            {"end_time": START_MS + 90_000},
            OffsetNotInRemoteLogError,
            r"no record of .*orders-0 from the end of the range",
        ),
        ({"topic": "order"}, RemoteLogError, r"names no topic 'order', by name or by id"),
        ({"partitions": [0, 7]}, RemoteLogError, r"names no partitions \[7\] of 'orders'.*It names 2, from 0 to 1"),
        ({"partitions": [0], "start_offsets": {1: 0}}, ConfigurationError, r"start_offsets names partitions \[1\]"),
        (
            {"start_offsets": {0: 1}, "start_time": START_MS},
            ConfigurationError,
            "the start is given as an offset and as a time",
        ),
        ({"start_time": 5, "end_time": 4}, ConfigurationError, "the end, 4, lies before the start, 5"),
    ],
)
def test_what_is_not_there_fails_before_a_file_is_written(
    world: TieredOrders, tmp_path: Path, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        read(tmp_path, **arguments)
    assert not (tmp_path / "out").exists()


def test_a_name_that_was_used_twice_names_nothing(world: TieredOrders, tmp_path: Path) -> None:
    earlier = replace(ORDERS[0], topic_id=UUID(int=5))
    world.copy(earlier, batches(0, 1))
    ids = ", ".join(sorted(kafka_uuid_str(UUID(int=n)) for n in (5, 77)))
    with pytest.raises(RemoteLogError, match=f"'orders' is the name of 2 topic ids: {ids}. Give the id"):
        read(tmp_path)
    _, files = read(tmp_path, topic=kafka_uuid_str(earlier.topic_id))
    assert [row["offset"] for row in files[0]] == ALL[:10]


def test_a_partition_without_segments_leaves_a_file_without_rows(world: TieredOrders, tmp_path: Path) -> None:
    for segment in world.segments[3:]:
        world.update(segment, S.DELETE_SEGMENT_STARTED)
        world.update(segment, S.DELETE_SEGMENT_FINISHED)
    told, files = read(tmp_path)
    assert (told["records"], files[1]) == (90, [])
    assert pq.read_schema(told["partitions"]["1"]["file"]).names == ["offset", "timestamp", "key", "value", "headers"]
    with pytest.raises(OffsetNotInRemoteLogError, match="orders-1 has no segment in remote storage"):
        read(tmp_path, start_offsets={1: 5})


def test_an_object_that_is_gone_fails_the_task_and_leaves_no_file(world: TieredOrders, tmp_path: Path) -> None:
    keys = {key for key in world.storage.keys if "orders-1" in key and key.endswith(".log")}
    world.storage.delete_objects(keys)
    with pytest.raises((RemoteObjectNotFoundError, RemoteLogError)):
        read(tmp_path)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["partition-0.parquet"]


def test_what_an_earlier_read_returned_is_where_the_next_one_begins(world: TieredOrders, tmp_path: Path) -> None:
    told, _ = read(tmp_path)
    world.copy(ORDERS[0], batches(90, 1))
    again, files = read(tmp_path, start_offsets=told["next_offsets"])
    assert [row["offset"] for row in files[0]] == list(range(90, 100))
    assert (files[1], again["next_offsets"]) == ([], {"0": 100, "1": 90})


# --- the sensor -------------------------------------------------------------------------------------------------------


def sensor(**arguments: Any) -> RemoteLogCopiedSensor:
    return RemoteLogCopiedSensor(
        task_id="wait",
        **{"topic": "orders", "up_to": START_MS + 60_000, "poke_interval": 1, "timeout": 60, **arguments},
    )


def reach(world: TieredOrders, *offsets: OffsetsByTime) -> None:
    world.topics.offsets = dict(enumerate(offsets))


def test_all_that_lies_below_the_time_is_there(world: TieredOrders) -> None:
    reach(world, OffsetsByTime(0, 60, 500), OffsetsByTime(0, 90, 90))
    proof = sensor().execute(context())
    assert proof == {
        "topic_id": kafka_uuid_str(ORDERS[0].topic_id),
        "up_to_ms": START_MS + 60_000,
        "end_offsets": {"0": 60, "1": 90},
    }


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        (OffsetsByTime(0, 91, 500), "partition 1: offsets 90 to 90 are not in remote storage"),
        (OffsetsByTime(0, None, 95), "partition 1: offsets 90 to 94 are not in remote storage"),
        (OffsetsByTime(0, 60, 80), "goes beyond offset 79, where its leader's log ends"),
    ],
)
def test_what_is_not_copied_is_waited_for(world: TieredOrders, offsets: OffsetsByTime, said: str) -> None:
    reach(world, OffsetsByTime(0, 60, 500), offsets)
    with pytest.raises(AirflowSensorTimeout, match=said):
        sensor(deferrable=True, timeout=0).execute(context())
    sensor(partitions=[0]).execute(context())


def test_a_copy_lag_is_told_where_something_is_waited_for(world: TieredOrders) -> None:
    reach(world, OffsetsByTime(0, 60, 500), OffsetsByTime(0, 91, 500))
    world.topics.lags = {"orders": CopyLag(60_000, -1), "others": CopyLag(-1, -1)}
    with pytest.raises(
        AirflowSensorTimeout, match=r"have one: 'orders' \(copied late: remote.copy.lag.ms=60000"
    ) as late:
        sensor(deferrable=True, timeout=0).execute(context())
    assert "others" not in str(late.value)
    world.topics.lags = {}
    with pytest.raises(AirflowSensorTimeout, match=r"remote storage$"):
        sensor(deferrable=True, timeout=0).execute(context())


def test_a_hole_below_the_time_is_waited_for(world: TieredOrders) -> None:
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        world.update(world.segments[1], state)
    reach(world, OffsetsByTime(0, 70, 500), OffsetsByTime(0, 0, 0))
    with pytest.raises(AirflowSensorTimeout, match="partition 0: offsets 30 to 69 are not in remote storage"):
        sensor(deferrable=True, timeout=0).execute(context())


def test_a_time_that_is_still_to_come_is_waited_for(world: TieredOrders) -> None:
    reach(world, OffsetsByTime(0, None, 90), OffsetsByTime(0, None, 90))
    with pytest.raises(AirflowSensorTimeout, match=r"is still to come"):
        sensor(deferrable=True, timeout=0, up_to=START_MS + 7_200_000).execute(context())
    sensor(up_to=START_MS + 3_600_000).execute(context())


def test_it_waits_in_the_triggerer_and_looks_again(world: TieredOrders) -> None:
    reach(world, OffsetsByTime(0, 91, 500))
    waiting = sensor(deferrable=True, poke_interval=7)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context())
    assert isinstance(deferred.value.trigger, TimeDeltaTrigger)
    assert deferred.value.method_name == "look_again"
    world.copy(ORDERS[0], batches(90, 1))
    proof = waiting.look_again(context(), None, **deferred.value.kwargs)
    assert proof["end_offsets"] == {"0": 91}


def test_a_topic_that_is_not_there_is_not_waited_for(world: TieredOrders) -> None:
    with pytest.raises(AirflowFailException, match="the cluster has no topic 'order'"):
        sensor(topic="order").execute(context())
    reach(world, OffsetsByTime(0, 0, 0))
    with pytest.raises(AirflowFailException, match=r"topic 'orders' has no partitions \[3\]"):
        sensor(partitions=[3]).execute(context())


def test_a_topic_of_which_brokers_tell_no_partition_is_waited_for(world: TieredOrders) -> None:
    """It is deleted at this moment, or a broker with old metadata was asked: nothing of it is no "all is there"."""
    reach(world)
    with pytest.raises(AirflowSensorTimeout, match="cluster or storage did not answer"):
        sensor(deferrable=True, timeout=0).execute(context())


def test_a_store_that_does_not_answer_is_waited_for(world: TieredOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> Any:
        raise StorageUnavailableError("no answer")

    monkeypatch.setattr(RemoteStorageHook, "get_storage_manager", fail)
    reach(world, OffsetsByTime(0, 60, 500))
    with pytest.raises(AirflowSensorTimeout, match="cluster or storage did not answer"):
        sensor(deferrable=True, timeout=0).execute(context())


# --- by a catalogue ---------------------------------------------------------------------------------------------------


@pytest.fixture
def catalogued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CataloguedTopic:
    """A topic in a bucket; whoever asks a broker for anything fails."""
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    topic = CataloguedTopic(tmp_path, *(files_of(n, 30 * n) for n in range(3)))
    extra = {"storage_uri": topic.storage_uri, "layout": "aiven", "key_prefix": "kp/", "allow_catalogue": "orders"}
    connect(monkeypatch, allow_writes=False, expected_cluster_id=CLUSTER, kafka_conn_id="missing", **extra)
    return topic


def test_a_topic_of_a_lost_cluster_is_read_by_a_catalogue(catalogued: CataloguedTopic, tmp_path: Path) -> None:
    told, files = read(
        tmp_path, catalogue=catalogued.recover(), was_not_deleted=ID, start_offsets={0: 5}, end_offsets={"0": 80}
    )
    assert files == {0: [record(offset).as_row() for offset in ALL[5:80]]}
    assert (told["records"], told["next_offsets"]) == (75, {"0": 80})
    (written,) = catalogued.audit()
    found = CatalogueRead.from_json(written.read_text())
    assert (found.dag_id, found.what, found.topic_id) == ("dag", "RemoteLogReadOperator", ID)
    assert found.ranges == (AuditedRange(0, 5, 80, None, None),)


def test_by_a_catalogue_what_a_person_should_decide_fails_before_anything_is_written(
    catalogued: CataloguedTopic, tmp_path: Path
) -> None:
    catalogued.put(files_of(3, 30))
    catalogue = catalogued.recover()
    with pytest.raises(CatalogueError, match="may have been deleted: a bucket does not know it"):
        read(tmp_path, catalogue=catalogue)
    with pytest.raises(CatalogueError, match="nothing tells which of them the cluster counted"):
        read(tmp_path, catalogue=catalogue, was_not_deleted=[ID])
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigurationError, match="are about a catalogue"):
        read(tmp_path, was_not_deleted=[ID])
