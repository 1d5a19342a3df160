# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ConfigurationError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.storage.key_fields import function_named
from airflow_provider_rlmm.core.storage.key_pattern import KeyPattern
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import (
    AivenLayout,
    LayoutOptions,
    LocalTieredStorageLayout,
    TemplateLayout,
    layout_named,
)
from airflow_provider_rlmm.core.storage.root import Place
from tests.contracts.remote_storage import TIP, segment
from tests.unit.core.storage.test_layouts import topic_names

PATTERNS = [
    "{topic}-{partition}-{topic_id}/{start_offset:020}-{segment_id}",
    "{topic}-{topic_id}/{partition}/{start_offset:020}-{segment_id}",
    "{topic}-{partition}-{topic_id}/{segment_id}",
    "{topic_id}-{topic}-{partition}-{segment_id}",
    "p{partition}.{topic}.{topic_id}{segment_id}",
    "{topic}/{topic_id}/{partition}/{segment_id}/{start_offset}.segment",
    "{segment_id}/{partition}_{start_offset}_{topic}_{topic_id}",
    "{topic_id:uuid}/{topic}/{partition:05}/{end_offset:020}_{segment_id:uuid}",
    "{crc32(topic,'-',partition):3}/{topic}.{topic_id:uuid}.{partition:012}.{start_offset:03}-{end_offset}-{segment_id}",
    "{topic}-{topic_id}/{md5(segment_id):2}/{sha256(partition,topic_id):9}/{partition}/{segment_id:uuid}",
]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
@given(
    topic=topic_names,
    partition=st.integers(0, 2**31 - 1),
    topic_id=st.uuids(),
    segment_id=st.uuids(),
    start=st.integers(0, 2**63 - 200),
    suffix=st.sampled_from(["", ".log", "/log", "/a/b"]),
)
def test_what_is_built_is_read_back(
    pattern: str, topic: str, partition: int, topic_id: UUID, segment_id: UUID, start: int, suffix: str
) -> None:
    metadata = segment(topic=topic, topic_id=topic_id, partition=partition, start=start)
    wanted = replace(metadata.remote_log_segment_id, id=segment_id)
    metadata = replace(metadata, remote_log_segment_id=wanted)
    keys = KeyPattern(pattern, in_folders=suffix.startswith("/"))
    assert keys.parse(keys.stem(metadata) + suffix) == (wanted, suffix)
    assert keys.stem(metadata).startswith(keys.folder(wanted.topic_id_partition))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{topic}-{topic_id}/{partition}/{start_offset:020}", r"does not name \{segment_id\}"),
        ("{segment_id}", r"does not name \{topic\}, \{topic_id\}, \{partition\}"),
        ("{topic}{partition}-{topic_id}/{segment_id}", r"\{topic\} has no fixed length"),
        ("{topic}-{topic_id}/{partition}{segment_id}", r"\{partition\} has no fixed length"),
        ("{topic}-{topic_id}/{segment_id}-{partition}", r"\{partition\} has no fixed length"),
        ("{topic}-{topic_id}/7{partition}/{segment_id}", r"\{partition\} has no fixed length"),
        ("{topic}/{topic_id}/{partition}/{segment_id}-{segment_id}", "names a field twice"),
        ("/{topic}/{topic_id}/{partition}/{segment_id}", "begins or ends with /"),
        ("a//{topic}/{topic_id}/{partition}/{segment_id}", "begins or ends with /"),
        ("../{topic}/{topic_id}/{partition}/{segment_id}", "begins or ends with /"),
        ("{topic}/{topic_id}/{partition}/{segment_id}/{offset}", r"\{offset\} is none of"),
        ("{topic!r}/{topic_id}/{partition}/{segment_id}", "has a conversion"),
        ("{topic:>9}/{topic_id}/{partition}/{segment_id}", r"\{topic:>9\} is none of"),
        ("{topic:020}/{topic_id}/{partition}/{segment_id}", r"\{topic:020\} is none of"),
        ("{topic}/{topic_id}/{partition:5}/{segment_id}", r"\{partition:5\} is none of"),
        ("{topic}/{topic_id}/{partition:00}/{segment_id}", r"\{partition:00\} is none of"),
        ("{topic}/{topic_id}{partition:05}{segment_id}", r"\{partition\} has no fixed length"),
        ("{md5(topic)}/{topic}/{topic_id}/{partition}/{segment_id}", "does not say how many characters"),
        ("{md5(topic):33}/{topic}/{topic_id}/{partition}/{segment_id}", "takes 33 characters of md5, which returns 32"),
        ("{md5(cluster):3}/{topic}/{topic_id}/{partition}/{segment_id}", "'cluster' in .* is neither another field"),
        (
            "{md5(end_offset):3}/{topic}/{topic_id}/{partition}/{segment_id}",
            "'end_offset' in .* is neither another field",
        ),
        (
            "{md4(topic):3}/{topic}/{topic_id}/{partition}/{segment_id}",
            "unknown key function 'md4'; choose one of: crc32, md5",
        ),
        ("{md5(topic):3}x/{topic}/{topic_id}/{partition}/../{segment_id}", "begins or ends with /"),
        ("{topic}/{topic_id}/{partition}/{segment_id", "cannot be read"),
        ("{topic}/{topic_id}/{partition}/\n{segment_id}", "has characters that are none of"),
    ],
)
def test_a_pattern_that_cannot_be_read_back_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        KeyPattern(pattern)


IN_HOUSE = "{md5(topic,'-',partition):4}/{topic}-{topic_id:uuid}/{partition:05}/{start_offset:020}-{segment_id:uuid}"


def test_a_salt_and_ids_as_uuids_are_spelled_as_they_say() -> None:
    metadata = segment(3, partition=7)
    pattern = KeyPattern(IN_HOUSE)
    salt = hashlib.md5(b"orders-00007", usedforsecurity=False).hexdigest()[:4]
    folder = f"{salt}/orders-{TIP.topic_id}/00007/"
    assert pattern.folder(metadata.remote_log_segment_id.topic_id_partition) == folder
    assert pattern.stem(metadata) == f"{folder}{metadata.start_offset:020}-{metadata.remote_log_segment_id.id}"
    assert not pattern.folders_name_topics


@pytest.mark.parametrize(
    ("old", "new"), [("{salt}", "0000"), ("00007", "7"), ("{id}", "{upper}"), ("{id}", "{kafka}"), ("00007", "000007")]
)
def test_what_is_spelled_otherwise_is_of_no_segment(old: str, new: str) -> None:
    metadata = segment(3, partition=7)
    pattern = KeyPattern(IN_HOUSE)
    key = pattern.stem(metadata)
    names = {
        "id": str(TIP.topic_id),
        "upper": str(TIP.topic_id).upper(),
        "kafka": kafka_uuid_str(TIP.topic_id),
        "salt": key[:4],
    }
    assert pattern.parse(key) == (metadata.remote_log_segment_id, "")
    other = key.replace(old.format(**names), new.format(**names))
    assert other != key
    assert pattern.parse(other) is None


def test_a_salt_of_a_segment_makes_no_folder_of_the_partition() -> None:
    pattern = KeyPattern("{topic}-{topic_id}/{partition}/{md5(segment_id):2}/{segment_id}")
    assert pattern.folder(TIP) == f"orders-{kafka_uuid_str(TIP.topic_id)}/0/"
    assert pattern.topic_id_of_folder(f"orders-{kafka_uuid_str(TIP.topic_id)}") == TIP.topic_id
    uuids = KeyPattern("{topic}.{topic_id:uuid}/{partition}/{segment_id}")
    assert uuids.topic_id_of_folder(f"orders.{TIP.topic_id}") == TIP.topic_id


def test_key_functions_of_others_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Function:
        name = "shard"

        @staticmethod
        def load() -> object:
            return lambda text: "a/b" if text == "bad" else f"{len(text):02}"

    function_named.cache_clear()
    monkeypatch.setattr("airflow_provider_rlmm.core.storage.key_fields.entry_points", lambda *, group: [Function])
    pattern = KeyPattern("{shard(topic):2}/{topic}/{topic_id}/{partition}/{segment_id}")
    assert pattern.stem(segment()).startswith("06/orders/")
    with pytest.raises(UnsafeObjectKeyError, match="the key function shard returns 'a/' for 'bad'"):
        pattern.stem(segment(topic="bad"))
    function_named.cache_clear()


def test_folders_that_a_pattern_begins_with_are_a_part_of_the_prefix() -> None:
    layout = TemplateLayout(
        "t", "base/x/{topic}-{topic_id}/{partition}-{segment_id}", {".log": True}, key_prefixes=["kp-"]
    )
    assert layout.places == (Place("kp-base/x", "kp-base/x/"),)
    assert layout.segment_stem(segment()).startswith("kp-base/x/orders-")
    assert layout.partition_prefix(TIP).startswith("kp-base/x/orders-")


def test_a_prefix_need_not_be_a_folder() -> None:
    layout = AivenLayout("kafka/prod-", ["", "flat"])
    assert layout.places == (Place("kafka/prod-", "kafka/"), Place("/", ""), Place("flat", ""))
    stems = {place: layout.segment_stem(segment(), place) for place in layout.places}
    assert [stem.partition("orders-")[0] for stem in stems.values()] == ["kafka/prod-", "", "flat"]
    for place, stem in stems.items():
        parsed = layout.parse(f"{stem}.log", place)
        assert parsed == segment().remote_log_segment_id
        directory = stem[: stem.index("/", len(place.prefix))]
        assert layout.topic_id_of_directory(directory, place) == TIP.topic_id


@pytest.mark.parametrize("prefixes", [["a", "a"], ["a/", "a"], ["", ""]])
def test_one_place_is_not_two(prefixes: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"named twice|differ in their last /"):
        AivenLayout(prefixes[0], prefixes[1:])


class Point:
    """An entry point of somebody's package."""

    name = "ours"

    @staticmethod
    def load() -> object:
        def make(options: LayoutOptions) -> Layout:
            return TemplateLayout("ours", PATTERNS[2], {"": True}, key_prefixes=[options.key_prefix])

        return make


def test_layouts_of_others_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def points(*, group: str) -> list[type[Point]]:
        asked.append(group)
        return [Point]

    monkeypatch.setattr("airflow_provider_rlmm.core.storage.layouts.entry_points", points)
    assert layout_named("ours", LayoutOptions("kp/")).places == (Place("kp", "kp/"),)
    assert asked == ["airflow_provider_rlmm.storage_layouts"]
    with pytest.raises(ConfigurationError, match="choose one of: aiven, local-tiered-storage, ours, template"):
        layout_named("s3")


FILES = {"key_pattern": PATTERNS[0], "key_suffixes": {".log": True, ".index": True}}


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("local-tiered-storage", LayoutOptions("kp/"), "takes no key prefix"),
        ("aiven", LayoutOptions(key_pattern=PATTERNS[0]), "takes no key_pattern"),
        ("template", LayoutOptions(key_pattern=PATTERNS[0]), "needs key_pattern and key_suffixes"),
        ("template", LayoutOptions(key_suffixes={".log": True}), "needs key_pattern and key_suffixes"),
        ("template", FILES | {"key_files": {".log": "logs"}}, "'.log' is 'logs', none of log, offset, timestamp"),
        ("template", FILES | {"key_files": {".log": "log", ".index": "log"}}, "two of them are log"),
        ("template", FILES | {"plugin_settings": "chunk.size=1"}, "takes no plugin_settings"),
        ("local-tiered-storage", {"plugin_settings": "chunk.size=1"}, "takes no key prefix"),
        ("template", LayoutOptions(key_pattern=PATTERNS[0], key_suffixes={"/x/y": True}), "none of them with / but at"),
        ("template", LayoutOptions(key_pattern=PATTERNS[0], key_suffixes={"/": True}), "none of them with / but at"),
        ("template", LayoutOptions(key_pattern=PATTERNS[0], key_suffixes={"/..": True}), "none of them with / but at"),
        ("template", LayoutOptions(key_pattern=PATTERNS[0], key_suffixes={"/x": True, ".y": True}), "or none"),
    ],
)
def test_options_that_a_layout_does_not_have_are_refused(
    name: str, options: LayoutOptions | dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        layout_named(name, LayoutOptions(**options) if isinstance(options, dict) else options)
    assert isinstance(layout_named("local-tiered-storage", LayoutOptions()), LocalTieredStorageLayout)
