# SPDX-License-Identifier: Apache-2.0
"""What must have become of what a broker left behind."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from dev import tiering
from dev.broker import LocalKafka
from tests.integration.cleaning import Cleaning
from tests.integration.scenarios.provoke import assert_unharmed


def assert_cleaned(
    kafka: LocalKafka, topic_id: UUID, partitions: int, segments: int, storage: RemoteStorageManager | None = None
) -> Counter[str]:
    """
    Find, mark and clean exactly what is left of one topic; returns the events that the cleaner wrote.

    :param storage: the remote storage; the broker's folder by default.
    """
    objects = tiering.remote_files(kafka, topic_id)
    others = tiering.remote_listing(kafka).keys() - objects
    with Cleaning.of(kafka, storage) as cleaning:
        found = cleaning.mark(dry_run=True).marked
        assert len(found) == partitions
        assert all(kafka_uuid_str(topic_id) in event for event in found)
        assert len(cleaning.mark().marked) == partitions
        assert tiering.remote_files(kafka, topic_id) == objects, "a marker deletes nothing"
        done = cleaning.clean()
        assert (done["partitions_finished"], done["segments_deleted"]) == (partitions, segments)
        assert (done["segments_left"], done["reasons"]) == (0, [])
        assert done["objects_deleted"] == len(objects)
        assert tiering.remote_files(kafka, topic_id) == set()
        assert tiering.remote_listing(kafka).keys() >= others
        assert cleaning.segment_states(topic_id) == {}
        assert cleaning.mark().marked == ()
        assert cleaning.clean()["events"] == {}
    assert_unharmed(kafka, storage.layout if storage else None)
    events: Counter[str] = done["events"]
    return events


def states(kafka: LocalKafka, topic_id: UUID, storage: RemoteStorageManager | None = None) -> Counter[str]:
    """States of a topic's segments that are not finished."""
    with Cleaning.of(kafka, storage) as cleaning:
        return cleaning.segment_states(topic_id)


def assert_left_alone(kafka: LocalKafka, topic_id: UUID, storage: RemoteStorageManager | None = None) -> None:
    """A living topic is reported, never marked, planned or cleaned, whatever lies about in its storage."""
    before, found = tiering.remote_files(kafka, topic_id), states(kafka, topic_id, storage)
    with Cleaning.of(kafka, storage) as cleaning:
        assert cleaning.mark().marked == ()
        assert cleaning.plan().rows.num_rows == 0
        assert cleaning.clean()["events"] == {}
        assert cleaning.deletions(topic_id) == [None] * len(cleaning.deletions(topic_id))
    assert tiering.remote_files(kafka, topic_id) == before
    assert states(kafka, topic_id, storage) == found
