# SPDX-License-Identifier: Apache-2.0
"""`rlmm recover` on objects in a folder; no broker is named, and none is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from tests.recovery import Bucket, batches_of, plain_segment, put_into, recorded_bucket, rows_in, segment
from tests.recovery_sources import FIRST, SECOND, audited, copied, keep


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.delenv("RLMM_BOOTSTRAP_SERVER", raising=False)


def test_recorded_objects_become_a_catalogue_without_a_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = put_into(tmp_path / "bucket", recorded_bucket()[0])
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "bucket").rglob("*")}
    output = tmp_path / "catalogue"
    assert run(["recover", "--storage", storage, "--layout", "aiven", "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "It says what was copied, never what is alive" in printed
    assert "The cluster is unknown" in printed
    assert "p2-live" in printed
    assert len(rows_in(str(output))) == 18
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "bucket").rglob("*")}


def test_what_needs_a_person_comes_first_and_has_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket, began = Bucket(), system_clock()
    bucket.copy(segment(1, 0, 9))
    bucket.copy(segment(3, 20, 29))
    storage = put_into(tmp_path / "bucket", bucket)
    asked = ["recover", "--storage", storage, "--layout", "aiven", "--key-prefix", "kp/", "--cluster-id", "mine"]
    assert run([*asked, "--output", str(tmp_path / "1")]) == 4
    printed = capsys.readouterr().out
    assert printed.startswith("needs a person: 1 HOLE: ")
    assert "The cluster is 'mine', as --cluster-id says" in printed
    assert run([*asked, "--output", str(tmp_path / "2"), "--json"]) == 4
    answered = capsys.readouterr()
    document = json.loads(answered.out)
    assert (document["kinds"]["HOLE"]["rows"], document["cluster_id"]) == (1, "mine")
    assert began <= document["made_at_ms"] <= system_clock()
    assert "needs a person: 1 HOLE" in answered.err


def test_an_answer_that_does_not_come_is_no_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = (tmp_path / "nothing").as_uri()
    assert run(["recover", "--storage", missing, "--layout", "aiven", "--output", str(tmp_path / "c")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_the_work_folder_and_what_is_named_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bucket = Bucket()
    bucket.copy(FIRST)
    bucket.copy(SECOND)
    storage = put_into(tmp_path / "bucket", bucket)
    keep(tmp_path / "work", copied(FIRST, SECOND), at_ms=1_700_000_000_000)
    audit = audited(tmp_path / "other", FIRST)
    asked = ["recover", "--storage", storage, "--layout", "aiven", "--key-prefix", "kp/", "--audit", str(audit)]
    assert run([*asked, "--output", str(tmp_path / "1")]) == 0
    printed = capsys.readouterr().out
    assert "of 2023-11-14 22:13:20 UTC; of 2 copied segments 2 have objects here" in printed
    assert f"AUDIT {audit}: 1 segment that it calls deleted has objects here" in printed
    assert [(row.kind, row.proved_by) for row in rows_in(str(tmp_path / "1"))] == [
        ("DELETED", "MANIFEST"),
        ("COPIED", "SNAPSHOT"),
    ]
    next((tmp_path / "work").rglob("*.snapshot")).write_bytes(b"?")
    assert run([*asked, "--output", str(tmp_path / "2")]) == 4
    assert "1 snapshot or audit log could not be read" in capsys.readouterr().out


def test_rows_are_proved_by_contents_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket, gone = Bucket(LocalTieredStorageLayout()), segment(1, 100, 139)
    batches = [batch for batch in batches_of(gone) if batch.records[0].offset != 103]
    bucket.copy_plain(segment(2, 140, 149))
    bucket.copy_plain(gone, plain_segment(gone, batches=batches))
    storage = put_into(tmp_path / "bucket", bucket)
    asked = ["recover", "--storage", storage, "--layout", "local-tiered-storage", "--prove"]
    assert run([*asked, "--output", str(tmp_path / "1")]) == 4
    assert "needs a person: 1 DAMAGED" in capsys.readouterr().out
    assert run([*asked, "--allow-gaps", "--bytes-per-second", "10000000", "--output", str(tmp_path / "2")]) == 0
    assert {row.proved_by for row in rows_in(str(tmp_path / "2"))} == {ProvedBy.CONTENTS}
