# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ConfigurationError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str, parse_kafka_uuid
from airflow_provider_rlmm.core.records.topic_names import is_legal_topic_name
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout, TemplateLayout, layout_named
from tests.contracts.remote_storage import ILLEGAL_TOPIC_NAMES, LAYOUT, segment

REAL_LISTING = Path(__file__).parents[3] / "data" / "real_remote_listing.txt"
ID = "RU6nMFtRSJGu3R0wnVrPHQ"
GOOD_KEY = f"kafka-tiered-storage/a-0-{ID}/{0:020d}-{ID}.log"

topic_names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249).filter(
    is_legal_topic_name
)


def test_every_line_of_a_real_listing_is_parsed_and_built_again() -> None:
    lines = REAL_LISTING.read_text().splitlines()
    assert len(lines) == 32
    segments = set()
    for line in lines:
        key = line.rpartition(" ")[0]
        parsed = LAYOUT.parse(key)
        assert parsed is not None, key
        stem, _, suffix = key.partition(".")
        assert f".{suffix}" in LAYOUT.suffixes
        assert parsed.topic_id_partition.partition == 0
        start_offset = int(stem.rpartition("/")[2][:20])
        metadata = replace(segment(), remote_log_segment_id=parsed, start_offset=start_offset)
        assert LAYOUT.segment_stem(metadata) == stem
        segments.add((parsed.topic_id_partition.topic, start_offset))
    assert segments == {("epochs", 0), ("epochs", 61), *(("txn-topic", n) for n in (0, 16, 32, 48))}


@given(
    topic=topic_names,
    partition=st.integers(0, 2**31 - 1),
    topic_id=st.uuids(),
    segment_id=st.uuids(),
    start=st.integers(0, 2**63 - 1),
    index_type=st.sampled_from([None, *IndexType]),
)
def test_keys_round_trip(
    topic: str, partition: int, topic_id: UUID, segment_id: UUID, start: int, index_type: IndexType | None
) -> None:
    metadata = segment(topic=topic, topic_id=topic_id, partition=partition, start=start)
    wanted = replace(metadata.remote_log_segment_id, id=segment_id)
    key = LAYOUT.object_key(replace(metadata, remote_log_segment_id=wanted), index_type)
    assert LAYOUT.parse(key) == wanted
    assert LAYOUT.topic_id_of_directory(key.rpartition("/")[0]) == topic_id
    assert LAYOUT.topic_id_of_directory(LAYOUT.partition_prefix(wanted.topic_id_partition)) == topic_id


@given(st.text())
def test_no_text_makes_the_parser_fail(key: str) -> None:
    assert LAYOUT.parse(key) is None


@given(topic=st.text())
def test_no_topic_name_leaves_the_prefix(topic: str) -> None:
    try:
        prefix = LAYOUT.partition_prefix(segment(topic=topic).remote_log_segment_id.topic_id_partition)
    except UnsafeObjectKeyError:
        assert not is_legal_topic_name(topic)
    else:
        assert prefix.startswith("kafka-tiered-storage/")
        assert prefix.count("/") == 2
        assert ".." not in prefix.split("/")


@pytest.mark.parametrize("topic", ["a-1-2", "0-0", "-", "a--1", f"x-3-{ID}", "...", "a.b_c", "x" * 249])
def test_awkward_but_legal_topic_names(topic: str) -> None:
    for topic_id in (UUID(int=0xFB << 120), UUID(int=2**128 - 1), parse_kafka_uuid("-_-_-_-_-_-_-_-_-_-_-A")):
        metadata = segment(topic=topic, topic_id=topic_id, partition=12)
        assert LAYOUT.parse(LAYOUT.object_key(metadata, None)) == metadata.remote_log_segment_id


@pytest.mark.parametrize("topic", ILLEGAL_TOPIC_NAMES)
def test_illegal_topic_names_are_refused(topic: str) -> None:
    bad = segment(topic=topic)
    with pytest.raises(
        UnsafeObjectKeyError, match=kafka_uuid_str(bad.remote_log_segment_id.topic_id_partition.topic_id)
    ):
        LAYOUT.required_keys(bad)


@pytest.mark.parametrize("partition", [-1, 2**31])
def test_illegal_partitions_are_refused(partition: int) -> None:
    with pytest.raises(UnsafeObjectKeyError, match=str(partition)):
        LAYOUT.segment_stem(segment(partition=partition))


@pytest.mark.parametrize("start", [-1, 2**63])
def test_illegal_start_offsets_are_refused(start: int) -> None:
    with pytest.raises(UnsafeObjectKeyError, match=str(start)):
        LAYOUT.segment_stem(segment(start=start))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "airflow-provider-rlmm.json",
        GOOD_KEY.removeprefix("kafka-tiered-storage/"),
        f"x/{GOOD_KEY}",
        f"/{GOOD_KEY}",
        f"{GOOD_KEY}/",
        GOOD_KEY.replace("a-0-", "a-00-"),
        GOOD_KEY.replace("a-0-", "-0-"),
        GOOD_KEY.replace("a-0-", "..-0-"),
        GOOD_KEY.replace("a-0-", "a-٣-"),
        GOOD_KEY.replace("a-0-", "a-2147483648-"),
        GOOD_KEY.replace("a-0-", "x" * 250 + "-0-"),
        GOOD_KEY.replace(f"{ID}/", f"{ID[:-1]}R/"),
        GOOD_KEY.replace(f"{ID}.", f"{ID[:-1]}R."),
        GOOD_KEY.replace(f"{ID}.log", f"{ID}log"),
        GOOD_KEY.replace(f"{ID}.log", f"{ID}."),
        GOOD_KEY.replace(f"{ID}.log", f"{ID}x.log"),
        GOOD_KEY.replace(f"{0:020d}", f"{0:019d}"),
        GOOD_KEY.replace(f"{0:020d}", "9" * 20),
        GOOD_KEY.replace("/0", "/sub/0", 1),
        GOOD_KEY.upper(),
    ],
)
def test_foreign_keys_are_not_parsed(key: str) -> None:
    assert LAYOUT.parse(GOOD_KEY) is not None
    assert key != GOOD_KEY
    assert LAYOUT.parse(key) is None


def test_unknown_suffix_is_parsed_but_not_known() -> None:
    assert LAYOUT.parse(GOOD_KEY.replace(".log", ".log.deleted")) == LAYOUT.parse(GOOD_KEY)
    assert ".log.deleted" not in LAYOUT.suffixes


def test_required_keys() -> None:
    keys = LAYOUT.required_keys(segment(1))
    assert {k.partition(".")[2] for k in keys} == {
        "log",
        "index",
        "timeindex",
        "snapshot",
        "leader_epoch_checkpoint",
    }
    every = {LAYOUT.object_key(segment(1), index_type) for index_type in (None, *IndexType)}
    assert every - set(keys) == {LAYOUT.object_key(segment(1), IndexType.TRANSACTION)}


@pytest.mark.parametrize("directory", ["", "kafka-tiered-storage/", "kafka-tiered-storage/x", "other/a-0-" + ID])
def test_foreign_directories_have_no_topic_id(directory: str) -> None:
    assert LAYOUT.topic_id_of_directory(directory) is None


def test_a_layout_below_another_prefix_is_the_same_in_all_else() -> None:
    files = {None: ".log", IndexType.OFFSET: ".index"}
    template = TemplateLayout(
        "ours", "{topic}/{topic_id}/{partition}/{segment_id}", {".log": True, ".index": True}, files=files
    )
    below = template.below("former/")
    assert [place.prefix for place in below.places] == ["former/"]
    for kind in files:
        assert below.object_key(segment(1), kind) == f"former/{template.object_key(segment(1), kind)}"


def test_layouts_are_found_by_name() -> None:
    assert isinstance(layout_named("local-tiered-storage"), LocalTieredStorageLayout)
    with pytest.raises(ConfigurationError, match=r"'s3'.*local-tiered-storage"):
        layout_named("s3")
