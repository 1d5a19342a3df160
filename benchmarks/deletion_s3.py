# SPDX-License-Identifier: Apache-2.0
"""
The cleaner on an S3 server beside a plain boto3 loop over the same objects: rate, requests and what these cost.

The loop lists a topic's prefix page by page and deletes each page in one request: it asks no log, looks at nothing twice and
says nothing to anybody, and is as fast as deletion in S3 can be. versitygw over a folder answers both; a proxy that counts
requests stands before it in a run of its own.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.snapshot_file import SnapshotFile
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from benchmarks.measuring import spread, turn_by_turn
from benchmarks.orphans import (
    Place,
    Shape,
    absent_tips,
    cleaned_in,
    lay_objects,
    mark,
    publish_copies,
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
    return 0


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


def _ours(
    server: VersityGateway, endpoint: str, shape: Shape, count_from_here: Callable[[], object] = lambda: None
) -> float:
    """Return how long the cleaner takes, two tasks at once, on a broker of its own."""
    with S3Kafka(server, endpoint=endpoint, key_prefix=KEY_PREFIX) as kafka:
        # What of a living topic is in the bucket shows that it is the cluster's, and up to date.
        create_tiered_topic(kafka, "living", 1)
        produce_until_remote(kafka, "living", 1)
        config = KafkaClientConfig(kafka.client_config())
        tips = absent_tips(kafka.metadata_partitions, shape)
        metadatas = segments_of(tips, shape.segments)
        lay_objects(server.bucket_folder, LAYOUT, metadatas)
        planned = publish_copies(config, metadatas)
        mark(config, tips)
        place = Place(f"s3://{BUCKET}", LAYOUT.name, KEY_PREFIX, store_options(endpoint))
        snapshots = SnapshotFile(str(kafka.data_dir / "topic.snapshot"))
        task = task_of(config, place, kafka.cluster_id, snapshots)
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


if __name__ == "__main__":
    sys.exit(main())
