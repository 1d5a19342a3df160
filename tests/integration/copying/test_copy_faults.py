# SPDX-License-Identifier: Apache-2.0
"""Copies that fail, are paused, made twice or overtaken by the broker: none stays half or is there twice."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import CopyRefusedError
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from dev import tiering
from dev.broker import LocalKafka, await_condition
from tests.full_disk import leave_room
from tests.integration.copying.adopting import await_all_remote, enable_copying, read_everything
from tests.integration.copying.copies import check_copies, copies_of, segment_events, segments_of, states_of
from tests.integration.copying.copy_worker import Order
from tests.integration.copying.our_copier import OurCopier
from tests.integration.copying.uncopied import Uncopied
from tests.integration.copying.world import not_copied_topic
from tests.integration.copying.writing import Writer
from tests.integration.kafka_topics import delete_topic

pytestmark = [pytest.mark.integration, pytest.mark.copying]

LEASE_MS = 6_000
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
TAKEN_BACK = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def order(uncopied: Uncopied, at: int, number: int, **options: Any) -> Order:
    """Return what has the copier of a process of its own end or pause at one of its steps."""
    kafka, tip = uncopied.kafka, uncopied.tip
    return Order(
        kafka.bootstrap_servers,
        kafka.cluster_id,
        str(kafka.remote_dir),
        str(uncopied.snapshot),
        tip.topic,
        str(tip.topic_id),
        at=at,
        signal=number,
        **options,
    )


def test_what_is_left_of_a_killed_copy_waits_for_its_lease(uncopied: Uncopied) -> None:
    worker = order(uncopied, 2, signal.SIGKILL, steps="chunk").start()
    worker.communicate(timeout=120)
    assert worker.returncode == -signal.SIGKILL
    assert list(states_of(uncopied.kafka, uncopied.tip).values()) == [STARTED]

    report = OurCopier.of(uncopied.kafka).copy(uncopied.snapshot, uncopied.tip)

    assert (report.copied, report.taken_back) == ((), ())
    assert "its lease ends at" in str(report.stopped_by)
    assert list(states_of(uncopied.kafka, uncopied.tip).values()) == [STARTED]


def test_the_copier_stops_when_its_broker_begins_to_copy(uncopied: Uncopied) -> None:
    kafka, tip = uncopied.kafka, uncopied.tip
    chunks = 0

    def broker_begins(step: str) -> None:
        nonlocal chunks
        chunks += step == "chunk"
        # In the middle of the second segment or so.
        if chunks == 10 and step == "chunk":
            enable_copying(kafka, tip.topic)
            await_condition(lambda: 1 in writers_of(kafka, tip), "the broker copies", 60)

    report = OurCopier.of(kafka, notice=broker_begins).copy(uncopied.snapshot, tip)

    assert chunks >= 10
    assert report.needs_person
    assert "remote.log.copy.disable" in str(report.stopped_by) or "broker 1 has begun" in str(report.stopped_by)
    assert 1 <= len(report.copied) < len(uncopied.expected)
    await_all_remote(kafka, tip)
    copies = check_copies(kafka, tip)
    assert [s.start_offset for s in copies.segments if s.broker_id == COPIER_BROKER_ID] == [
        m.start_offset for m in report.copied
    ]
    assert read_everything(kafka, tip.topic) == uncopied.everything
    kafka.restart()
    assert read_everything(kafka, tip.topic) == uncopied.everything
    assert uncopied.complaints() == []


def test_of_two_copiers_at_once_one_goes_on(uncopied: Uncopied) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(OurCopier.of(uncopied.kafka).copy, uncopied.snapshot, uncopied.tip) for _ in range(2)]
        reports = [run.result() for run in runs]

    copied = [m.start_offset for report in reports for m in report.copied]
    assert sorted(copied) == sorted(set(copied))
    # Both may have given way once; whoever comes next ends it.
    assert OurCopier.of(uncopied.kafka).copy(uncopied.snapshot, uncopied.tip).stopped_by is None
    uncopied.check_brokers_go_on(uncopied.check_all_copied())


@pytest.mark.parametrize(
    ("steps", "at"), [("chunk", 3), ("before an event", 2), ("question", 4)], ids=["copying", "finishing", "asking"]
)
def test_a_copier_that_was_paused_for_long_finishes_nothing_that_was_taken_back(
    uncopied: Uncopied, steps: str, at: int
) -> None:
    worker = order(uncopied, at, signal.SIGSTOP, steps=steps, lease_ms=LEASE_MS).start()
    try:
        _, status = os.waitpid(worker.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        paused = set(states_of(uncopied.kafka, uncopied.tip).values())
        assert paused == {STARTED}
        again = OurCopier.of(uncopied.kafka, limits=CopyLimits(lease_ms=LEASE_MS))

        def taken_over() -> bool:
            return again.copy(uncopied.snapshot, uncopied.tip).stopped_by is None

        await_condition(taken_over, "another run has taken over", 60, 0.5)
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    worker.communicate(timeout=120)

    uncopied.check_brokers_go_on(uncopied.check_all_copied())


def test_a_storage_that_fills_up_has_the_copy_taken_back(uncopied: Uncopied, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of the remote storage has room for a segment and a half, and then more again."""
    leave_room(monkeypatch, 25_000)
    report = OurCopier.of(uncopied.kafka).copy(uncopied.snapshot, uncopied.tip)
    assert report.needs_person
    assert "make room in the storage" in str(report.stopped_by)
    assert [m.start_offset for m in report.copied] == uncopied.expected[:1]
    assert [m.start_offset for m in report.taken_back] == uncopied.expected[1:2]
    assert check_copies(uncopied.kafka, uncopied.tip).start_offsets == uncopied.expected[:1]

    monkeypatch.undo()
    assert OurCopier.of(uncopied.kafka).copy(uncopied.snapshot, uncopied.tip).stopped_by is None
    uncopied.check_brokers_go_on(uncopied.check_all_copied())


def test_custom_metadata_that_brokers_do_not_take_has_the_copy_taken_back(
    uncopied: Uncopied, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ObjectStoreRemoteStorageManager.copy_log_segment_data
    kafka, tip = uncopied.kafka, uncopied.tip
    monkeypatch.setattr(
        ObjectStoreRemoteStorageManager, "copy_log_segment_data", lambda *given: copy(*given) or b"x" * 129
    )
    report = OurCopier.of(kafka).copy(uncopied.snapshot, tip)
    assert report.needs_person
    assert "129 bytes of custom metadata" in str(report.stopped_by)
    assert [segment.state for segment in segments_of(kafka, tip)] == [TAKEN_BACK]
    assert copies_of(kafka, tip).objects == {}

    monkeypatch.setattr(
        ObjectStoreRemoteStorageManager, "copy_log_segment_data", lambda *given: copy(*given) or b"x" * 128
    )
    assert OurCopier.of(kafka).copy(uncopied.snapshot, tip).stopped_by is None
    ours = uncopied.check_all_copied()
    assert {segment.custom_metadata for segment in ours.segments} == {b"x" * 128}
    kafka.restart()
    uncopied.check_brokers_go_on(ours)


def test_a_directory_of_another_topic_id_is_refused(uncopied: Uncopied) -> None:
    kafka, tip = uncopied.kafka, uncopied.tip
    delete_topic(kafka, tip.topic)
    await_condition(lambda: tip.topic not in tiering.topic_ids(kafka), "the topic is gone", 30)
    not_copied_topic(kafka, tip.topic)
    other = TopicIdPartition(tiering.topic_ids(kafka)[tip.topic], tip.topic, 0)
    Writer(kafka.bootstrap_servers, tip.topic).write(420)

    with pytest.raises(CopyRefusedError, match="segments of another topic are never copied"):
        OurCopier.of(kafka).copy(uncopied.snapshot, tip)

    assert [list(segment_events(kafka, about)) for about in (tip, other)] == [[], []]
    assert [copies_of(kafka, about).objects for about in (tip, other)] == [{}, {}]


def writers_of(kafka: LocalKafka, tip: TopicIdPartition) -> set[int]:
    return {segment.broker_id for segment in copies_of(kafka, tip).segments}
