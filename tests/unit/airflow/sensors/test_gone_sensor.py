# SPDX-License-Identifier: Apache-2.0
"""The sensor of a topic that is gone, and the trigger that it waits in, over the in-process log and an in-memory store."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, TaskDeferred

from airflow_provider_rlmm.core.base.errors import ConfigurationError, EventLogUnavailableError, StorageUnavailableError
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.sensors.remote_log_gone import RemoteLogGoneSensor
from airflow_provider_rlmm.triggers.topic_gone import FINISHED, TIME, TROUBLE, TopicDeletionFinishedTrigger
from tests.builders import DAY_MS, START_MS, Cluster, deletion, tip, update
from tests.unit.airflow.operators.test_scrub_operators import open_without_offsets

GONE = UUID(int=7)
GONE_ID = kafka_uuid_str(GONE)
PARTITIONS = [tip("gone", number, 7) for number in range(3)]
SOON_S = 20.0


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    return tmp_path / "work"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, work: Path) -> Cluster:
    """A living topic, and a deleted one of three user partitions that nobody has cleaned yet."""
    fake = Cluster(2, layout=AivenLayout("kafka/"))
    fake.topics = InProcessClusterTopics({"alive": fake.alive.topic_id}, cluster_id="cluster-1")
    for partition in PARTITIONS:
        fake.segment(partition, 0)

    open_without_offsets(monkeypatch, fake)
    return fake


def finish(cluster: Cluster, partition: Any) -> None:
    """Clean a user partition as somebody else would."""
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        cluster.foreign(update(partition, 0, state))
    cluster.storage.delete_objects(cluster.keys_of(partition))
    for step in P:
        cluster.foreign(deletion(partition, step))


def context() -> Any:
    return {"ti": SimpleNamespace(), "dag_run": SimpleNamespace(dag_id="dag", run_id="run")}


def sensor(**arguments: Any) -> RemoteLogGoneSensor:
    return RemoteLogGoneSensor(task_id="gone", **{"topic_id": GONE_ID, "topic": "gone"} | arguments)


def deferred(task: RemoteLogGoneSensor, call: Callable[[], Any] | None = None) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        (call or (lambda: task.execute(context())))()
    return caught.value


# --- poke ---------------------------------------------------------------------------------------------------------------


def test_it_waits_until_the_last_partition_is_cleaned(cluster: Cluster) -> None:
    task = sensor()
    for partition in PARTITIONS:
        assert not task.poke(context()).is_done
        finish(cluster, partition)
    found = task.poke(context())
    assert found.is_done
    assert found.xcom_value == {
        "cluster_id": "cluster-1", "topic_id": GONE_ID, "topic": "gone", "user_partitions": 3, "finished_at_ms": START_MS,
    }  # fmt: skip
    assert task.execute(context()) == found.xcom_value


def test_nothing_is_written_to_the_log(cluster: Cluster) -> None:
    for partition in PARTITIONS:
        finish(cluster, partition)
    before = dict(cluster.log.high_water_marks())
    assert sensor().poke(context())
    assert dict(cluster.log.high_water_marks()) == before


@pytest.mark.parametrize("error", [EventLogUnavailableError("no broker"), StorageUnavailableError("slow down")])
def test_what_does_not_answer_is_not_gone(cluster: Cluster, error: Exception) -> None:
    for partition in PARTITIONS:
        finish(cluster, partition)

    def fail(*_: Any) -> None:
        raise error

    what: Any = cluster.log if isinstance(error, EventLogUnavailableError) else cluster.storage
    what.on_effect = fail
    task = sensor()
    assert not task.poke(context())
    what.on_effect = lambda *_: None
    assert task.poke(context())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topic_id": kafka_uuid_str(UUID(int=70)), "topic": None}, "has never named it"),
        ({"topic": "alive"}, "is not of topic 'alive'"),
    ],
)
def test_a_wrong_id_fails_for_good(cluster: Cluster, arguments: dict[str, Any], message: str) -> None:
    for deferrable in (False, True):
        with pytest.raises(AirflowFailException, match=message):
            finish_all_and(cluster, lambda d=deferrable: sensor(**arguments, deferrable=d).execute(context()))


def finish_all_and(cluster: Cluster, call: Callable[[], Any]) -> Any:
    for partition in PARTITIONS:
        if cluster.keys_of(partition):
            finish(cluster, partition)
    return call()


def test_a_storage_of_another_cluster_proves_nothing(cluster: Cluster) -> None:
    for partition in PARTITIONS:
        finish(cluster, partition)
    cluster.storage.delete_objects(cluster.storage.keys)
    with pytest.raises(AirflowFailException, match="this may be a copy of the root"):
        sensor().execute(context())


@pytest.mark.parametrize("freed", [Freed.LATER, Freed.NEVER])
def test_a_bucket_that_keeps_what_is_deleted(cluster: Cluster, freed: Freed, monkeypatch: pytest.MonkeyPatch) -> None:
    for partition in PARTITIONS:
        finish(cluster, partition)
    effect = DeletionEffect(freed, "a test", days=7 if freed is Freed.LATER else None, rule="set one")
    monkeypatch.setattr(type(cluster.storage), "deletion_effect", lambda self, keys=(): effect)
    if freed is Freed.NEVER:
        with pytest.raises(AirflowFailException, match="never freed"):
            sensor().execute(context())
    else:
        assert not sensor().poke(context())
        cluster.now_ms += 8 * DAY_MS
        assert sensor().poke(context())
    cluster.now_ms = START_MS
    assert sensor(overrides=["versioned_bucket"]).poke(context())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topic_id": "orders"}, "topic_id must be a topic id"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}, "topic_id must be a topic id"),
        ({"overrides": ["nonsense"]}, "overrides"),
        ({"allowed_quarantine": "GOOD"}, "allowed_quarantine"),
    ],
)
def test_wrong_arguments_are_refused_when_the_file_is_parsed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        sensor(**arguments)


def test_an_id_may_be_written_as_a_uuid(cluster: Cluster) -> None:
    finish_all_and(cluster, lambda: None)
    assert sensor(topic_id=str(GONE)).poke(context())


# --- deferred -----------------------------------------------------------------------------------------------------------


def test_it_waits_in_the_triggerer_for_what_is_not_finished(cluster: Cluster) -> None:
    finish(cluster, PARTITIONS[0])
    task = sensor(deferrable=True, poke_interval=5, timeout=3600)
    wait = deferred(task)
    trigger = wait.trigger
    assert isinstance(trigger, TopicDeletionFinishedTrigger)
    assert (trigger.topic_id, trigger.unfinished, trigger.poll_s) == (GONE_ID, [1, 2], 5)
    assert trigger.recheck_s == pytest.approx(3600, abs=5)
    assert wait.method_name == "look_again"
    json.dumps(trigger.serialize()[1])
    for partition in PARTITIONS[1:]:
        finish(cluster, partition)
    resumed = task.resume_execution(wait.method_name, {"event": FINISHED, **(wait.kwargs or {})}, context())
    assert resumed["user_partitions"] == 3


def test_objects_that_are_left_are_waited_for_by_time_alone(cluster: Cluster) -> None:
    for partition in PARTITIONS:
        finish(cluster, partition)
    cluster.storage.put_object(f"kafka/gone-{GONE_ID}/0/left.log", b"x")
    trigger = deferred(sensor(deferrable=True, recheck_interval=timedelta(minutes=5))).trigger
    assert (trigger.unfinished, trigger.recheck_s) == ([], 300)  # type: ignore[attr-defined]


def test_the_wait_ends_with_a_reason(cluster: Cluster) -> None:
    task = sensor(deferrable=True)
    with pytest.raises(AirflowSensorTimeout, match=r"not gone after .*it has no marker, and 1 segment"):
        task.resume_execution("look_again", {"event": TIME, "until_s": time.time() - 1}, context())


def test_brokers_that_are_away_are_asked_again_soon(cluster: Cluster) -> None:
    def fail(*_: Any) -> None:
        raise EventLogUnavailableError("no broker")

    cluster.log.on_effect = fail
    trigger: Any = deferred(sensor(deferrable=True, poke_interval=7)).trigger
    assert (trigger.unfinished, trigger.recheck_s) == ([], 7)


@pytest.mark.parametrize("default", [True, False])
def test_the_default_is_airflows(monkeypatch: pytest.MonkeyPatch, default: bool) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", str(default))
    assert sensor().deferrable is default
    assert sensor(deferrable=not default).deferrable is not default


def test_a_dag_may_template_it() -> None:
    with DAG("d"):
        task = sensor(topic_id="{{ params.topic_id }}", topic=None)
    assert task.topic_id == "{{ params.topic_id }}"


# --- the trigger --------------------------------------------------------------------------------------------------------


def trigger_of(cluster: Cluster, *, recheck_s: float = 60.0, **changes: Any) -> TopicDeletionFinishedTrigger:
    deferral: Any = deferred(sensor(deferrable=True)).trigger
    path, arguments = deferral.serialize()
    assert path == "airflow_provider_rlmm.triggers.topic_gone.TopicDeletionFinishedTrigger"
    return TopicDeletionFinishedTrigger(**arguments | {"poll_s": 0.01, "recheck_s": recheck_s} | changes)


async def fired(trigger: TopicDeletionFinishedTrigger) -> list[Any]:
    async with asyncio.timeout(SOON_S):
        return [event.payload async for event in trigger.run()]


def test_the_trigger_fires_when_all_are_finished(cluster: Cluster) -> None:
    trigger = trigger_of(cluster)
    other = tip("gone", 0, 8)
    cluster.segment(other, 0)
    finish(cluster, other)

    async def waited() -> list[Any]:
        waiting = asyncio.ensure_future(fired(trigger))
        for partition in PARTITIONS:
            await asyncio.sleep(0.1)
            assert not waiting.done()
            finish(cluster, partition)
        return await waiting

    assert asyncio.run(waited()) == [FINISHED]


def test_what_was_finished_before_it_began_counts(cluster: Cluster) -> None:
    trigger = trigger_of(cluster)
    for partition in PARTITIONS:
        finish(cluster, partition)
    assert asyncio.run(fired(trigger)) == [FINISHED]


@pytest.mark.parametrize("unfinished", [[0, 1, 2], []])
def test_the_trigger_fires_when_it_is_time(cluster: Cluster, unfinished: list[int]) -> None:
    assert asyncio.run(fired(trigger_of(cluster, recheck_s=0.1, unfinished=unfinished))) == [TIME]


def test_a_log_that_is_another_one_ends_the_wait(cluster: Cluster) -> None:
    trigger = trigger_of(cluster)
    trigger.position["cluster_id"] = "cluster-2"
    assert asyncio.run(fired(trigger)) == [TROUBLE]


def test_a_connection_that_is_gone_ends_the_wait(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = trigger_of(cluster)
    monkeypatch.delenv("AIRFLOW_CONN_RLMM_DEFAULT")
    assert asyncio.run(fired(trigger)) == [TROUBLE]


def test_brokers_that_are_away_do_not_end_the_wait(cluster: Cluster) -> None:
    trigger = trigger_of(cluster)

    def fail(*_: Any) -> None:
        raise EventLogUnavailableError("no broker")

    async def waited() -> list[Any]:
        cluster.log.on_effect = fail
        waiting = asyncio.ensure_future(fired(trigger))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        cluster.log.on_effect = lambda *_: None
        for partition in PARTITIONS:
            finish(cluster, partition)
        return await waiting

    assert asyncio.run(waited()) == [FINISHED]
