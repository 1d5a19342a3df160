# SPDX-License-Identifier: Apache-2.0
"""Aiven's keys and custom metadata, as its plugin wrote and read them on a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ConfigurationError, MalformedMetadataError, UnsafeObjectKeyError
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.aiven_metadata import read_custom_metadata, without_other_prefix
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from tests.builders import Cluster, add, reasons, tip, update
from tests.scrub_rows import missing_of, objects_of
from tests.unit.features.scrub.test_scrub_plan import Scrubs

RECORDED = Path(__file__).parents[3] / "data" / "aiven"
GOLDEN = [json.loads(line) for line in (RECORDED / "golden_custom_metadata.jsonl").read_text().splitlines()]
FIELDS = ("remote_size", "object_prefix", "object_key")


def custom_of(case: dict[str, Any]) -> bytes | None:
    return bytes.fromhex(case["custom_hex"]) if case.get("custom_hex") else None


def metadata_of(case: dict[str, Any]) -> RemoteLogSegmentMetadata:
    tip = TopicIdPartition(parse_kafka_uuid(case["topic_id"]), case["topic"], case["partition"])
    start = case["start_offset"]
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, parse_kafka_uuid(case["segment_id"])), start, start, 0, 1, 0, 1, custom_of(case),
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED, ((0, start),),
    )  # fmt: skip


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["case"]))
def test_custom_metadata_is_read_as_the_plugin_reads_it(case: dict[str, Any]) -> None:
    if "decode_error" in case:
        with pytest.raises(MalformedMetadataError):
            read_custom_metadata(custom_of(case))
        return
    read = read_custom_metadata(custom_of(case))
    found = {name: value for name in FIELDS if (value := getattr(read, name)) is not None}
    assert found == {name.lower(): value for name, value in case["decoded"].items() if name.lower() in FIELDS}


@pytest.mark.parametrize("case", [c for c in GOLDEN if c["kind"] == "valid"], ids=lambda case: str(case["case"]))
def test_keys_are_those_that_the_plugin_writes_and_deletes(case: dict[str, Any]) -> None:
    try:
        layout = AivenLayout(case["configured_prefix"])
    except ConfigurationError:
        assert "//" in case["configured_prefix"] or case["configured_prefix"].startswith("/")
        return
    metadata, [place] = metadata_of(case), layout.places
    keys = {layout.segment_stem(metadata, place) + suffix for suffix in layout.suffixes}
    assert keys == set(case["keys_written_and_deleted"].values())
    assert {layout.parse(key) for key in keys} == {metadata.remote_log_segment_id}


def test_a_copy_lies_where_its_custom_metadata_says_or_nowhere() -> None:
    [case] = [c for c in GOLDEN if c["kind"] == "valid" and len(c["decoded"]) == 3][:1]
    metadata, prefix = metadata_of(case), read_custom_metadata(custom_of(case)).object_prefix
    assert prefix is not None
    layout = AivenLayout("now/", ("then", prefix))
    [place] = layout.places_of(metadata)
    assert layout.segment_stem(metadata) == prefix + case["main_path"]
    assert place == layout.places[2]
    with pytest.raises(UnsafeObjectKeyError, match=r"neither key_prefix nor one of former_key_prefixes; its bytes are"):
        AivenLayout("now/").places_of(metadata)


@pytest.mark.parametrize("prefix", ["/kp", "a//b", "a/./b", "../a", "a/..", "/", "a\nb"])
def test_a_prefix_that_stores_cannot_address_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the key prefix .* is refused"):
        AivenLayout(prefix)


def recorded_run() -> tuple[Cluster, list[dict[str, Any]]]:
    """The cluster of the recorded run: three prefixes, of which one is configured now."""
    expected = json.loads((RECORDED / "expected.json").read_text())
    records = [json.loads(line) for line in (RECORDED / "metadata.jsonl").read_text().splitlines()]
    layout = AivenLayout(expected["configured_prefix_now"], ("", "flat"))
    cluster = Cluster(1 + max(r["partition"] for r in records), living_topic=False, layout=layout)
    for record in records:
        cluster.log.append(record["partition"], bytes.fromhex(record["value_hex"]))
    for line in (RECORDED / "listing.txt").read_text().splitlines():
        key, _, size = line.partition("\t")
        cluster.storage.put_object(key, b"x" * int(size))
    for name, topic_id in expected["live_topics"].items():
        cluster.topics.create(name, parse_kafka_uuid(topic_id))
    return cluster, expected["segments"]


@pytest.mark.slow
def test_a_recorded_run_is_cleaned_and_nothing_living_is_touched() -> None:
    cluster, segments = recorded_run()
    before = set(cluster.storage.keys)
    orphaned = [s for s in segments if s["verdict"].startswith("orphan")]
    goes = {key for s in orphaned for key in s["objects_present"]}
    cluster.mark_and_wait()
    rows = cluster.plan().rows.to_pylist()
    assert {row["segment_id"] for row in rows} == {parse_kafka_uuid(s["segment_id"]).bytes for s in orphaned}
    for number in range(cluster.log.partition_count):
        cluster.clean(number)
    left = {key for key in cluster.storage.keys if not key.startswith("airflow-provider-rlmm/")}
    assert before - left == goes
    assert not cluster.plan().rows.num_rows
    finished = [words for n in range(cluster.log.partition_count) for words in cluster.states(n)]
    assert finished.count("DELETE_SEGMENT_FINISHED") == len(orphaned)


def custom_prefix(prefix: str) -> bytes:
    """Custom metadata that names nothing but a prefix."""
    text = prefix.encode()
    return bytes([1, 1, len(text) + 1, len(text) + 1]) + text


def test_a_copy_that_points_elsewhere_stays_and_nothing_is_written_about_it() -> None:
    cluster = Cluster(layout=AivenLayout("now/", ["then"]))
    now, then = cluster.layout.places
    gone = tip("gone", 0, 7)
    for number, (prefix, place) in enumerate((("now/", now), ("elsewhere/", now), ("then", then))):
        cluster.foreign(add(gone, number))
        event = update(gone, number, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, custom_metadata=custom_prefix(prefix))
        cluster.foreign(event)
        for key in cluster.layout.required_keys(add(gone, number), place):
            cluster.storage.put_object(key, b"x")
    stays = set(cluster.layout.required_keys(add(gone, 1), now))
    cluster.mark_and_wait()
    report = cluster.clean()
    assert {key for key in cluster.storage.keys if "/gone-" in key or "thengone-" in key} == stays
    assert "its prefix 'elsewhere/' is neither key_prefix nor one of former_key_prefixes" in reasons(report)
    about = [words for words in cluster.ours() if "DELETE_SEGMENT" in words and "D6Q" in words]
    assert about == []
    assert "DELETE_PARTITION_FINISHED" not in cluster.states()


def test_a_scrub_of_the_recorded_run_finds_what_its_metadata_forgot() -> None:
    cluster, segments = recorded_run()
    found = scrub(cluster.log, cluster.topics, cluster.storage, known=(), clock=cluster.clock)
    expected = {
        key: (ScrubClass.FINISHED if s["verdict"].startswith("leaked") else
              ScrubClass.COPY_NEVER_FINISHED if s["verdict"].startswith("dangling") else ScrubClass.IN_USE)
        for s in segments for key in s["objects_present"]
    }  # fmt: skip
    others = {key: kind for key, kind in expected.items() if kind is not ScrubClass.IN_USE}
    assert {row["key"]: row["class"] for row in objects_of(found)} == others
    assert (found.listed.objects, found.in_use.objects) == (len(expected), len(expected) - len(others))
    assert (missing_of(found), found.foreign, dict(found.incomplete)) == ([], (), {})


@pytest.mark.slow
def test_a_plan_of_the_recorded_run_deletes_what_a_changed_prefix_left_behind(tmp_path: Path) -> None:
    cluster, segments = recorded_run()
    scrubs, before = Scrubs(tmp_path, cluster), set(cluster.storage.keys)
    leaked = {key for s in segments if s["verdict"].startswith("leaked") for key in s["objects_present"]}
    events = dict(cluster.log.high_water_marks())
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == leaked
    scrubs.delete()
    assert before - set(cluster.storage.keys) == leaked
    assert dict(cluster.log.high_water_marks()) == events
    assert scrubs.scrub()[0].classes.keys() == {ScrubClass.IN_USE, ScrubClass.COPY_NEVER_FINISHED}


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: str(case["case"]))
def test_columns_call_no_prefix_ours_that_the_reader_calls_another(case: dict[str, Any]) -> None:
    custom = custom_of(case)
    try:
        prefix = read_custom_metadata(custom).object_prefix
    except MalformedMetadataError:
        prefix = None
    column = pa.chunked_array([pa.array([custom], pa.binary())])
    for ours in {"", "kp/", "now/", prefix or ""}:
        [settled] = without_other_prefix(column, [ours]).to_pylist()
        assert not settled or prefix in (None, ours), case
        assert settled or case["kind"] != "valid" or prefix not in (None, ours), "the fast way knows what is common"


@given(
    prefix=st.text(max_size=300).filter(lambda text: text.isprintable()),
    size=st.none() | st.integers(0, 2**62),
    key=st.none() | st.text(alphabet="abc/", max_size=200),
)
def test_columns_and_the_reader_say_the_same_of_any_prefix(prefix: str, size: int | None, key: str | None) -> None:
    fields = []
    if size is not None:
        fields.append(b"\x00" + tagged(varlong(size)))
    fields.append(b"\x01" + tagged(compact(prefix)))
    if key is not None:
        fields.append(b"\x02" + tagged(compact(key)))
    custom = bytes([len(fields)]) + b"".join(fields)
    assert read_custom_metadata(custom).object_prefix == prefix
    column = pa.chunked_array([pa.array([custom, None, b"", custom[:-1]], pa.binary())])
    assert without_other_prefix(column, [prefix]).to_pylist()[:3] == [True, True, True]
    assert without_other_prefix(column, [prefix + "x", "y" + prefix]).to_pylist()[:3] == [False, True, True]


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def varlong(value: int) -> bytes:
    return varint(value << 1)


def compact(text: str) -> bytes:
    return varint(len(text.encode()) + 1) + text.encode()


def tagged(value: bytes) -> bytes:
    return varint(len(value)) + value
