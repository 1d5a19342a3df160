# SPDX-License-Identifier: Apache-2.0
"""The cleaner beside others who work on the same partitions, or who lose what it has remembered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer

from airflow_provider_rlmm.core.records.records import (
    OWN_BROKER_ID,
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from dev import tiering
from dev.broker import await_condition, partitions_served
from dev.faults import FaultyKafka
from tests.integration.cleaning import GROUP_ID, Cleaning
from tests.integration.kafka_topics import TIMEOUT_S, admin_of
from tests.integration.scenarios.provoke import (
    assert_unharmed,
    request_deletion,
    request_topic,
    tiered_topic,
)

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
MIN_ABSENCE_MS = 5_000
DELETE_MS = 500
"""Of one segment; the five of a partition are a silence of half of :data:`MIN_ABSENCE_MS`."""


def segment_events_after_finished(cleaning: Cleaning, topic_id: UUID) -> list[Any]:
    """What would end the consumer of a broker that still serves the partition."""
    finished: set[TopicIdPartition] = set()
    found = []
    for event in cleaning.events():
        assert not isinstance(event, RemoteLogSegmentMetadataSnapshot)
        tip = topic_id_partition_of(event)
        if tip.topic_id != topic_id:
            continue
        if isinstance(event, RemotePartitionDeleteMetadata):
            finished |= {tip} if event.state is FINISHED else set()
        elif tip in finished:
            found.append(event)
    return found


def test_a_broker_that_deletes_from_slow_storage_and_the_cleaner_on_the_same_partitions(kafka: FaultyKafka) -> None:
    """
    The cleaner marks and cleans without pause, from the moment of the deletion, while the broker is at it.

    Protection: an observation must be ``min_absence`` old, and a foreign event voids it (``absence.settle``). Without, the
    cleaner declares a partition deleted between the broker's DELETE_SEGMENT_STARTED and its DELETE_SEGMENT_FINISHED; that
    one ends the broker's consumer for good.
    """
    topic_id = tiered_topic(kafka, "contested", 4, 5)
    kafka.faults.delay("delete", DELETE_MS)
    request_deletion(kafka, "contested")
    # The broker follows the controller again when it has done what it does about the deleted topic.
    request_topic(kafka, "afterwards")
    rounds: list[dict[str, Any]] = []
    with (
        Cleaning.of(kafka, min_absence_ms=MIN_ABSENCE_MS, batch_segments=2) as cleaning,
        Consumer(kafka.client_config(group_id="unused")) as consumer,
    ):
        while not partitions_served(consumer, "afterwards"):
            cleaning.mark()
            rounds.append(cleaning.clean())
        kafka.faults.heal()
        reasons = [reason for done in rounds for reason in done["reasons"]]
        assert any("foreign segment event" in reason or "less than min_absence" in reason for reason in reasons)

        def finished() -> bool:
            cleaning.mark()
            cleaning.clean()
            return set(cleaning.deletions(topic_id)) <= {FINISHED, None} and not cleaning.segment_states(topic_id)

        await_condition(finished, "every partition is clean", TIMEOUT_S)
        assert tiering.remote_files(kafka, topic_id) == set()
        assert segment_events_after_finished(cleaning, topic_id) == []
        assert_unharmed(kafka)


def test_lost_offsets_cost_a_replay_and_nothing_else(kafka: FaultyKafka) -> None:
    """
    The cleaner's group is removed: before its first run, between two batches of work, and when all is done.

    Protection: state comes from a replay from the beginning, never from the committed offset
    (``replay.MetadataPartitionReplay``); and markers and segments that are finished are not touched again.
    """

    ids = [tiered_topic(kafka, name, 3, 2) for name in ("first-lost", "second-lost")]
    tiering.provoke_scenario_b(kafka, "first-lost")
    with Cleaning.of(kafka) as cleaning:
        assert len(cleaning.mark().marked) == 3
        cleaning.clean()
        ends = cleaning.log.high_water_marks()
        assert cleaning.offsets.committed()
        forget(kafka, cleaning)
        assert cleaning.mark().marked == ()
        assert cleaning.clean()["events"] == {}
        assert cleaning.log.high_water_marks() == ends, "nothing is written again"

    tiering.provoke_scenario_b(kafka, "second-lost")
    # As each task of a run: clients of its own, none that has lived through the kill.
    with Cleaning.of(kafka) as cleaning:
        assert len(cleaning.mark().marked) == 3
        plan = cleaning.plan()
        cleaning.offsets.commit(dict.fromkeys(range(cleaning.log.partition_count), 0))
        forget(kafka, cleaning)
        done = cleaning.clean(plan)
        assert (done["partitions_finished"], done["segments_deleted"], done["reasons"]) == (3, 6, [])
        assert [tiering.remote_files(kafka, topic_id) for topic_id in ids] == [set(), set()]
        own = [event for event in cleaning.events() if getattr(event, "broker_id", None) == OWN_BROKER_ID]
        mine = [event for event in own if topic_id_partition_of(event).topic_id in ids]
        assert len(mine) == 2 * (3 * 3 + 6 * 2), "each event is written once"
        assert cleaning.offsets.committed().keys() == plan.summary.by_metadata_partition.keys()
    assert_unharmed(kafka)


def forget(kafka: FaultyKafka, cleaning: Cleaning) -> None:
    """Remove the cleaner's group, as brokers do by themselves after a week without a commit."""
    admin = admin_of(kafka)
    admin.delete_consumer_groups([GROUP_ID])[GROUP_ID].result(TIMEOUT_S)
    assert cleaning.offsets.committed() == {}
