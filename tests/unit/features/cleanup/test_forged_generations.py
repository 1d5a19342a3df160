# SPDX-License-Identifier: Apache-2.0
"""A generation of the Spark job that does not say what the log says: nothing is written or deleted by it, and it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.builders import CLUSTER_ID, DAY_MS, Cluster, SnapshotInMemory, add, update
from tests.generations import written
from tests.unit.features.cleanup.forging import GONE, MADE_UP, Records, beside, finished, without


def orphaned() -> Cluster:
    """A deleted topic with two segments, marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 2)
    for number in range(20, 36):
        cluster.foreign(add(cluster.alive, number))
    return cluster


FORGERIES = {
    "a row left out": without(0),
    "all rows left out": without(0, 1),
    "a row invented": beside(add(MADE_UP, 3), update(MADE_UP, 3, S.COPY_SEGMENT_FINISHED)),
    "a row of a deleted topic invented": beside(add(GONE, 3), update(GONE, 3, S.COPY_SEGMENT_FINISHED)),
    "an orphan called finished": beside(*finished(0)),
    "all orphans called finished": beside(*finished(0), *finished(1)),
}


@dataclass(frozen=True)
class Written:
    """What came of a whole cleanup: events by what they say, and the keys of the objects that are left."""

    events: tuple[str, ...]
    keys: frozenset[str]


def forge(cluster: Cluster, folder: Path, rewrite: Callable[[Records], Records]) -> Generation:
    """Write a generation that fits the log in everything that can be checked at once, and is of other records."""
    truth, _ = written(str(folder / "truth"), cluster.log, cluster.now_ms, cluster_id=CLUSTER_ID)
    (batch,) = cluster.log.read(0, 0, truth.parts[0].next_offset)
    other = Cluster(living_topic=False)
    for value in rewrite(batch.column("value").to_pylist()):
        other.log.append(0, value)
    told, _ = written(str(folder / "told"), other.log, cluster.now_ms, cluster_id=CLUSTER_ID)
    parts = {0: replace(told.parts[0], next_offset=truth.parts[0].next_offset, anchors=truth.parts[0].anchors)}
    forged = replace(truth, parts=parts)
    (folder / "told/segments/generation=1/_manifest.json").unlink()
    GenerationStore(str(folder / "told")).create(forged)
    cluster.snapshots, cluster.data_set = SnapshotInMemory(), str(folder / "told")
    topic = cluster.topic()
    assert topic.folded == truth.folded, "it is taken"
    return forged


def cleaned_up(cluster: Cluster) -> Written:
    """Mark, wait for a day, plan and clean what is planned; return what is in the log and in the storage now."""
    begun = cluster.log.high_water_marks()[0]
    cluster.mark()
    cluster.now_ms += DAY_MS
    planned: dict[tuple[UUID, int], frozenset[UUID]] = {}
    for row in cluster.plan().rows.to_pylist():
        key = (UUID(bytes=row["topic_id"]), row["partition"])
        planned[key] = planned.get(key, frozenset()) | {UUID(bytes=row["segment_id"])}
    cluster.clean(planned=planned)
    batches = cluster.log.read(0, begun, cluster.log.high_water_marks()[0])
    events = [deserialize(value) for batch in batches for value in batch["value"].to_pylist()]
    # What is not of a segment says which cluster's storage it is.
    return Written(tuple(map(str, events)), frozenset(key for key in cluster.storage.keys if not key.endswith(".json")))


@pytest.mark.parametrize("name", FORGERIES)
def test_nothing_is_written_or_deleted_that_the_log_does_not_call_for(name: str, tmp_path: Path) -> None:
    honest, deceived = orphaned(), orphaned()
    expected = cleaned_up(honest)
    forge(deceived, tmp_path, FORGERIES[name])
    found = cleaned_up(deceived)
    assert expected.events
    assert set(found.events) <= set(expected.events)
    assert found.keys >= expected.keys


@pytest.mark.parametrize("name", FORGERIES)
def test_the_run_that_folds_all_anew_finds_it(name: str, tmp_path: Path) -> None:
    """Whether or not there is more in the log by then."""
    cluster = orphaned()
    forged = forge(cluster, tmp_path, FORGERIES[name])
    for number in range(list(FORGERIES).index(name) % 3):
        cluster.foreign(add(cluster.alive, 50 + number))
    _, (report,) = written(str(tmp_path / "told"), cluster.log, cluster.now_ms, cluster_id=CLUSTER_ID, compared=forged)
    assert report.differs == f"metadata partition 0 up to offset {forged.parts[0].next_offset}"


def test_what_is_as_the_log_is_is_no_difference(tmp_path: Path) -> None:
    """Read at once, read on, and with records behind what it has read."""
    cluster = orphaned()
    ends = {0: 9}
    first, _ = written(str(tmp_path), cluster.log, cluster.now_ms, cluster_id=CLUSTER_ID, ends=ends)
    second, _ = written(str(tmp_path), cluster.log, cluster.now_ms, cluster_id=CLUSTER_ID, before=first)
    assert second.parts[0].changes is not None
    cluster.foreign(add(GONE, 7))
    third, (report,) = written(str(tmp_path), cluster.log, cluster.now_ms, cluster_id=CLUSTER_ID, compared=second)
    assert (report.differs, report.refused, third.parts[0].changes) == (None, None, None)
    assert third.parts[0].next_offset == second.parts[0].next_offset + 1
