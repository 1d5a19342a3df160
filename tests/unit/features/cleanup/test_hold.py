# SPDX-License-Identifier: Apache-2.0
"""A hold is asked for before the first event and before every batch."""

from __future__ import annotations

from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.world.hold import Hold
from tests.builders import Cluster, tip

GONE = tip()


def marked() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 3)
    cluster.mark_and_wait()
    return cluster


def test_a_held_topic_is_not_touched_though_a_plan_names_it() -> None:
    cluster = marked()
    events, keys = cluster.ours(), cluster.keys_of(GONE)
    (partition,) = cluster.clean(hold=lambda: Hold(("go*",))).partitions
    assert (partition.outcome, [r.kind for r in partition.refusals]) == ("REFUSED", [RefusalKind.HELD])
    assert (cluster.ours(), cluster.keys_of(GONE)) == (events, keys)


def test_a_hold_that_begins_during_the_run_ends_the_work_before_the_next_batch() -> None:
    cluster = marked()

    def hold() -> Hold:
        begun = any(line.startswith("DELETE_SEGMENT_FINISHED") for line in cluster.ours())
        return Hold(("gone",)) if begun else Hold()

    (partition,) = cluster.clean(hold=hold, batch_segments=1).partitions
    assert (partition.outcome, partition.segments_deleted, partition.segments_left) == ("INCOMPLETE", 1, 2)
    assert RefusalKind.HELD in [r.kind for r in partition.refusals]
    assert len(cluster.keys_of(GONE)) == 10
    assert cluster.clean().partitions[0].outcome == "FINISHED"
