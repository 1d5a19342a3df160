# SPDX-License-Identifier: Apache-2.0
"""What a scrub makes of each kind of object, and what it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, layout_named
from airflow_provider_rlmm.core.storage.remote_storage import StoredObject
from airflow_provider_rlmm.features.scrub.comparison import Scrub, scrub
from airflow_provider_rlmm.features.scrub.rules import FOLDER_STUB, ScrubClass
from tests.builders import START_MS, Cluster, add, tip, update
from tests.scrub_rows import missing_of, objects_of

TOPIC = tip("orders", 0, 7)
REMOTE_SIZE_3 = bytes([1, 0, 1, 6])  # custom metadata of Aiven's plugin: remote_size 3


def scrubbed(cluster: Cluster, **changes: Any) -> Scrub:
    known = [tip for n in range(cluster.log.partition_count) for tip in cluster.replay(n).histories]
    return scrub(cluster.log, cluster.topics, cluster.storage, **{"known": known, "clock": cluster.clock} | changes)


def classes(found: Scrub) -> dict[str, set[str]]:
    """Class → keys, without those in use."""
    result: dict[str, set[str]] = {}
    for row in objects_of(found):
        result.setdefault(row["class"], set()).add(row["key"])
    return result


def why(found: Scrub) -> set[str]:
    return {row["why"] for row in objects_of(found) if row["class"] == ScrubClass.UNKNOWN}


@pytest.fixture
def cluster() -> Cluster:
    """Aiven's layout, and one living topic that is healthy."""
    return Cluster(2, layout=AivenLayout("kafka/prod/"))


def put(cluster: Cluster, metadata: RemoteLogSegmentMetadata, size: int = 1) -> set[str]:
    keys = set(cluster.layout.required_keys(metadata))
    for key in keys:
        cluster.storage.put_object(key, b"x" * size)
    return keys


def test_what_is_healthy_is_counted_only(cluster: Cluster) -> None:
    found = scrubbed(cluster)
    assert (classes(found), missing_of(found), found.listed.objects, found.in_use.objects) == ({}, [], 3, 3)


def test_objects_of_a_finished_segment(cluster: Cluster) -> None:
    finished = cluster.segment(TOPIC, 0, S.DELETE_SEGMENT_FINISHED)
    cluster.segment(TOPIC, 1)
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.FINISHED: set(cluster.layout.required_keys(finished))}


def test_what_is_finished_while_storage_is_listed_is_not_left_behind(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0, S.DELETE_SEGMENT_STARTED)

    def finish(effect: str, _: str) -> None:
        cluster.storage.on_effect = None
        cluster.foreign(update(TOPIC, 0, S.DELETE_SEGMENT_FINISHED))

    cluster.storage.on_effect = finish
    assert classes(scrubbed(cluster)) == {}
    assert set(classes(scrubbed(cluster))) == {ScrubClass.FINISHED}


def test_objects_that_no_record_names(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0)
    keys = put(cluster, add(TOPIC, 1))
    assert classes(scrubbed(cluster)) == {ScrubClass.UNREFERENCED: keys}


def test_a_copy_that_begins_while_storage_is_listed_is_named(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0)

    def copy(effect: str, _: str) -> None:
        cluster.storage.on_effect = None
        cluster.segment(TOPIC, 1)

    cluster.storage.on_effect = copy
    assert classes(scrubbed(cluster)) == {}


@pytest.mark.parametrize("after_ms", [0, MAX_COPY.default + 1])
def test_a_copy_counts_as_never_finished_after_a_while(cluster: Cluster, after_ms: int) -> None:
    cluster.segment(TOPIC, 0, S.COPY_SEGMENT_STARTED)
    cluster.now_ms = START_MS + after_ms
    assert set(classes(scrubbed(cluster))) == ({ScrubClass.COPY_NEVER_FINISHED} if after_ms else set())


def test_objects_of_an_unknown_topic_id_and_of_no_layout(cluster: Cluster) -> None:
    keys = put(cluster, add(tip("other", 0, 99), 5))
    cluster.storage.put_object("kafka/prod/notes.txt", b"x")
    cluster.storage.put_object("kafka/prod/backup/old.tar", b"x")
    cluster.storage.put_object("elsewhere/old.tar", b"x")
    found = scrubbed(cluster)
    assert classes(found) == {
        ScrubClass.UNKNOWN_TOPIC_ID: keys,
        ScrubClass.NOT_OF_THIS_LAYOUT: {"kafka/prod/notes.txt"},
    }
    assert found.foreign == ("kafka/prod/backup/",)


def test_empty_objects_that_stand_for_folders_are_told_apart(cluster: Cluster) -> None:
    (key, *_) = cluster.layout.required_keys(cluster.segment(TOPIC, 0))
    partition = key.rpartition("/")[0]
    stubs = {partition, partition.rpartition("/")[0], f"{partition}_$folder$"}
    for stub in stubs:
        cluster.storage.put_object(stub, b"")
    cluster.storage.put_object(f"{partition}/notes", b"")
    cluster.storage.put_object(f"{partition}/notes.txt", b"x")
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.NOT_OF_THIS_LAYOUT: {*stubs, f"{partition}/notes", f"{partition}/notes.txt"}}
    told = {row["key"] for row in objects_of(found) if row["why"] == FOLDER_STUB}
    assert told == stubs


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (S.COPY_SEGMENT_STARTED, None),
        (S.COPY_SEGMENT_FINISHED, None),
        (S.DELETE_SEGMENT_STARTED, None),
        (S.DELETE_SEGMENT_FINISHED, ScrubClass.NOT_OF_THIS_LAYOUT),
    ],
)
def test_a_file_beside_a_segment_is_in_use_as_long_as_that_is(
    cluster: Cluster, state: S, kind: ScrubClass | None
) -> None:
    keys = cluster.layout.required_keys(cluster.segment(TOPIC, 0, state))
    backup = f"{max(keys)}.bak"
    cluster.storage.put_object(backup, b"x" * 100)
    found = scrubbed(cluster)
    assert {k for k, names in classes(found).items() if backup in names} == ({kind} if kind else set())
    assert missing_of(found) == []
    assert found.listed_segments == 2, "a file beside objects makes no segment"
    assert ScrubClass.SIZE_DIFFERS not in classes(found)


def test_a_file_beside_what_no_record_names_is_no_leak(cluster: Cluster) -> None:
    backup = f"{min(cluster.layout.required_keys(add(TOPIC, 5)))}.bak"
    cluster.storage.put_object(backup, b"x")
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.NOT_OF_THIS_LAYOUT: {backup}}
    assert found.listed_segments == 1


def test_a_file_beside_objects_stands_for_none_of_them(cluster: Cluster) -> None:
    metadata = cluster.segment(TOPIC, 0)
    drop(cluster, metadata, ".log")
    (log,) = (key for key in cluster.layout.required_keys(metadata) if key.endswith(".log"))
    cluster.storage.put_object(f"{log}.bak", b"x")
    [row] = missing_of(scrubbed(cluster))
    assert row["why"].startswith("2 of 3 objects are there")


def test_another_name_of_a_known_topic_id_tells_nothing(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0)
    keys = put(cluster, add(tip("renamed", 0, 7), 1))
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.UNKNOWN: keys}
    assert why(found) == {"the log knows its topic id under another name"}


def drop(cluster: Cluster, metadata: RemoteLogSegmentMetadata, suffix: str = "") -> None:
    for key in cluster.layout.required_keys(metadata):
        if key.endswith(suffix):
            cluster.storage._objects.pop(key)


@pytest.mark.parametrize(("suffix", "left"), [("", 0), (".log", 2)])
def test_a_copied_segment_that_lacks_an_object_is_missing(cluster: Cluster, suffix: str, left: int) -> None:
    drop(cluster, cluster.segment(TOPIC, 0), suffix)
    [row] = missing_of(scrubbed(cluster))
    assert (row["class"], row["segment_id"]) == (ScrubClass.MISSING, UUID(int=1000).bytes)
    assert row["why"].startswith(f"{left} of 3 objects are there, in 'kafka/prod/orders-")


@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED])
def test_other_segments_need_no_objects(cluster: Cluster, state: S) -> None:
    cluster.segment(TOPIC, 0, state, objects=False)
    assert missing_of(scrubbed(cluster)) == []


def test_what_is_copied_or_deleted_while_storage_is_listed_is_not_missing(cluster: Cluster) -> None:
    deleted = cluster.segment(TOPIC, 0)

    def act(effect: str, _: str) -> None:
        cluster.storage.on_effect = None
        cluster.foreign(update(TOPIC, 0, S.DELETE_SEGMENT_STARTED))
        drop(cluster, deleted)
        cluster.segment(TOPIC, 1, objects=False)

    cluster.storage.on_effect = act
    assert missing_of(scrubbed(cluster)) == []


@pytest.mark.parametrize(("size", "found"), [(1, set()), (2, {ScrubClass.SIZE_DIFFERS})])
def test_the_size_that_was_recorded(cluster: Cluster, size: int, found: set[str]) -> None:
    cluster.foreign(add(TOPIC, 0))
    cluster.foreign(update(TOPIC, 0, S.COPY_SEGMENT_FINISHED, custom_metadata=REMOTE_SIZE_3))
    put(cluster, add(TOPIC, 0), size)
    assert set(classes(scrubbed(cluster))) == found


@pytest.mark.parametrize(("size", "found"), [(1000, set()), (999, {ScrubClass.SIZE_DIFFERS})])
def test_a_log_that_is_stored_as_it_is(size: int, found: set[str]) -> None:
    cluster = Cluster(living_topic=False)
    metadata = cluster.segment(TOPIC, 0)
    cluster.storage.put_object(cluster.layout.object_key(metadata, None), b"x" * size)
    assert set(classes(scrubbed(cluster))) == found


def test_a_lost_beginning_makes_unknown_what_would_be_unreferenced(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0)
    finished = cluster.segment(TOPIC, 2, S.DELETE_SEGMENT_FINISHED)
    keys = put(cluster, add(TOPIC, 1))
    home = cluster.metadata_partition_of(TOPIC)
    for broken in ({"gap": True}, {"gap": False}):
        if broken["gap"]:
            cluster.log.truncate(home, 1)
        else:
            cluster.log.append(home, b"junk")
        found = scrubbed(cluster)
        assert keys <= classes(found)[ScrubClass.UNKNOWN]
        assert ScrubClass.UNREFERENCED not in classes(found)
        assert set(cluster.layout.required_keys(finished)) <= classes(found)[ScrubClass.FINISHED]
        assert list(found.doubtful) == [home]


def test_a_hole_of_the_log_makes_unknown_what_would_be_unreferenced(cluster: Cluster) -> None:
    keys = put(cluster, add(TOPIC, 1))
    cluster.segment(TOPIC, 0)
    home = cluster.metadata_partition_of(TOPIC)
    offset = cluster.foreign(update(TOPIC, 0, S.COPY_SEGMENT_FINISHED))
    assert keys <= classes(scrubbed(cluster))[ScrubClass.UNREFERENCED]
    cluster.log.remove(home, [offset])
    found = scrubbed(cluster)
    assert keys <= classes(found)[ScrubClass.UNKNOWN]
    assert f"has no record at offsets {offset} to {offset}" in found.doubtful[home]


def test_in_a_compacted_log_nobody_knows_what_would_be_unreferenced(cluster: Cluster) -> None:
    keys = put(cluster, add(TOPIC, 1))
    cluster.segment(TOPIC, 0)
    assert keys <= classes(scrubbed(cluster))[ScrubClass.UNREFERENCED]
    cluster.log.policy = frozenset({"compact"})
    found = scrubbed(cluster)
    assert keys <= classes(found)[ScrubClass.UNKNOWN]
    assert ScrubClass.UNREFERENCED not in classes(found)
    assert set(found.doubtful) == set(range(cluster.log.partition_count))
    assert "the metadata topic is compacted: its cleanup.policy is compact" in found.doubtful[0]


def test_a_segment_that_only_an_inapplicable_record_names_is_not_unreferenced(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0)
    keys = put(cluster, add(TOPIC, 1))
    cluster.foreign(update(TOPIC, 1, S.DELETE_SEGMENT_FINISHED))
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.UNKNOWN: keys}
    assert why(found) == {"records name its segment and cannot be applied"}


def failing(prefixes: Callable[[str], bool]) -> Callable[[str, str], None]:
    def on_effect(effect: str, key: str) -> None:
        if effect == "list" and prefixes(key):
            raise StorageUnavailableError(f"cannot list {key}: invalid path")

    return on_effect


def folder_of(cluster: Cluster, partition: TopicIdPartition) -> str:
    return cluster.layout.partition_prefix(partition)


def test_a_folder_that_cannot_be_listed_ends_only_its_own_classification(cluster: Cluster) -> None:
    other = tip("other", 0, 8)
    lost = cluster.segment(TOPIC, 0, objects=False)
    cluster.segment(other, 0)
    unreferenced = put(cluster, add(other, 1))
    put(cluster, add(TOPIC, 1))
    topic_folder = folder_of(cluster, TOPIC).removesuffix("0/")
    cluster.storage.on_effect = failing(lambda prefix: prefix.startswith(topic_folder))
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.UNREFERENCED: unreferenced}
    assert missing_of(found) == []
    assert set(found.incomplete) == {topic_folder}
    cluster.storage.on_effect = None
    [row] = missing_of(scrubbed(cluster))
    assert row["segment_id"] == lost.remote_log_segment_id.id.bytes


def test_a_listing_that_ends_early_calls_nothing_unreferenced(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.segment(TOPIC, 0)
    keys = put(cluster, add(TOPIC, 1))
    whole = cluster.storage._calls.objects

    def objects(prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        yield from whole(prefix, after)
        if "orders" in prefix:
            raise StorageUnavailableError("cut short")

    monkeypatch.setattr(cluster.storage._calls, "objects", objects)
    found = scrubbed(cluster)
    assert ScrubClass.UNREFERENCED not in classes(found)
    assert keys <= classes(found)[ScrubClass.UNKNOWN]
    assert why(found) == {"the listing of its folder ended early"}


@pytest.mark.parametrize("ends", [("AAABw/",), ("AAABw/", "/0/"), ("AAABw/", "/0/", "/1/")])
def test_what_is_listed_again_counts_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, ends: tuple[str, ...]
) -> None:
    cluster.segment(TOPIC, 0)
    keys = put(cluster, add(TOPIC, 1)) | put(cluster, add(tip("orders", 1, 7), 2))
    whole = cluster.storage._calls.objects
    broken: set[str] = set()

    def objects(prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        yield from whole(prefix, after)
        if "orders" in prefix and prefix.endswith(ends) and prefix not in broken:
            broken.add(prefix)
            raise StorageUnavailableError("cut short")

    monkeypatch.setattr(cluster.storage._calls, "objects", objects)
    found = scrubbed(cluster)
    assert len(broken) == len(ends)
    assert found.listed.objects == len(cluster.storage.keys)
    assert classes(found) == {ScrubClass.UNREFERENCED: keys}
    assert sorted(row["key"] for row in objects_of(found)) == sorted(keys)


def test_an_id_that_looks_like_another_one_is_not_taken_for_it(cluster: Cluster) -> None:
    finished = cluster.segment(TOPIC, 0, S.DELETE_SEGMENT_FINISHED)
    raw = finished.remote_log_segment_id.id.bytes
    alike = replace(finished, remote_log_segment_id=RemoteLogSegmentId(TOPIC, UUID(bytes=raw[8:] + raw[:8])))
    assert alike != finished
    keys = put(cluster, alike)
    # It is not worth more than that nobody can tell: a record may name it.
    assert classes(scrubbed(cluster)) == {
        ScrubClass.FINISHED: set(cluster.layout.required_keys(finished)), ScrubClass.UNKNOWN: keys,
    }  # fmt: skip


def test_known_partitions_are_found_where_the_folder_above_cannot_be_listed(cluster: Cluster) -> None:
    cluster.segment(TOPIC, 0)
    keys = put(cluster, add(TOPIC, 1))
    cluster.storage.on_effect = failing(lambda prefix: prefix == "kafka/prod/")
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.UNREFERENCED: keys}
    assert list(found.incomplete) == ["kafka/prod/"]


def test_a_store_that_is_down_is_not_asked_for_every_folder(cluster: Cluster) -> None:
    for number in range(50):
        cluster.segment(tip(f"topic-{number}", 0, 100 + number), 0)
    asked: list[str] = []

    def on_effect(effect: str, key: str) -> None:
        asked.append(key)
        if key != "kafka/prod/":
            raise StorageUnavailableError("no answer")

    cluster.storage.on_effect = on_effect
    found = scrubbed(cluster)
    assert len(found.incomplete) == 51
    assert len(asked) < 30
    assert (found.listed.objects, missing_of(found)) == (0, [])


@pytest.mark.parametrize("prefixes", [("", "flat"), ("kafka/prod/", "kafka/", ""), ("a/b/", "a/c/")])
def test_places_below_each_other_are_listed_once(prefixes: tuple[str, ...]) -> None:
    cluster = Cluster(layout=AivenLayout(prefixes[0], prefixes[1:]))
    expected = set()
    for number, place in enumerate(cluster.layout.places):
        cluster.foreign(add(TOPIC, number))
        for step in (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
            cluster.foreign(update(TOPIC, number, step))
        for key in cluster.layout.required_keys(add(TOPIC, number), place):
            cluster.storage.put_object(key, b"x")
            expected.add(key)
    found = scrubbed(cluster)
    assert classes(found) == {ScrubClass.FINISHED: expected}
    assert found.listed.objects == len(expected) + 3


def test_a_layout_whose_folders_name_no_topics_is_listed_whole() -> None:
    layout: Layout = layout_named("template", _template())
    cluster = Cluster(layout=layout)
    keys = put(cluster, add(cluster.alive, 7))
    assert classes(scrubbed(cluster)) == {ScrubClass.UNREFERENCED: keys}


def _template() -> Any:
    from airflow_provider_rlmm.core.storage.layouts import LayoutOptions

    return LayoutOptions(key_pattern="tiered/{topic}-{partition}-{topic_id}/{segment_id}", key_suffixes={"": True})


def test_a_log_that_ends_before_the_second_watermarks_is_an_error(cluster: Cluster) -> None:
    marks = dict(cluster.log.high_water_marks())
    calls = iter([marks, {n: mark + 1 for n, mark in marks.items()}])

    class Log:
        def __getattr__(self, name: str) -> Any:
            return getattr(cluster.log, name)

        def high_water_marks(self) -> dict[int, int]:
            return dict(next(calls, marks))

    with pytest.raises(EventLogUnavailableError, match="scrub again"):
        scrub(Log(), cluster.topics, cluster.storage, known=(), clock=cluster.clock)  # type: ignore[arg-type]
