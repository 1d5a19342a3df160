# SPDX-License-Identifier: Apache-2.0
"""What is archived before it is deleted: bound to the plan, compared, and nothing outside of it goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import (
    ArchiveError,
    LogReplacedError,
    StoppedError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.lost_records import LostRecords
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.archiving.archive import files, records
from airflow_provider_rlmm.features.archiving.archive.manifests import read_manifest
from airflow_provider_rlmm.features.archiving.archive.places import folder_of
from airflow_provider_rlmm.features.archiving.archive.reading import open_topic
from airflow_provider_rlmm.features.archiving.archive_guard import LOOK_AGE_MS, ArchivedPlan
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchivedFile
from airflow_provider_rlmm.features.archiving.steps import archive_wanted, guard_of
from tests.archiving import ArchivingCluster, Run, records_of
from tests.builders import CLUSTER_ID, tip
from tests.kafka_log import Batch, Record, log_of

pytestmark = pytest.mark.slow

GONE = tip()
OTHER = tip("other", 0, 8)


@pytest.fixture
def cluster() -> ArchivingCluster:
    """Two deleted topics, marked a day ago."""
    cluster = ArchivingCluster()
    cluster.real_segments(GONE, 3)
    cluster.real_segments(OTHER, 2)
    cluster.mark_and_wait()
    return cluster


@pytest.fixture
def run(cluster: ArchivingCluster, tmp_path: Path) -> Run:
    return Run(cluster, tmp_path)


def by_topic(run: Run, archive: PlanArchive) -> dict[str, tuple[str, int, set[RefusalKind]]]:
    """Outcome, deleted segments and kinds of refusals of each topic."""
    report = run.clean(archive)
    return {p.topic: (p.outcome.value, p.segments_deleted, {r.kind for r in p.refusals}) for p in report.partitions}


def test_what_is_archived_is_deleted_and_the_archive_holds_all_of_it(cluster: ArchivingCluster, run: Run) -> None:
    logs = {key: data for key, (data, _) in cluster.storage._objects.items() if key.endswith(".log")}
    archive = run.archive()
    assert PlanArchive.from_json(archive.to_json()) == archive
    assert archive.counts() | {"bytes": 0} == {
        "partitions": 2, "segments": 5, "not_whole": 0, "as_is": 0, "records": 50, "bytes": 0, "refused_topics": 0,
    }  # fmt: skip
    assert by_topic(run, archive) == {"gone": ("FINISHED", 3, set()), "other": ("FINISHED", 2, set())}
    (gone,) = [found for found in archive.partitions if found.topic == "gone"]
    folder = Path(gone.folder)
    manifest = read_manifest(gone.folder, gone.manifest, gone.manifest_sha256)
    kept = [(folder / segment.files["log"].name).read_bytes() for segment in manifest.segments]
    assert kept == [data for key, data in sorted(logs.items()) if "gone" in key]
    rows = pq.read_table([folder / file.name for file in manifest.records.files]).to_pylist()
    assert rows == [r.as_row() | {"committed": True} for n in range(3) for r in records_of(n)]


def test_a_log_that_is_damaged_keeps_its_topic_and_the_others_go(cluster: ArchivingCluster, run: Run) -> None:
    metadata = cluster.replay().histories[GONE].unfinished()[1]
    key = cluster.layout.object_key(metadata, None)
    data = bytearray(cluster.storage._objects[key][0])
    data[-1] ^= 1
    cluster.storage.put_object(key, bytes(data))
    before = cluster.keys_of(GONE)
    archive = run.archive()
    assert "checksum" in next(iter(archive.refused.values())).why
    assert by_topic(run, archive) == {"gone": ("REFUSED", 0, {RefusalKind.ARCHIVE}), "other": ("FINISHED", 2, set())}
    assert cluster.keys_of(GONE) == before
    assert cluster.states().count("DELETE_PARTITION_STARTED") == 1


@pytest.mark.parametrize("kind", [None, IndexType.OFFSET, IndexType.PRODUCER_SNAPSHOT, IndexType.LEADER_EPOCH])
def test_a_finished_copy_that_lacks_a_file_keeps_its_topic(
    cluster: ArchivingCluster, run: Run, kind: IndexType | None
) -> None:
    metadata = cluster.replay().histories[GONE].unfinished()[1]
    del cluster.storage._objects[cluster.layout.object_key(metadata, kind)]
    archive = run.archive()
    (refusal,) = archive.refused.values()
    assert (kind.value if kind else "log") in refusal.why
    assert by_topic(run, archive)["gone"] == ("REFUSED", 0, {RefusalKind.ARCHIVE})


@pytest.mark.parametrize("cut", [1, 40])
def test_a_log_of_another_size_keeps_its_topic(cluster: ArchivingCluster, run: Run, cut: int) -> None:
    metadata = cluster.replay().histories[GONE].unfinished()[0]
    key = cluster.layout.object_key(metadata, None)
    cluster.storage.put_object(key, cluster.storage._objects[key][0][:-cut])
    assert "its metadata say" in next(iter(run.archive().refused.values())).why


def test_a_log_of_other_offsets_keeps_its_topic(cluster: ArchivingCluster, tmp_path: Path) -> None:
    metadata = cluster.real_segment(tip("shifted", 0, 9), 0, [Batch(tuple(Record(n) for n in range(10)))])
    shifted = log_of([Batch(tuple(Record(n) for n in range(100, 110)))])
    cluster.storage.put_object(cluster.layout.object_key(metadata, None), shifted)
    cluster.mark_and_wait()
    (refusal,) = Run(cluster, tmp_path).archive().refused.values()
    assert "it holds offsets 100 to 109, its metadata say 0 to 9" in refusal.why


def test_copies_that_were_never_finished_are_kept_as_they_are_and_go(cluster: ArchivingCluster, tmp_path: Path) -> None:
    dangling = cluster.real_segment(tip("dangling", 0, 9), 7, state=S.COPY_SEGMENT_STARTED)
    del cluster.storage._objects[cluster.layout.object_key(dangling, IndexType.OFFSET)]
    cluster.mark_and_wait()
    run = Run(cluster, tmp_path)
    archive = run.archive()
    (found,) = [p for p in archive.partitions if p.topic == "dangling"]
    assert (found.segments, found.not_whole, found.records) == (1, 1, 0)
    (segment,) = read_manifest(found.folder, found.manifest).segments
    assert (segment.whole, segment.missing) == (False, ("offset",))
    assert by_topic(run, archive)["dangling"] == ("FINISHED", 1, set())


def test_what_an_interrupted_run_has_left_can_be_archived_and_goes(cluster: ArchivingCluster, tmp_path: Path) -> None:
    started = cluster.real_segment(tip("half", 0, 9), 7, state=S.DELETE_SEGMENT_STARTED)
    whole = cluster.real_segment(tip("half", 0, 9), 8, state=S.DELETE_SEGMENT_STARTED)
    del cluster.storage._objects[cluster.layout.object_key(started, None)]
    cluster.mark_and_wait()
    run = Run(cluster, tmp_path)
    archive = run.archive()
    (found,) = [p for p in archive.partitions if p.topic == "half"]
    assert (found.segments, found.not_whole, found.records) == (2, 1, 10)
    assert whole.end_offset == 89
    assert by_topic(run, archive)["half"] == ("FINISHED", 2, set())


def test_an_archive_of_another_plan_deletes_nothing(cluster: ArchivingCluster, run: Run) -> None:
    archive = run.archive()
    run.plan_again(max_segments=4)
    with pytest.raises(ArchiveError, match="of plan plan-1 with the checksum"):
        ArchivedPlan(archive, run.summary, 0)
    assert cluster.states() == ["DELETE_PARTITION_MARKED"] * 2


def test_segments_that_the_archive_does_not_hold_stay(cluster: ArchivingCluster, run: Run) -> None:
    archive = run.archive()
    kept = replace(archive, partitions=tuple(p for p in archive.partitions if p.topic != "gone"))
    assert by_topic(run, kept) == {"gone": ("REFUSED", 0, {RefusalKind.ARCHIVE}), "other": ("FINISHED", 2, set())}


def spoil(folder: Path, how: str, archive: PlanArchive) -> None:
    """Change something in the archived folder of a user partition after it was compared."""
    (manifest,) = (folder / "manifests").iterdir()
    if how == "gone":
        next((folder / "segments").glob("*.log")).unlink()
    elif how == "shorter":
        log = next((folder / "segments").glob("*.log"))
        log.write_bytes(log.read_bytes()[:-1])
    elif how == "records":
        next((folder / "records").rglob("*.parquet")).unlink()
    elif how == "manifest":
        manifest.write_text(manifest.read_text() + " ")
    elif how == "document":
        next((folder.parent / "runs").iterdir()).write_text("{}")
    elif how == "no document":
        next((folder.parent / "runs").iterdir()).unlink()
    elif how == "of another":
        other = next(p for p in archive.partitions if p.topic == "other")
        manifest.write_bytes((Path(other.folder) / other.manifest).read_bytes())
    else:
        manifest.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["gone", "shorter", "records", "manifest", "of another", "no manifest", "document", "no document"]
)
def test_an_archive_that_is_changed_afterwards_deletes_nothing_of_it(
    cluster: ArchivingCluster, run: Run, how: str
) -> None:
    archive = run.archive()
    (gone,) = [p for p in archive.partitions if p.topic == "gone"]
    spoil(Path(gone.folder), how, archive)
    before = cluster.keys_of(GONE)
    assert by_topic(run, archive) == {"gone": ("REFUSED", 0, {RefusalKind.ARCHIVE}), "other": ("FINISHED", 2, set())}
    assert cluster.keys_of(GONE) == before


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gone", "no manifest", "no document"])
def test_an_archive_that_goes_while_it_is_deleted_by_ends_the_deletion(
    cluster: ArchivingCluster, run: Run, how: str
) -> None:
    archive = run.archive()
    folder = Path(next(p for p in archive.partitions if p.topic == "gone").folder)
    before = len(cluster.keys_of(GONE))

    def clock() -> int:
        """Time stands still until the first segment is deleted; then the archive goes, and half a minute."""
        if len(cluster.keys_of(GONE)) == before:
            return 0
        if all(map(any, ((folder / "manifests").iterdir(), folder.rglob("*.log"), (folder.parent / "runs").iterdir()))):
            spoil(folder, how, archive)
        return LOOK_AGE_MS

    report = run.clean(archive, monotonic=clock, batch_segments=1)
    (gone,) = [p for p in report.partitions if p.topic == "gone"]
    assert (gone.outcome.value, gone.segments_deleted) == ("INCOMPLETE", 1)
    assert {r.kind for r in gone.refusals} == {RefusalKind.ARCHIVE}
    assert len(cluster.keys_of(GONE)) == before * 2 // 3


def test_a_copy_that_was_finished_after_it_was_archived_in_part_is_not_held(
    cluster: ArchivingCluster, tmp_path: Path
) -> None:
    dangling = cluster.real_segment(tip("dangling", 0, 9), 7, state=S.COPY_SEGMENT_STARTED)
    cluster.mark_and_wait()
    run = Run(cluster, tmp_path)
    guard = ArchivedPlan(run.archive(), run.summary, 0)
    assert guard.holds(dangling)
    assert not guard.holds(replace(dangling, state=S.COPY_SEGMENT_FINISHED))


def test_an_archive_that_was_not_whole_for_a_while_deletes_nothing_in_that_task(
    cluster: ArchivingCluster, run: Run, tmp_path: Path
) -> None:
    archive = run.archive()
    now = [0]
    guard = ArchivedPlan(archive, run.summary, 0, monotonic=lambda: now[0])
    assert guard.refusal_of(GONE) is None
    log = next(Path(next(p for p in archive.partitions if p.topic == "gone").folder).rglob("*.log"))
    log.rename(tmp_path / "away")
    now[0] += LOOK_AGE_MS
    assert guard.refusal_of(GONE) is not None
    (tmp_path / "away").rename(log)
    now[0] += LOOK_AGE_MS
    assert "is not there" in str(guard.refusal_of(GONE))


@pytest.mark.parametrize("name", ["start_offset", "end_offset", "segment_size_in_bytes"])
def test_a_segment_that_the_log_says_otherwise_now_is_not_held(cluster: ArchivingCluster, run: Run, name: str) -> None:
    guard = ArchivedPlan(run.archive(), run.summary, 0)
    metadata = cluster.replay().histories[GONE].unfinished()[1]
    assert guard.holds(metadata)
    # Nothing that Kafka's own state machine allows changes it: then it is another segment under the same id.
    assert not guard.holds(replace(metadata, **{name: getattr(metadata, name) + 1}))


def test_a_manifest_of_another_user_partition_is_none_even_where_it_is_named(run: Run) -> None:
    archive = run.archive()
    gone, other = sorted(archive.partitions, key=lambda p: p.topic)
    mixed = replace(gone, folder=other.folder, manifest=other.manifest, manifest_sha256=other.manifest_sha256)
    assert by_topic(run, replace(archive, partitions=(mixed,)))["gone"] == ("REFUSED", 0, {RefusalKind.ARCHIVE})


@pytest.mark.slow
def test_a_manifest_of_an_earlier_plan_is_none_even_where_it_is_named(run: Run) -> None:
    earlier = run.archive()
    run.plan_again()
    archive = run.archive("run-2")
    old = next(p for p in earlier.partitions if p.topic == "gone")
    kept = tuple(old if p.topic == "gone" else p for p in archive.partitions)
    assert by_topic(run, replace(archive, partitions=kept))["gone"] == ("REFUSED", 0, {RefusalKind.ARCHIVE})


@pytest.mark.parametrize("damaged", [0, 1], ids=["the first", "the last"])
def test_where_one_partition_is_damaged_the_others_of_its_topic_stay_too(
    cluster: ArchivingCluster, tmp_path: Path, damaged: int
) -> None:
    cluster.real_segments(tip("gone", 1), 2)
    cluster.mark_and_wait()
    segment = cluster.replay().histories[tip("gone", damaged)].unfinished()[0]
    cluster.storage.put_object(cluster.layout.object_key(segment, None), b"no log")
    whole = tip("gone", 1 - damaged)
    before = cluster.keys_of(whole)
    run = Run(cluster, tmp_path)
    report = run.clean(run.archive())
    outcomes = {(p.topic, p.partition): p.outcome.value for p in report.partitions}
    assert outcomes == {("gone", 0): "REFUSED", ("gone", 1): "REFUSED", ("other", 0): "FINISHED"}
    assert cluster.keys_of(whole) == before


@pytest.mark.slow
def test_archiving_again_finds_its_own_files_and_says_the_same(cluster: ArchivingCluster, run: Run) -> None:
    first = run.archive()
    logs = {p: p.stat().st_mtime_ns for p in Path(run.archive_uri).rglob("*.log")}
    cluster.now_ms += 1
    again = run.archive()
    assert [p.records_sha256 for p in again.partitions] == [p.records_sha256 for p in first.partitions]
    assert {p: p.stat().st_mtime_ns for p in Path(run.archive_uri).rglob("*.log")} == logs
    assert by_topic(run, again) == {"gone": ("FINISHED", 3, set()), "other": ("FINISHED", 2, set())}


def test_a_try_after_the_deletion_takes_nothing_out_of_the_archive(cluster: ArchivingCluster, run: Run) -> None:
    by_topic(run, run.archive())
    later = run.archive()
    assert later.counts()["segments"] == 0
    (log,) = open_topic(run.archive_uri, CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAABw").logs
    log.verify()
    assert sorted(len(m.segments) for m in log.manifests) == [0, 3]
    offsets = [
        o for batch in log.stream().read(ReadIsolation.READ_COMMITTED) for o in batch.column("offset").to_pylist()
    ]
    assert offsets == [*range(30)]


def test_other_bytes_of_the_same_segment_in_the_archive_keep_its_topic(cluster: ArchivingCluster, run: Run) -> None:
    run.archive()
    log = next(p for p in Path(run.archive_uri).rglob("*.log") if "gone-" in str(p))
    log.write_bytes(log.read_bytes()[:-1] + b"x")
    (refusal,) = run.archive().refused.values()
    assert "holds other bytes from before" in refusal.why


def test_a_full_archive_ends_the_step(cluster: ArchivingCluster, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("airflow_provider_rlmm.features.archiving.archive.files.replacing", full)
    with pytest.raises(ArchiveError, match="No space left"):
        run.archive()


def test_a_file_that_does_not_read_back_keeps_its_topic(
    cluster: ArchivingCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = files.describe

    def lying(folder_uri: str, name: str) -> ArchivedFile:
        found = real(folder_uri, name)
        return replace(found, sha256="0" * 64) if name.endswith(".log") and "gone-" in folder_uri else found

    monkeypatch.setattr(files, "describe", lying)
    (refusal,) = run.archive().refused.values()
    assert "does not read back" in refusal.why


def test_records_that_do_not_read_back_keep_their_topic(
    cluster: ArchivingCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = records.batches_of

    def lying(folder_uri: str, file: ArchivedFile) -> Iterator[pa.RecordBatch]:
        for batch in real(folder_uri, file):
            yield batch.slice(1) if "gone-" in folder_uri else batch

    monkeypatch.setattr(records, "batches_of", lying)
    (refusal,) = run.archive().refused.values()
    assert refusal.topic == "gone"
    assert "do not read back" in refusal.why


@pytest.mark.parametrize(("asked", "demanded"), [(True, False), (False, True)])
def test_a_run_that_must_archive_and_has_not_deletes_nothing(run: Run, asked: bool, demanded: bool) -> None:
    settings = RemoteLogSettings(archive_uri="/archives", archive_before_deletion=demanded)
    wanted = archive_wanted(settings, asked)
    with pytest.raises(ArchiveError, match="clear the task archive"):
        guard_of(run.uri, run.summary, 0, wanted=wanted)
    Path(run.uri, "archive.json").write_text(run.archive().to_json()[:-2])
    with pytest.raises(ArchiveError, match=r"archive\.json cannot be read"):
        guard_of(run.uri, run.summary, 0, wanted=wanted)


def test_a_run_that_need_not_archive_is_not_asked(run: Run) -> None:
    guard = guard_of(run.uri, run.summary, 0, wanted=archive_wanted(RemoteLogSettings(), False))
    assert guard.refusal_of(GONE) is None


def test_storage_that_does_not_answer_ends_the_step(cluster: ArchivingCluster, run: Run) -> None:
    def down(effect: str, key: str) -> None:
        raise StorageUnavailableError("down")

    cluster.storage.on_effect = down
    with pytest.raises(StorageUnavailableError):
        run.archive()


def test_a_root_that_is_gone_ends_the_step(cluster: ArchivingCluster, run: Run) -> None:
    cluster.storage.root_exists = False
    with pytest.raises(StorageRootError):
        run.archive()


def test_the_kill_switch_ends_the_step_before_the_next_user_partition(cluster: ArchivingCluster, run: Run) -> None:
    answers = iter([None, "the switch is on"])
    with pytest.raises(StoppedError, match="the switch is on"):
        run.archive(should_stop=lambda: next(answers))
    assert len(list(Path(run.archive_uri).rglob("manifests/*.json"))) == 1


def test_a_log_that_was_replaced_since_the_plan_ends_the_step(
    cluster: ArchivingCluster, run: Run, tmp_path: Path
) -> None:
    other = ArchivingCluster()
    other.real_segments(GONE, 6)
    other.mark_and_wait()
    run.cluster = other
    with pytest.raises(LogReplacedError):
        run.archive()


def test_nothing_is_archived_where_the_log_has_lost_what_earlier_runs_have_read(
    cluster: ArchivingCluster, run: Run
) -> None:
    cluster.log.losses = {0: LostRecords(0, 99, 50)}
    archive = run.archive()
    assert archive.partitions == ()
    whys = [refusal.why for refusal in archive.refused.values()]
    assert len(whys) == 2
    assert all("was read up to offset 99 by an earlier run" in why for why in whys)
    assert not Path(run.archive_uri).exists()


def test_a_topic_name_that_walks_is_refused(tmp_path: Path) -> None:
    cluster = ArchivingCluster()
    cluster.real_segments(tip("gone", 0, 7), 1)
    with pytest.raises(ArchiveError, match="none that Kafka allows"):
        folder_of(str(tmp_path), "c", tip("../../etc", 0, 7))
