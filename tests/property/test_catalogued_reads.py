# SPDX-License-Identifier: Apache-2.0
"""Random logs in a bucket, whole and damaged: what is read by a catalogue is what was written, or it is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog
from tests.catalogued import CataloguedTopic, rows_in_range
from tests.contracts.aiven_objects import AivenPacking
from tests.examples import examples
from tests.remote_log_world import RemoteLogWorld, random_world

pytestmark = pytest.mark.slow

COMMITTED, UNCOMMITTED = ReadIsolation.READ_COMMITTED, ReadIsolation.READ_UNCOMMITTED
WORLDS = examples(60)


def packing(rng: Random) -> AivenPacking:
    compressed = rng.random() < 0.5
    return AivenPacking(rng.choice((100, 1_000, 2**20)), compressed, variable=compressed)


def in_a_bucket(folder: Path, world: RemoteLogWorld, rng: Random) -> CataloguedTopic:
    """Put the segments in any order, some of them twice: as two leaders had copied them one after the other."""
    topic = CataloguedTopic(folder)
    for segment in rng.sample(world.segments, len(world.segments)):
        topic.put(segment, packing(rng))
    return topic


def damage(topic: CataloguedTopic, rng: Random) -> str:
    """Take away an object, cut it, or flip a bit of it; say what."""
    key = rng.choice(sorted(topic.bucket.storage.keys))
    data = bytearray(topic.bucket.storage.fetch_object(key))
    how = rng.choice(("gone", "cut", "flipped"))
    if how == "gone" or not data:
        del topic.bucket.storage._objects[key]
    elif how == "cut":
        topic.bucket.storage.put_object(key, bytes(data[: rng.randrange(len(data))]))
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        topic.bucket.storage.put_object(key, bytes(data))
    return how


def wanted_of(world: RemoteLogWorld, rng: Random) -> ReadRange:
    start, end = sorted(rng.randint(world.start, world.end) for _ in range(2))
    return rng.choice((ReadRange(), ReadRange(start_offset=start), ReadRange(end_offset=end), ReadRange(start, end)))


def read(log: CataloguedLog, wanted: ReadRange, isolation: ReadIsolation) -> list[dict[str, object]] | None:
    try:
        return rows_in_range(log, wanted, isolation)
    except RlmmError:
        return None


def expected(world: RemoteLogWorld, wanted: ReadRange, isolation: ReadIsolation) -> list[dict[str, object]]:
    start = world.start if wanted.start_offset is None else wanted.start_offset
    end = world.end if wanted.end_offset is None else wanted.end_offset
    return world.rows(start, end, committed=isolation is COMMITTED)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_whole_bucket_is_read_as_it_was_written(seed: int, tmp_path: Path) -> None:
    rng, world = Random(f"whole {seed}"), random_world(f"catalogued {seed}")
    topic = in_a_bucket(tmp_path, world, rng)
    log = topic.open()
    for isolation in ReadIsolation:
        assert rows_in_range(log, ReadRange(), isolation) == expected(world, ReadRange(), isolation)
    assert log.lineage(log.partitions[0]) == world.lineage
    assert log.problems == []


def test_of_a_damaged_bucket_nothing_is_read_that_was_not_written(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(WORLDS):
        rng, world = Random(f"damaged {seed}"), random_world(f"damaged {seed}", start=17)
        topic = in_a_bucket(tmp_path / str(seed), world, rng)
        how = damage(topic, rng)
        try:
            log = topic.open(or_doubtful=True)
        except RlmmError:
            seen["not opened"] += 1
            continue
        for isolation in ReadIsolation:
            wanted = wanted_of(world, rng)
            rows = read(log, wanted, isolation)
            seen["refused" if rows is None else "read"] += 1
            if rows is not None:
                there = expected(world, wanted, isolation)
                # Of an end that has no whole segment a range that names no end says nothing.
                assert rows == [row for row in there if _reached(row, rows, wanted)], f"seed {seed}, {how}, {wanted}"
    assert min(seen["refused"], seen["read"]) > WORLDS // 10, seen


def _reached(row: dict[str, object], rows: list[dict[str, object]], wanted: ReadRange) -> bool:
    if not rows:
        return wanted.start_offset is not None and wanted.end_offset is not None
    first, last = rows[0]["offset"], rows[-1]["offset"]
    after = wanted.start_offset is not None or row["offset"] >= first  # type: ignore[operator]
    before = wanted.end_offset is not None or row["offset"] <= last  # type: ignore[operator]
    return after and before
