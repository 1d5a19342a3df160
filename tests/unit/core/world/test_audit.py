# SPDX-License-Identifier: Apache-2.0
"""What a deletion leaves in the audit log, and what happens where that cannot be written."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import AuditError, StorageRootError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world import audit_files
from airflow_provider_rlmm.core.world import audit_log as audit
from airflow_provider_rlmm.core.world.audit import AUDIT_COLUMNS, AuditName, AuditPhase, batch_name, day_of, is_day
from airflow_provider_rlmm.core.world.audit_files import Wanted, audit_rows, compact
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.audit_log import AuditFiles
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport
from tests.builders import CLUSTER_ID, DAY_MS, START_MS, Cluster, tip

GONE = tip("gone", 0, 7)
RUN = RunIdentity("dag", "run-1", "dag.run-1", "ada", "grace", "plan-1", "ab" * 32)


def the_disk_is_full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.mark_and_wait()
    return cluster


def log_of(cluster: Cluster, folder: Path, run: RunIdentity = RUN) -> AuditFiles:
    return AuditFiles(str(folder), CLUSTER_ID, run, 0, cluster.clock)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))


def test_each_batch_is_written_down_before_and_after(cluster: Cluster, tmp_path: Path) -> None:
    cluster.audit = log_of(cluster, tmp_path)  # type: ignore[assignment]
    cluster.clean(batch_segments=2)
    names = files(tmp_path)
    day = day_of(cluster.now_ms)
    assert [name.rpartition(".0")[2] for name in names] == [
        "00000.after.parquet", "00000.before.parquet", "00001.after.parquet", "00001.before.parquet"
    ]  # fmt: skip
    assert all(name.startswith(f"audit/{day}/dag.run-1.0.") for name in names)
    before, after = (pq.read_table(tmp_path / name).to_pylist() for name in (names[1], names[0]))
    assert len(before) == 2
    row = after[0]
    said = {name: row[name] for name in ("dag_id", "run_id", "artifact", "triggered_by", "approved_by", "plan_id")}
    assert list(said.values()) == ["dag", "run-1", "dag.run-1", "ada", "grace", "plan-1"]
    assert (row["plan_sha256"], row["cluster_id"], row["metadata_partition"]) == ("ab" * 32, CLUSTER_ID, 0)
    assert (row["topic"], UUID(bytes=row["topic_id"]), row["partition"]) == ("gone", GONE.topic_id, 0)
    assert (row["outcome"], row["objects"], row["bytes"], row["why"]) == ("GONE", 5, 50, None)
    history = cluster.replay().histories[GONE]
    for one in after:
        segment = UUID(bytes=one["segment_id"])
        assert one["started_offset"] == history.started_at[segment]
        assert one["finished_offset"] == history.finished_at[segment]
    empty = ("outcome", "objects", "bytes", "finished_offset", "why")
    for one, other in zip(before, after, strict=True):
        assert {one[name] for name in empty} == {None}
        same = [n for n, _ in AUDIT_COLUMNS if n not in (*empty, "phase", "time_ms")]
        assert [one[name] for name in same] == [other[name] for name in same]
        assert one["time_ms"] <= other["time_ms"]


def test_what_cannot_be_written_down_is_not_deleted_and_the_next_run_goes_on(cluster: Cluster) -> None:
    keys = cluster.keys_of(GONE)

    def fail(name: str, rows: Any) -> None:
        raise AuditError("the disk is full")

    cluster.audit = InMemoryAuditLog(fail)
    kept: list[MetadataPartitionReport] = []
    with pytest.raises(AuditError, match="the disk is full"):
        cluster.clean(on_interrupted=kept.append)
    assert cluster.keys_of(GONE) == keys
    assert "DELETE_SEGMENT_FINISHED" not in cluster.states()
    assert "AuditError" in kept[0].partitions[0].refusals[0].why
    cluster.audit = InMemoryAuditLog()
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    assert {row["started_offset"] for row in cluster.audit.rows} != {None}


def test_an_outcome_that_cannot_be_written_is_told_in_red_and_the_work_goes_on(cluster: Cluster) -> None:
    def fail(name: str, rows: Any) -> None:
        if name == "audit after":
            raise AuditError("the disk is full")

    cluster.audit = InMemoryAuditLog(fail)
    report = cluster.clean(batch_segments=2)
    assert [p.outcome for p in report.partitions] == ["FINISHED"]
    assert [(r.kind, r.what) for r in report.refusals] == [
        (RefusalKind.AUDIT, "outcomes of batch batch-1, 2 segments"),
        (RefusalKind.AUDIT, "outcomes of batch batch-2, 1 segment"),
    ]
    assert all(r.kind.needs_person for r in report.refusals)


def test_a_dry_run_writes_nothing_there(cluster: Cluster) -> None:
    cluster.clean(dry_run=True)
    assert cluster.audit.rows == []


@pytest.mark.parametrize("error", [StorageRootError, StorageUnavailableError])
def test_where_storage_fails_the_outcome_is_unknown(cluster: Cluster, error: type[Exception]) -> None:
    def fail(name: str, key: str) -> None:
        if name == "delete":
            cluster.storage.on_effect = fail_to_list
            raise StorageUnavailableError("the reply is lost")

    def fail_to_list(name: str, key: str) -> None:
        raise error("the folder is gone")

    cluster.storage.on_effect = fail
    if error is StorageRootError:
        with pytest.raises(StorageRootError):
            cluster.clean()
    else:
        cluster.clean()
    after = [row for row in cluster.audit.rows if row["phase"] == "AFTER"]
    assert {row["outcome"] for row in after} == {"UNKNOWN"}
    assert len(after) == 3
    assert all(row["why"] for row in after)


def test_an_error_that_ends_the_run_in_mid_batch_leaves_an_unknown_outcome(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(metadatas: Any, others: Any) -> None:
        raise StorageRootError("the folder is gone")

    monkeypatch.setattr(cluster.storage, "delete_log_segments", fail)
    with pytest.raises(StorageRootError):
        cluster.clean()
    after = [row for row in cluster.audit.rows if row["phase"] == "AFTER"]
    assert [(row["outcome"], row["objects"], row["finished_offset"]) for row in after] == [("UNKNOWN", None, None)] * 3
    assert {row["why"] for row in after} == {"storage did not say what became of it"}


def test_objects_that_stay_are_told_with_the_reason(cluster: Cluster) -> None:
    stuck = sorted(cluster.keys_of(GONE))[0]

    def fail(name: str, key: str) -> None:
        if name == "delete" and key == stuck:
            raise StorageUnavailableError("it is locked")

    cluster.storage.on_effect = fail
    cluster.clean()
    after = [row for row in cluster.audit.rows if row["phase"] == "AFTER"]
    for row in after:
        is_stuck = kafka_uuid_str(UUID(bytes=row["segment_id"])) in stuck
        assert (row["outcome"], bool(row["why"])) == (("PRESENT", True) if is_stuck else ("GONE", False))
    assert sum(row["outcome"] == "PRESENT" for row in after) == 1


def test_a_full_disk_is_an_audit_error_that_may_pass(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.audit = log_of(cluster, tmp_path)  # type: ignore[assignment]
    monkeypatch.setattr(audit, "create_file", the_disk_is_full)
    with pytest.raises(AuditError, match=rf"{tmp_path}/audit/.*No space left.*see that the work folder has room"):
        cluster.clean()
    assert AuditError.retriable


def test_two_tries_at_once_have_files_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    one, other = log_of(cluster, tmp_path), log_of(cluster, tmp_path)
    columns = {"segment_id": [b"x" * 16], "topic_id": [b"y" * 16], "partition": [0]}
    assert one.before(columns).name != other.before(columns).name
    assert len(files(tmp_path)) == 2


def test_a_file_is_never_written_over(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "batch_name", lambda *_: "0.000000000000001-00000000.000000")
    first = log_of(cluster, tmp_path)
    first.before({"segment_id": [b"x" * 16]})
    before = (tmp_path / files(tmp_path)[0]).read_bytes()
    with pytest.raises(AuditError, match="File exists"):
        log_of(cluster, tmp_path).before({"segment_id": [b"z" * 16]})
    assert (tmp_path / files(tmp_path)[0]).read_bytes() == before


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        AuditName("dag.run", batch_name(17, START_MS, "0123abcd", 3), AuditPhase.BEFORE),
        AuditName("dag.run", batch_name("scrub", START_MS, "0123abcd", 3), AuditPhase.AFTER),
        AuditName("dag.manual__2026-11-23T00-00-00", part=1),
        AuditName("dag.run.2", part=12),
    ],
)
def test_a_name_reads_back(name: AuditName) -> None:
    assert AuditName.of(str(name)) == name


@pytest.mark.parametrize(
    "name", ["x.txt", ".x.parquet", "~2.parquet", "a~0.parquet", "a~1x.parquet", "a b.parquet", ""]
)
def test_other_names_are_none_of_ours(name: str) -> None:
    assert AuditName.of(name) is None


def test_days() -> None:
    assert (day_of(0), day_of(DAY_MS - 1), day_of(DAY_MS)) == ("1970-01-01", "1970-01-01", "1970-01-02")
    assert [is_day(d) for d in ("2026-11-23", "2026-13-01", "2026-1-1", "audit")] == [True, False, False, False]


# --- compaction and reading ------------------------------------------------------------------------------------------


def written(cluster: Cluster, folder: Path, artifact: str, batches: int, *, ended: bool = True) -> None:
    """Some batches of two segments each."""
    run = RunIdentity("dag", artifact, artifact, "ada")
    log = log_of(cluster, folder, run)
    for number in range(batches):
        ids = [UUID(int=2 * number + k).bytes for k in range(2)]
        columns = {
            "topic": "gone", "topic_id": GONE.topic_id.bytes, "partition": number, "segment_id": ids,
            "metadata_partition": 0, "start_offset": [0, 10],
        }  # fmt: skip
        batch = log.before(columns)
        if ended:
            log.after(batch, {"outcome": ["GONE", "GONE"], "objects": [5, 5], "bytes": [50, 50]})


def found(folder: Path, wanted: Wanted | None = None, **options: Any) -> list[dict[str, Any]]:
    result = audit_rows(str(folder), CLUSTER_ID, wanted, **options)
    assert result.unreadable == ()
    rows: list[dict[str, Any]] = result.rows.to_pylist()
    return rows


@pytest.mark.slow
def test_the_files_of_a_run_become_one_and_say_the_same(cluster: Cluster, tmp_path: Path) -> None:
    written(cluster, tmp_path, "dag.1", 3)
    written(cluster, tmp_path, "dag.1.2", 1)
    before = found(tmp_path)
    day = day_of(cluster.now_ms)
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (12, 6, 0)
    assert files(tmp_path)[-1] == f"audit/{day}/dag.1.parquet"
    assert len(files(tmp_path)) == 3
    assert found(tmp_path) == before
    assert len(before) == 8
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (0, 0, 0)


def test_a_run_that_is_repeated_gets_another_file(cluster: Cluster, tmp_path: Path) -> None:
    for _ in range(3):
        written(cluster, tmp_path, "dag.1", 1)
        compact(str(tmp_path), "dag.1", cluster.now_ms)
    assert [name.rpartition("/")[2] for name in files(tmp_path)] == [
        "dag.1.parquet",
        "dag.1~2.parquet",
        "dag.1~3.parquet",
    ]
    assert len(found(tmp_path)) == 6


def test_a_try_that_dies_before_it_removes_the_small_files_leaves_nothing_twice(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(cluster, tmp_path, "dag.1", 2)
    with monkeypatch.context() as patch:
        patch.setattr(audit_files, "remove_file", the_disk_is_full)
        assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (8, 0, 4)
    assert len(found(tmp_path)) == 4
    written(cluster, tmp_path, "dag.1", 1)
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (4, 6, 0)
    assert len(files(tmp_path)) == 2
    assert len(found(tmp_path)) == 6


def test_what_does_not_read_back_removes_nothing(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(cluster, tmp_path, "dag.1", 2)
    small, real = files(tmp_path), audit_files.create_file

    def half(uri: str, parts: Any) -> None:
        real(uri, [bytes(parts[0])[:-10]])

    monkeypatch.setattr(audit_files, "create_file", half)
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (0, 0, 4)
    assert set(small) < set(files(tmp_path))


def test_a_file_that_cannot_be_read_stays_and_is_told(cluster: Cluster, tmp_path: Path) -> None:
    written(cluster, tmp_path, "dag.1", 2)
    broken = tmp_path / files(tmp_path)[0]
    broken.write_bytes(broken.read_bytes()[:-20])
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (6, 3, 1)
    assert broken.exists()
    result = audit_rows(str(tmp_path), CLUSTER_ID)
    assert result.unreadable == (str(broken),)
    assert result.rows.num_rows == 4
    assert sorted(result.rows["outcome"].to_pylist(), key=str) == ["GONE", "GONE", None, None]


@pytest.mark.parametrize("what", ["run", "batch", "phase", "columns"])
def test_a_file_that_is_not_what_its_name_says_is_not_compacted(cluster: Cluster, tmp_path: Path, what: str) -> None:
    written(cluster, tmp_path, "dag.1", 1)
    path = tmp_path / files(tmp_path)[0]
    rows = pq.read_table(path)
    column = {"run": "artifact", "batch": "batch", "phase": "phase"}.get(what)
    if column:
        value = pa.array(["BEFORE" if what == "phase" else "other"] * 2, pa.string())
        rows = rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), value)
    else:
        rows = rows.append_column("more", pa.array([1, 2]))
    pq.write_table(rows, path)
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (2, 1, 1)
    assert path.exists()


def test_many_rows_become_several_files(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_files, "_PART_ROWS", 4)
    written(cluster, tmp_path, "dag.1", 3)
    assert compact(str(tmp_path), "dag.1", cluster.now_ms) == (12, 6, 0)
    assert [pq.read_metadata(tmp_path / name).num_rows for name in files(tmp_path)] == [4, 4, 4]
    assert len(found(tmp_path)) == 6


@pytest.mark.slow
def test_rows_are_found_by_time_run_topic_partition_and_segment(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(4):
        written(cluster, tmp_path, f"dag.{number}", 2)
        cluster.now_ms += DAY_MS
    newest = found(tmp_path)
    assert [row["artifact"] for row in newest[::4]] == ["dag.3", "dag.2", "dag.1", "dag.0"]
    assert {row["artifact"] for row in found(tmp_path, Wanted(artifact="dag.2"))} == {"dag.2"}
    since = cluster.now_ms - 2 * DAY_MS
    assert {row["artifact"] for row in found(tmp_path, Wanted(since_ms=since))} == {"dag.2", "dag.3"}
    assert {row["artifact"] for row in found(tmp_path, Wanted(until_ms=since))} == {"dag.0", "dag.1"}
    assert len(found(tmp_path, Wanted(topic_id=GONE.topic_id.bytes))) == 16
    assert found(tmp_path, Wanted(topic_id=b"z" * 16)) == []
    assert {row["partition"] for row in found(tmp_path, Wanted(partition=1))} == {1}
    assert len(found(tmp_path, Wanted(segment_id=UUID(int=0).bytes))) == 4


def test_folders_of_other_days_are_not_opened(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        written(cluster, tmp_path, f"dag.{number}", 2)
        cluster.now_ms += DAY_MS
    opened: list[str] = []
    real = audit_files.read_file
    monkeypatch.setattr(audit_files, "read_file", lambda uri, size: opened.append(uri) or real(uri, size))
    result = audit_rows(str(tmp_path), CLUSTER_ID, limit=3)
    assert ([row["artifact"] for row in result.rows.to_pylist()], result.more) == (["dag.5"] * 3, True)
    assert {uri.split("/")[-2] for uri in opened} == {day_of(cluster.now_ms - n * DAY_MS) for n in (1, 2)}


def test_what_was_begun_and_never_ended_has_no_outcome(cluster: Cluster, tmp_path: Path) -> None:
    written(cluster, tmp_path, "dag.1", 1, ended=False)
    assert [row["outcome"] for row in found(tmp_path)] == [None, None]


def test_rows_of_another_cluster_are_left_out_and_told(cluster: Cluster, tmp_path: Path) -> None:
    written(cluster, tmp_path, "dag.1", 1)
    result = audit_rows(str(tmp_path), "another")
    assert (result.rows.num_rows, len(result.unreadable)) == (0, 2)


def test_an_empty_log_has_no_rows(tmp_path: Path) -> None:
    result = audit_rows(str(tmp_path), CLUSTER_ID)
    assert (result.rows.num_rows, result.more, result.unreadable) == (0, False, ())
