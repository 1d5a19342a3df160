# SPDX-License-Identifier: Apache-2.0
"""The Spark job beside bare scans of the same topic, by the clock and by processor time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from benchmarks.filled import FilledTopic, World
from benchmarks.measuring import Budget, Effort, beside, in_turns, spread, within
from benchmarks.spark import SparkJob

DEFAULTS, TUNED = 2.2, 2.7
"""The budgets of P3, in times of a scan with the connector's defaults, and with the job's own settings."""
PYTHON, OVER_PYTHON = 1.7, 1.3
"""Where handing each record to Python takes more than 1.7 times the tuned scan, P3's budget is 1.3 times that."""
SMALL, SMALL_S = 50_000, 3.0


@dataclass(frozen=True, slots=True)
class _Measure:
    """What of an effort is compared."""

    said: str
    of: Callable[[Effort], float]

    def median(self, efforts: Sequence[Effort]) -> float:
        return statistics.median(map(self.of, efforts))

    def spread(self, name: str, efforts: Sequence[Effort], count: int) -> str:
        return spread(name, [*map(self.of, efforts)], count)


MEASURES = _Measure("clock", attrgetter("seconds")), _Measure("CPU", attrgetter("cpu_seconds"))


class SparkBudgets:
    """
    P3 and P3i.

    :param spark: the session.
    :param world: the topics that are read.
    :param folder: for plans and data sets.
    :param runs: of each side.
    """

    def __init__(self, spark: Any, world: World, folder: Path, runs: int) -> None:
        self._spark, self._world, self._folder, self._runs = spark, world, folder, runs
        self._jobs: dict[str, SparkJob] = {}

    def p3(self, filled: FilledTopic) -> Generator[Budget, None, list[Effort]]:
        """
        Measure the job from nothing; return what its runs took, whose data sets are ``full-0`` and so on.

        :param filled: the topic.
        """
        job, names = self._job(filled), iter(range(self._runs))
        # The first two runs compile what later ones call.
        for name in ("warm-0", "warm-1"):
            job.run(job.data_set(name))
        for scan in (job.scan, job.tuned_scan, job.python_scan):
            scan()

        def whole() -> Effort:
            taken, records = job.run(job.data_set(f"full-{next(names)}"))
            assert records == filled.events
            return taken

        full, scans, tuned, python = in_turns((whole, job.scan, job.tuned_scan, job.python_scan), self._runs)
        for measure in MEASURES:
            yield _beside(filled, measure, "a scan with defaults", full, scans, python, DEFAULTS)
            yield _beside(filled, measure, "the tuned scan", full, tuned, python, TUNED)
        return full

    def as_in_few(self, filled: FilledTopic, full: list[Effort], few: list[Effort]) -> Iterator[Budget]:
        """
        Compare the job over many metadata partitions with the job over few.

        :param filled: the topic with many.
        :param full: the runs of it.
        :param few: the runs of as many events in few.
        """
        for measure in MEASURES:
            details = [measure.spread("many", full, filled.events), measure.spread("few", few, filled.events)]
            mine, theirs = ([*map(measure.of, efforts)] for efforts in (full, few))
            yield beside(f"P3 in {filled.partitions} as in few, {measure.said}", mine, theirs, 1.2, details)

    def other_sizes(self, size: int, full: list[Effort], partitions: Sequence[int]) -> Iterator[Budget]:
        """
        Measure the job on topics of its own, half as large and small.

        :param size: events of the whole.
        :param full: the runs of the whole.
        :param partitions: numbers of metadata partitions; half as large is the first.
        """
        half = self._world.fill("half", partitions[0], size // 2)
        taken = self._times(half)
        whole = [effort.seconds for effort in full]
        yield beside("P3 twice the events", whole, taken, 2.2, [spread("half", taken, half.events)])
        for number in partitions:
            small = self._world.fill(f"small-in-{number}", number, SMALL)
            taken = self._times(small)
            name, details = f"P3 50,000 events in {number}, of 3 s", [spread("ours", taken, small.events)]
            yield within(name, taken, SMALL_S, details)

    def p3i(self, filled: FilledTopic, full: list[Effort]) -> Iterator[Budget]:
        """
        Read on behind each of the full runs, once.

        :param filled: the topic, after its last events were written.
        :param full: the full runs.
        """
        job = self._job(filled)
        found = [job.run(job.data_set(f"full-{number}")) for number in range(self._runs)]
        assert [records for _, records in found] == [filled.later] * self._runs
        new = [taken for taken, _ in found]
        for measure in MEASURES:
            details = [measure.spread("ours", new, filled.later)]
            mine, theirs = ([*map(measure.of, efforts)] for efforts in (new, full))
            yield beside(f"P3i 1 % new events in {filled.partitions}, {measure.said}", mine, theirs, 0.25, details)

    def _job(self, filled: FilledTopic) -> SparkJob:
        if filled.name not in self._jobs:
            folder = self._folder / f"job-{filled.name}"
            self._jobs[filled.name] = SparkJob(self._spark, self._world.config, filled.name, folder)
        return self._jobs[filled.name]

    def _times(self, filled: FilledTopic) -> list[float]:
        job = self._job(filled)
        return [job.run(job.data_set(f"full-{number}"))[0].seconds for number in range(self._runs)]


def _beside(
    filled: FilledTopic,
    measure: _Measure,
    peer: str,
    full: Sequence[Effort],
    scans: Sequence[Effort],
    python: Sequence[Effort],
    bound: float,
) -> Budget:
    floor = measure.median(python) / measure.median(scans)
    if floor > PYTHON:
        # Where handing records to Python costs most of it, the budget is a share of what that costs.
        bound = max(bound, OVER_PYTHON * floor)
    details = [measure.spread("ours", full, filled.events), measure.spread("peer", scans, filled.events)]
    details.append(f"{measure.spread('python', python, filled.events)}, {floor:.2f}x of the peer")
    mine, theirs = ([*map(measure.of, efforts)] for efforts in (full, scans))
    return beside(
        f"P3 in {filled.partitions} beside {peer}, {measure.said}", mine, theirs, bound, details, filled.events
    )
