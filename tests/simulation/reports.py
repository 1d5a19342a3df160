# SPDX-License-Identifier: Apache-2.0
"""The judge of what marker, planner and cleaner say: what is left has a reason, and nothing that needs a person is silent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.features.cleanup.marker import MarkReport
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport, PartitionOutcome

PASSES = {RefusalKind.WAITING, RefusalKind.NEXT_RUN, RefusalKind.HELD}


def check_marking(report: MarkReport, denied: Collection[str]) -> list[str]:
    """
    Check what the marker said.

    :param denied: names of topics with unfinished segments that nobody could describe as long as it ran.
    :return: what needs a person.
    """
    refused = {r.topic for r in report.refusals if r.kind not in PASSES}
    assert refused >= set(denied), f"I12: the marker says nothing about {set(denied) - refused}, which it may not see"
    return _needs_person(report.refusals)


def check_planning(
    summary: PlanSummary, unreadable: Mapping[int, Collection[int]], before: Mapping[int, int], now: Mapping[int, int]
) -> list[str]:
    """
    Check what the planner said about the log.

    :param unreadable: metadata partition → offsets of records that nobody can apply.
    :param before: metadata partition → where it began when the planner began.
    :param now: the same, as of now.
    :return: what needs a person.
    """
    named = {(r.metadata_partition, r.offset) for r in summary.refusals if r.kind is RefusalKind.QUARANTINED}
    lost = {r.metadata_partition for r in summary.refusals if r.kind is RefusalKind.LOST_RECORDS}
    for number, end in summary.read_until.items():
        bad = {(number, offset) for offset in unreadable.get(number, ()) if now[number] <= offset < end}
        assert bad <= named, f"I12: the plan does not name the bad records {bad - named}"
        assert not before[number] or number in lost, f"I12: the plan does not say that {number} lost its beginning"
    return _needs_person(summary.refusals)


def check_report(report: MetadataPartitionReport) -> list[str]:
    """
    Check what the cleaner said.

    :return: what needs a person.
    """
    told = _needs_person(report.refusals)
    for partition in report.partitions:
        finished = partition.outcome is PartitionOutcome.FINISHED
        assert finished or partition.refusals, f"nothing says why {partition} was left"
        told += _needs_person(partition.refusals)
    return told


def _needs_person(refusals: Iterable[Refusal]) -> list[str]:
    for refusal in refusals:
        assert refusal.why, f"half a refusal: {refusal}"
        assert refusal.what_to_do, f"half a refusal: {refusal}"
    return [f"{r.what}: {r.why}" for r in refusals if r.kind not in PASSES]
