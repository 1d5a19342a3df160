# SPDX-License-Identifier: Apache-2.0
"""Catalogues that are taken up where a run was interrupted: nothing is read twice, and the table is the same to the byte."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import CatalogueError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.catalogue_document import CATALOGUE_DOCUMENT, CATALOGUE_TABLE, Catalogue
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy, RowKind
from airflow_provider_rlmm.core.segments.pacing import StoragePatience
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.features.recovery import progress
from airflow_provider_rlmm.features.recovery.progress_parts import Part, read_part, write_part
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from tests.recovery import Bucket, rows_in, segment
from tests.recovery_sources import copied, keep

SEGMENTS = 12
NOW_MS = 10_000_000
"""Objects in memory are of time 0: long settled."""


class Killed(BaseException):
    """Ends a run as nothing in it expects."""


@pytest.fixture(autouse=True)
def small_parts_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PART_ROWS", 3)


@pytest.fixture
def bucket() -> Bucket:
    return bucket_of(SEGMENTS)


def bucket_of(count: int) -> Bucket:
    bucket = Bucket(LocalTieredStorageLayout())
    for number in range(count):
        bucket.copy_plain(segment(number, 20 * number, 20 * number + 19))
    return bucket


class Reads:
    """Counts the objects that are read, and ends the run at one of them."""

    def __init__(self, bucket: Bucket, end_at: int | None = None, error: BaseException | None = None) -> None:
        self.keys: list[str] = []
        self._end_at = end_at
        self._error = error or Killed()
        bucket.storage.on_effect = self._on_effect

    def _on_effect(self, what: str, key: str) -> None:
        if what == "get":
            self.keys.append(key)
            if self._end_at is not None and len(self.keys) >= self._end_at:
                raise self._error


def make(bucket: Bucket, folder: Path, **asked: Any) -> Catalogue:
    asked = {"prove": True, "at_once": 1, "storage_uri": "memory:///", **asked}
    patience = StoragePatience(0.0, sleep=lambda _: None)
    request = CatalogueRequest(output=str(folder), **asked)
    return make_catalogue(bucket.storage, request, clock=lambda: NOW_MS, patience=patience)


def interrupted(bucket: Bucket, folder: Path, end_at: int = 30, **asked: Any) -> list[str]:
    """Make a catalogue that is ended at a request; return which objects were read whole by then."""
    reads = Reads(bucket, end_at)
    with pytest.raises(Killed):
        make(bucket, folder, **asked)
    bucket.storage.on_effect = None
    assert not (folder / CATALOGUE_DOCUMENT).exists()
    return reads.keys


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("progress-*.arrow"))


@pytest.mark.slow
def test_it_goes_on_where_it_was_ended_at_any_request_and_is_the_same_to_the_byte(tmp_path: Path) -> None:
    bucket = bucket_of(5)
    whole = Reads(bucket)
    expected = make(bucket, tmp_path / "whole")
    assert expected.taken_up is None
    total, saved = len(whole.keys), []
    for end_at in range(1, total + 1, total // 20):
        folder = tmp_path / str(end_at)
        interrupted(bucket, folder, end_at)
        again = Reads(bucket)
        made = make(bucket, folder)
        assert made.file.sha256 == expected.file.sha256, end_at
        assert {file.name for file in folder.iterdir()} == {CATALOGUE_DOCUMENT, CATALOGUE_TABLE}
        # Of the segment that was being read all is read again, and nothing of those before it.
        assert end_at - 1 + len(again.keys) <= total + 8, end_at
        saved.append(total - len(again.keys))
        if made.taken_up is not None:
            assert (made.taken_up.since_ms, made.taken_up.discarded) == (NOW_MS, ())
    assert len(saved) >= 20
    assert saved == sorted(saved)
    assert saved[-1] > total * 3 // 4


@pytest.mark.slow
def test_a_run_is_interrupted_as_often_as_it_likes(bucket: Bucket, tmp_path: Path) -> None:
    expected, runs = make(bucket, tmp_path / "whole").file.sha256, 0
    while True:
        runs += 1
        Reads(bucket, 12)
        try:
            made = make(bucket, tmp_path / "c")
        except Killed:
            continue
        break
    assert made.file.sha256 == expected
    assert runs > 5
    assert made.taken_up is not None
    assert made.taken_up.segments == SEGMENTS


def test_a_storage_that_went_away_is_asked_again_only_for_what_is_missing(bucket: Bucket, tmp_path: Path) -> None:
    first = Reads(bucket, 25, StorageUnavailableError("connection refused"))
    for number in range(SEGMENTS, 2 * SEGMENTS):
        bucket.copy_plain(segment(number, 20 * number, 20 * number + 19))
    with pytest.raises(StorageUnavailableError):
        make(bucket, tmp_path / "c", prove=False)
    again = Reads(bucket)
    made = make(bucket, tmp_path / "c", prove=False)
    assert made.taken_up is not None
    assert made.taken_up.segments == len({key.rpartition(".")[0] for key in first.keys[:24]})
    assert not {*first.keys[:24]} & {*again.keys}
    assert made.file.sha256 == make(bucket, tmp_path / "whole", prove=False).file.sha256


def test_an_object_that_has_changed_is_read_again_whatever_its_size(bucket: Bucket, tmp_path: Path) -> None:
    interrupted(bucket, tmp_path / "c", 90)
    log = next(key for key in sorted(bucket.storage.keys) if key.endswith(".log"))
    data = bytearray(bucket.storage.fetch_object(log))
    data[-1] ^= 1
    bucket.storage.put_object(log, bytes(data), last_modified_ms=1)
    made = make(bucket, tmp_path / "c")
    assert made.taken_up is not None
    assert made.taken_up.segments > 0
    damaged = [row for row in rows_in(str(tmp_path / "c")) if row.kind is RowKind.DAMAGED]
    assert [log in row.keys for row in damaged] == [True]
    assert made.file.sha256 == make(bucket, tmp_path / "whole").file.sha256


@pytest.mark.parametrize("gone", [".log", ".timeindex"])
def test_a_segment_whose_object_is_gone_is_not_what_it_was(bucket: Bucket, tmp_path: Path, gone: str) -> None:
    interrupted(bucket, tmp_path / "c", 90)
    key = next(key for key in sorted(bucket.storage.keys) if key.endswith(gone))
    del bucket.storage._objects[key]
    make(bucket, tmp_path / "c")
    assert rows_in(str(tmp_path / "c"))[0].kind is RowKind.UNFINISHED


def test_what_was_changed_right_before_the_listing_is_read_again(bucket: Bucket, tmp_path: Path) -> None:
    for key in bucket.storage.keys:
        bucket.storage.put_object(key, bucket.storage.fetch_object(key), last_modified_ms=NOW_MS - 59_000)
    interrupted(bucket, tmp_path / "c", 90)
    assert not parts(tmp_path / "c")
    assert make(bucket, tmp_path / "c").taken_up is None


def test_what_could_not_be_seen_is_read_again(bucket: Bucket, tmp_path: Path) -> None:
    first = sorted(key for key in bucket.storage.keys if key.endswith(".log"))[0]
    read = Counter[str]()

    def away(what: str, key: str) -> None:
        read[key] += what == "get"
        if key == first and what == "get":
            raise StorageUnavailableError("503")
        if sum(read.values()) > 40:
            raise Killed

    bucket.storage.on_effect = away
    with pytest.raises(Killed):
        make(bucket, tmp_path / "c", prove=False)
    bucket.storage.on_effect = None
    made = make(bucket, tmp_path / "c", prove=False)
    assert made.taken_up is not None
    assert {row.kind for row in rows_in(str(tmp_path / "c"))} == {RowKind.COPIED}
    assert made.file.sha256 == make(bucket, tmp_path / "whole", prove=False).file.sha256


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        ("storage was 'memory:///' and is 'memory:///other'", {"storage_uri": "memory:///other"}),
        ("allow_gaps was 'False' and is 'True'", {"may_have_gaps": True}),
    ],
)
def test_what_was_asked_for_something_else_is_refused_by_name(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, asked: dict[str, Any]
) -> None:
    interrupted(bucket, tmp_path / "c")
    before = parts(tmp_path / "c")
    # It is said before the storage is listed.
    monkeypatch.setattr(bucket.storage, "walk", None)
    with pytest.raises(CatalogueError, match="progress-[0-9a-f]{64}.arrow.*" + named) as e:
        make(bucket, tmp_path / "c", **asked)
    assert "remove it with the other files progress-*.arrow" in str(e.value)
    assert parts(tmp_path / "c") == before


def test_what_was_read_below_another_prefix_is_refused(tmp_path: Path) -> None:
    bucket = Bucket()
    for number in range(SEGMENTS):
        bucket.copy(segment(number, 20 * number, 20 * number + 19))
    interrupted(bucket, tmp_path / "c", 8, prove=False)
    assert parts(tmp_path / "c")
    with pytest.raises(CatalogueError, match="layout was 'aiven' and is 'local-tiered-storage'"):
        make(Bucket(LocalTieredStorageLayout()), tmp_path / "c", prove=False)
    with pytest.raises(CatalogueError, match="what is read was 'manifests' and is 'manifests and whole logs"):
        make(bucket, tmp_path / "c", prove=False, whole_logs=True)


@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "of another name"])
def test_a_damaged_part_is_not_used_and_said(bucket: Bucket, tmp_path: Path, how: str) -> None:
    interrupted(bucket, tmp_path / "c", 60)
    part = parts(tmp_path / "c")[0]
    data = bytearray(part.read_bytes())
    if how == "of another name":
        part = part.rename(part.with_name(f"progress-{'0' * 64}.arrow"))
    elif how == "flipped":
        data[len(data) // 2] ^= 1
        part.write_bytes(bytes(data))
    else:
        part.write_bytes(bytes(data[:-9]) if how == "cut" else b"")
    made = make(bucket, tmp_path / "c")
    assert made.taken_up is not None
    assert made.taken_up.discarded == (f"{part.name}: its bytes are not those that its name says",)
    assert made.file.sha256 == make(bucket, tmp_path / "whole").file.sha256
    assert not parts(tmp_path / "c")


def test_rows_of_another_segment_under_the_same_keys_are_not_taken(bucket: Bucket, tmp_path: Path) -> None:
    interrupted(bucket, tmp_path / "c", 60)
    asked = asked_in(parts(tmp_path / "c")[0])
    found = [read_part(str(tmp_path / "c"), part.name, asked) for part in parts(tmp_path / "c")]
    for old in parts(tmp_path / "c"):
        old.unlink()
    for part in found:
        assert isinstance(part, Part)
        at = part.rows.schema.get_field_index("segment_id")
        ids = pa.array([b"x" * 16] * part.rows.num_rows, pa.binary())
        write_part(str(tmp_path / "c"), part.rows.set_column(at, "segment_id", ids), asked, 5)
    made = make(bucket, tmp_path / "c")
    assert made.taken_up is not None
    assert (made.taken_up.since_ms, made.taken_up.segments, made.taken_up.proved) == (5, 0, 0)
    assert made.file.sha256 == make(bucket, tmp_path / "whole").file.sha256


def asked_in(part: Path) -> dict[str, str]:
    with pa.ipc.open_stream(part.read_bytes()) as stream:
        found: dict[str, str] = json.loads(stream.schema.metadata[b"rlmm"])["asked"]
        return found


def test_a_proof_counts_again_only_for_the_row_that_was_proved(bucket: Bucket, tmp_path: Path) -> None:
    interrupted(bucket, tmp_path / "c", 90)
    # Since then a snapshot is at hand: its fields are others, and the contents are compared with these.
    log = next(key for key in sorted(bucket.storage.keys) if key.endswith(".log"))
    known = segment(0, 0, 19, size=len(bucket.storage.fetch_object(log)))
    keep(tmp_path / "work", copied(known))
    made = make(bucket, tmp_path / "c", work_uri=str(tmp_path / "work"))
    whole = make(bucket, tmp_path / "whole", work_uri=str(tmp_path / "work"))
    assert made.taken_up is not None
    assert (made.taken_up.segments > 0, made.file.sha256) == (True, whole.file.sha256)
    first = rows_in(str(tmp_path / "c"))[0]
    assert (first.state is not None, first.proved_by) == (True, ProvedBy.CONTENTS)


def test_files_of_others_in_the_folder_are_refused(bucket: Bucket, tmp_path: Path) -> None:
    interrupted(bucket, tmp_path / "c")
    (tmp_path / "c" / "progress-mine.arrow").write_text("mine")
    with pytest.raises(CatalogueError, match=r"already holds \['progress-mine\.arrow'\]"):
        make(bucket, tmp_path / "c")


def test_parts_beside_a_catalogue_are_no_leave_to_replace_it(bucket: Bucket, tmp_path: Path) -> None:
    interrupted(bucket, tmp_path / "c")
    left = {part.name: part.read_bytes() for part in parts(tmp_path / "c")}
    make(bucket, tmp_path / "c")
    for name, data in left.items():
        (tmp_path / "c" / name).write_bytes(data)
    with pytest.raises(CatalogueError, match="already holds"):
        make(bucket, tmp_path / "c")


def test_what_was_read_is_written_after_a_while_however_little(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PART_ROWS", 1_000)
    monkeypatch.setattr(progress, "PART_S", 0.0)
    seen = list[int]()
    bucket.storage.on_effect = lambda *_: seen.append(len(parts(tmp_path / "c")))
    make(bucket, tmp_path / "c")
    assert max(seen) >= SEGMENTS
