# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import uuid4

import pytest

from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    EventLogUnavailableError,
    MetadataPartitionOutOfRangeError,
    MetadataTopicNotFoundError,
)
from airflow_provider_rlmm.core.log.in_process import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    InProcessMetadataEventLog,
    InProcessOffsetStore,
    ReadEffect,
)
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.protocol import Acked, DescribedTopics, Failed, Unknown
from airflow_provider_rlmm.core.records.topic_answers import NoTopic
from tests.contracts.event_log import PARTITIONS, EventLogUnderTest, MetadataEventLogContract
from tests.contracts.offset_store import OffsetStoreContract

BATCH = [(0, b"a"), (0, b"b"), (0, b"c")]


class CrashError(Exception):
    """A crash of the test's own."""


def crash(name, detail):
    raise CrashError(name)


def only(name, action):
    """A hook that acts on one kind of effect."""
    return lambda effect, detail: action(detail) if effect == name else None


def values(log, metadata_partition):
    end = log.high_water_marks()[metadata_partition]
    batches = log.read(metadata_partition, 0, end)
    return [value for batch in batches for value in batch.column("value").to_pylist()]


class TestContract(MetadataEventLogContract):
    @pytest.fixture
    def under_test(self):
        log = InProcessMetadataEventLog(PARTITIONS)

        def append_in_a_transaction(partition, value):
            log.append(partition, value)
            log.remove(partition, [log.append(partition, b"its marker")])

        return EventLogUnderTest(
            log,
            log.append,
            log.truncate,
            lambda policy: setattr(log, "policy", frozenset(policy.split(","))),
            append_in_a_transaction,
        )


class TestOffsetStoreContract(OffsetStoreContract):
    @pytest.fixture
    def store(self):
        return InProcessOffsetStore()


class TestLog:
    def test_the_clock_gives_the_timestamps(self):
        times = iter([1000, 2000])
        log = InProcessMetadataEventLog(1, clock=lambda: next(times))

        log.publish([(0, b"a"), (0, b"b")])
        log.append(0, b"c", timestamp_ms=5)

        (batch,) = log.read(0, 0, 3)
        assert batch.column("timestamp_ms").to_pylist() == [1000, 2000, 5]

    def test_there_is_at_least_one_partition(self):
        with pytest.raises(ValueError, match="0"):
            InProcessMetadataEventLog(0)

    def test_truncation_never_goes_back_and_never_past_the_end(self):
        log = InProcessMetadataEventLog(1)
        log.publish([(0, b"a")] * 3)
        log.truncate(0, 2)

        log.truncate(0, 1)

        assert log.beginning_offsets() == {0: 2}
        with pytest.raises(ValueError, match="4"):
            log.truncate(0, 4)

    def test_a_foreign_writer_is_bound_to_existing_partitions_too(self):
        with pytest.raises(MetadataPartitionOutOfRangeError):
            InProcessMetadataEventLog(1).append(-1, b"a")


class TestFaultsOfTheLog:
    @pytest.mark.parametrize("outcome", [Failed("no"), Unknown("lost on the way there")])
    def test_a_record_that_is_not_written(self, outcome):
        log = InProcessMetadataEventLog(1)
        log.on_effect = only("publish", lambda effect: outcome if effect.index == 1 else None)

        assert log.publish(BATCH) == [Acked(0), outcome, Acked(1)]
        assert values(log, 0) == [b"a", b"c"]

    def test_a_record_that_is_written_without_anyone_knowing(self):
        log = InProcessMetadataEventLog(1)
        doubt = Unknown("lost on the way back")
        log.after_effect = only("publish", lambda effect: doubt if effect.value == b"b" else None)

        assert log.publish(BATCH) == [Acked(0), doubt, Acked(2)]
        assert values(log, 0) == [b"a", b"b", b"c"]

    @pytest.mark.parametrize(("hook", "written"), [("on_effect", [b"a"]), ("after_effect", [b"a", b"b"])])
    def test_a_crash_cuts_a_batch_in_the_middle(self, hook, written):
        log = InProcessMetadataEventLog(1)
        setattr(log, hook, only("publish", lambda effect: crash("publish", effect) if effect.index == 1 else None))

        with pytest.raises(CrashError):
            log.publish(BATCH)

        log.on_effect = log.after_effect = lambda name, detail: None
        assert values(log, 0) == written

    def test_a_read_that_is_cut_short_gives_what_it_had(self):
        log = InProcessMetadataEventLog(1)
        log.publish(BATCH)
        log.on_effect = only("read", lambda effect: effect.start + 2)
        reading = log.read(0, 0, 3)

        assert next(reading).column("value").to_pylist() == [b"a", b"b"]
        with pytest.raises(EventLogUnavailableError, match="offset 2, before 3"):
            next(reading)

    def test_a_cut_beyond_the_range_does_nothing(self):
        log = InProcessMetadataEventLog(1)
        log.publish(BATCH)
        log.on_effect = only("read", lambda effect: 99)

        assert values(log, 0) == [b"a", b"b", b"c"]

    def test_the_hooks_see_every_effect_before_and_after(self):
        seen = []
        log = InProcessMetadataEventLog(
            2, on_effect=lambda *effect: seen.append(effect), after_effect=lambda *effect: seen.append(effect)
        )

        log.beginning_offsets()
        log.high_water_marks()
        list(log.read(1, 0, 0))

        read = ("read", ReadEffect(1, 0, 0))
        begin, end = ("beginning_offsets", None), ("high_water_marks", None)
        assert seen == [begin, begin, end, end, read, read]


class TestFaultsOfTheOffsetStore:
    @pytest.mark.parametrize(("hook", "remembered"), [("on_effect", {}), ("after_effect", {0: 5})])
    def test_a_crash_before_and_after_the_commit(self, hook, remembered):
        store = InProcessOffsetStore()
        setattr(store, hook, crash)

        with pytest.raises(CrashError, match="commit"):
            store.commit({0: 5})

        store.on_effect = store.after_effect = lambda name, detail: None
        assert store.committed() == remembered

    def test_the_store_can_lose_everything(self):
        store = InProcessOffsetStore()
        store.commit({0: 5})

        store.lose()

        assert store.committed() == {}


class TestTopics:
    def test_topics_come_and_go(self):
        topics = InProcessClusterTopics(cluster_id="c")
        first = topics.create("orders")

        assert topics.cluster_id() == "c"
        assert topics.list_topics() == {"orders": first, METADATA_TOPIC: METADATA_TOPIC_ID}
        assert topics.topic_names() == {"orders", METADATA_TOPIC}
        assert topics.describe_topics(["orders"]) == DescribedTopics(METADATA_TOPIC_ID, {"orders": first})
        assert topics.delete("orders") == first
        assert topics.describe_topics(["orders"]).answers == {"orders": NoTopic.UNKNOWN}
        assert topics.create("orders") != first

    def test_a_name_is_taken_once(self):
        topics = InProcessClusterTopics({"orders": uuid4()})

        with pytest.raises(ValueError, match="orders"):
            topics.create("orders")

    def test_a_listing_is_a_copy(self):
        topics = InProcessClusterTopics({"orders": uuid4()})
        listing = topics.list_topics()

        topics.delete("orders")

        assert set(listing) == {"orders", METADATA_TOPIC}

    def test_what_may_not_be_described_is_in_no_listing_and_answers_nothing(self):
        topics = InProcessClusterTopics({"orders": uuid4()})
        topics.denied.add("orders")

        assert topics.topic_names() == {METADATA_TOPIC}
        assert topics.describe_topics(["orders"]).answers == {"orders": NoTopic.DENIED}

    def test_without_a_metadata_topic_there_is_no_cluster_to_look_at(self):
        topics = InProcessClusterTopics({"orders": uuid4()}, metadata_topic_id=None)

        with pytest.raises(EventLogAccessError, match=METADATA_TOPIC):
            topics.topic_names()
        with pytest.raises(MetadataTopicNotFoundError, match=METADATA_TOPIC):
            topics.describe_topics(["orders"])

    @pytest.mark.parametrize("ask", ["cluster_id", "topic_names", "describe_topics"])
    @pytest.mark.parametrize("hook", ["on_effect", "after_effect"])
    def test_every_answer_can_fail(self, ask, hook):
        topics = InProcessClusterTopics()
        setattr(topics, hook, crash)

        with pytest.raises(CrashError, match={"topic_names": "list_topics"}.get(ask, ask)):
            getattr(topics, ask)(*([["orders"]] if ask == "describe_topics" else []))
