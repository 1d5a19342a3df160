# SPDX-License-Identifier: Apache-2.0
"""
The proof of a segment by its contents beside ``sha256sum`` of the same bytes, both from a warm page cache, in turn.

Batches of one record and of many are measured. Prints one line per budget and what was measured; ends with 1 if a budget is
missed. Needs no broker; one core is enough.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.contents.chosen import CopiedSegment
from airflow_provider_rlmm.features.contents.looking import Looking
from airflow_provider_rlmm.features.contents.rules import Outcome
from airflow_provider_rlmm.features.contents.storage_source import Fetched, PacedStorage
from benchmarks.measuring import Budget, faster, seconds, turn_by_turn
from benchmarks.reporting import add_option, report
from tests.kafka_log import Batch, Record
from tests.tiered_orders import ORDERS, START_MS, TieredOrders

LEAST = 1.0
"""Whoever scrubs contents waits no longer than for ``sha256sum``, which proves nothing of a log."""

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


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="size of the segment (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default: %(default)s)")
    add_option(parser)
    arguments = parser.parse_args()
    budgets = (_measured(records, arguments.megabytes, arguments.runs) for records in (1, 1_000))
    return report(budgets, arguments.figures)


def _measured(records: int, megabytes: int, runs: int) -> Budget:
    layout = LocalTieredStorageLayout()
    with tempfile.TemporaryDirectory(prefix="rlmm-bench-") as folder:
        root = Path(folder)
        metadata = _segment(root, megabytes, records)
        log = root / layout.object_key(metadata, None)

        def prove() -> None:
            storage = ObjectStoreRemoteStorageManager(root.as_uri(), layout)
            paced = PacedStorage(storage, StoragePatience(0), ByteQuota(None), Fetched())
            one = CopiedSegment(metadata, None, metadata.segment_leader_epochs)
            (look,) = Looking(paced, at_once=1).of([one])
            assert look.outcome is Outcome.RIGHT, look

        def digest() -> None:
            subprocess.run(["sha256sum", log], check=True, capture_output=True)

        # The first turn warms the page cache.
        turn_by_turn(lambda: seconds(prove), lambda: seconds(digest), 1)
        ours, peer = turn_by_turn(lambda: seconds(prove), lambda: seconds(digest), runs)
    size = round(metadata.segment_size_in_bytes / 2**20)
    name = f"verify beside sha256sum, batches of {records:,} record{'s' * (records > 1)}"
    return faster(name, ours, peer, size, LEAST, what="MiB")


if __name__ == "__main__":
    sys.exit(main())
