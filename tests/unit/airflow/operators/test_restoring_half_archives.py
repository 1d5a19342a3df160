# SPDX-License-Identifier: Apache-2.0
"""What the command and the operator say of an archive that is not whole: exit code 1, or 4 where somebody takes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.errors import ArchiveError, ConfigurationError
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.archiving import restore_steps as session_restoring
from airflow_provider_rlmm.features.archiving.restore_rules import INCOMPLETE_ARCHIVE
from airflow_provider_rlmm.operators.archive import RestoreRemoteLogOperator
from tests.archiving import ArchivingCluster, Run
from tests.builders import CLUSTER_ID, START_MS, tip
from tests.catalogued import ID, CataloguedTopic, files_of
from tests.restoring import GONE_ID, FakeAccess, FakeTopic
from tests.unit.airflow.operators.test_operators import context


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    """The topic that an archive is restored into of which the second partition is gone."""
    cluster = ArchivingCluster()
    for partition in (0, 1):
        cluster.real_segments(tip("gone", partition), 2)
    cluster.mark_and_wait()
    run_of_archive = Run(cluster, tmp_path)
    run_of_archive.archive()
    (lost,) = (tmp_path / "archives").glob("*/*/1")
    shutil.rmtree(lost)
    fake, real = FakeTopic(), session_restoring.restore
    settings = RemoteLogSettings(
        archive_uri=run_of_archive.archive_uri, allow_writes=True, expected_cluster_id=CLUSTER_ID
    )
    access: Any = FakeAccess(settings)
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work of the command"))
    fake.take_the_place_of_kafkas(monkeypatch)
    monkeypatch.setattr(session_restoring, "system_clock", lambda: START_MS)
    monkeypatch.setattr(session_restoring, "restore", lambda _, *given, **named: real(access, *given, **named))
    return fake


def command(*more: str) -> int:
    return run([
        "restore", "--topic-id", GONE_ID, "--into", "restored", "--archive", "/a", "--bootstrap-server", "a:1", *more,
    ])  # fmt: skip


EXECUTE = ("--execute", "--cluster-id", CLUSTER_ID)
TAKEN = ("--override", INCOMPLETE_ARCHIVE)


def test_the_command_refuses_or_ends_with_exit_code_4(topic: FakeTopic, capsys: pytest.CaptureFixture[str]) -> None:
    assert (command(), command(*EXECUTE), topic.rows) == (1, 1, [])
    assert f"the override {INCOMPLETE_ARCHIVE} restores what there is" in capsys.readouterr().err
    assert (command(*TAKEN), topic.rows) == (4, [])
    assert "needs a person: the archive is not whole: partition 1" in capsys.readouterr().out
    assert command(*TAKEN, *EXECUTE, "--json") == 4
    assert len(topic.rows) == 20
    assert json.loads(capsys.readouterr().out)["incomplete"]


def test_the_operator_refuses_or_fails_after_it_has_written(topic: FakeTopic) -> None:
    with pytest.raises(ArchiveError, match="not whole"):
        RestoreRemoteLogOperator(task_id="restore", dry_run_only=False, topic_id=GONE_ID, topic="restored").execute(
            context()
        )
    assert topic.rows == []
    operator = RestoreRemoteLogOperator(
        task_id="restore", dry_run_only=False, topic_id=GONE_ID, topic="restored", overrides=[INCOMPLETE_ARCHIVE]
    )
    with pytest.raises(
        AirflowFailException,
        match="20 records were restored from a source that needs a person: the archive",
    ):
        operator.execute(context())
    assert len(topic.rows) == 20


def test_what_is_about_a_catalogue_needs_one(topic: FakeTopic) -> None:
    for named in ({"from_beginning": True}, {"start_time": 1}, {"start_offsets": {0: 1}}, {"bytes_per_second": 5}):
        common: Any = {"topic_id": GONE_ID, "topic": "restored", "dry_run_only": False}
        operator = RestoreRemoteLogOperator(task_id="restore", **common, **named)
        with pytest.raises(ConfigurationError, match="are about a catalogue: name it, too"):
            operator.execute(context())


def test_the_operator_restores_by_a_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = CataloguedTopic(tmp_path, files_of(0, 10))
    storage = ObjectStoreRemoteStorageManager(source.storage_uri, source.bucket.layout)
    settings = source.settings(allow_writes=True, expected_cluster_id=CLUSTER_ID)
    access: Any = FakeAccess(settings, storage=lambda: storage)
    fake, real = FakeTopic(), session_restoring.restore
    fake.take_the_place_of_kafkas(monkeypatch)
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr(session_restoring, "system_clock", lambda: START_MS)
    monkeypatch.setattr(session_restoring, "restore", lambda _, *given, **named: real(access, *given, **named))
    told = RestoreRemoteLogOperator(
        task_id="restore", dry_run_only=False, topic_id=ID, topic="restored", catalogue=source.recover(),
        was_not_deleted=[ID], start_offsets={0: 12}, undecided="keep", offset_header=True,
    ).execute(context())  # fmt: skip
    assert [row["headers"][-1]["value"] for row in fake.rows] == [b"%d" % offset for offset in range(12, 40)]
    assert (told["source"], told["undecided"], told["records"]) == ("catalogue", "keep", 28)
    (written,) = (path for path in source.audit() if ".read." in path.name)
    assert json.loads(written.read_text())["dag_id"] == "dag"
