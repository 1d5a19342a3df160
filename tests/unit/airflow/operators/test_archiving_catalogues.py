# SPDX-License-Identifier: Apache-2.0
"""A topic of a lost cluster is archived by a task: by the leave by which it is read, and no broker is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError, OffsetNotInRemoteLogError
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.world.catalogue_reads import AuditedRange, CatalogueRead
from airflow_provider_rlmm.features.archiving.archive.reading import open_topic
from airflow_provider_rlmm.operators.archive import ArchiveRemoteLogOperator
from tests.catalogued import CLUSTER, ID, CataloguedTopic, files_of
from tests.remote_log_world import TIP
from tests.unit.airflow.operators.test_operators import connect
from tests.unit.airflow.operators.test_remote_log_operators import context

SECOND = TopicIdPartition(TIP.topic_id, TIP.topic, 1)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CataloguedTopic:
    """A topic of two partitions in a bucket; whoever asks a broker for anything fails."""
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    found = CataloguedTopic(tmp_path, *(files_of(n, 30 * n) for n in range(3)), files_of(7, 0, of=SECOND))
    allow(monkeypatch, found, ID)
    return found


def allow(monkeypatch: pytest.MonkeyPatch, topic: CataloguedTopic, allowed: str, **extra: Any) -> None:
    extra = {"layout": "aiven", "key_prefix": "kp/", "archive_uri": str(topic.folder / "archives")} | extra
    connect(
        monkeypatch, allow_writes=False, expected_cluster_id=CLUSTER, kafka_conn_id="missing",
        storage_uri=topic.storage_uri, allow_catalogue=allowed, **extra,
    )  # fmt: skip


def archive(**arguments: Any) -> dict[str, Any]:
    return ArchiveRemoteLogOperator(task_id="archive", **{"topic_id": ID, **arguments}).execute(context())


def test_a_topic_of_a_lost_cluster_is_archived_and_restored_from_there(topic: CataloguedTopic) -> None:
    told = archive(catalogue=topic.recover(), was_not_deleted=[ID])
    assert [(p["partition"], p["segments"], p["records"]) for p in told["partitions"]] == [(0, 3, 90), (1, 1, 30)]
    archived = open_topic(str(topic.folder / "archives"), CLUSTER, ID)
    assert (list(archived.missing), [log.partition for log in archived.logs]) == ([], [0, 1])
    (written,) = (path for path in topic.audit() if ".read." in path.name)
    found = CatalogueRead.from_json(written.read_text())
    assert (found.dag_id, found.what, found.topic_id) == ("dag", "ArchiveRemoteLogOperator", ID)
    assert found.ranges == tuple(AuditedRange(number, None, None, None, None) for number in (0, 1))


def test_some_of_its_partitions_are(topic: CataloguedTopic) -> None:
    told = archive(catalogue=topic.recover(), was_not_deleted=ID, partitions=[1])
    assert [p["partition"] for p in told["partitions"]] == [1]
    assert open_topic(str(topic.folder / "archives"), CLUSTER, ID).missing


def test_without_leave_nothing_is_archived(topic: CataloguedTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, erased = topic.recover(), topic.folder / "erased"
    with pytest.raises(CatalogueError, match="may have been deleted: a bucket does not know it"):
        archive(catalogue=catalogue)
    erased.write_text(ID)
    with pytest.raises(CatalogueError, match="in the list of what was erased"):
        archive(catalogue=catalogue, was_not_deleted=[ID], deleted=str(erased))
    allow(monkeypatch, topic, "invoices")
    with pytest.raises(CatalogueError, match="allow_catalogue does not name it"):
        archive(catalogue=catalogue, was_not_deleted=[ID])
    assert (topic.audit(), (topic.folder / "archives").exists()) == ([], False)


def test_what_a_person_should_decide_fails_before_anything_is_written(topic: CataloguedTopic) -> None:
    topic.put(files_of(3, 30))
    with pytest.raises(CatalogueError, match="nothing tells which of them the cluster counted"):
        archive(catalogue=topic.recover(), was_not_deleted=[ID])
    topic.put(files_of(4, 200))
    with pytest.raises(OffsetNotInRemoteLogError, match="Nothing is read around a hole"):
        archive(catalogue=topic.recover(), was_not_deleted=[ID])
    assert not (topic.folder / "archives").exists()


def test_no_folder_for_archives_is_said_before_anything_is_read(
    topic: CataloguedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, topic, ID, archive_uri=None)
    with pytest.raises(ConfigurationError, match="archive_uri"):
        archive(catalogue=topic.recover(), was_not_deleted=[ID])
    assert topic.audit() == []


def test_what_is_about_a_catalogue_needs_one() -> None:
    for named in ({"was_not_deleted": [ID]}, {"deleted": "erased.txt"}):
        with pytest.raises(ConfigurationError, match="are about a catalogue: name it, too"):
            archive(**named)
