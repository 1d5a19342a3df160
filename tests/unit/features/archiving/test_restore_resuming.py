# SPDX-License-Identifier: Apache-2.0
"""A restore that was killed goes on, wherever that was: behind exactly the first records of its source, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.features.archiving import restore_effects, restore_steps
from airflow_provider_rlmm.features.archiving.restore_document import RestoreDocument, RestoreRun
from airflow_provider_rlmm.features.archiving.restore_progress import at_rest, read_begun
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport, restore
from tests.archiving import ArchivingCluster, Run, records_of
from tests.builders import CLUSTER_ID, START_MS, tip
from tests.restoring import GONE_ID, RUN, FakeAccess, FakeTopic, Killed

RECORDS = [record.as_row() for number in range(2) for record in records_of(number)]


class Time:
    """Seconds that pass while they are slept; something may happen meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then: Callable[[float], object] = lambda now: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then(self.now)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(restore_effects, "at_rest", partial(at_rest, clock=lambda: time.now, sleep=time.sleep))
    monkeypatch.setattr(restore_steps, "system_clock", lambda: START_MS)
    return time


@pytest.fixture
def topic(time: Time, monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    fake = FakeTopic()
    fake.take_the_place_of_kafkas(monkeypatch)
    return fake


@pytest.fixture
def access(tmp_path: Path) -> FakeAccess:
    """A cluster whose deleted topic is archived."""
    cluster = ArchivingCluster()
    cluster.real_segments(tip(), 2)
    cluster.mark_and_wait()
    run = Run(cluster, tmp_path)
    run.archive()
    settings = RemoteLogSettings(archive_uri=run.archive_uri, allow_writes=True, expected_cluster_id=CLUSTER_ID)
    return FakeAccess(settings, work_uri=str(tmp_path / "work"))


def restored(access: Any, **given: Any) -> RestoreReport:
    by = RestoreRun(RUN, access.work_uri)
    return restore(access, GONE_ID, "restored", **{"by": by, "dry_run": False, **given})


def killed_at(access: FakeAccess, topic: FakeTopic, count: int) -> None:
    topic.dies_at = count
    with pytest.raises(Killed):
        restored(access)
    topic.dies_at = None


def document_of(access: FakeAccess) -> Path:
    (found,) = Path(access.work_uri).glob("cluster-*/restores/*.json")
    return found


@pytest.mark.parametrize("count", range(20))
def test_killed_anywhere_it_converges(access: FakeAccess, topic: FakeTopic, time: Time, count: int) -> None:
    killed_at(access, topic, count)
    assert len(topic.rows) == count
    report = restored(access)
    assert (topic.rows, report.records) == (RECORDS, 20)
    assert time.now >= 120


def test_killed_again_and_again_it_converges(access: FakeAccess, topic: FakeTopic) -> None:
    for count in (0, 3, 3, 11, 19):
        killed_at(access, topic, count)
    assert restored(access).records == 20
    assert topic.rows == RECORDS


def test_another_run_may_go_on(access: FakeAccess, topic: FakeTopic) -> None:
    killed_at(access, topic, 7)
    other = RestoreRun(replace(RUN, run_id="restore.2", artifact="restore.2", triggered_by="eve"), access.work_uri)
    assert restored(access, by=other).records == 20


def test_once_more_finds_all_there_and_waits_for_nothing(access: FakeAccess, topic: FakeTopic, time: Time) -> None:
    restored(access)
    kept = document_of(access).read_bytes()
    assert (restored(access).records, topic.rows, time.now) == (20, RECORDS, 0.0)
    assert document_of(access).read_bytes() == kept


def test_the_document_is_there_before_the_first_record(access: FakeAccess, topic: FakeTopic) -> None:
    killed_at(access, topic, 0)
    document = read_begun(str(document_of(access)))
    assert document is not None
    assert (document.topic, document.source, document.source_topic_id, document.partitions[0].count) == (
        "restored", "archive", GONE_ID, 20,
    )  # fmt: skip
    assert (document.dag_id, document.triggered_by) == ("rlmm restore", "ada")
    assert document.partitions[0].lineage == ((0, 0),)


def test_a_dry_run_promises_nothing(access: FakeAccess, topic: FakeTopic) -> None:
    restored(access, dry_run=True)
    assert not Path(access.work_uri).exists()


def test_what_an_interrupted_producer_had_sent_is_waited_for(access: FakeAccess, topic: FakeTopic, time: Time) -> None:
    killed_at(access, topic, 5)

    def arrives(now: float) -> None:
        if now >= 100 and len(topic.rows) == 5:
            topic.rows += RECORDS[5:9]

    time.then = arrives
    restored(access)
    assert topic.rows == RECORDS
    assert time.now >= 220


def test_a_topic_that_goes_on_to_grow_is_another_writers(access: FakeAccess, topic: FakeTopic, time: Time) -> None:
    killed_at(access, topic, 5)

    def grows(now: float) -> None:
        assert now < 1_000, "it waits for ever"
        topic.rows.append(RECORDS[0])

    time.then = grows
    with pytest.raises(RestoreError, match="goes on to grow"):
        restored(access)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: rows.append(RECORDS[0]),
        lambda rows: rows.pop(2),
        lambda rows: rows[3].update(value=b"?"),
        lambda rows: rows[3].update(timestamp=1),
        lambda rows: rows.reverse(),
    ],
)
def test_what_is_not_the_first_records_of_the_source_is_refused(
    access: FakeAccess, topic: FakeTopic, spoil: Callable[[list[dict[str, Any]]], object]
) -> None:
    killed_at(access, topic, 7)
    spoil(topic.rows)
    there = list(topic.rows)
    with pytest.raises(RestoreError, match="not the first ones of the source"):
        restored(access)
    assert topic.rows == there


def test_more_than_the_source_has_is_refused(access: FakeAccess, topic: FakeTopic) -> None:
    restored(access)
    topic.rows.append(RECORDS[0])
    with pytest.raises(RestoreError, match="not the first ones of the source"):
        restored(access)


def test_a_topic_of_the_same_name_is_another_one(access: FakeAccess, topic: FakeTopic) -> None:
    killed_at(access, topic, 7)
    topic.topic_id = UUID(int=6)
    with pytest.raises(RestoreError, match="is not empty"):
        restored(access)


def test_a_topic_that_is_replaced_while_it_rests_is_noticed(access: FakeAccess, topic: FakeTopic, time: Time) -> None:
    killed_at(access, topic, 7)
    time.then = lambda now: setattr(topic, "topic_id", UUID(int=6))
    with pytest.raises(RestoreError, match="was replaced"):
        restored(access)


def test_a_source_that_has_changed_is_refused(access: FakeAccess, topic: FakeTopic) -> None:
    killed_at(access, topic, 7)
    text = document_of(access).read_text()
    for name in ("source_sha256", "start", "source", "topic"):
        document = RestoreDocument.from_json(text)
        document_of(access).write_text(replace(document, **{name: "another"}).to_json())  # type: ignore[arg-type]
        with pytest.raises(RestoreError, match=rf"was begun that is another one: {name} \(another then"):
            restored(access)
    other = replace(document.partitions[0], lineage=((0, 0), (3, 10)))
    document_of(access).write_text(replace(document, partitions=(other,)).to_json())
    with pytest.raises(RestoreError, match=r"was begun that is another one: .*partitions"):
        restored(access)
    assert len(topic.rows) == 7


def test_a_document_that_cannot_be_read_is_none(access: FakeAccess, topic: FakeTopic) -> None:
    killed_at(access, topic, 7)
    document_of(access).write_text(document_of(access).read_text().replace("restored", "destored"))
    with pytest.raises(RestoreError, match="cannot be read"):
        restored(access)


def test_without_its_document_a_topic_with_records_is_refused(access: FakeAccess, topic: FakeTopic) -> None:
    killed_at(access, topic, 7)
    document_of(access).unlink()
    with pytest.raises(RestoreError, match="is not empty"):
        restored(access)


def test_where_the_document_cannot_be_written_no_record_is(access: FakeAccess, topic: FakeTopic) -> None:
    Path(access.work_uri).write_text("no folder")
    with pytest.raises(RestoreError):
        restored(access)
    assert topic.rows == []
