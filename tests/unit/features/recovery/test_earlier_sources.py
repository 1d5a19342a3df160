# SPDX-License-Identifier: Apache-2.0
"""What snapshots and audit logs of earlier runs add to a catalogue, and what they take out of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.base.work_folder import SNAPSHOTS_FOLDER, cluster_folder
from airflow_provider_rlmm.core.plans.catalogue_document import SourceKind
from airflow_provider_rlmm.core.plans.catalogue_rows import ProvedBy, RowKind
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    kafka_uuid_str,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from tests.recovery import Bucket, kinds, partition, segment
from tests.recovery_sources import CLUSTER_ID, FIRST, SECOND, audited, copied, keep


def bucket_of(*segments: RemoteLogSegmentMetadata) -> Bucket:
    bucket = Bucket()
    for of in segments:
        bucket.copy(of)
    return bucket


def test_the_newest_snapshot_tells_all_fields(tmp_path: Path) -> None:
    keep(tmp_path, copied(FIRST), at_ms=40_000, name="old.snapshot")
    path = keep(tmp_path, copied(FIRST, SECOND))
    made, rows = bucket_of(FIRST, SECOND, segment(3, 20, 29)).catalogue(work_uri=str(tmp_path))
    assert [(row.kind, row.proved_by) for row in rows] == [
        (RowKind.COPIED, ProvedBy.SNAPSHOT), (RowKind.COPIED, ProvedBy.SNAPSHOT), (RowKind.COPIED, ProvedBy.MANIFEST),
    ]  # fmt: skip
    assert [(row.state, row.custom_metadata) for row in rows[1:]] == [
        ("COPY_SEGMENT_FINISHED", b"custom"),
        (None, None),
    ]
    # Of a manifest the copy began then; of the log the last event came.
    assert [(row.event_timestamp_ms, row.broker_id) for row in rows[1:]] == [(20_001, 4), (9_003, 3)]
    assert (rows[0].end_offset, rows[0].segment_leader_epochs, rows[0].max_timestamp_ms) == (9, ((0, 0),), 5_009)
    assert (rows[0].compressed, rows[0].encrypted) == (False, False)
    newest, older = made.earlier
    assert (newest.kind, newest.uri, newest.copied, newest.found) == (SourceKind.SNAPSHOT, str(path), 2, 2)
    assert newest.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (newest.made_at_ms, newest.cluster_id, older.made_at_ms) == (50_000, CLUSTER_ID, 40_000)
    assert list(made.problems()) == []


def test_a_snapshot_makes_what_indexes_bound_exact(tmp_path: Path) -> None:
    bucket = Bucket(LocalTieredStorageLayout())
    stem = bucket.copy_plain(FIRST)
    size = len(bucket.storage.fetch_object(f"{stem}.log"))
    keep(tmp_path, copied(replace(FIRST, end_offset=11, segment_size_in_bytes=size)))
    [row] = bucket.rows(work_uri=str(tmp_path))
    assert (row.kind, row.proved_by, row.end_offset, row.bounds) == (RowKind.COPIED, ProvedBy.SNAPSHOT, 11, ())


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, end_offset=8),
        replace(FIRST, segment_size_in_bytes=11),
        replace(FIRST, segment_leader_epochs=((1, 0),)),
        replace(FIRST, max_timestamp_ms=4),
        replace(FIRST, start_offset=1, segment_leader_epochs=((0, 1),)),
    ],
)
def test_objects_that_contradict_a_snapshot_prove_nothing(tmp_path: Path, other: RemoteLogSegmentMetadata) -> None:
    keep(tmp_path, copied(other))
    made, [row] = bucket_of(FIRST).catalogue(work_uri=str(tmp_path))
    assert (row.kind, row.proved_by, row.end_offset, row.max_timestamp_ms) == (
        RowKind.DAMAGED,
        ProvedBy.KEY,
        None,
        None,
    )
    assert (row.start_offset, row.state) == (0, None)
    assert "a snapshot of the metadata topic says" in str(row.why)
    assert made.problems()


def test_a_bound_that_is_above_what_a_snapshot_says_is_a_contradiction(tmp_path: Path) -> None:
    bucket = Bucket(LocalTieredStorageLayout())
    bucket.copy_plain(FIRST)
    keep(tmp_path, copied(replace(FIRST, end_offset=8)))
    assert kinds(bucket.rows(work_uri=str(tmp_path))) == ["DAMAGED"]


def test_what_a_snapshot_has_as_copied_and_lacks_an_object_is_damaged(tmp_path: Path) -> None:
    bucket = Bucket()
    bucket.copy(FIRST, without=[".log"])
    keep(tmp_path, copied(FIRST))
    [row] = bucket.rows(work_uri=str(tmp_path))
    assert (row.kind, row.proved_by, row.end_offset) == (RowKind.DAMAGED, ProvedBy.SNAPSHOT, 9)
    assert row.why == "it lacks .log, and a snapshot of the metadata topic has it as copied"


def test_a_copy_that_a_snapshot_has_not_seen_end_is_told_by_its_manifest(tmp_path: Path) -> None:
    keep(tmp_path, [FIRST])
    [row] = bucket_of(FIRST).rows(work_uri=str(tmp_path))
    assert (row.kind, row.proved_by, row.state) == (RowKind.COPIED, ProvedBy.MANIFEST, None)


def test_what_any_snapshot_calls_deleted_is_left_out_and_named(tmp_path: Path) -> None:
    old = keep(tmp_path, copied(FIRST, up_to=S.DELETE_SEGMENT_STARTED), at_ms=40_000, name="old.snapshot")
    keep(tmp_path, copied(FIRST, SECOND))
    made, rows = bucket_of(FIRST, SECOND).catalogue(work_uri=str(tmp_path))
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert f"{old} has it as DELETE_SEGMENT_STARTED" in str(rows[0].why)
    assert (made.kinds["DELETED"].rows, made.topics[0].whole.rows, made.topics[0].log_bytes) == (1, 1, 10)
    assert list(made.problems()) == []


@pytest.mark.parametrize("state", [P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED, P.DELETE_PARTITION_FINISHED])
def test_segments_of_a_user_partition_that_was_deleted_are_left_out(tmp_path: Path, state: P) -> None:
    events = [RemotePartitionDeleteMetadata(partition(), P(number), 1, -1) for number in range(state + 1)]
    keep(tmp_path, events)
    rows = bucket_of(FIRST, segment(2, 0, 9, of=partition(1))).rows(work_uri=str(tmp_path))
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert state.name in str(rows[0].why)


def test_what_a_later_snapshot_of_the_topic_lacks_was_deleted(tmp_path: Path) -> None:
    keep(tmp_path, copied(FIRST, SECOND), at_ms=40_000, name=f"{SNAPSHOTS_FOLDER}/a.snapshot")
    keep(tmp_path, copied(SECOND), offset=20)
    rows = bucket_of(FIRST, SECOND).rows(work_uri=str(tmp_path))
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert "is in the later one" in str(rows[0].why)


@pytest.mark.parametrize(
    "later",
    [
        {"offset": 2},
        {"offset": 20, "gaps": (HistoryGap(0, 0, 5),)},
        {"offset": 20, "topic_id": UUID(int=501)},
        {"offset": 20, "cluster_id": "another"},
    ],
)
def test_a_later_snapshot_that_has_read_less_or_elsewhere_tells_of_no_deletion(
    tmp_path: Path, later: dict[str, Any]
) -> None:
    keep(tmp_path, copied(FIRST, SECOND), at_ms=40_000, name="old.snapshot")
    keep(tmp_path, copied(SECOND), **later)
    assert kinds(bucket_of(FIRST, SECOND).rows(work_uri=str(tmp_path))) == ["COPIED", "COPIED"]


def test_what_an_audit_log_calls_deleted_is_left_out_and_named(tmp_path: Path) -> None:
    keep(tmp_path, copied(FIRST, SECOND))
    cluster = audited(tmp_path, FIRST)
    made, rows = bucket_of(FIRST, SECOND).catalogue(work_uri=str(tmp_path))
    assert kinds(rows) == ["DELETED", "COPIED"]
    assert f"audit log {cluster}" in str(rows[0].why)
    assert [(source.kind, source.found) for source in made.earlier][1:] == [(SourceKind.AUDIT, 1)]


def test_what_an_audit_log_never_saw_is_not_deleted(tmp_path: Path) -> None:
    audited(tmp_path, FIRST, outcome="NEVER_SEEN")
    assert kinds(bucket_of(FIRST).rows(work_uri=str(tmp_path))) == ["COPIED"]


def test_sources_are_named_besides_those_of_the_work_folder(tmp_path: Path) -> None:
    snapshot = keep(tmp_path / "a", copied(FIRST, up_to=S.DELETE_SEGMENT_STARTED))
    audit = audited(tmp_path / "b", SECOND)
    bucket = bucket_of(FIRST, SECOND)
    assert kinds(bucket.rows(work_uri=str(tmp_path / "none"))) == ["COPIED", "COPIED"]
    for named in (str(audit), f"{audit}/audit", f"{audit}/audit/"):
        assert kinds(bucket.rows(snapshots=[str(snapshot)], audits=[named])) == ["DELETED", "DELETED"]


def test_a_cluster_that_is_known_asks_only_what_its_runs_have_left(tmp_path: Path) -> None:
    keep(tmp_path, copied(FIRST, up_to=S.DELETE_SEGMENT_STARTED), cluster_id="another")
    bucket = bucket_of(FIRST)
    assert kinds(bucket.rows(work_uri=str(tmp_path))) == ["DELETED"]
    assert kinds(bucket.rows(work_uri=str(tmp_path), cluster_id=CLUSTER_ID)) == ["COPIED"]


def test_a_source_that_cannot_be_read_is_said_in_red(tmp_path: Path) -> None:
    path = keep(tmp_path, copied(FIRST))
    path.write_bytes(path.read_bytes()[:-1])
    audit = next(audited(tmp_path, FIRST).rglob("*.after.parquet"))
    audit.write_bytes(b"?")
    made, rows = bucket_of(FIRST).catalogue(work_uri=str(tmp_path))
    assert kinds(rows) == ["COPIED"]
    assert all(source.why for source in made.earlier)
    [problem] = made.problems()
    assert problem.startswith("2 snapshots or audit logs could not be read")
    with pytest.raises(CatalogueError, match="cannot be read"):
        bucket_of(FIRST).rows(snapshots=[str(path)])
    with pytest.raises(CatalogueError, match="cannot be read"):
        bucket_of(FIRST).rows(audits=[str(tmp_path / cluster_folder(CLUSTER_ID))])


def test_a_source_that_is_named_and_not_there_is_refused(tmp_path: Path) -> None:
    for named in ({"snapshots": [str(tmp_path / "x.snapshot")]}, {"audits": [str(tmp_path)]}):
        with pytest.raises(CatalogueError, match="or leave it out"):
            bucket_of(FIRST).rows(**named)


def test_a_work_folder_that_cannot_be_looked_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CatalogueError, match="it cannot be told what runs have deleted"):
        bucket_of(FIRST).rows(work_uri=str(tmp_path / "file"))


def test_the_second_place_of_snapshots_is_asked_like_the_work_folder(tmp_path: Path) -> None:
    keep(tmp_path / "second", copied(FIRST), name=f"{SNAPSHOTS_FOLDER}/a.snapshot")
    asked = {"work_uri": str(tmp_path / "lost"), "snapshots_uri": str(tmp_path / "second")}
    [row] = bucket_of(FIRST).rows(**asked)
    assert (row.proved_by, row.custom_metadata) == (ProvedBy.SNAPSHOT, b"custom")
    # What lies in both is asked once.
    keep(tmp_path / "lost", copied(FIRST), name=f"{SNAPSHOTS_FOLDER}/a.snapshot")
    assert len(bucket_of(FIRST).catalogue(**asked)[0].earlier) == 1
    (tmp_path / "file").write_text("x")
    with pytest.raises(CatalogueError, match="mend that, or name another one by snapshots_uri"):
        bucket_of(FIRST).rows(snapshots_uri=str(tmp_path / "file"))


def test_an_id_of_another_user_partition_is_no_other_ones(tmp_path: Path) -> None:
    elsewhere = segment(1, 0, 9, of=partition(3))
    keep(tmp_path, copied(elsewhere))
    audited(tmp_path, elsewhere)
    [row] = bucket_of(FIRST).rows(work_uri=str(tmp_path))
    assert (row.kind, row.proved_by) == (RowKind.COPIED, ProvedBy.MANIFEST)
    assert kafka_uuid_str(FIRST.remote_log_segment_id.id) in row.keys[0]


def test_the_newest_snapshot_tells_all_fields_wherever_it_comes_among_the_others(tmp_path: Path) -> None:
    for number, name in enumerate(("a.snapshot", "b.snapshot", "c.snapshot")):
        for at, other in enumerate(("a.snapshot", "b.snapshot", "c.snapshot")):
            keep(tmp_path / name, copied(FIRST), at_ms=60_000 if other == name else 40_000 + at, offset=2, name=other)
        [row] = bucket_of(FIRST).rows(work_uri=str(tmp_path / name))
        assert (row.proved_by, row.custom_metadata) == (ProvedBy.SNAPSHOT, b"custom"), number
