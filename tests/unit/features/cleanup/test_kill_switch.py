# SPDX-License-Identifier: Apache-2.0
"""The kill switch is asked before every batch: a batch that began is ended, none is begun after it."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.world.kill_switch import STOPPED_ADVICE, StopSource
from airflow_provider_rlmm.features.cleanup import batches
from tests.builders import Cluster, tip

GONE = (tip("gone", 0, 7), tip("gone", 1, 7))
WHY = "the kill switch is on: the variable is set, it says 'Ada: the bucket moves'"


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for partition in GONE:
        cluster.segments(partition, 3)
    cluster.mark_and_wait()
    return cluster


def after_segments(cluster: Cluster, deleted: int) -> StopSource:
    """Somebody sets the switch in the middle of a batch: when the log says that so many segments are being deleted."""

    def should_stop() -> str | None:
        begun = sum(line.startswith("DELETE_SEGMENT_STARTED") for line in cluster.ours())
        return WHY if begun >= deleted else None

    return should_stop


def test_a_run_that_is_stopped_from_the_start_writes_and_deletes_nothing(cluster: Cluster) -> None:
    events, keys = cluster.ours(), cluster.storage.keys
    report = cluster.clean(should_stop=lambda: WHY)
    assert (cluster.ours(), cluster.storage.keys) == (events, keys)
    for partition in report.partitions:
        (refusal,) = partition.refusals
        assert (partition.outcome, partition.segments_left) == ("REFUSED", 3)
        assert (refusal.kind, refusal.why, refusal.what_to_do) == (RefusalKind.STOPPED, WHY, STOPPED_ADVICE)
        assert refusal.kind.needs_person


def test_a_batch_that_began_is_ended_and_the_next_run_goes_on(cluster: Cluster) -> None:
    report = cluster.clean(should_stop=after_segments(cluster, 2), batch_segments=2)
    states = cluster.states()
    assert states.count("DELETE_SEGMENT_STARTED") == states.count("DELETE_SEGMENT_FINISHED") == 2
    deleted = [partition.segments_deleted for partition in report.partitions]
    assert sum(deleted) == 2
    assert {r.kind for p in report.partitions for r in p.refusals} == {RefusalKind.STOPPED}
    assert [p.outcome for p in cluster.clean().partitions] == ["FINISHED", "FINISHED"]
    assert not any(cluster.keys_of(partition) for partition in GONE)


def test_what_is_finished_when_the_switch_is_set_is_told_as_finished(cluster: Cluster) -> None:
    report = cluster.clean(should_stop=after_segments(cluster, 3), batch_segments=3)
    outcomes = {p.partition: (p.outcome, [r.kind for r in p.refusals]) for p in report.partitions}
    assert sorted(outcomes.values()) == [("FINISHED", []), ("REFUSED", [RefusalKind.STOPPED])]


def test_a_dry_run_goes_on_and_says_that_the_switch_is_on(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report = cluster.clean(should_stop=lambda: WHY, dry_run=True)
    assert {p.outcome for p in report.partitions} == {"FINISHED"}
    assert f"dry run: {WHY}; a real run would end here" in caplog.text


def test_it_is_asked_after_the_rest_between_two_batches(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "monotonic_clock", lambda: 0)
    stopped: list[str] = []
    cluster.sleep = lambda seconds: stopped.append(WHY)
    report = cluster.clean(should_stop=lambda: stopped[0] if stopped else None, batch_segments=2, objects_per_second=1)
    assert sum(p.segments_deleted for p in report.partitions) == 2
