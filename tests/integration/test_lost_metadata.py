# SPDX-License-Identifier: Apache-2.0
"""What leaders keep and delete when the metadata topic of a living cluster is lost: docs/kip-405.md says it."""

from __future__ import annotations

import pytest

from dev import tiering
from dev.broker import LocalKafka, await_condition
from tests.integration.losing import (
    OFF,
    ON,
    alter,
    copied_topic,
    is_served,
    log_start,
    lose_metadata,
    see_passes,
    write_again,
)

pytestmark = [pytest.mark.integration, pytest.mark.rare]

TOPIC = "orders"


def test_a_leader_that_starts_without_metadata_moves_its_log_start_and_deletes_once_they_are_there_again(
    strict_kafka: LocalKafka,
) -> None:
    kafka = strict_kafka
    topic_id = copied_topic(kafka, TOPIC)
    objects = tiering.remote_files(kafka, topic_id)
    records = lose_metadata(kafka)
    see_passes(kafka)
    assert (log_start(kafka, TOPIC), is_served(kafka, TOPIC)) == (0, True), "it serves from its cache"
    kafka.restart()
    end = 3 * tiering.RECORDS_PER_SEGMENT
    await_condition(lambda: log_start(kafka, TOPIC) == end, "the log start is that of the local log", 60)
    see_passes(kafka)
    assert tiering.remote_files(kafka, topic_id) == objects, "what it knows nothing of it does not delete"
    write_again(kafka, records)
    await_condition(lambda: not tiering.remote_files(kafka, topic_id), "all objects are deleted", 60)


def test_a_leader_that_does_not_copy_keeps_its_log_start_and_serves_once_its_metadata_are_there_again(
    strict_kafka: LocalKafka,
) -> None:
    kafka = strict_kafka
    topic_id = copied_topic(kafka, TOPIC)
    objects = tiering.remote_files(kafka, topic_id)
    alter(kafka, TOPIC, OFF)
    records = lose_metadata(kafka)
    kafka.restart()
    see_passes(kafka)
    assert (log_start(kafka, TOPIC), is_served(kafka, TOPIC)) == (0, False)
    write_again(kafka, records)
    await_condition(lambda: is_served(kafka, TOPIC), "it serves from remote storage", 60)
    alter(kafka, TOPIC, ON)
    see_passes(kafka)
    assert (log_start(kafka, TOPIC), is_served(kafka, TOPIC)) == (0, True)
    assert tiering.remote_files(kafka, topic_id) == objects


def test_a_leader_that_goes_on_copying_cannot_serve_what_it_copies_and_retention_deletes_objects(
    strict_kafka: LocalKafka,
) -> None:
    kafka = strict_kafka
    topic_id = copied_topic(kafka, TOPIC)
    objects = tiering.remote_files(kafka, topic_id)
    lose_metadata(kafka)
    end = 3 * tiering.RECORDS_PER_SEGMENT
    tiering.produce(kafka, TOPIC, {0: tiering.RECORDS_PER_SEGMENT})
    folder = kafka.log_dir / f"{TOPIC}-0"
    await_condition(lambda: all(int(p.stem) > end for p in folder.glob("*.log")), "it is remote only", 60)
    assert tiering.remote_files(kafka, topic_id) > objects
    assert (is_served(kafka, TOPIC), is_served(kafka, TOPIC, end)) == (True, False), "its cache has passed the offsets"
    alter(kafka, TOPIC, {"retention.ms": "1000", "local.retention.ms": "-2"})
    await_condition(lambda: not objects & tiering.remote_files(kafka, topic_id), "retention deletes by the cache", 60)
