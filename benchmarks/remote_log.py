# SPDX-License-Identifier: Apache-2.0
"""
Reading and copying the remote log beside the broker, on a local folder (P10 of docs/benchmarks.md).

The budgets count from the start of a process to its end: ``rlmm read --output`` beside a dozen lines on confluent-kafka that
write the same Parquet through the broker, and ``rlmm copy`` beside the broker's own copying. The broker has one core. Then
the same objects are read from an S3 server that is 30 ms away, without a peer.

Beside them stands what the reader does without start and files: topics of which everything lies in remote storage are read
whole, from storage by the reader, and through the broker by a consumer that checks the same checksums. Each runs in a process
of its own on one core. A run begins with opening the clients.

Prints one line per budget and what was measured; ends with 1 if a budget is missed. Quote ratios: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.features.copying.log_directory.snapshot import take_snapshot
from airflow_provider_rlmm.features.reading.reader import DEFAULT_MAX_DECOMPRESSED_BYTES
from benchmarks.measuring import Budget, faster, spread, turn_by_turn, within
from benchmarks.remote_commands import consume, read
from benchmarks.remote_copying import (
    NOT_COPIED,
    SEGMENT_BYTES,
    Copied,
    copied_by_broker,
    copied_by_command,
    storage_root,
)
from benchmarks.remote_reading import Remote, Taken, consume_remote, read_remote
from benchmarks.remote_topic import Shape, full_topic, pinned_to, remote_only
from benchmarks.reporting import add_option, report
from benchmarks.topic import BROKER_OPTIONS
from dev.broker import LocalKafka
from dev.s3 import BUCKET, VersityGateway, store_options
from dev.s3_proxy import S3Proxy
from dev.tiering import create_tiered_topic, produce_until_remote

SHAPES = (
    Shape("1 KB values", 1024),
    Shape("100 B values", 100),
    Shape("100 B batches of one", 100, batches_of_one=True),
)
READING, COPYING = "reading", "copying"
BROKER_CORE = 1
LATE_S = 0.8
"""By so much ``rlmm read --output`` of the smaller size may be later than its peer."""
COPIED_S = 2.0
"""``rlmm copy`` of the smaller size takes no longer."""
LATENCY_S = 0.03


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = [READING, COPYING, *(shape.topic for shape in SHAPES)]
    parser.add_argument("--megabytes", type=int, default=512, help="of each topic of the reader (default: %(default)s)")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=2,
        default=[64, 1024],
        help="of the topics of the commands, MB (default: %(default)s)",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (default: %(default)s)")
    parser.add_argument("--only", choices=known, help="one of the measurements")
    add_option(parser)
    arguments = parser.parse_args()
    wanted = [arguments.only] if arguments.only else known
    sizes = [megabytes * 2**20 for megabytes in arguments.sizes]
    return report(_measured(wanted, arguments.megabytes * 2**20, sizes, arguments.runs), arguments.figures)


def _measured(wanted: Collection[str], size: int, sizes: Sequence[int], runs: int) -> Iterator[Budget | str]:
    if READING in wanted:
        with _broker() as kafka:
            for shape in (shape for shape in SHAPES if not shape.batches_of_one):
                for size_of_topic in sizes:
                    yield from _read_by_command(kafka, shape, size_of_topic, runs, is_small=size_of_topic == min(sizes))
    if COPYING in wanted:
        with _broker() as kafka:
            # A copier wants to see a record of the broker in each metadata partition that it writes to.
            create_tiered_topic(kafka, "living", 16)
            produce_until_remote(kafka, "living", 1)
            for size_of_topic in sizes:
                yield _copying(kafka, size_of_topic, runs, is_small=size_of_topic == min(sizes))
    with _broker() as kafka:
        for shape in (shape for shape in SHAPES if shape.topic in wanted):
            # A batch of one record costs the broker as much as a large one: half of them will do.
            records = shape.records_in(size // 2 if shape.batches_of_one else size)
            tip = remote_only(kafka, shape, records)
            yield from _reading(kafka, shape, tip, records, runs)


@contextmanager
def _broker() -> Iterator[LocalKafka]:
    with ExitStack() as running:
        with pinned_to(BROKER_CORE):
            kafka = running.enter_context(LocalKafka(jvm_options=BROKER_OPTIONS))
        yield kafka


def _reading(kafka: LocalKafka, shape: Shape, tip: TopicIdPartition, records: int, runs: int) -> Iterator[Budget | str]:
    remote = Remote(kafka.client_config(), tip, kafka.remote_dir.as_uri())
    ours: list[Taken] = []

    def by_reader() -> float:
        ours.append(_all_of(read_remote(remote), shape, records))
        return ours[-1].seconds

    def peer() -> float:
        return _all_of(consume_remote(remote, records), shape, records).seconds

    times = turn_by_turn(by_reader, peer, runs)
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
        [taken.grown_bytes for taken in ours],
        unit="B",
    )


def _read_by_command(
    kafka: LocalKafka, shape: Shape, size: int, runs: int, *, is_small: bool
) -> Iterator[Budget | str]:
    what = f"{size // 2**20} MB of {shape.name}"
    sized = replace(shape, name=f"{shape.name} {size}")
    records = sized.records_in(size)
    tip = remote_only(kafka, sized, records)

    def ours() -> float:
        return read(kafka, tip, records).seconds

    def peer() -> float:
        return consume(kafka, tip, records).seconds

    yield _timed(f"P10 rlmm read, {what}", *turn_by_turn(ours, peer, runs), records, is_small=is_small)
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-", dir=kafka.data_dir) as folder:
        times = list(_from_s3(kafka, Path(folder), tip, records, runs))
    yield f"rlmm read, {what} from S3, {LATENCY_S * 1000:.0f} ms away\n    {spread('ours', times, records, 'records')}"


def _timed(name: str, ours: list[float], peer: list[float], records: int, *, is_small: bool) -> Budget:
    if not is_small:
        return faster(name, ours, peer, records, 2.0, what="records")
    allowed = statistics.median(peer) + LATE_S
    told = [spread(who, times, records, "records") for who, times in (("ours", ours), ("peer", peer))]
    name = f"{name}, to peer + {LATE_S} s"
    return within(name, ours, allowed, told, peer, records)


def _from_s3(kafka: LocalKafka, folder: Path, tip: TopicIdPartition, records: int, runs: int) -> Iterator[float]:
    """Read the same objects from an S3 server."""
    with VersityGateway(folder) as server, S3Proxy(server.port) as proxy:
        shutil.copytree(kafka.remote_dir, server.bucket_folder, copy_function=os.link, dirs_exist_ok=True)
        proxy.latency_s = LATENCY_S
        for _ in range(runs):
            yield read(kafka, tip, records, f"s3://{BUCKET}", store_options(proxy.endpoint)).seconds


def _copying(kafka: LocalKafka, size: int, runs: int, *, is_small: bool) -> Budget:
    """Copy topics of one kind, each once: one half by the command, the others by the broker."""
    name = f"P10 rlmm copy, {size // 2**20} MB"
    shapes = [Shape(f"uncopied {size} {number}", 1024) for number in range(2 * runs)]
    segment_bytes = str(min(SEGMENT_BYTES, size // 4))
    settings = {**NOT_COPIED, "internal.segment.bytes": segment_bytes}
    tips = [full_topic(kafka, shape, shape.records_in(size), **settings) for shape in shapes]
    segments = len(list((kafka.log_dir / f"{tips[0].topic}-0").glob("*.log"))) - 1
    root = storage_root(kafka)
    kafka.stop()
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-", dir=kafka.data_dir) as folder:
        snapshot = Path(folder) / "snapshot"
        take_snapshot(kafka.log_dir, snapshot)
        with pinned_to(BROKER_CORE):
            kafka.start()
        waiting = iter(tips)
        ours, peer = list[Copied](), list[Copied]()

        def command() -> float:
            ours.append(copied_by_command(kafka, snapshot, next(waiting), root, segments))
            return ours[-1].seconds

        def broker() -> float:
            peer.append(copied_by_broker(kafka, next(waiting), segments))
            return peer[-1].seconds

        times = turn_by_turn(command, broker, runs)
    assert {copied.segments for copied in (*ours, *peer)} == {segments}
    rates = (ours[0].log_bytes / 1e6 / statistics.median(side) for side in times)
    what = f"{segments} segments of {ours[0].log_bytes // segments / 2**20:,.0f} MiB"
    rate = "ours {:,.0f} MB/s, peer {:,.0f} MB/s; {}".format(*rates, what)
    unsynced = [statistics.median(copied.seconds - copied.unsynced_s for copied in side) for side in (ours, peer)]
    before = "{:.3f} s to the end of the process, {:.3f} s to the last COPY_SEGMENT_FINISHED".format(*unsynced)
    if not is_small:
        return faster(f"{name} onto the disk", *times, segments, 1.1, rate, before, what="segments")
    told = [spread(who, taken, segments, "segments") for who, taken in zip(("ours", "peer"), times, strict=True)]
    return within(f"{name}, to {COPIED_S} s", times[0], COPIED_S, [*told, rate, before], times[1])


def _all_of(taken: Taken, shape: Shape, records: int) -> Taken:
    """Return it, if every record was read."""
    assert (taken.records, taken.value_bytes) == (records, records * shape.value_bytes)
    return taken


if __name__ == "__main__":
    sys.exit(main())
