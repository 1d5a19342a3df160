# SPDX-License-Identifier: Apache-2.0
"""When a run of the Spark job reads all anew, and what it says where the log contradicts the generation before."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.era import COMPACT, PLAIN_ERA, era_of_policy
from airflow_provider_rlmm.features.retention.spark.generations import (
    FOLDED_ANEW_AFTER_MS,
    WrittenGeneration,
    _is_due,
    _require_same,
)
from airflow_provider_rlmm.features.retention.spark.source import TopicRange
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport

THEN = 1_800_000_000_000
PARTS = {0: GenerationPart(30, begin=4), 1: GenerationPart(9)}
KNOWN = Generation(12, "cluster", "AAAAAAAAAAAAAAAAAAAACA", 1, THEN + 5, THEN, PARTS, PLAIN_ERA.told())


def read(begin: dict[int, int]) -> TopicRange:
    return TopicRange("__remote_log_metadata", UUID(int=8), begin, {0: 40, 1: 9})


def test_it_is_due_once_a_day_whenever_the_last_reading_on_was() -> None:
    begin = {0: 4, 1: 0}
    due = [_is_due(KNOWN, read(begin), THEN + FOLDED_ANEW_AFTER_MS + late) for late in (-1, 0, 1)]
    assert due == [False, True, True]


def test_what_has_lost_its_beginning_since_is_read_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not _is_due(KNOWN, read({0: 4, 1: 1}), THEN + FOLDED_ANEW_AFTER_MS)
    assert caplog.messages == [
        "generation 12 cannot be compared with the log: metadata partition 1 has lost records since they were read"
    ]


@pytest.mark.parametrize("seen_before", [True, False])
def test_of_a_log_that_may_be_compacted_nothing_is_compared(seen_before: bool) -> None:
    compacted, begin = era_of_policy({COMPACT}), {0: 4, 1: 0}
    known = replace(KNOWN, era=compacted.told()) if seen_before else KNOWN
    now = read(begin) if seen_before else replace(read(begin), era=compacted)
    assert not _is_due(known, now, THEN + FOLDED_ANEW_AFTER_MS)


def reported(differs: list[str | None]) -> WrittenGeneration:
    reports = tuple(TaskReport(n, GenerationPart(1), differs=said) for n, said in enumerate(differs))
    nothing: Any = None
    return WrittenGeneration(KNOWN, nothing, reports, None, "")


def test_a_difference_ends_the_job_and_says_what_to_do(tmp_path: Path) -> None:
    store = GenerationStore(str(tmp_path / "g"))
    with pytest.raises(PlanError) as raised:
        _require_same(KNOWN, reported([None, "metadata partition 1 up to offset 9"]), store)
    assert str(raised.value) == (
        f"generation 12 of {store.uri} does not say what the log says: metadata partition 1 up to offset 9. Who marked, "
        "planned or surveyed with it may have overlooked segments or named what is none; nothing is deleted by it, as the "
        f"log itself is read before. Keep a copy of {store.root} to find out why, then remove it: the next run reads all"
    )
    with pytest.raises(PlanError, match=r": a; b; c and more\. Who"):
        _require_same(KNOWN, reported(["a", "b", "c", "d"]), store)


def test_where_there_is_none_it_goes_on(tmp_path: Path) -> None:
    _require_same(KNOWN, reported([None, None]), GenerationStore(str(tmp_path)))
