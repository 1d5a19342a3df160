# SPDX-License-Identifier: Apache-2.0
"""The export of remote logs on a real Spark: it equals the reader, whatever the pieces, and whatever fails on the way."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.errors import ConfigurationError, RemoteLogError
from airflow_provider_rlmm.event_log.topic_state import ignore_progress
from airflow_provider_rlmm.policy.read_range import OffsetRange, ReadIsolation, ReadRange
from airflow_provider_rlmm.policy.strict_json import unsealed
from airflow_provider_rlmm.remote_log.reader import RemoteLogReader
from airflow_provider_rlmm.remote_log.segments import PartitionSegments
from airflow_provider_rlmm.session.cleaner_session import CleanerSession
from airflow_provider_rlmm.session.exporting import Export, plan_export
from airflow_provider_rlmm.session.settings import RemoteLogSettings
from airflow_provider_rlmm.storage.credentials import StoreAccess
from airflow_provider_rlmm.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.storage.object_store import ObjectStoreRemoteStorageManager
from spark_jobs.remote_log_export import export_pieces, require_executors
from tests.tiered_orders import ORDERS, START_MS, TieredOrders, batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Exported:
    """A world on a local disk, and a session that leads there."""

    def __init__(self, folder: Path) -> None:
        (folder / "storage").mkdir()
        self.folder = folder
        self.uri = (folder / "storage").as_uri()
        self.storage = ObjectStoreRemoteStorageManager(self.uri, LocalTieredStorageLayout())
        self.world = TieredOrders(self.storage, segments=5)
        self.options: dict[str, str] = {}

    def session(self) -> CleanerSession:
        settings = RemoteLogSettings(storage_uri=self.uri)
        access: Any = SimpleNamespace(get_connection_settings=lambda: settings)
        storage: Any = SimpleNamespace(
            get_storage_manager=lambda: self.storage, open_store=lambda uri: (StoreAccess(self.options), None)
        )
        log: Any = self.world.log
        return CleanerSession(
            access, storage, str(self.folder / "work"), "cluster-1", log, self.world.topics, lambda: START_MS,
            lambda: None, lambda: None, ignore_progress,  # type: ignore[arg-type,return-value]
        )  # fmt: skip

    def plan(self, **arguments: Any) -> Export:
        return plan_export(self.session(), "orders", str(self.folder / "out"), **{"piece_bytes": 1, **arguments})

    def as_read(self, partition: int, start: int, end: int) -> pa.Table:
        """What the reader says of a range, in this process."""
        tip = ORDERS[partition]
        reader = RemoteLogReader(PartitionSegments(self.world.log, [tip]), self.storage)
        return pa.Table.from_batches(reader.read(tip, start, end))

    def files(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "out").iterdir())


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return Exported(tmp_path)


def test_an_export_equals_the_reader(exported: Exported, spark: SparkSession) -> None:
    require_executors(spark)
    export = exported.plan(wanted=ReadRange(start_offset=7, end_offset=143))
    assert [(p.tip.partition, p.offsets.start, p.offsets.end) for p in export.pieces] == [
        (number, start, end) for number in (0, 1) for start, end in ((7, 30), (30, 60), (60, 90), (90, 120), (120, 143))
    ]
    document = export.end(export_pieces(spark, export))
    for number in (0, 1):
        files = [f for f in document["files"] if f["partition"] == number]
        read = pa.concat_tables(pq.read_table(exported.folder / "out" / f["file"]) for f in files)
        assert read.equals(exported.as_read(number, 7, 143))
        assert [f["records"] for f in files] == [23, 30, 30, 30, 23]
    assert document["records"] == 2 * 136
    written = unsealed((exported.folder / "out" / "export.json").read_text(), 1)
    assert written["partitions"] == {str(n): {"start": 7, "end": 143} for n in (0, 1)}
    assert (written["cluster_id"], written["topic"], written["isolation_level"]) == (
        "cluster-1",
        "orders",
        "read_uncommitted",
    )
    assert set(exported.files()) == {"export.json", *(f["file"] for f in document["files"])}


def test_no_record_passes_the_driver_and_small_segments_go_together(exported: Exported, spark: SparkSession) -> None:
    export = exported.plan(piece_bytes=2**30, partitions=[1], isolation=ReadIsolation.READ_COMMITTED)
    assert [p.offsets for p in export.pieces] == [OffsetRange(0, 150)]
    (written,) = export_pieces(spark, export)
    assert (written.records, written.first_offset, written.last_offset) == (150, 0, 149)
    assert (written.min_timestamp_ms, written.max_timestamp_ms) == (START_MS, START_MS + 149_000)


def test_a_piece_that_fails_leaves_no_document_and_the_next_try_is_whole(
    exported: Exported, spark: SparkSession
) -> None:
    export = exported.plan(partitions=[0])
    (log,) = [
        path
        for path in (exported.folder / "storage").rglob("*.log")
        if "0000060" in path.name and "orders-0" in str(path)
    ]
    whole = log.read_bytes()
    log.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(RemoteLogError, match=r"a task failed for good: .*DamagedObjectError: .*00000000000000000060"):
        export_pieces(spark, export)
    assert not {"export.json", export.pieces[2].file.rpartition("/")[2]} & set(exported.files())
    log.write_bytes(whole)
    again = exported.plan(partitions=[0])
    document = again.end(export_pieces(spark, again))
    assert document["records"] == 150
    assert [f["file"] for f in document["files"]] == [p.file.rpartition("/")[2] for p in export.pieces]
    read = pa.concat_tables(pq.read_table(exported.folder / "out" / f["file"]) for f in document["files"])
    assert read.equals(exported.as_read(0, 0, 150))


def test_a_folder_of_another_export_is_refused(exported: Exported) -> None:
    (exported.folder / "out").mkdir()
    (exported.folder / "out" / "partition-0-of-yesterday.parquet").touch()
    with pytest.raises(
        RemoteLogError, match=r"1 files that are not of this export, such as \['partition-0-of-yesterday"
    ):
        exported.plan()


def test_secrets_of_the_store_are_sent_nowhere(exported: Exported) -> None:
    exported.options = {"endpoint": "http://127.0.0.1:1", "aws_secret_access_key": "correct-horse"}
    with pytest.raises(ConfigurationError, match=r"\['aws_secret_access_key'\]") as refused:
        exported.plan()
    assert "correct-horse" not in str(refused.value)
    exported.options = {"region": "eu-central-1"}
    assert exported.plan().exporter.storage.options == {"region": "eu-central-1"}


def test_executors_without_the_libraries_are_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = SimpleNamespace(map=lambda function: SimpleNamespace(collect=lambda: ["", "obstore", "obstore"]))
    context = SimpleNamespace(defaultParallelism=2, parallelize=lambda *_: answers)
    session: Any = SimpleNamespace(sparkContext=context)
    with pytest.raises(ConfigurationError, match="the executors' Python lacks obstore: install there"):
        require_executors(session)


def test_an_empty_topic_has_an_empty_export(exported: Exported, spark: SparkSession) -> None:
    export = exported.plan(wanted=ReadRange(start_offset=150))
    assert export.end(export_pieces(spark, export))["records"] == 0
    assert json.loads((exported.folder / "out" / "export.json").read_text())["files"] == []


def test_a_segment_that_is_copied_meanwhile_is_not_half_of_it(exported: Exported, spark: SparkSession) -> None:
    export = exported.plan(partitions=[0])
    exported.world.copy(ORDERS[0], batches(150))
    assert sum(w.records for w in export_pieces(spark, export)) == 150
