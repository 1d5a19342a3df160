# SPDX-License-Identifier: Apache-2.0
"""
Record batches as Arrow columns beside Kafka's own classes in a warm JVM, one thread each.

Both find the batches of the same log, which lies in memory, compare their checksums, and take offset, timestamp, key and
value of every record. No storage and no broker: ``benchmarks.remote_log`` measures with these.

The budgets are rates of values, for batches that are not compressed and that a producer fills. How far Kafka's classes are
ahead is printed beside them. Ends with 1 if a budget is missed; measure on an idle machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from airflow_provider_rlmm.core.segments.record_batches.headers import BatchHeaders
from airflow_provider_rlmm.core.segments.record_batches.records import to_arrow_batches
from benchmarks.measuring import Budget, seconds, spread, turn_by_turn
from benchmarks.reporting import add_option, report
from dev.peers import peer_command

CHUNK_BYTES = 8 << 20
MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Shape:
    """
    How a log is made.

    :param name: for the report.
    :param value_bytes: of each record; no keys, no headers.
    :param records: of each batch.
    :param codec: Kafka's name of it.
    :param least_mb_per_s: the budget, in MB of values per second; none where nothing but the ratio is of interest.
    """

    name: str
    value_bytes: int
    records: int
    codec: str
    least_mb_per_s: int | None = None


SHAPES = (
    Shape("1 KB values, batches of 16 KB", 1000, 16, "none", 600),
    Shape("100 B values, batches of 16 KB", 100, 140, "none", 200),
    Shape("100 B values, batches of 1 MB", 100, 9000, "none", 200),
    Shape("100 B values, batches of one record", 100, 1, "none"),
    Shape("100 B values, lz4", 100, 280, "lz4"),
    Shape("100 B values, zstd", 100, 280, "zstd"),
    Shape("100 B values, snappy", 100, 280, "snappy"),
    Shape("100 B values, gzip", 100, 280, "gzip"),
)


class RecordsPeer:
    """A JVM with Kafka's classes that stays warm; it ends with the block."""

    def __init__(self) -> None:
        options = ("-Xms1g", "-Xmx1g", "-XX:+UseSerialGC")
        self._process = subprocess.Popen(
            peer_command("RecordsBenchmark", options=options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def write(self, file: Path, size: int, shape: Shape) -> int:
        """
        Write a log, which is then read.

        :param file: where.
        :param size: how large, about; in bytes.
        :param shape: of what.
        :return: number of records.
        """
        return self._ask("write", str(file), str(size), str(shape.value_bytes), str(shape.records), shape.codec)[0]

    def read(self) -> float:
        """Read the log; seconds."""
        return self._ask("read")[0] / 1e9

    def _ask(self, *words: str) -> list[int]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"the JVM ended at {words[0]}; its standard error says why")
        return [int(number) for number in answer]


def read(log: memoryview) -> int:
    """
    Read a log as the reader does, chunk by chunk; number of records.

    :param log: all its bytes.
    """
    at = records = 0
    while at < len(log):
        chunk = log[at : at + CHUNK_BYTES]
        headers, consumed = BatchHeaders.find(chunk, location="log", position=at)
        headers.verify_checksums(chunk)
        for batch in to_arrow_batches(chunk, headers, max_decompressed_bytes=MOST_BYTES):
            records += batch.num_rows
        at += consumed
    return records


def measured(shape: Shape, peer: RecordsPeer, folder: Path, size: int, runs: int) -> Budget | str:
    """
    Read one log in turns.

    :param shape: how it is made.
    :param peer: Kafka's classes.
    :param folder: where it is put.
    :param size: in bytes.
    :param runs: of each.
    """
    file = folder / "log"
    file.unlink(missing_ok=True)
    records = peer.write(file, size, shape)
    log = memoryview(file.read_bytes())
    if (found := read(log)) != records:
        raise RuntimeError(f"{records} records were written, and {found} are read")
    for _ in range(3):
        peer.read()
    ours, theirs = turn_by_turn(lambda: seconds(lambda: read(log)), peer.read, runs)
    rate = records * shape.value_bytes / statistics.median(ours) / 1e6
    ratio = statistics.median(theirs) / statistics.median(ours)
    details = [
        spread("ours", ours, records, "records"),
        spread("peer", theirs, records, "records"),
        f"{rate:,.0f} MB/s of values, {ratio:.2f} times the rate of Kafka's classes",
    ]
    if shape.least_mb_per_s is None:
        return "\n    ".join([shape.name, *details])
    name, ratio = f"{shape.name}, of {shape.least_mb_per_s} MB/s", rate / shape.least_mb_per_s
    return Budget(name, ratio, 1.0, True, details, ours, theirs, count=records)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64, help="of each log (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=9, help="runs of each side (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    with RecordsPeer() as peer, tempfile.TemporaryDirectory() as folder:
        size = arguments.megabytes << 20
        lines = (measured(shape, peer, Path(folder), size, arguments.runs) for shape in SHAPES)
        return report(lines, arguments.figures)


if __name__ == "__main__":
    sys.exit(main())
