# SPDX-License-Identifier: Apache-2.0
"""The Spark export of gigabytes equals the reader, memory stays where it is, and workers that are killed change nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.log.topic_state import ignore_progress
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.data_frames import require_executors
from airflow_provider_rlmm.features.reading.cutting import cut_into_pieces
from airflow_provider_rlmm.features.reading.export_steps import Export, plan_export
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from spark_jobs.remote_log_export import export_pieces
from tests.access import source_of
from tests.export_scale.big_log import START_MS, TIP, BigLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.export_scale,
    pytest.mark.spark,
    pytest.mark.timeout(3_600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

WORKER_BYTES = 700 * 2**20
"""The most that the Python of one task may take: chunks, their records, a row group, and what Python and Arrow need."""
ROWS_AT_ONCE = 65_536


@pytest.fixture(scope="module")
def big(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BigLog:
    return BigLog(tmp_path_factory.mktemp("big") / "storage", float(request.config.getoption("--gib")))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two tasks at a time; a task whose worker is lost is tried again, as on a cluster."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONSAFEPATH", "1")
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.submit.pyFiles", str(build_py_files(folder)))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


def plan(big: BigLog, folder: Path) -> Export:
    settings = RemoteLogSettings(storage_uri=big.uri)
    access = RemoteLogAccess(
        source_of(lambda: settings, lambda: big.storage, open_store=lambda uri: (StoreAccess(), None))
    )
    log: Any = big.log
    session = CleanerSession(
        access, access.get_storage(), str(folder / "work"), "cluster-1", log, big.topics, lambda: START_MS,
        lambda: None, lambda: None, ignore_progress,  # type: ignore[arg-type,return-value]
    )  # fmt: skip
    return plan_export(cut_into_pieces(session, "big", piece_bytes=2**28), str(folder / "out"))


def windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the same records in tables of one size, however they are cut into batches."""
    rest: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        rest.append(batch)
        held += batch.num_rows
        while held >= ROWS_AT_ONCE:
            table = pa.Table.from_batches(rest)
            yield table.slice(0, ROWS_AT_ONCE)
            rest, held = table.slice(ROWS_AT_ONCE).to_batches(), held - ROWS_AT_ONCE
    if held:
        yield pa.Table.from_batches(rest)


def exported(export: Export) -> Iterator[pa.RecordBatch]:
    for piece in export.pieces:
        yield from pq.ParquetFile(piece.file).iter_batches(8_192)


class Workers(threading.Thread):
    """Looks at the Python of the tasks, remembers how much memory one has taken, and kills some of them."""

    def __init__(self, kills: int) -> None:
        super().__init__(daemon=True)
        self.largest = 0
        self.killed = 0
        self._kills = kills
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.2):
            for worker in self._workers():
                try:
                    used = worker.memory_full_info().uss
                    self.largest = max(self.largest, used)
                    if self.killed < self._kills and time.time() - worker.create_time() > 3 and used > 2**27:
                        worker.kill()
                        self.killed += 1
                        break
                except psutil.Error:
                    continue

    def end(self) -> None:
        self._done.set()
        self.join()

    def _workers(self) -> list[psutil.Process]:
        """The forks of PySpark's daemon, below its JVM: each runs tasks, one after the other."""
        found = []
        for process in psutil.Process(os.getpid()).children(recursive=True):
            try:
                parent = process.parent()
                if parent and "pyspark.daemon" in process.cmdline() and "pyspark.daemon" in parent.cmdline():
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.mark.parametrize("kills", [0, 2], ids=["nobody is killed", "two workers are killed"])
def test_gigabytes_are_exported_as_the_reader_reads_them(
    big: BigLog, spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    require_executors(spark)
    workers = Workers(kills)
    began = time.monotonic()
    export = plan(big, tmp_path)
    workers.start()
    try:
        written = export_pieces(spark, export)
    finally:
        workers.end()
    took = time.monotonic() - began
    document = export.end(written)
    sys.stdout.write(
        f"\n{big.bytes / 2**30:.1f} GiB, {len(export.pieces)} tasks, {took:.0f} s, {big.bytes / 2**20 / took:.0f} MiB/s; "
        f"the largest worker took {workers.largest / 2**20:.0f} MiB; {workers.killed} killed\n"
    )
    assert workers.killed == kills
    assert 0 < workers.largest < WORKER_BYTES
    assert document["records"] == big.records
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(
        ["export-begun.json", "export.json", *(f["file"] for f in document["files"])]
    )
    reader = RemoteLogReader(PartitionSegments(big.log, [TIP]), big.storage)
    compared = 0
    for ours, theirs in zip(windows(exported(export)), windows(reader.read(TIP, 0)), strict=True):
        assert ours.equals(theirs)
        compared += ours.num_rows
    assert compared == big.records
