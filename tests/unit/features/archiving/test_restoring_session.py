# SPDX-License-Identifier: Apache-2.0
"""A restore is refused before it writes, or compared after it: a topic that differs in anything is no restored one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ArchiveError, RestoreError, StoppedError, WritesNotAllowedError
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.features.archiving import restore_steps as session_restoring
from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport, restore
from tests.archiving import ArchivingCluster, Run, records_of
from tests.builders import CLUSTER_ID, START_MS, tip
from tests.recording import Recorder
from tests.restoring import GONE_ID, RUN, FakeAccess, FakeTopic


@pytest.fixture
def access(tmp_path: Path) -> FakeAccess:
    """A cluster whose deleted topic is archived."""
    cluster = ArchivingCluster()
    cluster.real_segments(tip(), 2)
    cluster.mark_and_wait()
    run = Run(cluster, tmp_path)
    run.archive()
    return FakeAccess(
        RemoteLogSettings(archive_uri=run.archive_uri, allow_writes=True, expected_cluster_id=CLUSTER_ID),
        work_uri=str(tmp_path / "work"),
    )


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    fake = FakeTopic()
    fake.take_the_place_of_kafkas(monkeypatch)
    monkeypatch.setattr(session_restoring, "system_clock", lambda: START_MS)
    return fake


def restored(access: Any, *, dry_run: bool = False, **kwargs: Any) -> RestoreReport:
    by = RestoreRun(RUN, access.work_uri)
    return restore(access, GONE_ID, "restored", by=by, dry_run=dry_run, **kwargs)


def test_every_record_is_written_as_it_was(access: FakeAccess, topic: FakeTopic) -> None:
    report = restored(access)
    assert topic.rows == [record.as_row() for number in range(2) for record in records_of(number)]
    assert (report.records, report.left_out, report.archived_topic, report.dry_run) == (20, 0, "gone", False)
    assert report.to_dict()["partitions"][0]["content_sha256"] == report.partitions[0].content_sha256


@pytest.mark.parametrize("allow_writes", [True, False])
def test_a_dry_run_has_nothing_that_writes(
    access: FakeAccess, topic: FakeTopic, tmp_path: Path, allow_writes: bool
) -> None:
    access.settings = replace(access.settings, allow_writes=allow_writes)
    recorder = Recorder(tmp_path)
    report = restored(access, dry_run=True)
    assert (report.records, report.dry_run) == (20, True)
    assert (topic.rows, topic.writers, recorder.files()) == ([], 0, set())


def test_a_connection_that_does_not_allow_writes_restores_nothing(access: FakeAccess, topic: FakeTopic) -> None:
    access.settings = replace(access.settings, allow_writes=False)
    with pytest.raises(WritesNotAllowedError):
        restored(access)
    assert (topic.rows, topic.writers) == ([], 0)


def test_the_kill_switch_stops_a_restore(access: FakeAccess, topic: FakeTopic) -> None:
    access.stopped = "the switch is on"
    with pytest.raises(StoppedError, match="the switch is on"):
        restored(access)
    assert (topic.rows, restored(access, dry_run=True).records) == ([], 20)


def test_a_topic_that_cannot_hold_them_is_not_written_to(access: FakeAccess, topic: FakeTopic) -> None:
    topic.settings["message.timestamp.type"] = "LogAppendTime"
    with pytest.raises(RestoreError, match=r"^nothing was written: .*LogAppendTime"):
        restored(access)
    assert topic.rows == []


def test_a_damaged_archive_is_not_restored(access: FakeAccess, topic: FakeTopic) -> None:
    log = next(Path(access.settings.required_archive_uri()).rglob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"?")
    with pytest.raises(ArchiveError, match="is not as it was archived"):
        restored(access)
    assert topic.rows == []


@pytest.mark.parametrize("name", ["timestamp", "key", "value", "headers"])
def test_a_record_that_differs_when_read_back_is_noticed(access: FakeAccess, topic: FakeTopic, name: str) -> None:
    other: dict[str, Any] = {"timestamp": 1, "key": b"?", "value": b"?", "headers": [{"key": "?", "value": None}]}
    topic.spoil = lambda topic: topic.rows[7].update({name: other[name]})
    with pytest.raises(RestoreError, match="does not hold what its source does"):
        restored(access)


def test_a_record_that_is_lost_is_noticed(access: FakeAccess, topic: FakeTopic) -> None:
    topic.spoil = lambda topic: topic.rows.pop()
    with pytest.raises(RestoreError, match="19 records"):
        restored(access)


def test_another_writer_and_another_topic_of_the_name_are_noticed(access: FakeAccess, topic: FakeTopic) -> None:
    topic.later = lambda topic: topic.rows.append(topic.rows[0])
    with pytest.raises(RestoreError, match="is not as it was left"):
        restored(access)
    topic.rows.clear()
    access.work_uri += " of another one"
    topic.later = lambda topic: setattr(topic, "topic_id", UUID(int=6))
    with pytest.raises(RestoreError, match="it was replaced"):
        restored(access)


def test_the_archive_of_another_cluster_is_named(access: FakeAccess, topic: FakeTopic) -> None:
    with pytest.raises(ArchiveError, match="check archive_uri, cluster and topic id"):
        restored(access, archived_cluster_id="elsewhere")
