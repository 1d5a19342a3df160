# SPDX-License-Identifier: Apache-2.0
"""
Reading and copying the remote log beside the broker, on a local folder (P10 of docs/benchmarks.md).

Topics of which everything lies in remote storage are read whole: from storage by the reader, and through the broker
by a consumer of confluent-kafka that checks the same checksums. Each runs in a process of its own on one core, the
broker on the other one. A run begins with opening the clients. The same objects are then read from an S3 server,
without a peer.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot
from airflow_provider_rlmm.features.reading.reader import DEFAULT_MAX_DECOMPRESSED_BYTES
from benchmarks.measuring import Budget, faster, spread, turn_by_turn
from benchmarks.remote_copying import NOT_COPIED, Copied, copied_by_broker, copy
from benchmarks.remote_reading import CORE, Remote, Taken, consume, read_remote
from benchmarks.remote_topic import Shape, full_topic, pinned_to, remote_only
from benchmarks.topic import BROKER_OPTIONS
from dev.broker import LocalKafka
from dev.s3 import BUCKET, VersityGateway, store_options
from dev.tiering import create_tiered_topic, produce_until_remote

SHAPES = (
    Shape("1 KB values", 1024),
    Shape("100 B values", 100),
    Shape("100 B batches of one", 100, batches_of_one=True),
)
COPYING = "copying"
BROKER_CORE = 1


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512, help="of each topic's log (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    parser.add_argument("--only", choices=[*(shape.topic for shape in SHAPES), COPYING], help="one of the measurements")
    arguments = parser.parse_args()
    wanted = [arguments.only] if arguments.only else [*(shape.topic for shape in SHAPES), COPYING]
    missed = 0
    for line in _measured(wanted, arguments.megabytes * 2**20, arguments.runs):
        print(line, flush=True)
        missed += isinstance(line, Budget) and not line.met
    return 1 if missed else 0


def _measured(wanted: Collection[str], size: int, runs: int) -> Iterator[Budget | str]:
    with _broker() as kafka:
        for shape in (shape for shape in SHAPES if shape.topic in wanted):
            # A batch of one record costs the broker as much as a large one: half of them will do.
            records = shape.records_in(size // 2 if shape.batches_of_one else size)
            tip = remote_only(kafka, shape, records)
            yield from _reading(kafka, shape, tip, records, runs)
        if COPYING in wanted:
            yield _copying(kafka, size, runs)


@contextmanager
def _broker() -> Iterator[LocalKafka]:
    with ExitStack() as running:
        with pinned_to(BROKER_CORE):
            kafka = running.enter_context(LocalKafka(jvm_options=BROKER_OPTIONS))
        yield kafka


def _reading(kafka: LocalKafka, shape: Shape, tip: TopicIdPartition, records: int, runs: int) -> Iterator[Budget | str]:
    remote = Remote(kafka.client_config(), tip, kafka.remote_dir.as_uri(), {})
    ours: list[Taken] = []

    def read() -> float:
        ours.append(_all_of(read_remote(remote), shape, records))
        return ours[-1].seconds

    def peer() -> float:
        return _all_of(consume(remote, records), shape, records).seconds

    times = turn_by_turn(read, peer, runs)
    rates = (records * shape.value_bytes / 1e6 / statistics.median(side) for side in times)
    rate = "values: ours {:,.0f} MB/s, peer {:,.0f} MB/s".format(*rates)
    yield faster(f"P10 reading {shape.name}", *times, records, 1.0, rate, what="records")
    grown = max(taken.grown_bytes for taken in ours)
    yield Budget(
        f"P10 memory, {shape.name}",
        grown / DEFAULT_MAX_DECOMPRESSED_BYTES,
        1.0,
        False,
        [f"{grown / 2**20:,.0f} MiB beyond the imports, of {DEFAULT_MAX_DECOMPRESSED_BYTES // 2**20} MiB"],
    )
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-", dir=kafka.data_dir) as folder:
        yield _from_s3(kafka, Path(folder), remote, shape, records, runs)


def _from_s3(kafka: LocalKafka, folder: Path, remote: Remote, shape: Shape, records: int, runs: int) -> str:
    """Read the same objects from an S3 server, beside nobody."""
    with pinned_to(BROKER_CORE), VersityGateway(folder) as server:
        shutil.copytree(kafka.remote_dir, server.bucket_folder, copy_function=os.link, dirs_exist_ok=True)
        there = replace(remote, uri=f"s3://{BUCKET}", options=store_options(server.endpoint))
        times = [_all_of(read_remote(there), shape, records).seconds for _ in range(runs)]
    rate = records * shape.value_bytes / 1e6 / statistics.median(times)
    return f"reading {shape.name} from S3: {rate:,.0f} MB/s of values\n    {spread('ours', times, records, 'records')}"


def _copying(kafka: LocalKafka, size: int, runs: int) -> Budget:
    """Copy topics of one kind, each once: the first half by the copier, the others by the broker."""
    # A copier wants to see a record of the broker in each metadata partition that it writes to.
    create_tiered_topic(kafka, "living", 16)
    produce_until_remote(kafka, "living", 1)
    shapes = [Shape(f"uncopied {number}", 1024) for number in range(2 * runs)]
    tips = [full_topic(kafka, shape, shape.records_in(size), **NOT_COPIED) for shape in shapes]
    segments = len(list((kafka.log_dir / f"{tips[0].topic}-0").glob("*.log"))) - 1
    kafka.stop()
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-", dir=kafka.data_dir) as folder:
        snapshot = Path(folder) / "snapshot"
        take_snapshot(kafka.log_dir, snapshot)
        with pinned_to(BROKER_CORE):
            kafka.start()
        waiting = iter(tips)
        ours, peer = list[Copied](), list[Copied]()

        def copier() -> float:
            ours.append(copy(kafka, snapshot, next(waiting), CORE))
            return ours[-1].seconds

        def broker() -> float:
            peer.append(copied_by_broker(kafka, next(waiting), segments))
            return peer[-1].seconds

        times = turn_by_turn(copier, broker, runs)
    assert {copied.segments for copied in (*ours, *peer)} == {segments}
    rates = (ours[0].log_bytes / 1e6 / statistics.median(side) for side in times)
    what = f"{segments} segments of {ours[0].log_bytes // segments / 2**20:,.0f} MiB"
    rate = "ours {:,.0f} MB/s, peer {:,.0f} MB/s; {}".format(*rates, what)
    unsynced = [statistics.median(copied.seconds - copied.unsynced_s for copied in side) for side in (ours, peer)]
    before = "{:.3f} s and {:.3f} s to the last COPY_SEGMENT_FINISHED, {:.2f}x".format(
        *unsynced, unsynced[1] / unsynced[0]
    )
    return faster("P10 copying onto the disk", *times, segments, 1.0, rate, before, what="segments")


def _all_of(taken: Taken, shape: Shape, records: int) -> Taken:
    """Return it, if every record was read."""
    assert (taken.records, taken.value_bytes) == (records, records * shape.value_bytes)
    return taken


if __name__ == "__main__":
    sys.exit(main())
