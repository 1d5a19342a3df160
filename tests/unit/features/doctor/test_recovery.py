# SPDX-License-Identifier: Apache-2.0
"""The doctor's recovery leads where it says: what is whole goes on, and what is refused is refused by the names it gave."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.features.doctor.examine import examine
from airflow_provider_rlmm.features.doctor.findings import Diagnosis
from tests.builders import DAY_MS, Cluster, deletion, tip
from tests.unit.library.topics import TieredTopics

LOSING, FORGOTTEN, WHOLE = (tip(partition=n) for n in range(3))


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic: one partition has segments on both sides of a poison pill, one before, and one behind it only."""
    cluster = Cluster()
    cluster.segment(LOSING, 0)
    cluster.segments(FORGOTTEN, 2)
    cluster.log.append(0, None)
    cluster.segment(LOSING, 1)
    cluster.segments(WHOLE, 2)
    return cluster


def diagnose(cluster: Cluster) -> Diagnosis:
    topics = TieredTopics(cluster.topics.topics, metadata_topic_id=cluster.log.topic_id)
    return examine(cluster.log, topics, clock=cluster.clock)


def recover(cluster: Cluster) -> tuple[str, ...]:
    """Do what the doctor says, and return whom it says to be refused."""
    [recovery] = diagnose(cluster).recoveries
    cluster.log.truncate(recovery.metadata_partition, recovery.delete_before_offset)
    # The brokers copy on after their restart.
    cluster.segment(cluster.alive, 9)
    return recovery.refused


def test_before_a_recovery_the_cleaner_finishes_what_log_and_storage_show_to_be_whole(cluster: Cluster) -> None:
    cluster.mark_and_wait()
    assert {p.outcome for p in cluster.clean().partitions} == {"FINISHED"}
    # What is left to lose is the living topic's.
    assert recover(cluster) == (str(cluster.alive),)
    assert not cluster.keys_of(LOSING) | cluster.keys_of(FORGOTTEN) | cluster.keys_of(WHOLE)


def test_after_a_recovery_the_whole_are_cleaned_and_the_others_refused_by_the_names_that_it_gave(
    cluster: Cluster,
) -> None:
    objects = {partition: cluster.keys_of(partition) for partition in (LOSING, FORGOTTEN, WHOLE)}
    refused = recover(cluster)
    assert set(refused) == {str(cluster.alive), str(LOSING), str(FORGOTTEN)}
    cluster.mark_and_wait()
    reports = {(r.topic, r.partition): r for r in cluster.clean().partitions}
    assert reports[WHOLE.topic, WHOLE.partition].outcome == "FINISHED"
    losing = reports[LOSING.topic, LOSING.partition]
    assert losing.outcome == "REFUSED"
    assert [(r.kind, r.what) for r in losing.refusals] == [(RefusalKind.INCOMPLETE_HISTORY, str(LOSING))]
    # The log names it no more, so there is nothing to refuse, and nobody touches it.
    assert (FORGOTTEN.topic, FORGOTTEN.partition) not in reports
    assert (cluster.keys_of(WHOLE), cluster.keys_of(LOSING)) == (set(), objects[LOSING])
    assert cluster.keys_of(FORGOTTEN) == objects[FORGOTTEN]


def test_a_partition_that_only_its_marker_names_is_refused_too(cluster: Cluster) -> None:
    cluster.foreign(deletion(FORGOTTEN, P.DELETE_PARTITION_MARKED))
    recover(cluster)
    cluster.mark()
    cluster.now_ms += DAY_MS
    report = next(r for r in cluster.clean().partitions if r.partition == FORGOTTEN.partition)
    assert (report.outcome, [r.kind for r in report.refusals]) == ("REFUSED", [RefusalKind.INCOMPLETE_HISTORY])


def test_a_recovered_topic_goes_on_with_everything_that_comes_after(cluster: Cluster) -> None:
    recover(cluster)
    diagnosis = diagnose(cluster)
    assert (diagnosis.critical, diagnosis.recoveries) == (0, ())
    later = tip("later", 0, 9)
    cluster.segments(later, 2)
    cluster.mark_and_wait()
    reports = {(r.topic, r.partition): r.outcome for r in cluster.clean().partitions}
    assert reports["later", 0] == "FINISHED"
