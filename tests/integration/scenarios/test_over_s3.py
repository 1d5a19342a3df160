# SPDX-License-Identifier: Apache-2.0
"""What a real broker leaves behind in S3, under Aiven's keys: found, marked and cleaned as in ``test_left_behind.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from dev import tiering
from dev.faults import Object
from dev.s3 import BUCKET
from dev.s3_proxy import S3Proxy
from dev.s3_tiering import S3Kafka
from tests.integration.cleaning import Cleaning
from tests.integration.kafka_topics import delete_topic
from tests.integration.scenarios.outcomes import assert_cleaned, assert_left_alone, states
from tests.integration.scenarios.over_s3 import (
    OBJECTS,
    deleted_and_killed,
    forgotten_objects,
    killed_between_two_objects,
    s3_down_while_a_topic_is_deleted,
    s3_with_a_living_topic,
    storage_of,
)
from tests.integration.scenarios.provoke import assert_unharmed, await_deletions_done, tiered_topic
from tests.scrub import scrub

pytestmark = [pytest.mark.integration, pytest.mark.scenarios]

FIELDS = ("REMOTE_SIZE", "OBJECT_PREFIX")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Kafka, S3Proxy]]:
    with s3_with_a_living_topic(tmp_path_factory.mktemp("s3"), "kafka/prod-", FIELDS) as found:
        yield found


@pytest.fixture(scope="module")
def kafka(s3: tuple[S3Kafka, S3Proxy]) -> S3Kafka:
    return s3[0]


@pytest.fixture(scope="module")
def proxy(s3: tuple[S3Kafka, S3Proxy]) -> S3Proxy:
    return s3[1]


def test_b_killed_right_after_the_deletion_of_a_topic(kafka: S3Kafka) -> None:
    """
    Every segment has all its objects, and nobody comes back to them.

    Protection: keys and listings of a prefix that is no folder (``TemplateLayout.partition_prefix``).
    """
    topic_id = tiered_topic(kafka, "scenario-b", 3, 4)
    tiering.provoke_scenario_b(kafka, "scenario-b")
    assert len(tiering.remote_files(kafka, topic_id)) == 12 * OBJECTS
    storage = storage_of(kafka)
    assert states(kafka, topic_id, storage) == {"COPY_SEGMENT_FINISHED": 12}
    assert assert_cleaned(kafka, topic_id, 3, 12, storage)["DELETE_SEGMENT_FINISHED"] == 12


def test_s3_is_down_while_a_topic_is_deleted(kafka: S3Kafka, proxy: S3Proxy) -> None:
    """
    Every segment is in DELETE_SEGMENT_STARTED with all its objects.

    Protection: what the broker has started is deleted, though the cleaner has nothing to start
    (``batches._delete_segments`` takes what the latest replay says).
    """
    topic_id = s3_down_while_a_topic_is_deleted(kafka, proxy, "s3-down")
    assert proxy.refused
    storage = storage_of(kafka)
    assert states(kafka, topic_id, storage) == {"DELETE_SEGMENT_STARTED": 9}
    assert len(tiering.remote_files(kafka, topic_id)) == 9 * OBJECTS
    assert assert_cleaned(kafka, topic_id, 3, 9, storage) == {
        "DELETE_PARTITION_STARTED": 3,
        "DELETE_SEGMENT_FINISHED": 9,
        "DELETE_PARTITION_FINISHED": 3,
    }


@pytest.mark.parametrize(("last", "there"), [("log", 1), ("indexes", 2)])
def test_killed_between_two_objects_of_a_copy(kafka: S3Kafka, last: Object, there: int) -> None:
    """
    A copy that nobody will finish, without its last objects, on a living topic and on a deleted one.

    Protection: the objects of a segment are found by listing, whichever they are
    (``LayoutRemoteStorageManager.delete_log_segments``), and a living topic is left alone, as in d2.
    """
    topic = f"killed-after-{last}"
    topic_id = killed_between_two_objects(kafka, topic, last, there)
    storage = storage_of(kafka)
    assert states(kafka, topic_id, storage) == {"COPY_SEGMENT_STARTED": 1, "COPY_SEGMENT_FINISHED": 3}
    assert len(tiering.remote_files(kafka, topic_id)) == 3 * OBJECTS + there
    assert_left_alone(kafka, topic_id, storage)
    tiering.provoke_scenario_b(kafka, topic)
    assert assert_cleaned(kafka, topic_id, 1, 4, storage)["DELETE_SEGMENT_FINISHED"] == 4


def test_a_changed_prefix(kafka: S3Kafka, proxy: S3Proxy) -> None:
    """
    After a change of ``key.prefix`` the broker says of segments that they are deleted, and leaves their objects.

    A topic that is deleted in an orderly way leaves clean metadata: the cleaner has nothing to do there, a scrub finds the
    objects. One whose deletion is cut short is cleaned below the former prefix, if the connection names it.

    Protection: a run is refused that does not know where the living topics' copies of before lie
    (``known_places.require_known_places``); without, segments are finished while their objects lie below the former prefix.
    """
    before = kafka.key_prefix
    forgotten, moved = (tiered_topic(kafka, name, 2, 2) for name in ("forgotten", "moved"))
    lost = tiering.remote_files(kafka, forgotten)
    kafka.change_key_prefix("kafka/new/")
    try:
        tiered_topic(kafka, "after-the-change", 1, 2)
        delete_topic(kafka, "forgotten")
        await_deletions_done(kafka)
        deleted_and_killed(kafka, proxy, "moved")
        storage = storage_of(kafka, [before])
        assert states(kafka, forgotten, storage) == {}
        assert tiering.remote_files(kafka, forgotten) == lost
        assert len(lost) == 4 * OBJECTS
        assert_refused_without_the_former_prefix(kafka, before)
        with Cleaning.of(kafka, storage) as cleaning:
            done = cleaning.clean()
            assert (done["segments_deleted"], done["segments_left"], done["reasons"]) == (4, 0, [])
        assert tiering.remote_files(kafka, moved) == set()
        tiering.tiering_alive(kafka, "after-the-change")
        assert forgotten_objects(kafka, storage) == dict.fromkeys(lost, ScrubClass.FINISHED)
        assert scrub(kafka, layout=storage.layout) == [f"unreferenced object {key}" for key in sorted(lost)]
        delete_topic(kafka, "after-the-change")
        await_deletions_done(kafka)
    finally:
        kafka.change_key_prefix(before)
    for key in lost:
        kafka.server.client.delete_object(Bucket=BUCKET, Key=key)
    assert_unharmed(kafka, storage_of(kafka).layout)


def assert_refused_without_the_former_prefix(kafka: S3Kafka, former: str) -> None:
    """The living topics' copies of before lie there: nothing is begun by a connection that knows only the prefix of now."""
    everything = kafka.remote_objects()
    with Cleaning.of(kafka, storage_of(kafka)) as cleaning:
        assert len(cleaning.mark().marked) == 2
        events = len(list(cleaning.events()))
        with pytest.raises(
            StorageRootError, match=rf"below the key prefix '{former}'.*add '{former}' to former_key_prefixes"
        ):
            cleaning.clean()
        assert len(list(cleaning.events())) == events
    assert kafka.remote_objects() == everything
