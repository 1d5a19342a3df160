# SPDX-License-Identifier: Apache-2.0
"""A data set that is brought forward by one run after the other: what is read, what is kept, what comes of it."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, PlanError
from airflow_provider_rlmm.core.generations.files import new_file
from airflow_provider_rlmm.core.generations.folding import Folding
from airflow_provider_rlmm.core.generations.manifest import MANIFEST_NAME, GenerationFile, GenerationPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.era import COMPACT, PLAIN_ERA, era_of_policy
from airflow_provider_rlmm.features.retention.spark.columns import SEGMENT
from airflow_provider_rlmm.features.retention.spark.executor import versions
from airflow_provider_rlmm.features.retention.spark.executor.versions import software
from airflow_provider_rlmm.features.retention.spark.generations import (
    FOLDED_ANEW_AFTER_MS,
    WrittenGeneration,
    next_generation,
)
from airflow_provider_rlmm.features.retention.spark.segments import per_piece
from airflow_provider_rlmm.features.retention.spark.what_if import (
    AS_LISTED,
    Scenario,
    choose_generation,
    in_process,
    what_if,
)
from tests.spark.events import random_topic
from tests.spark.plain_evaluation import Record, evaluate_plan
from tests.spark.test_plan import (
    CLUSTER,
    DEAD,
    LIMITS,
    MIN_AGE,
    NOW,
    PARTITIONS,
    FrameReader,
    evaluation_of,
    frame_of,
    range_of,
)
from tests.spark.test_plan import rows_of as data_set_rows
from tests.unit.features.retention.reference import expected_rows, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LIVE = [(t.topic_id.bytes, t.name) for t in CLUSTER.topics]


@dataclass(frozen=True)
class LoggedReader(FrameReader):
    begins: list[dict[int, int]] = field(default_factory=list)

    def read(self, begins: Mapping[int, int]) -> DataFrame:
        self.begins.append(dict(begins))
        return super().read(begins)


@dataclass
class Log:
    """A metadata topic that grows; knows from where each run has read it."""

    spark: SparkSession
    folder: Path
    records: list[Record]
    begins: list[dict[int, int]] = field(default_factory=list)

    def run(self, store: GenerationStore, share: float = 1.0, later_ms: int = 0, **identity: Any) -> WrittenGeneration:
        """Bring a data set forward, to a share of what there is."""
        ends = Counter(partition for partition, _, _ in self.records)
        some = [record for record in self.records if record[1] < int(ends[record[0]] * share)]
        frame = frame_of(self.spark, some, self.folder / str(len(self.begins)))
        reader: Any = LoggedReader(frame, replace(range_of(frame), **identity), begins=self.begins)
        evaluation = evaluation_of()
        limits = replace(evaluation.limits, now_ms=evaluation.limits.now_ms + later_ms)
        return next_generation(reader, replace(evaluation, limits=limits), store)


@pytest.fixture
def log(spark: SparkSession, tmp_path: Path) -> Log:
    return Log(spark, tmp_path / "log", random_topic(77, [*LIVE, *DEAD], NOW, MIN_AGE, 900, PARTITIONS).records)


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    return GenerationStore(str(tmp_path / "data"))


def rows_of(written: WrittenGeneration) -> list[dict[str, Any]]:
    return in_order(row for row in data_set_rows(written.data_set) if row["kind"] == SEGMENT)


def require_equal(written: WrittenGeneration, records: list[Record]) -> None:
    expected = expected_rows(records, PARTITIONS, CLUSTER, LIMITS)
    names = list(expected.segments[0])
    assert [{name: row[name] for name in names} for row in rows_of(written)] == in_order(expected.segments)
    assert written.data_set.quarantined == Counter(partition for partition, _ in expected.quarantined)
    assert written.data_set.unresolved == len(expected.unresolved)


def test_the_second_run_reads_only_what_is_new(log: Log, store: GenerationStore, tmp_path: Path) -> None:
    first = log.run(store, 0.6)
    assert (first.generation.number, first.read_on_from, first.why_all) == (1, None, "there is no generation yet")
    second = log.run(store)
    assert (second.generation.number, second.read_on_from, second.why_all) == (2, 1, "")
    require_equal(second, log.records)
    ends = Counter(partition for partition, _, _ in log.records)
    new = {p: end - first.generation.parts[p].next_offset for p, end in ends.items()}
    assert {report.metadata_partition: report.records for report in second.reports} == new
    assert log.begins == [
        dict.fromkeys(range(PARTITIONS), 0),
        {p: max(0, part.next_offset - 16) for p, part in first.generation.parts.items()},
    ]
    third = log.run(store)
    require_equal(third, log.records)
    assert {report.records for report in third.reports} == {0}
    assert store.numbers() == [3, 2]
    assert store.read(3) == third.generation


def test_an_era_that_was_seen_once_stays_as_long_as_it_is_the_same_topic(log: Log, store: GenerationStore) -> None:
    compacted = era_of_policy({COMPACT})
    assert log.run(store, 0.3).generation.era == PLAIN_ERA.told()
    assert log.run(store, 0.6, era=compacted).generation.era == compacted.told()
    assert log.run(store).generation.era == compacted.told()
    # The end is lost, so all is read anew; what was seen of the topic holds all the same.
    shorter = log.run(store, 0.5)
    assert (shorter.read_on_from, shorter.generation.era) == (None, compacted.told())
    assert log.run(store, topic_id=UUID(int=99)).generation.era == PLAIN_ERA.told()


def test_once_a_day_all_is_read_and_is_what_was_known(log: Log, store: GenerationStore) -> None:
    log.run(store, 0.4)
    log.run(store, 0.6, FOLDED_ANEW_AFTER_MS - 1)
    assert log.begins[-1] != log.begins[0], "the time has not come"
    written = log.run(store, 1.0, FOLDED_ANEW_AFTER_MS)
    assert (written.generation.number, written.read_on_from) == (3, None)
    assert written.why_all == "once a day; generation 2 is compared with what comes of it"
    assert log.begins[-1] == log.begins[0]
    assert written.generation.folded_at_ms == written.generation.created_at_ms == NOW + FOLDED_ANEW_AFTER_MS
    assert log.run(store, 1.0, 2 * FOLDED_ANEW_AFTER_MS - 1).read_on_from == 3


def test_a_generation_that_the_log_contradicts_stays_red(log: Log, store: GenerationStore) -> None:
    known = log.run(store, 0.6).generation
    first, second = ((number, part) for number, part in known.known[:2])
    swapped = {first[0]: replace(first[1], state=forged_state(store, first[1])), second[0]: second[1]}
    manifest = Path(store.root.removeprefix("file://")) / f"generation=1/{MANIFEST_NAME}"
    manifest.unlink()
    store.create(replace(known, parts={**known.parts, **swapped}))
    assert log.run(store, 0.8).read_on_from == 1, "nobody sees it for a day"
    for _ in range(2):
        with pytest.raises(PlanError) as raised:
            log.run(store, 1.0, FOLDED_ANEW_AFTER_MS)
        assert re.match(
            rf"generation 2 of .* does not say what the log says: metadata partition {first[0]} up to offset \d+\. Who",
            str(raised.value),
        )
        assert store.root in str(raised.value)
    assert store.numbers() == [2, 1]


def forged_state(store: GenerationStore, part: GenerationPart) -> GenerationFile:
    """Write a state that says another size of a segment."""
    assert part.state is not None
    number = int(part.state.name.split("metadata_partition=")[1].partition("/")[0])
    folding = Folding(number, PARTITIONS, part, store.root)
    rows = folding.state._own().alive()
    folding.state._own().segments.write("segment_size_in_bytes", rows[:1], 7)
    with new_file(store.root, f"generation=1/metadata_partition={number}/_forged.state") as file:
        folding._write_state(file)
    return file.described()


def test_only_files_of_the_manifest_count(log: Log, store: GenerationStore, tmp_path: Path) -> None:
    first = log.run(store, 0.5)
    for number, part in first.generation.parts.items():
        assert part.rows is not None
        folder = tmp_path / "data" / "segments" / "generation=2" / f"metadata_partition={number}"
        folder.mkdir(parents=True)
        (folder / "attempt-of-a-lost-worker.parquet").write_bytes(b"half a file")
        (folder / "_attempt-of-a-lost-worker.state").write_bytes(b"half a file")
        before = tmp_path / "data" / "segments"
        (folder / "attempt-that-lost.parquet").write_bytes((before / part.rows.name).read_bytes())
    require_equal(log.run(store), log.records)


def test_what_does_not_fit_is_read_from_the_beginning(
    log: Log, store: GenerationStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_provider_rlmm.features.retention.spark")
    log.run(store, 0.6)
    replaced = log.run(store, topic_id=UUID(int=9))
    assert replaced.read_on_from is None
    assert "generation 1 is not used: its topic id is" in replaced.why_all
    assert f"generation 2: reads the topic from its beginning: {replaced.why_all}" in caplog.text
    require_equal(replaced, log.records)

    (tmp_path / "data" / "segments" / "generation=2" / MANIFEST_NAME).write_text("{}")
    damaged = log.run(store, 0.8)
    assert (damaged.generation.number, damaged.read_on_from) == (3, None)
    assert "generation 2 is not used: its manifest cannot be read" in damaged.why_all

    # The log loses its end and grows again: offsets fit, and the records are others.
    at = damaged.generation.parts[1].next_offset - 1
    log.records = [(p, o, None if (p, o) == (1, at) else value) for p, o, value in log.records]
    regrown = log.run(store)
    assert regrown.read_on_from is None
    assert f"metadata partition 1 does not hold the record of offset {at} that it held before" in regrown.why_all
    assert log.begins[-1] == dict.fromkeys(range(PARTITIONS), 0)
    require_equal(regrown, log.records)

    part = regrown.generation.parts[2]
    assert part.state is not None
    state = tmp_path / "data" / "segments" / part.state.name
    state.write_bytes(state.read_bytes()[:-1])
    lost = log.run(store)
    assert (lost.generation.number, lost.read_on_from) == (5, None)
    assert "its size or checksum differs" in lost.why_all
    require_equal(lost, log.records)


def test_of_two_runs_at_once_one_fails(log: Log, store: GenerationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    create = GenerationStore.create
    other: list[WrittenGeneration] = []

    def create_late(self: GenerationStore, generation: Any) -> None:
        monkeypatch.setattr(GenerationStore, "create", create)
        other.append(log.run(store))
        create(self, generation)

    monkeypatch.setattr(GenerationStore, "create", create_late)
    with pytest.raises(PlanError, match=r"another run has written generation 1 .*; run again"):
        log.run(store)
    assert store.read(1) == other[0].generation
    require_equal(log.run(store), log.records)


def test_other_settings_are_evaluated_without_the_topic(log: Log, store: GenerationStore, spark: SparkSession) -> None:
    written = log.run(store)
    texts = ["retention.ms=1000", "ti*:retention.bytes=0,retention.ms=-1", "forever:retention.ms=-1"]
    scenarios = [AS_LISTED, *(Scenario.parse(text) for text in texts)]
    reads = len(log.begins)
    found = what_if(partial(per_piece, spark), store, choose_generation(store, None), CLUSTER, LIMITS, scenarios)
    assert len(log.begins) == reads
    assert what_if(in_process, store, choose_generation(store, None), CLUSTER, LIMITS, scenarios) == found
    for scenario, result in zip(scenarios, found, strict=True):
        state = scenario.applied(CLUSTER)
        rows = [
            row
            for row in evaluate_plan(log.records, json.loads(state.to_json()), NOW, MIN_AGE, PARTITIONS)
            if row["reason"] != "ORPHANED"
        ]
        for key, counts in (("reason", result.by_reason), ("topic", result.by_topic)):
            expected = {
                name: Count(
                    sum(row[key] == name for row in rows),
                    sum(row["segment_size_in_bytes"] for row in rows if row[key] == name),
                )
                for name in {row[key] for row in rows}
            }
            assert counts == expected
    assert found[1].by_reason["RETENTION_MS"].segments > found[0].by_reason["RETENTION_MS"].segments
    assert found[2].by_topic["tight"] == found[0].by_topic.get("tight", found[2].by_topic["tight"])
    assert found[3].by_reason == found[0].by_reason
    assert written.generation == choose_generation(store, 1)
    with pytest.raises(PlanError, match=r"has the generations \[1\]"):
        choose_generation(store, 7)
    with pytest.raises(ClusterMismatchError):
        what_if(in_process, store, written.generation, replace(CLUSTER, cluster_id="other"), LIMITS, scenarios)


def test_executors_with_another_pyspark_are_refused_and_other_differences_told(
    log: Log, store: GenerationStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the driver says of itself is changed; its workers are other processes and say what they are."""
    here = software()
    monkeypatch.setattr(versions, "software", lambda: {**here, "pyarrow": "1.0"})
    require_equal(log.run(store), log.records)
    assert f"executors and driver differ: pyarrow {here['pyarrow']} (driver: 1.0)" in caplog.text
    monkeypatch.setattr(versions, "software", lambda: {**here, "pyspark": "4.0.99"})
    with pytest.raises(Exception, match=r"pyspark 4[.\d]+ \(driver: 4.0.99\); give executors and driver one version"):
        log.run(store)
    assert store.numbers() == [1]
