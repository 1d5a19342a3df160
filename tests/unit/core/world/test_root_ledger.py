# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from unittest import mock
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.world import root_ledger
from airflow_provider_rlmm.core.world.root_ledger import (
    ROOTS_DOCUMENT,
    WorkFolderLedger,
    record_roots,
    recorded_roots,
)


def test_of_each_place_the_latest_root_is_known(tmp_path: Path) -> None:
    uri = str(tmp_path / "cluster-c")
    assert recorded_roots(uri, "c") == frozenset()
    record_roots(uri, "c", {"one": "a"})
    record_roots(uri, "c", {"two": "b"})
    assert recorded_roots(uri, "c") == {"a", "b"}
    record_roots(uri, "c", {"one": "c"})
    assert recorded_roots(uri, "c") == {"b", "c"}, "whoever goes back to root a has to prove it again"


def test_what_is_known_is_not_written_again(tmp_path: Path) -> None:
    record_roots(str(tmp_path), "c", {"one": "a"})
    before = (tmp_path / ROOTS_DOCUMENT).stat().st_mtime_ns
    record_roots(str(tmp_path), "c", {"one": "a"})
    assert (tmp_path / ROOTS_DOCUMENT).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"cluster_id": "other", "root_ids": {}}', '{"cluster_id": "c", "root_ids": {"one": 7}}']
)
def test_what_cannot_be_read_or_is_another_clusters_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    (tmp_path / ROOTS_DOCUMENT).write_text(content)
    with pytest.raises(PlanError, match="storage roots that earlier runs have recorded, cannot be read"):
        recorded_roots(str(tmp_path), "c")
    with pytest.raises(PlanError):
        record_roots(str(tmp_path), "c", {"one": "a"})
    assert (tmp_path / ROOTS_DOCUMENT).read_text() == content


# -- since when a work folder knows where a place lies ---------------------------------------------------------------------


def ledger_of(folder: Path, now_ms: int = 5) -> WorkFolderLedger:
    return WorkFolderLedger(str(folder), "c", lambda: now_ms)


def a_log(records: int) -> InProcessMetadataEventLog:
    log = InProcessMetadataEventLog(2)
    for _ in range(records):
        log.append(1, b"x")
    return log


def test_a_location_is_recorded_once_and_root_ids_beside_it(tmp_path: Path) -> None:
    log = a_log(3)
    first = ledger_of(tmp_path).seen({"one": "s3://a", "two": "s3://b"}, log)["one"]
    assert (first.where, first.at_ms, first.topic_id, first.ends) == ("s3://a", 5, log.topic_id, {0: 0, 1: 3})
    record_roots(str(tmp_path), "c", {"one": "a"})
    log.append(1, b"x")
    assert ledger_of(tmp_path, 9).seen({"one": "s3://a"}, log)["one"] == first
    assert recorded_roots(str(tmp_path), "c") == {"a"}


def test_another_location_or_another_log_counts_from_now_and_so_does_the_way_back(tmp_path: Path) -> None:
    log = a_log(3)
    ledger_of(tmp_path).seen({"one": "s3://a"}, log)
    assert ledger_of(tmp_path, 6).seen({"one": "s3://copy"}, log)["one"].at_ms == 6
    assert ledger_of(tmp_path, 7).seen({"one": "s3://a"}, log)["one"].at_ms == 7
    log.topic_id = UUID(int=99)
    assert ledger_of(tmp_path, 8).seen({"one": "s3://a"}, log)["one"].at_ms == 8


def test_a_document_of_earlier_versions_is_read_and_its_roots_count_from_now(tmp_path: Path) -> None:
    (tmp_path / ROOTS_DOCUMENT).write_text('{"cluster_id": "c", "root_ids": {"one": "a"}}')
    assert ledger_of(tmp_path).seen({"one": "s3://a"}, a_log(3))["one"].ends == {0: 0, 1: 3}
    assert recorded_roots(str(tmp_path), "c") == {"a"}


@pytest.mark.parametrize(
    "location",
    [
        7,
        {},
        {"where": 7, "at_ms": 1, "topic_id": str(UUID(int=1)), "ends": {}},
        {"where": "a", "at_ms": "1", "topic_id": str(UUID(int=1)), "ends": {}},
        {"where": "a", "at_ms": 1, "topic_id": "x", "ends": {}},
        {"where": "a", "at_ms": 1, "topic_id": str(UUID(int=1)), "ends": {"0": -1}},
        {"where": "a", "at_ms": 1, "topic_id": str(UUID(int=1)), "ends": {"0": True}},
        {"where": "a", "at_ms": 1, "topic_id": str(UUID(int=1)), "ends": []},
    ],
)
def test_a_location_that_cannot_be_read_is_refused(tmp_path: Path, location: object) -> None:
    document = {"cluster_id": "c", "root_ids": {}, "locations": {"one": location}}
    (tmp_path / ROOTS_DOCUMENT).write_text(json.dumps(document))
    with pytest.raises(PlanError, match="cannot be read"):
        ledger_of(tmp_path).seen({"one": "a"}, a_log(0))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cluster"
    with pytest.raises(PlanError):
        ledger_of(folder).seen({"one": "a"}, a_log(0))
    (tmp_path / "cluster").mkdir()
    with mock.patch.object(root_ledger, "replace_file", side_effect=OSError("read-only")):
        assert ledger_of(tmp_path / "cluster").seen({"one": "a"}, a_log(0))["one"].where == "a"
    assert "the next run will not know this root: read-only" in caplog.text
