# SPDX-License-Identifier: Apache-2.0
"""
The proof of a segment by its contents beside ``sha256sum`` of the same bytes, both from a warm page cache, in turn.

Printed is the median of some runs for batches of one record and of many: ``python -m benchmarks.contents``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.contents.chosen import CopiedSegment
from airflow_provider_rlmm.features.contents.looking import Looking
from airflow_provider_rlmm.features.contents.rules import Outcome
from airflow_provider_rlmm.features.contents.storage_source import Fetched, PacedStorage
from tests.kafka_log import Batch, Record
from tests.tiered_orders import ORDERS, START_MS, TieredOrders

_VALUE = b"x" * 1_000


def _batches(megabytes: int, records: int) -> list[Batch]:
    """Batches of as many records each, of 1 KB values."""
    batches = []
    for first in range(0, (megabytes << 20) // (len(_VALUE) + 80), records):
        rows = tuple(Record(first + n, START_MS + first + n, None, _VALUE) for n in range(records))
        batches.append(Batch(rows))
    return batches


def _segment(root: Path, megabytes: int, records: int) -> RemoteLogSegmentMetadata:
    """Lay a segment down as a broker does."""
    storage = ObjectStoreRemoteStorageManager(root.as_uri(), LocalTieredStorageLayout())
    orders = TieredOrders(storage, segments=0)
    return orders.copy(ORDERS[0], _batches(megabytes, records))


def _seconds(work: Callable[[], object], runs: int) -> float:
    taken = []
    for _ in range(runs + 1):  # the first one warms the cache
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contents", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    for records in (1, 1_000):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            metadata = _segment(root, arguments.megabytes, records)
            layout = LocalTieredStorageLayout()
            log = root / layout.object_key(metadata, None)

            def prove(metadata: RemoteLogSegmentMetadata = metadata, root: Path = root) -> None:
                storage = ObjectStoreRemoteStorageManager(root.as_uri(), LocalTieredStorageLayout())
                paced = PacedStorage(storage, StoragePatience(0), ByteQuota(None), Fetched())
                one = CopiedSegment(metadata, None, metadata.segment_leader_epochs)
                (look,) = Looking(paced, at_once=1).of([one])
                assert look.outcome is Outcome.RIGHT, look

            def digest(log: Path = log) -> None:
                subprocess.run(["sha256sum", log], check=True, capture_output=True)

            ours, peer = _seconds(prove, arguments.runs), _seconds(digest, arguments.runs)
            size = metadata.segment_size_in_bytes / 2**20
            print(
                f"{records:>5} records a batch, {size:.0f} MiB: verify {size / ours:.0f} MiB/s, sha256sum "
                f"{size / peer:.0f} MiB/s, {peer / ours:.2f} times as fast"
            )


if __name__ == "__main__":
    main()
