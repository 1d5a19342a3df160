# SPDX-License-Identifier: Apache-2.0
"""
``metadata.columnar.decode`` beside ``metadata.serde.deserialize``, the same values, one process, turn by turn.

Prints rows per second as median and spread, and the ratio of the medians. Quote the ratio: the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from uuid import UUID

import pyarrow as pa

from airflow_provider_rlmm.metadata.columnar import decode
from airflow_provider_rlmm.metadata.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from airflow_provider_rlmm.metadata.serde import deserialize, serialize
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState as S

BATCH_ROWS = 10_000


def realistic_values(rows: int, seed: int = 405) -> list[bytes]:
    """Half adds, half updates; a third of the segments span two leader epochs; no custom metadata."""
    rng = random.Random(seed)
    topics = [(UUID(int=rng.getrandbits(128)), f"topic-{'x' * rng.randint(0, 20)}-{i}") for i in range(50)]
    values = []
    for i in range(rows // 2):
        topic_id, name = rng.choice(topics)
        tip = TopicIdPartition(topic_id, name, rng.randrange(12))
        segment_id = RemoteLogSegmentId(tip, UUID(int=rng.getrandbits(128)))
        start = i * 1000
        epochs = ((3, start), (4, start + 500)) if i % 3 == 0 else ((3, start),)
        add = RemoteLogSegmentMetadata(
            segment_id, start, start + 999, 1, 1, 1, 10**9, None, S.COPY_SEGMENT_STARTED, epochs, True
        )
        values += [
            serialize(add),
            serialize(RemoteLogSegmentMetadataUpdate(segment_id, 2, None, S.COPY_SEGMENT_FINISHED, 1)),
        ]
    return values


def rate_of(work: Callable[[], None], rows: int) -> float:
    """Return rows per second of one run."""
    started = time.perf_counter()
    work()
    return rows / (time.perf_counter() - started)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    values = realistic_values(arguments.rows)
    batches = [pa.array(values[i : i + BATCH_ROWS], pa.binary()) for i in range(0, len(values), BATCH_ROWS)]

    def columnar() -> None:
        for batch in batches:
            decode(batch)

    def scalar() -> None:
        for value in values:
            deserialize(value)

    columnar()
    rates: dict[str, list[float]] = {"columnar.decode": [], "serde.deserialize": []}
    for _ in range(arguments.runs):
        rates["columnar.decode"].append(rate_of(columnar, len(values)))
        rates["serde.deserialize"].append(rate_of(scalar, len(values)))
    for name, measured in rates.items():
        print(
            f"{name:18} {statistics.median(measured):>12,.0f} rows/s  ({min(measured):,.0f} to {max(measured):,.0f}, "
            f"{arguments.runs} runs of {len(values):,} values)"
        )
    medians = [statistics.median(measured) for measured in rates.values()]
    print(f"ratio              {medians[0] / medians[1]:.0f}x")


if __name__ == "__main__":
    main()
