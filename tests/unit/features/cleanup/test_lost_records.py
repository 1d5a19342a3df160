# SPDX-License-Identifier: Apache-2.0
"""A metadata partition that lost what earlier runs have read: nothing is done there before a person has confirmed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ArchiveError, LostRecordsError, TopicInDoubtError
from airflow_provider_rlmm.core.log.floored_log import FlooredLog
from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.lost_records import LostRecords
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.archiving.archiver import archive_user_partitions
from airflow_provider_rlmm.features.cleanup.topic_gone import WantedTopic, require_certain
from airflow_provider_rlmm.features.copying.copy_replay import CopyReplay
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.survey.survey import survey
from tests.builders import CLUSTER_ID, Cluster, add, reasons, tip
from tests.scrub_rows import objects_of

OPEN = LostRecords(0, 24, 14)
CONFIRMED = replace(OPEN, confirmed="on 2027-01-15T08:00:00Z by ann")


def homes(cluster: Cluster) -> tuple[TopicIdPartition, TopicIdPartition]:
    """Two user partitions, one at home in each metadata partition."""
    found = [tip(f"gone-{number}", 0, 30 + number) for number in range(50)]
    return (
        next(t for t in found if cluster.metadata_partition_of(t) == 0),
        next(t for t in found if cluster.metadata_partition_of(t) == 1),
    )


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic in each of two metadata partitions, marked a day ago."""
    cluster = Cluster(2)
    for number, partition in enumerate(homes(cluster)):
        cluster.segment(partition, 1 + number)
        cluster.segment(partition, 3 + number)
    cluster.mark_and_wait()
    return cluster


def lost(refusals: tuple[Refusal, ...]) -> list[Refusal]:
    return [refusal for refusal in refusals if refusal.kind is RefusalKind.LOST_RECORDS]


@pytest.mark.parametrize("dry_run", [True, False])
def test_nothing_is_cleaned_there_and_the_rest_of_the_run_goes_on(cluster: Cluster, dry_run: bool) -> None:
    here, elsewhere = homes(cluster)
    before, events = cluster.keys_of(here), cluster.ours(0)
    cluster.log.losses = {0: OPEN}
    report = cluster.clean(0, dry_run=dry_run)
    assert report.partitions == ()
    (refusal,) = report.refusals
    assert (refusal.kind, refusal.metadata_partition, refusal.kind.needs_person) == (RefusalKind.LOST_RECORDS, 0, True)
    assert '"confirm_lost_records": "0@24"' in refusal.what_to_do
    assert (cluster.keys_of(here), cluster.ours(0)) == (before, events)
    assert [p.outcome for p in cluster.clean(1, dry_run=dry_run).partitions] == ["FINISHED"]
    assert (cluster.keys_of(elsewhere) == set()) is not dry_run


def test_nothing_is_marked_there(cluster: Cluster) -> None:
    here, elsewhere = (replace(t, topic_id=tip("", 0, 500 + n).topic_id) for n, t in enumerate(homes(cluster)))
    cluster.segment(here, 8)
    cluster.segment(elsewhere, 9)
    expected = {partition: cluster.metadata_partition_of(partition) for partition in (here, elsewhere)}
    cluster.log.losses = {expected[here]: replace(OPEN, metadata_partition=expected[here])}
    report = cluster.mark()
    assert [refusal.metadata_partition for refusal in lost(report.refusals)] == [expected[here]]
    assert any(str(elsewhere) in line for line in report.marked) == (expected[here] != expected[elsewhere])
    assert not any(str(here) in line for line in report.marked)


def test_nothing_is_planned_there(cluster: Cluster) -> None:
    cluster.log.losses = {0: OPEN}
    plan = cluster.plan()
    assert set(plan.summary.by_metadata_partition) == {1}
    (refusal,) = lost(plan.summary.refusals)
    assert (refusal.metadata_partition, refusal.offset) == (0, 14)


@pytest.mark.parametrize("unnamed", [True, False])
def test_once_it_is_confirmed_it_is_in_doubt_as_one_that_lost_its_beginning(cluster: Cluster, unnamed: bool) -> None:
    here, _ = homes(cluster)
    before = cluster.keys_of(here)
    cluster.log.losses = {0: CONFIRMED}
    if unnamed:
        cluster.storage.put_object(cluster.layout.object_key(add(here, 40), None), b"x")
    report = cluster.clean(0)
    if unnamed:
        assert [p.outcome for p in report.partitions] == ["REFUSED"]
        assert "as was confirmed on 2027-01-15T08:00:00Z by ann, and storage holds 1 segment" in reasons(report)
        assert cluster.keys_of(here) > before, "nothing of it is deleted"
    else:
        assert [p.outcome for p in report.partitions] == ["FINISHED"]
    assert [refusal.metadata_partition for refusal in lost(cluster.plan().summary.refusals)] == [0]


def test_a_scrub_calls_nothing_there_anything_but_unknown(cluster: Cluster) -> None:
    here, elsewhere = homes(cluster)
    for number, partition in enumerate((here, elsewhere)):
        cluster.segment(partition, 60 + number, S.DELETE_SEGMENT_FINISHED)
        cluster.storage.put_object(cluster.layout.object_key(add(partition, 70 + number), None), b"x")

    def classes() -> dict[int, set[str]]:
        found = scrub(cluster.log, cluster.topics, cluster.storage, known=[], clock=cluster.clock)
        kinds: dict[int, set[str]] = {}
        for row in objects_of(found):
            kinds.setdefault(row["metadata_partition"], set()).add(row["class"])
        return kinds

    whole = classes()
    assert {"FINISHED", "UNREFERENCED"} <= whole[0] & whole[1]
    cluster.log.losses = {0: OPEN}
    assert classes() == {0: {"UNKNOWN"}, 1: whole[1]}
    cluster.log.losses = {0: CONFIRMED}
    assert classes() == {0: (whole[0] - {"UNREFERENCED"}) | {"UNKNOWN"}, 1: whole[1]}


@pytest.mark.parametrize("loss", [OPEN, CONFIRMED])
def test_whoever_concludes_from_what_the_log_does_not_name_refuses(
    cluster: Cluster, loss: LostRecords, tmp_path: Path
) -> None:
    here, elsewhere = homes(cluster)
    cluster.log.losses = {0: loss}
    CopyReplay(cluster.log, elsewhere)
    PartitionSegments(cluster.log, [elsewhere])
    with pytest.raises(TopicInDoubtError, match="was read up to offset 24"):
        CopyReplay(cluster.log, here)
    with pytest.raises(TopicInDoubtError, match="was read up to offset 24"):
        PartitionSegments(cluster.log, [here])
    with pytest.raises(ArchiveError, match="was read up to offset 24"):
        archive_user_partitions(
            cluster.log, cluster.storage, str(tmp_path), [here], {0: []}, cluster_id=CLUSTER_ID, name="a",
            clock=cluster.clock, allowed_quarantine=frozenset(),
        )  # fmt: skip
    topic = cluster.topic()
    topic.advance()
    with pytest.raises(TopicInDoubtError, match="was read up to offset 24"):
        require_certain([topic.view(0, {here.topic_id})], WantedTopic(here.topic_id))


@pytest.mark.parametrize(("loss", "out_of_service"), [(OPEN, (0,)), (CONFIRMED, ())])
def test_the_survey_calls_it_out_of_service(
    cluster: Cluster, loss: LostRecords, out_of_service: tuple[int, ...]
) -> None:
    cluster.log.losses = {0: loss}
    topic = cluster.topic()
    topic.advance()
    found = survey(topic, CleanerLimits(), Hold(), cluster.clock())
    assert found.totals.metadata_partitions_out_of_service == out_of_service


def test_the_guard_writes_nothing_there_and_remembers_what_was_read_before_it_writes(cluster: Cluster) -> None:
    """Whoever forgets to ask is stopped by the guard."""
    kept: list[str] = []

    class Memory(FlooredLog):
        def keep(self, *, all_of_it: bool = False) -> None:
            kept.append("kept")

    cluster.log.after_effect = lambda name, _: kept.append(name) if name == "publish" else None
    memory = Memory(cluster.log, None, losses={0: OPEN})
    cluster.publisher = GuardedPublisher(cluster.log, allow_writes=True, memory=memory)
    with pytest.raises(LostRecordsError, match="nothing is done there"):
        cluster.clean(0)
    assert set(kept) == {"kept"}
    kept.clear()
    assert [p.outcome for p in cluster.clean(1).partitions] == ["FINISHED"]
    assert kept[0] == "kept"
    assert "publish" in kept
