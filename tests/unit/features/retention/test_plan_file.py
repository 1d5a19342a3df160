# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.generations.manifest import GenerationFile
from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS
from airflow_provider_rlmm.core.plans.plan_files import plan_schema
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.executor.plan_file import write_plan_file
from tests.spark.events import Segment, Topic, random_topic
from tests.unit.features.retention.test_metadata_partition import (
    CLUSTER,
    DEAD,
    ENDS,
    MIN_AGE,
    NOW,
    PARTITIONS,
    batches_of,
    told,
    without_keys,
)

ALIAS = (DEAD[0], "alias")


def written(topic: Topic, folder: Path) -> list[GenerationFile]:
    reports = told(batches_of(without_keys(topic)), GenerationOrder(str(folder), 1, ENDS))
    return [report.part.rows for report in reports if report.part.rows is not None]


def planned(
    folder: Path, file: GenerationFile, absent: set[tuple[bytes, str]], changed: Collection[tuple[bytes, int]] = ()
) -> list[dict[str, Any]]:
    batches = write_plan_file(str(folder), file, absent, changed, str(folder / "plan"), f"{file.sha256}.parquet")
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.slow
def test_the_file_holds_what_has_a_reason_to_go_and_what_is_told_is_what_it_holds(tmp_path: Path) -> None:
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    files = written(random_topic(3, [*names, DEAD, ALIAS], NOW, MIN_AGE, 900, PARTITIONS), tmp_path)
    orphaned = Counter[str]()
    for file in files:
        told_of = planned(tmp_path, file, {DEAD})
        before = pq.read_table(tmp_path / file.name, partitioning=None).to_pylist()
        goes = [
            {**row, "reason": row["reason"] or "ORPHANED"}
            for row in before
            if row["reason"] or (row["may_be_orphaned"] and (row["topic_id"], row["topic"]) == DEAD)
        ]
        path = tmp_path / "plan" / f"{file.sha256}.parquet"
        table = pq.read_table(path, partitioning=None)
        assert table.schema.equals(plan_schema())
        assert table.to_pylist() == [{name: row[name] for name, _ in PLAN_COLUMNS} for row in goes]
        data = path.read_bytes()
        [described] = {(row["file"], row["file_bytes"], row["sha256"]) for row in told_of}
        assert described == (path.name, len(data), hashlib.sha256(data).hexdigest())
        counted = {(row["reason"], row["exact"]): row["segments"] for row in told_of}
        assert counted == Counter((row["reason"], row["exact"]) for row in goes)
        assert sum(row["bytes"] for row in told_of) == sum(row["segment_size_in_bytes"] for row in goes)
        orphaned.update(row["topic"] for row in goes if row["reason"] == "ORPHANED")
    assert set(orphaned) == {"dead"}, "never under a name that was not asked for"


def test_nothing_is_certain_where_the_leader_says_something_else_now(tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    for number in range(3):
        s = Segment(*DEAD, number, number.to_bytes(16, "big"))
        topic.put_home(s, s.add(1))
    files = written(topic, tmp_path)
    for changed, expected in (
        ((), {True: 3}),
        ({(DEAD[0], 1), (DEAD[0], 12), (bytes(16), 2)}, {True: 2, False: 1}),
    ):
        counted = Counter[bool]()
        for file in files:
            counted.update({row["exact"]: row["segments"] for row in planned(tmp_path, file, {DEAD}, changed)})
        assert counted == expected


def test_where_nothing_is_to_go_there_is_no_file(tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    s = Segment(*DEAD, 0, bytes(16))
    topic.put_home(s, s.add(1))
    [file] = written(topic, tmp_path)
    assert planned(tmp_path, file, {(UUID(int=91).bytes, "dead"), ALIAS}) == []
    assert not (tmp_path / "plan").exists()


def test_rows_that_were_changed_or_lost_on_the_way_are_found_out(tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    for number in range(5):
        s = Segment(*DEAD, 0, number.to_bytes(16, "big"))
        topic.put_home(s, s.add(1))
    [file] = written(topic, tmp_path)
    path = tmp_path / file.name
    pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)
    with pytest.raises(SnapshotRefusedError, match="is not the file that its manifest names"):
        planned(tmp_path, file, {DEAD})
