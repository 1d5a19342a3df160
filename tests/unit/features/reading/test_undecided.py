# SPDX-License-Identifier: Apache-2.0
"""Transactions without an end marker are found by the log, and the leader's own word has to be the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_rlmm.core.base.errors import DamagedObjectError
from airflow_provider_rlmm.core.segments.read_range import OffsetRange
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.reading.reader import RemoteLogReader
from airflow_provider_rlmm.features.reading.undecided import OpenTransaction, ScannedRange
from tests.kafka_log import producer_snapshot
from tests.remote_log_world import TIP, RemoteLogWorld, random_world


def scanned(world: RemoteLogWorld) -> ScannedRange:
    reader = RemoteLogReader(world.known(), world.storage())
    return reader.scan(TIP, OffsetRange(world.start, world.end), world.lineage)


@pytest.fixture
def world() -> RemoteLogWorld:
    """A log with transactions that are open at its end."""
    return next(w for w in map(random_world, range(50)) if w.open_since is not None)


def test_the_first_open_one_is_where_committed_records_would_end(world: RemoteLogWorld) -> None:
    found = scanned(world)
    assert found.undecided[0].first_offset == world.open_since
    assert found.records == len(world.rows(world.start, world.end))
    assert str(found.undecided[0]).startswith(
        f"producer {found.undecided[0].producer_id} from offset {world.open_since}"
    )


def test_an_open_transaction_says_how_many_records_it_has() -> None:
    assert str(OpenTransaction(7, 1200, 1300)) == "producer 7 from offset 1200 on, 1,300 records"


@pytest.mark.parametrize("said", [[], [(12345, 2)], "later"])
def test_a_snapshot_that_contradicts_the_log_is_refused(
    world: RemoteLogWorld, said: list[tuple[int, int]] | str
) -> None:
    first = scanned(world).undecided[0]
    entries = [(first.producer_id, first.first_offset + 1)] if isinstance(said, str) else said
    last = world.segments[-1]
    spoilt = replace(last, indexes={**last.indexes, IndexType.PRODUCER_SNAPSHOT: producer_snapshot(entries)})
    world.segments[-1] = spoilt
    with pytest.raises(DamagedObjectError, match="one of them is damaged"):
        scanned(world)
