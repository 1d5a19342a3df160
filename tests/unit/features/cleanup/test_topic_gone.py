# SPDX-License-Identifier: Apache-2.0
"""When the proof says that every byte of a topic is gone, and when it does not."""

from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    OffsetOutOfRangeError,
    StorageUnavailableError,
    TopicInDoubtError,
    TopicNeverNamedError,
)
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.cleanup.topic_gone import GoneLook, WantedTopic, look_early, prove_gone
from airflow_provider_rlmm.features.cleanup.topic_gone_rules import PartitionEnd, why_not_finished, why_still_hidden
from tests.builders import BROKER, DAY_MS, START_MS, Cluster, add, deletion, once, tip, update

GONE = UUID(int=7)
PARTITIONS = [tip("gone", number, 7) for number in range(3)]


@pytest.fixture
def cluster() -> Cluster:
    """A deleted topic of three user partitions that is cleaned, and a living one."""
    fake = Cluster(2, layout=AivenLayout("kafka/prod/"))
    for partition in PARTITIONS:
        fake.segment(partition, 0, S.DELETE_SEGMENT_FINISHED, objects=False)
        for state in P:
            fake.foreign(deletion(partition, state))
    return fake


def proved(cluster: Cluster, name: str | None = "gone", **options: frozenset[str]) -> GoneLook:
    return prove_gone(cluster.log, cluster.topics, cluster.storage, WantedTopic(GONE, name, **options))


def early(cluster: Cluster) -> GoneLook | None:
    topic = cluster.topic()
    topic.advance()
    return look_early(topic, WantedTopic(GONE))


def test_a_cleaned_topic_is_gone(cluster: Cluster) -> None:
    found = proved(cluster)
    assert early(cluster) is None
    assert (found.why_not, found.unfinished, {end.tip for end in found.ends}) == ((), [], set(PARTITIONS))
    assert found.read_until == dict(cluster.log.high_water_marks())


def test_a_partition_that_is_not_finished(cluster: Cluster) -> None:
    late = tip("gone", 9, 7)
    cluster.segment(late, 5)
    cluster.foreign(deletion(late, P.DELETE_PARTITION_MARKED))
    for found in (early(cluster), proved(cluster)):
        assert found is not None
        assert found.unfinished == [9]
        (why,) = found.why_not
        assert why.endswith("it is at DELETE_PARTITION_MARKED, and 1 segment is not finished")


def test_a_segment_after_the_end(cluster: Cluster) -> None:
    cluster.segment(PARTITIONS[1], 3, S.COPY_SEGMENT_STARTED, objects=False)
    for found in (early(cluster), proved(cluster)):
        assert found is not None
        assert "its deletion was finished, and after that 1 segment is not" in found.why_not[0]


def test_a_segment_that_came_and_went_after_the_end(cluster: Cluster) -> None:
    cluster.segment(PARTITIONS[1], 3, S.DELETE_SEGMENT_FINISHED, objects=False)
    # A snapshot does not know the order; the proof does.
    assert early(cluster) is None
    (why,) = proved(cluster).why_not
    assert "came after its DELETE_PARTITION_FINISHED" in why


def test_an_update_of_a_segment_that_nobody_knows(cluster: Cluster) -> None:
    cluster.foreign(update(PARTITIONS[0], 8, S.COPY_SEGMENT_FINISHED))
    assert "1 more cannot be told" in proved(cluster).why_not[0]


@pytest.mark.parametrize("name", ["gone", "renamed"])
@pytest.mark.parametrize("suffix", [".log", ".part", ""])
def test_an_object_of_the_id_under_any_name(cluster: Cluster, name: str, suffix: str) -> None:
    stem = cluster.layout.segment_stem(add(tip(name, 0, 7), 2))
    cluster.storage.put_object(f"{stem}{suffix}", b"x")
    (why,) = proved(cluster).why_not
    assert why.startswith("1 object of it is in storage, such as kafka/prod/")


def test_an_object_at_a_former_place() -> None:
    cluster = Cluster(1, layout=AivenLayout("new/", ["old/"]))
    cluster.segment(PARTITIONS[0], 0, S.DELETE_SEGMENT_FINISHED, objects=False)
    cluster.foreign(deletion(PARTITIONS[0], P.DELETE_PARTITION_MARKED))
    cluster.foreign(deletion(PARTITIONS[0], P.DELETE_PARTITION_FINISHED))
    assert proved(cluster).why_not == ()
    old = AivenLayout("old/")
    cluster.storage.put_object(old.required_keys(add(PARTITIONS[0], 0))[0], b"x")
    assert "such as old/" in proved(cluster).why_not[0]


def test_objects_of_other_topics_do_not_count(cluster: Cluster) -> None:
    cluster.segment(tip("gone", 0, 8), 0)
    assert proved(cluster).why_not == ()


def test_a_place_that_cannot_be_listed(cluster: Cluster) -> None:
    def fail(effect: str, key: str) -> None:
        raise StorageUnavailableError("slow down")

    cluster.storage.on_effect = fail
    assert "storage could not be listed whole" in proved(cluster).why_not[0]


def test_what_begins_while_storage_is_listed_is_seen(cluster: Cluster) -> None:
    def copy(effect: str, key: str) -> None:
        cluster.storage.on_effect = None
        cluster.foreign(add(PARTITIONS[0], 4))

    cluster.storage.on_effect = copy
    assert "after that 1 segment is not" in proved(cluster).why_not[0]


def test_a_topic_that_lives_is_not_gone(cluster: Cluster) -> None:
    cluster.topics.create("gone", GONE)
    (why,) = proved(cluster).why_not
    assert why.startswith("the cluster does not call the topic deleted: ")


def test_a_name_that_returned_with_another_id_changes_nothing(cluster: Cluster) -> None:
    cluster.topics.create("gone", UUID(int=99))
    cluster.segment(tip("gone", 0, 99), 0)
    assert proved(cluster).why_not == ()


def test_an_id_that_was_never_named(cluster: Cluster) -> None:
    with pytest.raises(TopicNeverNamedError, match="has never named it"):
        prove_gone(cluster.log, cluster.topics, cluster.storage, WantedTopic(UUID(int=70)))


def test_an_id_of_another_topic(cluster: Cluster) -> None:
    with pytest.raises(TopicNeverNamedError, match=r"is not of topic 'gune': the metadata topic names it .*gone"):
        proved(cluster, "gune")
    assert proved(cluster, None).why_not == ()


def test_a_log_that_lost_its_beginning(cluster: Cluster) -> None:
    # In the metadata partition that has nothing of the topic, too: what was there nobody knows.
    for number in range(2):
        cut = Cluster(2, layout=cluster.layout)
        cut.segment(PARTITIONS[0], 0, S.DELETE_SEGMENT_FINISHED, objects=False)
        cut.log.append(number, b"")
        cut.log.truncate(number, 1)
        for look in (proved, early):
            with pytest.raises(TopicInDoubtError, match=f"metadata partition {number} begins at offset 1"):
                look(cut)


def test_a_record_that_nobody_can_read(cluster: Cluster) -> None:
    cluster.log.append(1, b"\x07nonsense")
    for look in (proved, early):
        with pytest.raises(TopicInDoubtError, match="cannot be applied and may be about it"):
            look(cluster)
    assert proved(cluster, allowed_quarantine=frozenset({"MALFORMED", "UNKNOWN_API_KEY"})).why_not == ()


def test_a_bad_record_of_another_topic_raises_no_doubt(cluster: Cluster) -> None:
    cluster.foreign(add(tip("alive", 0, 1), 9, broker_id=BROKER), key=b"keyed")
    assert proved(cluster).why_not == ()


def test_a_log_that_is_cut_off_between_the_two_readings_proves_nothing(cluster: Cluster) -> None:
    cluster.topics.on_effect = once("describe_topics", lambda: cluster.log.cut_off(0, 2))
    with pytest.raises(OffsetOutOfRangeError):
        proved(cluster)


def test_the_reasons_of_many_partitions_are_few() -> None:
    ends = [PartitionEnd(tip("gone", n, 7), None, 1, 0) for n in range(100)]
    whys = list(why_not_finished(ends))
    assert len(whys) == 6
    assert whys[-1] == "95 more user partitions of 100"
    assert kafka_uuid_str(GONE) in whys[0]


@pytest.mark.parametrize(("days", "passed_days", "hidden"), [(None, 0, False), (7, 7, True), (7, 8, False)])
def test_hidden_versions_are_waited_for(days: int | None, passed_days: int, hidden: bool) -> None:
    end = PartitionEnd(PARTITIONS[0], P.DELETE_PARTITION_FINISHED, 0, 0, 5, START_MS, 4)
    whys = list(why_still_hidden([end], days, START_MS + passed_days * DAY_MS))
    assert bool(whys) is hidden
