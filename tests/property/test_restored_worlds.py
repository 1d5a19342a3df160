# SPDX-License-Identifier: Apache-2.0
"""Random logs of a lost cluster, restored from any start to any end, killed anywhere: an oracle says what must be there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.archiving import restore_effects, restore_steps
from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueToRestore
from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
from airflow_provider_rlmm.features.archiving.restore_progress import at_rest
from airflow_provider_rlmm.features.archiving.restore_rules import RestoreRange, Undecided
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport, restore
from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked
from airflow_provider_rlmm.features.reading.undecided import OpenTransaction
from tests.builders import CLUSTER_ID
from tests.catalogued import ID, CataloguedTopic
from tests.examples import examples
from tests.kafka_log import CONTROL, TRANSACTIONAL, Batch
from tests.remote_log_world import BEGIN_MS, RemoteLogWorld, random_world
from tests.restoring import RUN, FakeAccess, FakeTopic, Killed

pytestmark = pytest.mark.slow


def open_at_the_end(world: RemoteLogWorld, start: int, end: int) -> list[OpenTransaction]:
    """Return the transactions in a range that have no end marker anywhere, as one finds them by walking along the log."""
    found: dict[int, list[int]] = {}
    for batch in world.batches:
        if batch.attributes & CONTROL:
            found.pop(batch.producer_id, None)
        elif batch.attributes & TRANSACTIONAL:
            offsets = [record.offset for record in batch.records if start <= record.offset < end]
            found.setdefault(batch.producer_id, []).extend(offsets)
    return sorted(
        (OpenTransaction(producer, min(offsets), len(offsets)) for producer, offsets in found.items() if offsets),
        key=lambda one: one.first_offset,
    )


def expected(world: RemoteLogWorld, start: int, end: int, *, keep: bool) -> list[dict[str, object]]:
    undecided = {one.producer_id: one.first_offset for one in open_at_the_end(world, start, end)}

    def counts(batch: Batch) -> bool:
        if batch.attributes & CONTROL or world._is_aborted(batch):
            return False
        first = undecided.get(batch.producer_id) if batch.attributes & TRANSACTIONAL else None
        return keep or first is None or batch.records[-1].offset < first

    return [r.as_row() for batch in world.batches if counts(batch) for r in batch.as_read() if start <= r.offset < end]


class Restoring:
    """A restore of a world, again and again until it has come to its end."""

    def __init__(self, folder: Path, world: RemoteLogWorld, wanted: RestoreRange, undecided: Undecided | None) -> None:
        self.source = CataloguedTopic(folder, *world.segments)
        self.catalogue = self.source.recover()
        self.wanted, self.undecided = wanted, undecided
        settings = self.source.settings(allow_writes=True, expected_cluster_id=CLUSTER_ID)
        storage = ObjectStoreRemoteStorageManager(self.source.storage_uri, self.source.bucket.layout)
        self.access: Any = FakeAccess(settings, storage=lambda: storage)

    def restore(self) -> RestoreReport:
        asked = CatalogueAsked(uri=self.catalogue, was_not_deleted=[ID])
        return restore(
            self.access, ID, "restored", by=RestoreRun(RUN, str(self.source.folder / "work")),
            catalogue=CatalogueToRestore(asked=asked, wanted=self.wanted), undecided=self.undecided, dry_run=False,
        )  # fmt: skip

    def to_the_end(self, into: FakeTopic, deaths: list[int]) -> RestoreReport:
        for into.dies_at in deaths:
            try:
                self.restore()
            except Killed:
                continue
        into.dies_at = None
        return self.restore()


@pytest.mark.parametrize("seed", range(examples(40)))
def test_what_is_restored_is_what_the_log_had(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, world = Random(f"restored {seed}"), random_world(f"restored {seed}", distinct_times=True)
    into, seconds = FakeTopic(), [0.0]
    into.take_the_place_of_kafkas(monkeypatch)
    rest = partial(at_rest, clock=lambda: seconds[0], sleep=lambda s: seconds.append(seconds.pop() + s))
    monkeypatch.setattr(restore_effects, "at_rest", rest)
    monkeypatch.setattr(restore_steps, "system_clock", lambda: BEGIN_MS)
    from_start = rng.random() < 0.4
    start = world.start if from_start else rng.randint(world.start, world.end)
    undecided = rng.choice((None, *Undecided))
    end = rng.choice((None, rng.randint(start, world.end)))
    ends, end = ({}, world.end) if end is None else ({0: end}, end)
    rows = expected(world, start, end, keep=undecided is Undecided.KEEP)
    named = RestoreRange(beginning=from_start, offsets={} if from_start else {0: start}, ends=ends)
    deaths = sorted(rng.choices(range(len(rows) + 1), k=rng.randint(0, 3)))

    report = Restoring(tmp_path, world, named, undecided).to_the_end(into, deaths)

    assert into.rows == rows
    (partition,) = report.partitions
    there = open_at_the_end(world, start, end)
    assert list(partition.undecided) == there
    assert report.needs_person == (undecided is None and bool(there))
    assert partition.left_out == len(world.rows(start, end)) - len(rows)
    moved = [row["offset"] for new, row in enumerate(rows) if row["offset"] != new]
    assert partition.differs_from == (moved[0] if moved else None)
