# SPDX-License-Identifier: Apache-2.0
"""A metadata topic that was made anew is one cause: it is said once, however many metadata partitions it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.lost_records import LostRecords
from airflow_provider_rlmm.core.runs.attention import Attention, judge
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import FindingKind
from tests.builders import Cluster, tip
from tests.unit.features.scrub.test_scrub_plan import Scrubs
from tests.unit.library.topics import TieredTopics

PARTITIONS = 12
WHY, TODO = "the metadata topic was made anew", "say so once"
REPLACED = {n: LostRecords(n, 0, 0, replaced=(WHY, TODO)) for n in range(PARTITIONS)}


@pytest.fixture
def cluster() -> Cluster:
    """Deleted topics in many metadata partitions."""
    cluster = Cluster(PARTITIONS)
    for number in range(2 * PARTITIONS):
        cluster.segment(tip(f"gone-{number}", 0, 30 + number), number)
    cluster.log.losses = REPLACED
    return cluster


def the_one(refusals: tuple[Refusal, ...]) -> Refusal:
    (refusal,) = refusals
    assert (refusal.kind, refusal.why, refusal.what_to_do) == (RefusalKind.LOST_RECORDS, WHY, TODO)
    (failing,) = judge([Attention.of_refusal(refusal)], (), "cluster", 0).failing
    assert failing.suggestion("cluster", 0) is None, "a confirmation is asked for, no acknowledgement"
    return refusal


def test_marker_and_planner_say_it_once(cluster: Cluster) -> None:
    assert the_one(cluster.mark().refusals) == the_one(cluster.plan().summary.refusals)


def test_a_scrub_says_it_once(cluster: Cluster, tmp_path: Path) -> None:
    (problem,) = Scrubs(tmp_path, cluster).scrub_and_tell()
    assert (problem.kind, problem.what, problem.why) == ("LOST_RECORDS", f"{PARTITIONS} metadata partitions", WHY)
    cluster.log.losses = {n: replace(lost, replaced=None, end=n) for n, lost in REPLACED.items()}
    assert len(Scrubs(tmp_path, cluster).scrub_and_tell()) == PARTITIONS, "each of these is another cause"


def test_the_doctor_says_it_once(cluster: Cluster) -> None:
    found = examine(cluster.log, TieredTopics(cluster.topics.topics), min_age_ms=HOUR_MS, clock=cluster.clock)
    (finding,) = [f for f in found.findings if f.kind is FindingKind.LOST_RECORDS]
    assert WHY in finding.detail
