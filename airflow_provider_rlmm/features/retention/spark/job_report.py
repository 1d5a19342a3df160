# SPDX-License-Identifier: Apache-2.0
"""What the job says of its own work: records, rates, skew, and how long each stage took."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_provider_rlmm.features.retention.spark.generations import WrittenGeneration
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport

READ = "read"
"""The stage that reads, folds, evaluates and writes."""

_SHOWN = 20


class JobReport:
    """Collects what is told while the job runs; :meth:`document` is for the plan's summary."""

    def __init__(self) -> None:
        self._stages: dict[str, int] = {}
        self._read: dict[str, Any] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Return a context manager that measures a stage."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._stages[name] = round((time.perf_counter() - begun) * 1000)

    def take(self, written: WrittenGeneration) -> None:
        """Take over what was read and written; the stage :data:`READ` has ended."""
        reports = written.reports
        records = sum(report.records for report in reports)
        self._read = {
            "generation": written.generation.number,
            "read_on_from": written.read_on_from,
            "why_all_was_read": written.why_all,
            "records": records,
            "records_per_second": records * 1000 // max(self._stages.get(READ, 0), 1),
            "records_read": {str(report.metadata_partition): report.records for report in reports},
            "skew": _skew(reports),
            "task_milliseconds": _sums(report.milliseconds for report in reports),
        }

    def document(self) -> dict[str, Any]:
        """Return plain JSON without floats."""
        return {**self._read, "stage_milliseconds": dict(self._stages)}

    def say(self, log: logging.Logger) -> None:
        """Log it."""
        read = self._read
        new = {number: count for number, count in read["records_read"].items() if count}
        since = "" if read["read_on_from"] is None else f" since generation {read['read_on_from']}"
        log.info(
            "read %d records%s, %d of %d metadata partitions have any; %d records/s",
            read["records"],
            since,
            len(new),
            len(read["records_read"]),
            read["records_per_second"],
        )
        shown = [f"{number}: {count}" for number, count in list(new.items())[:_SHOWN]]
        log.info("records per metadata partition: %s", ", ".join(shown + ["…"] * (len(new) > _SHOWN)) or "none")
        for what, numbers in read["skew"].items():
            log.info("largest %s against the mean: %s", what.replace("_", " "), _as_text(numbers))
        log.info("milliseconds of the stages: %s", _as_text(self._stages))
        log.info("milliseconds of all tasks: %s", _as_text(read["task_milliseconds"]))


def _as_text(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in numbers.items())


def _sums(rows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for row in rows:
        sums.update(row)
    return dict(sums)


def _skew(reports: Sequence[TaskReport]) -> dict[str, dict[str, int]]:
    """Compare the largest metadata partition, and the largest user partition, with the mean of those that have any."""
    if not reports:
        return {}
    segments = [report.part.segments for report in reports]
    records = [report.records for report in reports]
    user_partitions = sum(report.user_partitions for report in reports)
    return {
        "metadata_partition": {
            "segments": max(segments),
            "mean_segments": sum(segments) // len(reports),
            "records": max(records),
            "mean_records": sum(records) // len(reports),
        },
        "user_partition": {
            "segments": max(report.largest_user_partition for report in reports),
            "mean_segments": sum(segments) // max(user_partitions, 1),
        },
    }
