# SPDX-License-Identifier: Apache-2.0
"""`rlmm verify` over the in-process log and an in-memory store: what it finds, what it says, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import ArchivedObjectError, EncryptedSegmentError, StorageAccessError
from airflow_provider_rlmm.core.plans.prices import money
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, kafka_uuid_str
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.storage.index_type import IndexType
from tests.segment_damage import flipped
from tests.tiered_orders import ORDERS, START_MS, TieredOrders

Report = dict[str, Any]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TieredOrders:
    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(START_MS, system_clock(), "a test", proven=True))

    fake = TieredOrders()
    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr(RemoteLogAccess, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogAccess, "check_cluster", lambda self, *_: "cluster-1")
    monkeypatch.setattr(RemoteLogAccess, "get_event_log", lambda self: nullcontext(fake.log))
    monkeypatch.setattr(RemoteLogAccess, "get_cluster_topics", lambda self: fake.topics)
    monkeypatch.setattr(StorageAccess, "get_storage_manager", lambda self: fake.storage)
    return fake


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Report]]:
    def verified(*options: str) -> tuple[int, Report]:
        code = run(["verify", *options, "--json", "--at-once", "1"])
        return code, json.loads(capsys.readouterr().out)

    return verified


def change(world: TieredOrders, segment: RemoteLogSegmentMetadata, part: IndexType | None, data: bytes | None) -> None:
    """Put other bytes in the place of an object, or take it away."""
    key = world.storage.layout.object_key(segment, part)
    if data is None:
        world.storage.delete_objects([key])
    else:
        world.storage.put_object(key, data)


def counts(report: Report) -> dict[str, int]:
    return {name: amount["segments"] for name, amount in report["outcomes"].items() if amount["segments"]}


def test_what_brokers_wrote_is_right(world: TieredOrders, verify: Callable[..., tuple[int, Report]]) -> None:
    code, report = verify()
    assert (code, counts(report)) == (0, {"RIGHT": 6})
    assert (
        report["copied"]
        == report["chosen"]
        == {
            "segments": 6,
            "bytes": sum(segment.segment_size_in_bytes for segment in world.segments),
        }
    )
    assert (report["segments"], report["findings"], report["log_in_doubt"]) == ([], [], "")


def test_a_flipped_bit_is_named_with_its_byte_and_ends_in_red(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]], capsys: pytest.CaptureFixture[str]
) -> None:
    segment = world.segments[1]
    log = world.storage.fetch_log_segment(segment, 0)
    change(world, segment, None, flipped(log, 8 * 100))
    code, report = verify()
    assert (code, counts(report)) == (4, {"RIGHT": 5, "DAMAGED": 1})
    (finding,) = report["findings"]
    assert (finding["kind"], finding["part"], finding["position"]) == ("CHECKSUM", "log", 0)
    assert finding["segment_id"] == kafka_uuid_str(segment.remote_log_segment_id.id)
    (named,) = report["segments"]
    assert (named["topic"], named["partition"], named["start_offset"]) == ("orders", 0, 30)

    assert run(["verify"]) == 4
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("needs a person: 1 segment is DAMAGED (orders-0 from offset 30")


def test_an_index_of_the_segment_before_is_damage(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]]
) -> None:
    other = world.storage.fetch_index(world.segments[0], IndexType.TIMESTAMP)
    change(world, world.segments[1], IndexType.TIMESTAMP, other)
    code, report = verify()
    assert (code, counts(report)) == (4, {"RIGHT": 5, "DAMAGED": 1})
    assert {finding["part"] for finding in report["findings"]} == {"timestamp"}


@pytest.mark.parametrize("part", [None, IndexType.OFFSET])
def test_an_object_that_is_not_there_is_missing(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]], part: IndexType | None
) -> None:
    change(world, world.segments[2], part, None)
    code, report = verify()
    assert (code, counts(report)) == (4, {"RIGHT": 5, "MISSING": 1})
    assert report["segments"][0]["why"]


@pytest.mark.parametrize("part", [None, IndexType.OFFSET])
def test_what_was_deleted_meanwhile_is_no_damage(
    world: TieredOrders,
    verify: Callable[..., tuple[int, Report]],
    monkeypatch: pytest.MonkeyPatch,
    part: IndexType | None,
) -> None:
    segment, fetch = world.segments[2], world.storage.fetch_index

    def deleting(metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        if metadata.remote_log_segment_id == segment.remote_log_segment_id:
            change(world, segment, part, None)
            if metadata not in gone:
                gone.append(metadata)
                world.update(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        return fetch(metadata, index_type)

    gone: list[RemoteLogSegmentMetadata] = []
    monkeypatch.setattr(world.storage, "fetch_index", deleting)
    code, report = verify()
    assert (code, counts(report)) == (0, {"RIGHT": 5, "GONE": 1})
    assert report["findings"] == []


def test_damage_on_the_way_is_looked_at_twice(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, asked = world.storage.fetch_log_segment, []

    def once_flipped(metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> bytes:
        asked.append(metadata)
        data = fetch(metadata, start, end)
        return flipped(data, 800) if len(asked) == 1 else data

    monkeypatch.setattr(world.storage, "fetch_log_segment", once_flipped)
    code, report = verify()
    assert (code, counts(report)) == (0, {"RIGHT": 6})
    assert len(asked) == 7


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (EncryptedSegmentError("encrypted"), "ENCRYPTED", 0),
        (ArchivedObjectError("in an archive tier"), "ARCHIVED", 0),
        (StorageAccessError("forbidden"), "UNREAD", 4),
    ],
)
def test_what_cannot_be_judged_is_counted_and_never_called_right(
    world: TieredOrders,
    verify: Callable[..., tuple[int, Report]],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    outcome: str,
    code: int,
) -> None:
    fetch, segment = world.storage.fetch_log_segment, world.segments[4]

    def refusing(metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> bytes:
        if metadata.remote_log_segment_id == segment.remote_log_segment_id:
            raise error
        return fetch(metadata, start, end)

    monkeypatch.setattr(world.storage, "fetch_log_segment", refusing)
    ended, report = verify()
    assert (ended, counts(report)) == (code, {"RIGHT": 5, outcome: 1})
    assert report["segments"][0]["outcome"] == outcome
    assert report["topics"][0]["needs_person"] == (code == 4)


def test_where_nothing_could_be_looked_at_it_is_red(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object) -> bytes:
        raise EncryptedSegmentError("encrypted")

    monkeypatch.setattr(world.storage, "fetch_index", refusing)
    code, report = verify()
    assert (code, counts(report)) == (4, {"ENCRYPTED": 6})


def test_samples_cover_all_in_turn(world: TieredOrders, verify: Callable[..., tuple[int, Report]]) -> None:
    for segment in world.segments:
        change(world, segment, IndexType.OFFSET, None)
    seen = set()
    for _ in range(3):
        code, report = verify("--share", "0.33", "--seed", "the same")
        assert (code, counts(report)) == (4, {"MISSING": 2})
        assert report["chosen"]["segments"] == 2
        seen |= {segment["segment_id"] for segment in report["segments"]}
    assert len(seen) == 6


def test_one_topic_by_name_or_id_and_one_that_is_not_there(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]]
) -> None:
    for topic in ("orders", kafka_uuid_str(ORDERS[0].topic_id)):
        assert counts(verify("--topic", topic)[1]) == {"RIGHT": 6}
    code, report = verify("--topic", "clicks", "--topic", "orders")
    assert (code, counts(report), report["not_found"]) == (4, {"RIGHT": 6}, ["clicks"])


def test_a_topic_that_nothing_knows_is_an_error_with_the_nearest_names(
    world: TieredOrders, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "--topic", "order"]) == 1
    assert "knows a topic of the name or id 'order'; did you mean 'orders'?" in capsys.readouterr().err


def test_segments_whose_add_is_lost_are_said(
    monkeypatch: pytest.MonkeyPatch, world: TieredOrders, verify: Callable[..., tuple[int, Report]]
) -> None:
    lossy = TieredOrders(without_add=[(1, 2)])
    monkeypatch.setattr(RemoteLogAccess, "get_event_log", lambda self: nullcontext(lossy.log))
    monkeypatch.setattr(StorageAccess, "get_storage_manager", lambda self: lossy.storage)
    code, report = verify()
    assert (code, counts(report)) == (4, {"RIGHT": 5})
    assert report["log_in_doubt"].startswith("1 segment is named")


def test_requests_bytes_and_cost_are_said_before_anything_is_fetched(
    world: TieredOrders, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = '{"STANDARD": {"per_gb_month": "0.023", "per_1000_reads": "0.4", "per_gb_read": "100"}}'
    monkeypatch.setenv("RLMM_PRICES", prices)

    said: list[str] = []

    def encrypted(*_: object) -> bytes:
        said.append(capsys.readouterr().err)
        raise EncryptedSegmentError("encrypted")

    monkeypatch.setattr(world.storage, "fetch_index", encrypted)
    assert run(["verify", "--at-once", "1"]) == 4
    size = sum(segment.segment_size_in_bytes for segment in world.segments)
    cost = (42 * 400_000 + 500) // 1000 + round(size * 100_000_000 / 2**30)
    assert "rlmm: 6 segments are looked at by about 42 reads of" in said[0]
    assert f"costs {money(cost)}" in said[0]


def test_of_a_connection_in_an_archive_tier_nothing_is_fetched(
    world: TieredOrders, verify: Callable[..., tuple[int, Report]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLMM_STORAGE_CLASS", "DEEP_ARCHIVE")
    code, report = verify()
    assert (code, counts(report), report["requests"]) == (4, {"ARCHIVED": 6}, 0)
