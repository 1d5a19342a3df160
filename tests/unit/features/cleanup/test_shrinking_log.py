# SPDX-License-Identifier: Apache-2.0
"""A log that loses records between two reads ends the work on its metadata partition, and never looks shorter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    EventLogUnavailableError,
    LogReplacedError,
    OffsetOutOfRangeError,
)
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.serde import serialize
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport
from tests.builders import Cluster, add, once, tip

GONE, LATER = tip(), tip("later", 0, 10)


@pytest.fixture
def cluster() -> Cluster:
    """Two deleted topics, marked a day ago."""
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.segment(LATER, 1)
    cluster.mark_and_wait()
    return cluster


def lose_beginning(cluster: Cluster) -> None:
    cluster.log.truncate(0, cluster.log.high_water_marks()[0] - 1)


def lose_end(cluster: Cluster) -> None:
    cluster.log.cut_off(0, cluster.log.high_water_marks()[0] - 5)


def lose_end_and_grow_again(cluster: Cluster) -> None:
    end = cluster.log.high_water_marks()[0]
    cluster.log.cut_off(0, end - 1)
    for number in range(3):
        cluster.log.append(0, serialize(add(cluster.alive, 5 + number)))


def test_a_log_that_ends_before_where_earlier_runs_left_off_is_said_in_red(cluster: Cluster) -> None:
    cluster.clean()
    left_off = cluster.log.high_water_marks()[0]
    assert cluster.offsets.committed() == {0: left_off}
    assert cluster.clean().refusals == ()
    cluster.log.cut_off(0, left_off - 2)
    (refusal,) = cluster.clean(dry_run=True).refusals
    assert (refusal.kind, refusal.metadata_partition, refusal.offset) == (RefusalKind.LOST_RECORDS, 0, left_off - 2)
    assert f"up to offset {left_off}, and it ends at {left_off - 2}" in refusal.why


def test_it_stays_red_until_the_log_has_grown_again(cluster: Cluster) -> None:
    """Where earlier runs left off is all that shows it: no run may lower that by itself."""
    cluster.clean()
    left_off = cluster.offsets.committed()[0]
    cluster.log.cut_off(0, 1)
    for _ in range(2):
        report = cluster.clean()
        assert [refusal.kind for refusal in report.refusals] == [RefusalKind.LOST_RECORDS]
        assert (report.committed_offset, cluster.offsets.committed()) == (None, {0: left_off})


def test_another_run_that_goes_on_meanwhile_is_no_loss(cluster: Cluster) -> None:
    def goes_on() -> None:
        assert [p.outcome for p in cluster.clean().partitions] == ["FINISHED", "FINISHED"]

    cluster.offsets.on_effect = once("committed", goes_on)
    assert RefusalKind.LOST_RECORDS not in {refusal.kind for refusal in cluster.clean().refusals}


def test_where_earlier_runs_left_off_need_not_be_known(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(name: str, _: object) -> None:
        if name == "committed":
            raise EventLogUnavailableError("no coordinator")

    cluster.offsets.on_effect = refuse
    assert [p.outcome for p in cluster.clean().partitions] == ["FINISHED", "FINISHED"]
    assert "where earlier runs have left off is not known: no coordinator" in caplog.text


@pytest.mark.parametrize(
    ("lose", "error"),
    [
        (lose_beginning, OffsetOutOfRangeError),
        (lose_end, OffsetOutOfRangeError),
        (lose_end_and_grow_again, LogReplacedError),
    ],
)
def test_records_that_go_during_a_run_end_it_with_its_report(
    cluster: Cluster, lose: Callable[[Cluster], None], error: type[Exception]
) -> None:
    keys = cluster.keys_of(LATER)

    def when_the_first_objects_are_deleted(effect: str, key: str) -> None:
        if effect == "delete":
            cluster.storage.after_effect = None
            lose(cluster)

    cluster.storage.after_effect = when_the_first_objects_are_deleted
    kept: list[MetadataPartitionReport] = []
    with pytest.raises(error, match="metadata partition 0"):
        cluster.clean(on_interrupted=kept.append, batch_segments=3)
    (report,) = kept
    assert [p.outcome.value for p in report.partitions] == ["INCOMPLETE", "REFUSED"]
    assert report.partitions[0].objects_deleted == 15, "they are gone, and no later run will find them to count"
    assert any(error.__name__ in r.why for r in report.partitions[0].refusals)
    assert cluster.keys_of(LATER) == keys
    assert not any(line.startswith("DELETE_PARTITION_FINISHED") for line in cluster.ours())


def test_a_cluster_that_answers_with_another_metadata_topic_ends_the_run_before_anything_is_done(
    cluster: Cluster,
) -> None:
    keys, events = cluster.storage.keys, cluster.ours()
    cluster.topics.metadata_topic_id = tip().topic_id
    with pytest.raises(ClusterMismatchError, match="two clusters, or the topic was replaced"):
        cluster.clean()
    with pytest.raises(ClusterMismatchError):
        cluster.mark()
    with pytest.raises(ClusterMismatchError):
        cluster.plan()
    assert (cluster.storage.keys, cluster.ours()) == (keys, events)


def test_a_cluster_that_is_swapped_between_two_batches_ends_the_run(cluster: Cluster) -> None:
    def swap(name: str, detail: object) -> None:
        if name == "publish":
            cluster.topics.metadata_topic_id = tip().topic_id

    cluster.log.after_effect = swap
    with pytest.raises(ClusterMismatchError):
        cluster.clean(batch_segments=1)
    assert len(cluster.keys_of(GONE)) >= 10
