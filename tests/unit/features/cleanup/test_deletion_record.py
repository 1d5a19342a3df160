# SPDX-License-Identifier: Apache-2.0
"""What the audit log in the work folder tells of segments that have no object any more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import AuditError, StorageRootError
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.world import audit_files
from airflow_provider_rlmm.core.world import audit_log as audit
from airflow_provider_rlmm.core.world.audit import DeletionRecord
from airflow_provider_rlmm.core.world.audit_files import compact, deletion_record
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from tests.builders import CLUSTER_ID, DAY_MS, START_MS, Cluster, tip

GONE, OTHER = tip("gone", 0, 7), tip("gone", 1, 7)
SEGMENTS = [RemoteLogSegmentId(GONE, UUID(int=number)) for number in range(4)]
OUTCOMES = ("GONE", "PRESENT", "UNKNOWN", "NEVER_SEEN")


def batch(
    folder: Path,
    outcomes: Sequence[str] | None,
    *,
    artifact: str = "dag.1",
    at_ms: int = START_MS,
    of: Any = GONE,
    objects: int | None = 0,
) -> None:
    """One batch of the first segments: how it ended for each, ``None`` for a run that was killed before it ended."""
    log = AuditFiles(str(folder), CLUSTER_ID, RunIdentity("dag", artifact, artifact, "ada"), 0, lambda: at_ms)
    number = 2 if outcomes is None else len(outcomes)
    columns = {
        "topic": "gone", "topic_id": of.topic_id.bytes, "partition": of.partition, "metadata_partition": 0,
        "segment_id": [segment.id.bytes for segment in SEGMENTS[:number]], "started_offset": list(range(number)),
    }  # fmt: skip
    written = log.before(columns)
    if outcomes is not None:
        log.after(written, {"outcome": list(outcomes), "objects": [objects] * number})


def record(folder: Path, segments: Sequence[RemoteLogSegmentId] = SEGMENTS, since_ms: int = START_MS) -> DeletionRecord:
    return deletion_record(str(folder), CLUSTER_ID, segments, since_ms)


def found(folder: Path, **options: Any) -> list[int]:
    answer = record(folder, **options)
    assert answer.unread == ()
    return sorted(segment.id.int for segment in answer.deleted)


def only_file(folder: Path, phase: str) -> Path:
    (path,) = folder.rglob(f"*.{phase}.parquet")
    return path


def test_a_segment_is_deleted_where_a_batch_found_or_may_have_found_objects(tmp_path: Path) -> None:
    batch(tmp_path, OUTCOMES)
    assert found(tmp_path) == [0, 1, 2]


def test_a_batch_of_which_storage_was_not_asked_to_delete_anything_found_nothing(tmp_path: Path) -> None:
    batch(tmp_path, ["UNKNOWN"] * 4, objects=None)
    assert found(tmp_path) == []


def test_a_batch_that_never_ended_is_that_of_a_killed_run(tmp_path: Path) -> None:
    batch(tmp_path, None)
    assert found(tmp_path) == [0, 1]


def test_one_batch_that_found_objects_is_enough_whatever_others_found(tmp_path: Path) -> None:
    for number, outcome in enumerate(("NEVER_SEEN", "GONE", "NEVER_SEEN")):
        batch(tmp_path, [outcome], artifact=f"dag.{number}", at_ms=START_MS + number * DAY_MS)
    assert found(tmp_path) == [0]


def test_batches_that_found_nothing_say_nothing_however_many(tmp_path: Path) -> None:
    for number in range(3):
        batch(tmp_path, ["NEVER_SEEN"] * 4, artifact=f"dag.{number}", at_ms=START_MS + number * DAY_MS)
    assert found(tmp_path) == []


def test_no_entry_says_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "nowhere") == []
    batch(tmp_path, ["GONE"] * 4, of=OTHER)
    assert found(tmp_path) == [], "segments of another user partition"


def test_files_of_a_run_that_were_put_into_one_say_the_same(tmp_path: Path) -> None:
    batch(tmp_path, OUTCOMES)
    batch(tmp_path, None, artifact="dag.2")
    assert compact(str(tmp_path), "dag.1", START_MS).removed == 2
    assert compact(str(tmp_path), "dag.2", START_MS).removed == 1
    assert found(tmp_path) == [0, 1, 2]


def test_days_before_the_deletion_began_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        batch(tmp_path, ["NEVER_SEEN"] * 4, artifact=f"dag.{number}", at_ms=START_MS + number * DAY_MS)
    batch(tmp_path, ["GONE"] * 3, at_ms=START_MS + 6 * DAY_MS)
    opened: set[str] = set()
    real = audit_files.read_file
    monkeypatch.setattr(audit_files, "read_file", lambda uri, size: opened.add(uri.split("/")[-2]) or real(uri, size))
    assert found(tmp_path, since_ms=START_MS + 5 * DAY_MS) == [0, 1, 2]
    assert len(opened) == 3, "its day, the one before, as clocks differ, and what came after"
    opened.clear()
    assert found(tmp_path, segments=SEGMENTS[:3]) == [0, 1, 2]
    assert len(opened) == 1, "the newest day says all"


@pytest.mark.parametrize("since_ms", [0, START_MS, 2**62])
def test_any_time_of_an_event_is_understood(tmp_path: Path, since_ms: int) -> None:
    batch(tmp_path, ["GONE"])
    assert found(tmp_path, since_ms=since_ms) == ([] if since_ms > START_MS else [0])


def test_a_batch_that_could_not_be_written_down_and_is_there_all_the_same_is_no_killed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the answer to the first put was lost; nothing was deleted then."""
    real = audit.create_file

    def unanswered(uri: str, parts: Any) -> None:
        monkeypatch.setattr(audit, "create_file", real)
        real(uri, parts)
        raise TimeoutError("the store does not answer")

    monkeypatch.setattr(audit, "create_file", unanswered)
    with pytest.raises(AuditError):
        batch(tmp_path, None)
    assert only_file(tmp_path, "before").exists()
    assert found(tmp_path) == []


# --- what cannot be read ----------------------------------------------------------------------------------------------


def test_an_end_that_cannot_be_read_is_not_taken_for_a_killed_run(tmp_path: Path) -> None:
    """It may say that nothing was found."""
    batch(tmp_path, ["NEVER_SEEN"] * 4)
    path = only_file(tmp_path, "after")
    path.write_bytes(path.read_bytes()[:-20])
    answer = record(tmp_path)
    assert answer.deleted == frozenset()
    assert [path.name in why for why in answer.unread] == [True]


def test_a_file_of_several_batches_that_cannot_be_read_keeps_none_of_its_run_from_having_ended(tmp_path: Path) -> None:
    batch(tmp_path, ["NEVER_SEEN"] * 4)
    compact(str(tmp_path), "dag.1", START_MS)
    (whole,) = tmp_path.rglob("*.parquet")
    batch(tmp_path, None)
    batch(tmp_path, ["PRESENT"], artifact="dag.2")
    whole.write_bytes(b"PAR1")
    answer = record(tmp_path)
    assert {segment.id.int for segment in answer.deleted} == {0}, "what another run says"
    assert len(answer.unread) == 1


@pytest.mark.parametrize("what", ["another cluster", "no parquet", "other columns"])
def test_a_file_that_is_none_of_the_clusters_audit_log_says_nothing(tmp_path: Path, what: str) -> None:
    batch(tmp_path, ["GONE"] * 4)
    if what == "another cluster":
        answer = deletion_record(str(tmp_path), "another", SEGMENTS, START_MS)
    else:
        for phase in ("before", "after"):
            only_file(tmp_path, phase).write_bytes(b"x" * 100 if what == "no parquet" else b"PAR1PAR1")
        answer = record(tmp_path)
    assert (answer.deleted, len(answer.unread)) == (frozenset(), 2)


def test_a_folder_that_cannot_be_listed_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch(tmp_path, ["GONE"] * 4)

    def denied(uri: str) -> list[str]:
        raise PermissionError("no right to list it")

    monkeypatch.setattr(audit_files, "list_folders", denied)
    assert (record(tmp_path).deleted, record(tmp_path).unread) == (
        frozenset(),
        (f"{tmp_path}/audit: no right to list it",),
    )


def test_a_day_whose_files_become_one_meanwhile_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch(tmp_path, OUTCOMES)
    real, looks = audit_files.read_file, count()

    def read(uri: str, size: int) -> Any:
        if next(looks) == 0:
            monkeypatch.setattr(audit_files, "read_file", real)
            compact(str(tmp_path), "dag.1", START_MS)
        return real(uri, size)

    monkeypatch.setattr(audit_files, "read_file", read)
    assert found(tmp_path) == [0, 1, 2]


def test_a_day_whose_files_go_again_and_again_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch(tmp_path, None)
    monkeypatch.setattr(audit_files, "list_files", lambda uri: [only_file(tmp_path, "before").name, "dag.1.parquet"])
    answer = record(tmp_path)
    assert (answer.deleted, len(answer.unread)) == (frozenset(), 1)


def test_of_many_rows_a_part_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_files, "_BATCH_ROWS", 1)
    batch(tmp_path, OUTCOMES)
    assert found(tmp_path) == [0, 1, 2]
    assert found(tmp_path, segments=[*SEGMENTS[2:], RemoteLogSegmentId(GONE, UUID(int=99))]) == [2]


# --- with the cleaner -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compacted", [False, True])
def test_a_folder_that_stays_away_is_missing_by_the_files_of_the_work_folder(tmp_path: Path, compacted: bool) -> None:
    cluster = Cluster()
    cluster.segments(GONE, 2)
    cluster.mark_and_wait()
    away: dict[str, Any] = {}

    class Renamed(AuditFiles):
        def before(self, segments: Any) -> Any:
            written = super().before(segments)
            away.update({key: cluster.storage._objects.pop(key) for key in cluster.keys_of(GONE)})
            return written

    run = RunIdentity("dag", "1", "dag.1", "ada")
    cluster.audit = Renamed(str(tmp_path), CLUSTER_ID, run, 0, cluster.clock)  # type: ignore[assignment]
    assert cluster.clean().partitions[0].outcome == "INCOMPLETE"
    if compacted:
        assert compact(str(tmp_path), "dag.1", cluster.now_ms).removed == 2
    cluster.record_root()
    cluster.audit = AuditFiles(str(tmp_path), CLUSTER_ID, run, 0, cluster.clock)  # type: ignore[assignment]
    (partition,) = cluster.clean().partitions
    assert (partition.outcome, {r.kind for r in partition.refusals}) == ("REFUSED", {RefusalKind.MISSING_OBJECTS})
    assert "DELETE_SEGMENT_FINISHED" not in cluster.states()
    cluster.storage._objects.update(away)
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    assert cluster.keys_of(GONE) == set()


def test_a_local_folder_that_is_renamed_before_a_batch_and_stays_away_is_missing(tmp_path: Path) -> None:
    """The run ends with an error then, before anything is deleted: that is no deletion of unknown outcome."""
    cluster, root = Cluster(), tmp_path / "remote"
    cluster.segments(GONE, 2)
    for key, (data, _) in cluster.storage._objects.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)
    cluster.mark_and_wait()
    folder, away = root / cluster.layout.partition_prefix(GONE), tmp_path / "away"

    def mounted() -> ObjectStoreRemoteStorageManager:
        return ObjectStoreRemoteStorageManager(root.as_uri(), cluster.layout)

    cluster.storage = mounted()  # type: ignore[assignment]
    cluster.audit = InMemoryAuditLog(lambda name, _: folder.rename(away) if name == "audit before" else None)
    with pytest.raises(StorageRootError, match="unmounted, renamed or replaced"):
        cluster.clean()
    for _ in range(2):
        cluster.storage = mounted()  # type: ignore[assignment]
        (partition,) = cluster.clean().partitions
        assert (partition.outcome, partition.segments_left) == ("REFUSED", 2)
        assert "DELETE_SEGMENT_FINISHED" not in cluster.states()
    assert len([path for path in away.rglob("*") if path.is_file()]) == 10
    away.rename(folder)
    cluster.audit = InMemoryAuditLog(beside=cluster.audit)
    cluster.storage = mounted()  # type: ignore[assignment]
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    assert not folder.exists() or not list(folder.iterdir())
