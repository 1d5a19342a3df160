# SPDX-License-Identifier: Apache-2.0
"""What the Spark job sees of a log that may lack records: gaps, keys, and what earlier generations saw of both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.generations.manifest import MAX_HOLES, Generation, GenerationPart
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.era import COMPACT, PLAIN_ERA, LogEra, era_of_key, era_of_policy
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.records import SegmentEvent
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.log_refusals import refusals_of_log
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from tests.simulation.compaction import KeyForm, key_of
from tests.unit.core.generations.test_reading_on import HOME, topic_of
from tests.unit.features.retention.test_metadata_partition import Record, batches_of, told


def home_records(count: int = 60) -> list[Record]:
    return [record for record in topic_of(9) if record[0] == HOME][:count]


def read(
    folder: Path, records: list[Record], end: int, begin: int = 0, before: GenerationPart | None = None
) -> TaskReport:
    known = {} if before is None else {HOME: before}
    order = GenerationOrder(str(folder), end, {HOME: end}, known, {HOME: begin})
    (report,) = told(batches_of(records, 7), order)
    return report


def without(records: list[Record], *offsets: int) -> list[Record]:
    return [record for record in records if record[1] not in offsets]


def gaps_of(report: TaskReport) -> list[tuple[int, int]]:
    return [(hole.start, hole.end) for hole in report.part.holes]


def test_a_whole_log_has_no_gap(tmp_path: Path) -> None:
    report = read(tmp_path, home_records(), 60)
    assert (report.part.holes, report.part.more_holes, report.part.keyed_at) == ((), 0, None)


def test_every_offset_above_the_beginning_that_holds_no_record_is_a_gap(tmp_path: Path) -> None:
    records = without(home_records(), 0, 7, 20, 21, 22, 58, 59)
    assert gaps_of(read(tmp_path, records, 60)) == [(0, 1), (7, 8), (20, 23), (58, 60)]


def test_what_is_missing_below_the_beginning_is_no_gap(tmp_path: Path) -> None:
    records = [record for record in home_records() if record[1] > 4]
    assert gaps_of(read(tmp_path, records, 60, begin=5)) == []
    assert gaps_of(read(tmp_path, records, 60, begin=3)) == [(3, 5)]


def test_a_run_that_reads_on_knows_the_gaps_before_and_those_that_are_new(tmp_path: Path) -> None:
    records = without(home_records(), 12, 29, 30, 45)
    first = read(tmp_path, [record for record in records if record[1] < 30], 30)
    again = [record for record in records if record[1] >= first.part.start]
    second = read(tmp_path, again, 60, before=first.part)
    assert second.refused is None
    assert gaps_of(first) == [(12, 13), (29, 30)]
    assert gaps_of(second) == [(12, 13), (29, 30), (30, 31), (45, 46)]


def test_many_gaps_are_counted_and_the_first_named(tmp_path: Path) -> None:
    records = [record for record in topic_of(9, 2_000) if record[0] == HOME and record[1] % 2 == 0]
    report = read(tmp_path, records, records[-1][1] + 1)
    assert (len(report.part.holes), len(report.part.holes) + report.part.more_holes) == (MAX_HOLES, len(records) - 1)


def test_a_key_that_names_its_record_is_remembered_and_no_other(tmp_path: Path) -> None:
    records, keyed_at = home_records(), 31
    event = deserialize(records[keyed_at][3])
    assert isinstance(event, SegmentEvent)
    keys = {3: b"not a key", keyed_at: key_of(event, KeyForm.STATE), 40: b"not a key"}
    keyed = [(p, o, keys.get(o), v) for p, o, _, v in records]
    assert read(tmp_path, [record for record in keyed if record[1] < keyed_at], keyed_at).part.keyed_at is None
    first = read(tmp_path, keyed[:32], 32)
    assert first.part.keyed_at == keyed_at
    again = [record for record in keyed if record[1] >= first.part.start]
    assert read(tmp_path, again, 62, before=first.part).part.keyed_at == keyed_at


GAP, OTHER = HistoryGap(0, 7, 9), HistoryGap(0, 20, 21)
EMPTY = Generation(1, "cluster", "topic", 6, 0, 0, {0: GenerationPart(30), 1: GenerationPart(0)}, PLAIN_ERA.told())


def refused(part: GenerationPart, *explained: HistoryGap, era: LogEra = PLAIN_ERA) -> list[tuple[RefusalKind, str]]:
    generation = replace(EMPTY, parts={**EMPTY.parts, 0: part}, era=era.told())
    return [(refusal.kind, refusal.why) for refusal in refusals_of_log(generation, explained)]


def test_a_gap_is_refused_until_somebody_has_said_why_it_is_there() -> None:
    both = GenerationPart(30, holes=(GAP, OTHER))
    assert refused(EMPTY.parts[0]) == []
    assert refused(both) == [(RefusalKind.LOST_RECORDS, f"{GAP.why}; 1 more such gap is there")]
    assert refused(both, GAP) == [(RefusalKind.LOST_RECORDS, OTHER.why)]
    assert refused(both, HistoryGap(1, 0, 30)) == refused(both), "said of another metadata partition"
    assert refused(both, HistoryGap(0, 7, 8), OTHER) == [(RefusalKind.LOST_RECORDS, GAP.why)]
    assert refused(both, HistoryGap(0, 0, 30)) == []


def test_nobodys_word_covers_gaps_that_are_not_named() -> None:
    ((kind, why),) = refused(GenerationPart(30, holes=(GAP,), more_holes=3), HistoryGap(0, 0, 30))
    assert (kind, why) == (RefusalKind.LOST_RECORDS, f"{GAP.why}; 3 more such gaps are there")


@pytest.mark.parametrize("era", [era_of_key(0, 3), era_of_policy({COMPACT})])
def test_every_era_but_the_plain_one_is_refused(era: LogEra) -> None:
    first, *others = refused(GenerationPart(30, holes=(GAP,)), era=era)
    assert first[0] is RefusalKind.LOG_ERA
    assert era.why in first[1]
    assert len(others) == (era == era_of_key(0, 3)), "compaction is reason enough for every gap"
