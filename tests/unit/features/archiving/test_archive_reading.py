# SPDX-License-Identifier: Apache-2.0
"""What an archive holds is read as it was written, by several runs, with transactions and gaps; anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import ArchiveError
from airflow_provider_rlmm.core.base.file_systems import remove_file, replace_file
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation
from airflow_provider_rlmm.features.archiving.archive.manifests import read_manifest
from airflow_provider_rlmm.features.archiving.archive.measuring import measure
from airflow_provider_rlmm.features.archiving.archive.reading import ArchivedLog, open_topic
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest
from airflow_provider_rlmm.features.archiving.restore_archive import source_log
from airflow_provider_rlmm.features.reading.undecided import OpenTransaction
from tests.archiving import ArchivingCluster, Run
from tests.builders import CLUSTER_ID, START_MS, tip
from tests.kafka_log import TRANSACTIONAL, Batch, Record, control_batch
from tests.moto_s3 import REGION, SECRET, running_moto_s3

GONE = tip()
GONE_ID = "AAAAAAAAAAAAAAAAAAAABw"


def record(offset: int) -> Record:
    return Record(offset, START_MS + offset, value=b"value %d" % offset)


def written_by(producer: int, *offsets: int) -> Batch:
    return Batch(tuple(map(record, offsets)), attributes=TRANSACTIONAL, producer_id=producer)


def plain(*offsets: int) -> Batch:
    return Batch(tuple(map(record, offsets)))


def archived(cluster: ArchivingCluster, folder: Path) -> ArchivedLog:
    """Archive what is there, and open it."""
    cluster.mark_and_wait()
    run = Run(cluster, folder)
    assert run.archive().refused == {}
    (log,) = open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).logs
    return log


def offsets_of(log: ArchivedLog, isolation: ReadIsolation) -> list[int]:
    return [offset for batch in log.stream().read(isolation) for offset in batch.column("offset").to_pylist()]


def test_aborted_and_open_transactions_are_kept_and_not_committed(tmp_path: Path) -> None:
    cluster = ArchivingCluster()
    # Producer 5 commits, producer 6 aborts in the segment after, producer 7 never ends.
    cluster.real_segment(
        GONE,
        0,
        [written_by(5, 0, 1), written_by(6, 2, 3), control_batch(4, 5, commit=True)],
        open_transactions=[(6, 2)],
    )
    cluster.real_segment(
        GONE,
        1,
        [plain(5), control_batch(6, 6, commit=False), plain(7), written_by(7, 8), plain(9)],
        aborted=[(6, 2, 6, 6)],
        open_transactions=[(7, 8)],
    )
    log = archived(cluster, tmp_path)
    (manifest,) = log.manifests
    rows = pq.read_table([Path(log.folder_uri) / file.name for file in manifest.records.files]).to_pylist()
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 5, 7, 8, 9]
    assert [row["offset"] for row in rows if row["committed"]] == [0, 1, 5, 7]
    assert (manifest.records.count, manifest.records.committed) == (8, 4)
    # The archive calls nothing committed from the first open transaction on; a restore leaves out that transaction only.
    found = measure(source_log(log).deciding(keep_undecided=False))
    assert (found.count, found.left_out) == (5, 3)
    assert (found.min_timestamp_ms, found.max_timestamp_ms) == (START_MS, START_MS + 9)
    assert found.undecided == (OpenTransaction(7, 8, 1),)
    kept = measure(source_log(log).deciding(keep_undecided=True))
    assert (kept.count, kept.left_out, kept.undecided) == (6, 2, found.undecided)


def test_a_gap_is_passed_over_and_named(tmp_path: Path) -> None:
    cluster = ArchivingCluster()
    for number in (0, 1, 4):
        cluster.real_segment(GONE, number)
    log = archived(cluster, tmp_path)
    assert log.manifests[0].records.gaps == ((20, 39),)
    assert offsets_of(log, ReadIsolation.READ_UNCOMMITTED) == [*range(20), *range(40, 50)]
    assert measure(source_log(log).deciding(keep_undecided=False)).gaps == ((20, 39),)


def test_the_end_of_a_transaction_at_the_end_of_a_segment_is_no_gap(tmp_path: Path) -> None:
    cluster = ArchivingCluster()
    cluster.real_segment(GONE, 0, [written_by(5, 0, 1), control_batch(2, 5, commit=True)])
    cluster.real_segment(GONE, 1, [written_by(5, 3), control_batch(4, 5, commit=True)])
    cluster.real_segment(GONE, 2, [control_batch(9, 5, commit=True)])
    log = archived(cluster, tmp_path)
    assert offsets_of(log, ReadIsolation.READ_COMMITTED) == [0, 1, 3]
    assert log.manifests[0].records.gaps == ((5, 8),)


def test_what_a_later_leader_has_overwritten_is_kept_raw_and_not_among_the_records(tmp_path: Path) -> None:
    cluster = ArchivingCluster()
    cluster.real_segment(GONE, 0)
    # An unclean election: the new leader had the first six records only.
    later = Batch(tuple(Record(n, START_MS + n, value=b"later") for n in range(6, 16)), leader_epoch=1)
    cluster.real_segment(GONE, 1, [later], epochs=((1, 6),), lineage=b"0\n2\n0 0\n1 6\n")
    log = archived(cluster, tmp_path)
    rows = [row for batch in log.stream().read(ReadIsolation.READ_UNCOMMITTED) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [*range(16)]
    assert [row["value"] == b"later" for row in rows] == [False] * 6 + [True] * 10
    assert (len(log.segments), log.manifests[0].records.gaps) == (2, ())


@pytest.mark.slow
def test_what_several_runs_have_archived_is_one_log(tmp_path: Path) -> None:
    cluster = ArchivingCluster()
    cluster.real_segments(GONE, 3)
    cluster.mark_and_wait()
    first = Run(cluster, tmp_path)
    first.plan_again(max_segments=2)
    first.archive()
    rest = Run(cluster, tmp_path, "run-2")
    rest.archive()
    (log,) = open_topic(rest.archive_uri, CLUSTER_ID, GONE_ID).logs
    assert [(m.name, len(m.segments)) for m in log.manifests] == [("run-1", 2), ("run-2", 3)]
    assert len(log.segments) == 3
    log.verify()
    assert offsets_of(log, ReadIsolation.READ_UNCOMMITTED) == [*range(30)]


@pytest.fixture
def log(tmp_path: Path) -> ArchivedLog:
    cluster = ArchivingCluster()
    cluster.real_segments(GONE, 2)
    return archived(cluster, tmp_path)


@pytest.mark.parametrize("kind", ["*.log", "*.index", "*.snapshot", "*.parquet"])
def test_a_file_that_was_changed_is_named(log: ArchivedLog, kind: str) -> None:
    log.verify()
    file = next(Path(log.folder_uri).rglob(kind))
    data = bytearray(file.read_bytes() or b"x")
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ArchiveError, match=f"{file.name} is not as it was archived"):
        log.verify()
    file.unlink()
    with pytest.raises(ArchiveError, match=f"{file.name} cannot be read"):
        log.verify()


def test_a_manifest_is_read_to_the_letter(log: ArchivedLog) -> None:
    (file,) = (Path(log.folder_uri) / "manifests").iterdir()
    text = file.read_text()
    assert ArchiveManifest.from_json(text) == log.manifests[0]
    file.write_text(text.replace('"partition": 0', '"partition": 1'))
    with pytest.raises(ArchiveError, match="sha256 differs"):
        read_manifest(log.folder_uri, f"manifests/{file.name}")


def test_a_folder_without_a_manifest_is_no_archive(log: ArchivedLog) -> None:
    (file,) = (Path(log.folder_uri) / "manifests").iterdir()
    file.unlink()
    with pytest.raises(ArchiveError, match="was never finished"):
        open_topic(str(Path(log.folder_uri).parents[2]), CLUSTER_ID, GONE_ID)


def test_another_cluster_or_topic_id_is_not_found(log: ArchivedLog) -> None:
    root = Path(log.folder_uri).parents[2]
    with pytest.raises(ArchiveError, match="has no archive of the topic id"):
        open_topic(str(root), CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAACA")
    (root / f"cluster-{CLUSTER_ID}").rename(root / "cluster-other")
    with pytest.raises(ArchiveError, match="of another cluster or topic id"):
        open_topic(str(root), "other", GONE_ID)


@pytest.mark.slow
def test_an_archive_in_an_object_store_is_written_compared_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ArchivingCluster()
    cluster.real_segments(GONE, 2)
    cluster.mark_and_wait()
    with running_moto_s3() as s3:
        for name, value in {
            "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION,
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        run = Run(cluster, tmp_path)
        run.archive_uri = f"s3://{s3.bucket()}/archives"
        archive = run.archive()
        assert run.archive().partitions[0].records_sha256 == archive.partitions[0].records_sha256
        (log,) = open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).logs
        log.verify()
        assert offsets_of(log, ReadIsolation.READ_COMMITTED) == [*range(20)]
        folder, name = log.folder_uri, log.manifests[0].segments[0].files["log"].name
        replace_file(f"{folder}/{name}", [b"other"])
        with pytest.raises(ArchiveError, match="is not as it was archived"):
            log.verify()
        assert run.clean(archive).partitions[0].outcome == "REFUSED"
        remove_file(f"{folder}/{name}")
        assert "is not there" in run.clean(archive).partitions[0].refusals[0].why
