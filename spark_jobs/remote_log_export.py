# SPDX-License-Identifier: Apache-2.0
"""
Spark job: export records of a topic from remote storage into Parquet, a task for each piece of about one segment.

Started by ``spark-submit`` on a driver that has this package; it takes the options of the command ``rlmm``. The driver reads
the metadata topic; the executors read segments and write files, so no record passes the driver. They get this package's code
from the driver; their Python needs numpy, pyarrow, obstore and google-crc32c, and their environment what opens the store.

A task that is tried again writes the same file anew, whole or not at all; ``export.json`` is written last. Exit status: as
of ``rlmm``, 0 when done, 1 with one line that says why not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from airflow_provider_rlmm.cli.catalogues import with_catalogue
from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.cli.options import Announcer, Invocation, with_storage
from airflow_provider_rlmm.cli.remote_log import with_range
from airflow_provider_rlmm.core.base.errors import RemoteLogError
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.data_frames import Cutting, cut_topic, require_executors
from airflow_provider_rlmm.features.reading.cutting import PIECE_BYTES
from airflow_provider_rlmm.features.reading.export_steps import plan_export
from airflow_provider_rlmm.features.retention.spark.java_client import jvm_of, require_driver
from airflow_provider_rlmm.features.retention.spark.package import build_py_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked
    from airflow_provider_rlmm.features.reading.export_steps import Export
    from airflow_provider_rlmm.features.reading.parquet import WrittenRecords

NAME = "remote_log_export"

_RAISED = re.compile(r"[\w.]+(Error|Exception): ")


def export_pieces(spark: SparkSession, export: Export) -> list[WrittenRecords]:
    """
    Export all pieces, a Spark task for each.

    :param spark: the session.
    :param export: what is to be exported.
    :return: what lies in the file of each piece, in their order.
    :raises RemoteLogError: if the folder is another export's, or a piece failed for good, with the executor's last word.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type information

    from airflow_provider_rlmm.features.reading.exporting import export_piece

    export.begin()
    if not export.pieces:
        return []
    shared = spark.sparkContext.broadcast(export.reader)
    try:
        pieces = spark.sparkContext.parallelize(export.pieces, len(export.pieces))
        # Asked for its value on an executor: the driver must not send it with each task.
        found: list[WrittenRecords] = pieces.map(lambda piece: export_piece(shared.value, piece)).collect()
        return found
    except Py4JJavaError as e:
        raise RemoteLogError(_last_word(str(e.java_exception.getMessage()))) from None
    finally:
        shared.destroy()


def _last_word(message: str) -> str:
    """Return what an executor raised: Spark's message goes on for pages of stack traces."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    return f"a task failed for good: {(raised or lines or ['without a word'])[-1 if raised else 0]}"


@click.command()
@with_range
@click.option("--output", metavar="FOLDER", required=True, help="Folder for the files that all executors reach.")
@click.option(
    "--piece-bytes",
    type=click.IntRange(1),
    default=PIECE_BYTES,
    show_default=True,
    help="About how many bytes of segments one task exports.",
)
@with_catalogue
@with_storage
def main(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    wanted: ReadRange,
    isolation: ReadIsolation,
    allow_incomplete: bool,
    bytes_per_second: int | None,
    output: str,
    piece_bytes: int,
    catalogue: CatalogueAsked | None,
) -> None:
    """Export records of a topic from remote storage into Parquet, one Spark task for each piece."""
    with _spark() as spark:
        require_executors(spark)
        # spark-submit puts both outputs of this process on its own standard output, where the answer belongs alone.
        asking = replace(invocation, announce=Announcer(jvm_of(spark).java.lang.System.err.println))
        partitions = None if partition is None else (partition,)
        how = Cutting(wanted, isolation, allow_incomplete, piece_bytes, bytes_per_second)
        source = cut_topic(asking, NAME, topic, partitions, how, catalogue)
        export = plan_export(source, output)
        document = export.end(export_pieces(spark, export))
    invocation.output.document({name: value for name, value in document.items() if name != "files"})


@contextmanager
def _spark() -> Iterator[SparkSession]:
    """Open the session that ``spark-submit`` describes, and give it this package's code for the executors."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"rlmm {NAME}").getOrCreate()
    # Executors fetch the file when they start, which may be late.
    with TemporaryDirectory(prefix="rlmm-") as folder:
        try:
            require_driver(spark)
            spark.sparkContext.addPyFile(str(build_py_files(Path(folder))))
            yield spark
        finally:
            spark.stop()


def export_main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the job and return its exit status.

    :param arguments: of the command line, ``None`` for those of this process.
    """
    return run(arguments, main, NAME)


if __name__ == "__main__":
    sys.exit(export_main())
