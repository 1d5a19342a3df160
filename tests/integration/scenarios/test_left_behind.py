# SPDX-License-Identifier: Apache-2.0
"""
What real brokers leave behind, found, marked and cleaned on a real broker that lives on.

Scenario B is in ``test_remote_log_cleaner.py``, by way of the operators.
"""

from __future__ import annotations

import pytest

from dev import tiering
from dev.faults import FaultyKafka
from tests.integration.kafka_topics import delete_topic
from tests.integration.scenarios.outcomes import assert_cleaned, assert_left_alone, states
from tests.integration.scenarios.provoke import (
    await_deletions_done,
    scenario_a,
    scenario_d1,
    scenario_d2,
    scenario_d3,
    scenario_d7,
)

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]


def test_a_deleted_while_the_broker_starts(kafka: FaultyKafka) -> None:
    """
    The broker deletes some partitions and forgets others.

    Protection: the marker asks for partitions with unfinished segments (``marker._needs_observation``); without, it marks
    those that the broker has deleted itself too.
    """
    topic_id = scenario_a(kafka, "scenario-a")
    orphans = tiering.remote_files(kafka, topic_id)
    left = states(kafka, topic_id)
    assert left.keys() == {"COPY_SEGMENT_FINISHED"}
    partitions = {path.split("/")[0] for path in orphans}
    events = assert_cleaned(kafka, topic_id, len(partitions), left.total())
    assert events["DELETE_SEGMENT_STARTED"] == events["DELETE_SEGMENT_FINISHED"] == left.total()


def test_d1_killed_while_it_deletes_from_slow_storage(kafka: FaultyKafka) -> None:
    """
    One partition is in mid-deletion, the others are untouched.

    Protection: a segment in DELETE_SEGMENT_STARTED may be finished without any object, where the root is verified
    (``eligibility._why_left``, I2); without, the one that the broker did delete stays for good.
    """
    topic_id = scenario_d1(kafka, "scenario-d1")
    assert states(kafka, topic_id) == {"DELETE_SEGMENT_STARTED": 3, "COPY_SEGMENT_FINISHED": 6}
    assert len(tiering.remote_files(kafka, topic_id)) in {35, 40}
    events = assert_cleaned(kafka, topic_id, 3, 9)
    assert events["DELETE_SEGMENT_STARTED"] == 6, "what the broker has started is not started again"


def test_d2_killed_in_mid_copy(kafka: FaultyKafka) -> None:
    """
    A copy that nobody will finish, on a living topic, then on a deleted one.

    Protection: nothing is marked for a topic id that is listed (``DeletedPartitionMarker.mark``), nor for one that is not
    absent (``marker._event_for``). Each holds without the other; without both, the write guard raises (I7).
    """
    topic_id = scenario_d2(kafka, "scenario-d2")
    assert states(kafka, topic_id) == {"COPY_SEGMENT_STARTED": 1, "COPY_SEGMENT_FINISHED": 3}
    assert_left_alone(kafka, topic_id)
    tiering.provoke_scenario_b(kafka, "scenario-d2")
    assert assert_cleaned(kafka, topic_id, 1, 4)["DELETE_SEGMENT_FINISHED"] == 4


def test_d3_storage_refuses_deletions(kafka: FaultyKafka) -> None:
    """
    Every segment is in DELETE_SEGMENT_STARTED with all its objects, and the broker does not come back to them.

    Protection: their objects are deleted though the cleaner has nothing to start (``batches._delete_segments``
    takes what is in DELETE_SEGMENT_STARTED as of the latest replay, not what it published).
    """
    topic_id = scenario_d3(kafka, "scenario-d3")
    assert states(kafka, topic_id) == {"DELETE_SEGMENT_STARTED": 9}
    assert len(tiering.remote_files(kafka, topic_id)) == 45
    assert assert_cleaned(kafka, topic_id, 3, 9) == {
        "DELETE_PARTITION_STARTED": 3,
        "DELETE_SEGMENT_FINISHED": 9,
        "DELETE_PARTITION_FINISHED": 3,
    }


def test_d7_tiering_disabled_and_killed(kafka: FaultyKafka) -> None:
    """
    The remote segments of a topic that is no longer tiered, while it lives and after its deletion.

    Protection: as in d2.
    """
    topic_id = scenario_d7(kafka, "scenario-d7")
    left = states(kafka, topic_id)
    assert left.total() == 9
    assert_left_alone(kafka, topic_id)
    delete_topic(kafka, "scenario-d7")
    await_deletions_done(kafka)
    assert states(kafka, topic_id) == left, "the broker no longer takes them for its own"
    assert assert_cleaned(kafka, topic_id, 3, 9)["DELETE_SEGMENT_FINISHED"] == 9
