# SPDX-License-Identifier: Apache-2.0
"""`rlmm read --catalogue`: no broker is named, and none is asked."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.cli.options import Invocation
from airflow_provider_rlmm.cli.output import Output
from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange
from airflow_provider_rlmm.data_frames import Cutting, cut_topic
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest
from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked
from tests.catalogued import CLUSTER, ID, CataloguedTopic, files_of
from tests.tiered_orders import START_MS


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CataloguedTopic:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("RLMM_BOOTSTRAP_SERVER", raising=False)
    topic = CataloguedTopic(tmp_path, *(files_of(n, 30 * n) for n in range(3)))
    for name, value in (
        ("STORAGE_URI", topic.storage_uri),
        ("LAYOUT", "aiven"),
        ("KEY_PREFIX", "kp/"),
        ("WORK_URI", str(tmp_path / "work")),
        ("ALLOW_CATALOGUE", "orders"),
    ):
        monkeypatch.setenv(f"RLMM_{name}", value)
    return topic


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_records_are_printed_and_what_was_decided_is_said(
    topic: CataloguedTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["read", "orders", "0", "--catalogue", topic.recover(), "--was-not-deleted", ID]
    assert run([*asked, "--from-offset", "28", "--to-offset", "33", "--json"]) == 0
    printed = capsys.readouterr()
    assert [row["offset"] for row in lines(printed.out)] == list(range(28, 33))
    assert "rlmm: partition 0 is read by its lineage, the one that segment" in printed.err
    (written,) = topic.audit()
    document = json.loads(written.read_text())
    assert (document["dag_id"], document["cluster_id"], document["topic_id"]) == ("rlmm read", CLUSTER, ID)
    assert document["ranges"] == [
        {"partition": 0, "start_offset": 28, "end_offset": 33, "start_ms": None, "end_ms": None}
    ]
    assert run([*asked, "--from-offset", "28", "--to-offset", "33"]) == 0
    assert capsys.readouterr().out.startswith("partition 0 is read by its lineage")


def test_records_go_into_files(topic: CataloguedTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["read", ID, "--catalogue", topic.recover(), "--was-not-deleted", ID, "--output", str(tmp_path / "out")]
    assert run([*asked, "--json"]) == 0
    (row,) = lines(capsys.readouterr().out)
    assert (row["start"], row["end"], row["records"]) == (0, 90, 90)
    assert pq.read_table(row["file"]).column("offset").to_pylist() == list(range(90))


def test_what_a_person_should_decide_comes_first_and_has_an_exit_code_of_its_own(
    topic: CataloguedTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.put(files_of(3, 30))
    asked = ["read", "orders", "--catalogue", topic.recover(), "--was-not-deleted", ID]
    assert run(asked) == 4
    assert capsys.readouterr().out.startswith("needs a person: partition 0: segments ")
    assert run([*asked, "--json"]) == 4
    printed = capsys.readouterr()
    assert len(lines(printed.out)) == 90
    where, first, *_ = printed.err.splitlines()
    assert where.startswith("rlmm: no cluster is asked; configuration from ")
    assert first.startswith("rlmm: needs a person: partition 0: segments ")


def found_offsets(capsys: pytest.CaptureFixture[str], *asked: str, code: int = 0) -> list[int | None]:
    assert run(["find-offset", *asked, "--json"]) == code
    return [row.get("offset") for row in lines(capsys.readouterr().out)]


def test_an_offset_is_found_by_time(topic: CataloguedTopic, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--catalogue", topic.recover(), "--was-not-deleted", ID)
    assert found_offsets(capsys, "orders", str(START_MS + 42_000), *asked) == [42]
    assert found_offsets(capsys, "orders", str(START_MS + 42_000_000), *asked) == [None]
    assert run(["find-offset", "orders", str(START_MS + 42_000), *asked]) == 0
    assert "partition 0 is read by its lineage" in capsys.readouterr().out
    documents = [json.loads(path.read_text()) for path in topic.audit()]
    assert [one["what"] for one in documents] == ["rlmm find-offset"] * 3
    assert sorted(one["ranges"][0]["start_ms"] for one in documents)[0] == START_MS + 42_000
    assert run(["find-offset", "orders", "0", *asked[:2]]) == 1
    assert f"--was-not-deleted {ID}" in capsys.readouterr().err
    assert run(["find-offset", "orders", "0", "--allow-incomplete"]) == 2


def test_an_offset_is_not_looked_for_round_what_cannot_be_read(
    topic: CataloguedTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.put(files_of(3, 90), encrypted=True)
    asked = ["orders", str(START_MS + 42_000), "--catalogue", topic.recover(), "--was-not-deleted", ID]
    assert run(["find-offset", *asked]) == 1
    assert "it is encrypted" in capsys.readouterr().err
    assert found_offsets(capsys, *asked, "--allow-incomplete") == [42]
    topic.put(files_of(4, 200))
    for time in (150_000, 10**9):
        # The first record of the time may lie in the hole, whether one is found behind it or not.
        asked[1:4] = [str(START_MS + time), "--catalogue", topic.recover()]
        assert run(["find-offset", *asked, "--allow-incomplete"]) == 1
        assert "no segment that can be read has offsets 90 to 199" in capsys.readouterr().err


def test_an_offset_that_a_person_should_decide_about_has_an_exit_code_of_its_own(
    topic: CataloguedTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.put(files_of(3, 30))
    asked = ("--catalogue", topic.recover(), "--was-not-deleted", ID)
    assert found_offsets(capsys, "orders", str(START_MS + 42_000), *asked, code=4) == [42]


def test_without_leave_nothing_is_printed(
    topic: CataloguedTopic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["read", "orders", "--catalogue", topic.recover()]
    assert run(asked) == 1
    assert f"--was-not-deleted {ID}" in capsys.readouterr().err
    monkeypatch.delenv("RLMM_ALLOW_CATALOGUE")
    assert run([*asked, "--was-not-deleted", ID]) == 1
    assert "allow_catalogue does not name it" in capsys.readouterr().err
    (tmp_path / "rlmm.toml").write_text('allow_catalogue = "orders"\n')
    (tmp_path / "erased").write_text(ID)
    configured = [*asked, "--was-not-deleted", ID, "--config", str(tmp_path / "rlmm.toml")]
    assert run([*configured, "--deleted", str(tmp_path / "erased")]) == 1
    assert "in the list of what was erased" in capsys.readouterr().err
    assert run(configured) == 0
    assert len(topic.audit()) == 1


def test_the_options_are_about_a_catalogue(topic: CataloguedTopic, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--was-not-deleted", "--deleted", "--lineage"):
        assert run(["read", "orders", option, ID]) == 2
        assert "give --catalogue, too" in capsys.readouterr().err


def test_a_topic_is_archived_and_the_archive_is_what_is_read(
    topic: CataloguedTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["archive", "--topic-id", ID, "--archive", str(tmp_path / "archives"), "--was-not-deleted", ID, "--json"]
    assert run([*asked, "--catalogue", topic.recover()]) == 0
    (found,) = json.loads(capsys.readouterr().out)["partitions"]
    assert (found["segments"], found["not_whole"], found["records"]) == (3, 0, 90)
    manifest = ArchiveManifest.from_json(Path(found["manifest"]).read_text())
    assert (manifest.cluster_id, manifest.records.gaps) == (CLUSTER, ())
    assert (manifest.records.first_offset, manifest.records.last_offset) == (0, 89)
    assert [json.loads(path.read_text())["what"] for path in topic.audit() if ".read." in path.name] == ["rlmm archive"]


def test_nothing_is_archived_of_a_topic_that_lacks_anything(
    topic: CataloguedTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["archive", "--topic-id", ID, "--archive", str(tmp_path / "archives"), "--was-not-deleted", ID]
    topic.put(files_of(4, 30))
    assert run([*asked, "--catalogue", topic.recover()]) == 1
    assert "have the same offsets" in capsys.readouterr().err
    topic.put(files_of(3, 90), encrypted=True)
    assert run([*asked, "--catalogue", topic.recover()]) == 1
    said = capsys.readouterr().err
    assert "it is encrypted" in said
    assert "archive_encrypted does not help here" in said
    assert not (tmp_path / "archives").exists()
    assert run([*asked, "--catalogue", topic.recover(), "--lineage", ID]) == 2


def test_an_encrypted_copy_of_what_can_be_read_is_not_passed_over_by_an_archive(
    topic: CataloguedTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic.put(files_of(3, 30, [(0, 0), (1, 45)]), encrypted=True)
    asked = ["archive", "--topic-id", ID, "--archive", str(tmp_path / "archives"), "--was-not-deleted", ID]
    assert run([*asked, "--catalogue", topic.recover()]) == 1
    assert "it is encrypted" in capsys.readouterr().err
    assert not (tmp_path / "archives").exists()


def test_an_archived_log_has_to_reach_its_last_offset(
    topic: CataloguedTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = files_of(3, 90)
    topic.put(replace(last, metadata=replace(last.metadata, end_offset=121)))
    asked = ["archive", "--topic-id", ID, "--archive", str(tmp_path / "archives"), "--was-not-deleted", ID]
    assert run([*asked, "--catalogue", topic.recover()]) == 1
    assert "it ends in offset 119, its metadata say 121" in capsys.readouterr().err


def test_a_topic_is_cut_into_pieces_that_others_read_by_the_catalogue(topic: CataloguedTopic) -> None:
    invocation = Invocation({}, {}, Output(as_json=True))
    how = Cutting(ReadRange(5, 80), ReadIsolation.READ_COMMITTED, False, 1, None)
    asked = CatalogueAsked(uri=topic.recover(), was_not_deleted=[ID])
    source = pickle.loads(pickle.dumps(cut_topic(invocation, "export", "orders", None, how, asked)))
    assert [piece.offsets for piece in source.pieces] == [OffsetRange(5, 30), OffsetRange(30, 60), OffsetRange(60, 80)]
    rows = [row for piece in source.pieces for batch in source.reader.rows(piece) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(5, 80))
    (written,) = topic.audit()
    assert json.loads(written.read_text())["what"] == "rlmm export"
    # Whoever reads a piece compares its objects, too.
    log = next(path for path in topic.root.rglob("*.log"))
    log.write_bytes(log.read_bytes() + b"x")
    with pytest.raises(CatalogueError, match="they are others than those"):
        _all(source)
    topic.put(files_of(3, 30))
    with pytest.raises(CatalogueError, match="nothing tells which of them"):
        cut_topic(invocation, "export", "orders", None, how, replace(asked, uri=topic.recover()))


def _all(source: Any) -> list[Any]:
    return [batch for piece in source.pieces for batch in source.reader.read(piece)]
