# SPDX-License-Identifier: Apache-2.0
"""Two cleaners at once lose nothing, and what they did is counted once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.log.in_process import no_effect_hook
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.features.cleanup.cleaner import _prepared
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork
from airflow_provider_rlmm.features.cleanup.reports import MetadataPartitionReport
from tests.builders import Cluster, add, deletion, tip

GONE = tip()


def marked() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.mark_and_wait()
    return cluster


def test_a_segment_is_counted_by_the_run_whose_finished_came_first() -> None:
    cluster = marked()
    inner: list[MetadataPartitionReport] = []

    def clean_too(name: str, detail: object) -> None:
        """Another run does all the work between this one's deletion and its DELETE_SEGMENT_FINISHED."""
        if name != "publish" or inner:
            return
        cluster.log.on_effect = no_effect_hook
        if len([line for line in cluster.ours() if line.startswith("DELETE_SEGMENT_STARTED")]) == 3:
            inner.append(cluster.clean())
        else:
            cluster.log.on_effect = clean_too

    cluster.log.on_effect = clean_too
    outer = cluster.clean()
    done = [(p.segments_deleted, p.objects_deleted) for report in (outer, *inner) for p in report.partitions]
    assert sum(segments for segments, _ in done) == 3
    assert sum(objects for _, objects in done) <= 15
    finished = [line for line in cluster.ours() if line.startswith("DELETE_SEGMENT_FINISHED")]
    assert len(finished) > 3, "both runs wrote about the same segments"


def test_what_another_run_deletes_right_before_a_listing_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = marked()
    inner: list[MetadataPartitionReport] = []
    listing = cluster.storage.list_log_segments

    def cleaned_first(of: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        """Another run does all the work after this one has read the log."""
        monkeypatch.undo()
        inner.append(cluster.clean())
        return listing(of)

    monkeypatch.setattr(cluster.storage, "list_log_segments", cleaned_first)
    outer = cluster.clean()
    assert [(p.outcome, p.segments_deleted) for p in inner[0].partitions] == [("FINISHED", 3)]
    (partition,) = outer.partitions
    (refusal,) = partition.refusals
    assert (refusal.kind, refusal.why) == (
        RefusalKind.NEXT_RUN,
        "its deletion is not under way: another run has finished it",
    )


def test_what_a_later_look_at_the_log_brings_disturbs_those_that_were_decided_upon_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tip(partition=1)
    cluster = Cluster(1)
    for of in (GONE, other):
        cluster.segments(of, 2)
    cluster.mark_and_wait()
    there, listing = cluster.keys_of(GONE), cluster.storage.list_log_segments
    works: list[UserPartitionWork] = []

    def while_the_second_is_listed(of: TopicIdPartition) -> Mapping[UUID, tuple[StoredObject, ...]]:
        """Its objects are not there, so that the log is read on; and a broker writes about the first one."""
        if of != other:
            return listing(of)
        monkeypatch.undo()
        cluster.foreign(add(GONE, 77))
        return {}

    def prepared(*arguments: Any) -> list[UserPartitionWork]:
        works.extend(_prepared(*arguments))
        return works

    monkeypatch.setattr("airflow_provider_rlmm.features.cleanup.cleaner._prepared", prepared)
    monkeypatch.setattr(cluster.storage, "list_log_segments", while_the_second_is_listed)
    cluster.clean()
    assert [(work.tip, work.is_disturbed, work.segments) for work in works] == [(GONE, True, 0), (other, False, 0)]
    assert cluster.keys_of(GONE) == there


def test_a_start_that_lands_behind_the_end_of_another_run_opens_nothing_and_is_settled() -> None:
    cluster = marked()
    assert cluster.clean().partitions[0].outcome == "FINISHED"
    for state in (P.DELETE_PARTITION_STARTED, P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED):
        cluster.foreign(deletion(GONE, state, cluster.now_ms))
    history = cluster.replay().histories[GONE]
    assert not history.deletion_under_way()
    assert history.unsettled_marker_offset is None
    events = cluster.ours()
    cluster.mark_and_wait()
    plan = cluster.plan()
    assert (plan.summary.by_metadata_partition, plan.summary.refusals, cluster.ours()) == ({}, (), events)
