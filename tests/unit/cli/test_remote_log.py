# SPDX-License-Identifier: Apache-2.0
"""`rlmm read` and `rlmm find-offset` over the in-process log and an in-memory store."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.cli.main import run
from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.core.records.read_tail import KEPT
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from tests.tiered_orders import METADATA_PARTITIONS, ORDERS, START_MS, TieredOrders, batches, record

ORDERS_ID = kafka_uuid_str(ORDERS[0].topic_id)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TieredOrders:
    def proven(self: Any, log: Any, **_: Any) -> ProvenClock:
        return ProvenClock(lambda: TimeProof(START_MS, system_clock(), "a test", proven=True))

    monkeypatch.setenv("RLMM_BOOTSTRAP_SERVER", "b:9092")
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))
    monkeypatch.setattr(RemoteLogAccess, "get_proven_clock", proven)
    monkeypatch.setattr(RemoteLogAccess, "check_cluster", lambda self, *_: "cluster-1")
    return put_behind(monkeypatch, TieredOrders())


def put_behind(monkeypatch: pytest.MonkeyPatch, fake: TieredOrders) -> TieredOrders:
    """Let the command find this topic."""
    for kind, name, value in (
        (RemoteLogAccess, "get_event_log", nullcontext(fake.log)),
        (RemoteLogAccess, "get_cluster_topics", fake.topics),
        (StorageAccess, "get_storage_manager", fake.storage),
    ):
        monkeypatch.setattr(kind, name, lambda self, value=value: value)
    return fake


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run([*arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def as_printed(partition: int, offset: int) -> dict[str, Any]:
    row = record(offset)
    headers = [{"key": key, "value": encoded(value)} for key, value in row.headers]
    return {
        "partition": partition, "offset": offset, "timestamp": row.timestamp, "key": encoded(row.key),
        "value": encoded(row.value), "headers": headers,
    }  # fmt: skip


def test_records_are_printed_one_a_line(world: TieredOrders, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "read", "orders") == [as_printed(p, offset) for p in (0, 1) for offset in range(90)]
    some = lines(capsys, "read", ORDERS_ID, "1", "--from-offset", "28", "--to-offset", "33", "--limit", "4")
    assert some == [as_printed(1, offset) for offset in range(28, 32)]
    timed = lines(
        capsys, "read", "orders", "0", "--from-time", "2023-11-14T22:13:23Z", "--to-time", str(START_MS + 5_000)
    )
    assert timed == [as_printed(0, 3), as_printed(0, 4)]


@pytest.mark.slow
def test_people_get_text_and_not_more_than_they_can_look_at(
    world: TieredOrders, capsys: pytest.CaptureFixture[str]
) -> None:
    world.copy(ORDERS[0], batches(90, 5))
    assert run(["read", "orders", "0"]) == 0
    printed = capsys.readouterr().out
    assert "value 99" in printed
    assert "value 100" not in printed
    assert "2023-11-14 22:13:20 UTC" in printed
    assert "n=17" in printed
    assert "there are more than 100: --limit prints more" in printed
    assert run(["read", "orders", "0", "--limit", "140"]) == 0
    printed = capsys.readouterr().out
    assert "value 139" in printed
    assert "there are more" not in printed


def test_records_go_into_files(world: TieredOrders, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = lines(capsys, "read", "orders", "--output", str(tmp_path / "out"), "--bytes-per-second", "1000000000")
    assert [(row["partition"], row["records"], row["start"], row["end"]) for row in found] == [
        (0, 90, 0, 90),
        (1, 90, 0, 90),
    ]
    assert [row["first_offset"] for row in found] == [0, 0]
    assert pq.read_table(found[1]["file"]).column("offset").to_pylist() == list(range(90))
    assert run(["read", "orders", "--output", str(tmp_path / "out")]) == 0
    assert "180 records" in capsys.readouterr().out


def test_the_metadata_topic_is_read_once_and_what_an_earlier_run_has_left_is_no_whole_history(
    world: TieredOrders, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, asked, read_many = sum(world.log.high_water_marks().values()), list[int](), world.log.read_many

    def counted(ranges: Mapping[int, tuple[int, int]]) -> Any:
        asked.append(sum(end - start for start, end in ranges.values()))
        return read_many(ranges)

    monkeypatch.setattr(world.log, "read_many", counted)
    first = lines(capsys, "read", "orders", "--limit", "1000")
    assert held <= sum(asked) <= held + KEPT * METADATA_PARTITIONS
    assert len(first) == 2 * 90
    # The first has left a snapshot, in which segments have no history.
    assert lines(capsys, "read", "orders", "--limit", "1000") == first


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["read", "orders", "--from-offset", "3"], 2, "an offset is one of a partition: give PARTITION, too"),
        (["read", "orders", "0", "--limit", "3", "--output", "x"], 2, "--limit is for what is printed"),
        (["read", "orders", "0", "--from-offset", "5", "--to-offset", "4"], 1, "the end, 4, lies before the start, 5"),
        (["read", "orders", "0", "--from-offset", "5", "--from-time", "4"], 1, "as an offset and as a time"),
        (["read", "orders", "0", "--from-time", "yesterday"], 2, "a time with its zone"),
        (["find-offset", "orders", "2023-11-14T22:13:20"], 2, "has no zone"),
        (["read", "orders", "0", "--to-offset", "91"], 1, "offset 90 of"),
        (["read", "payments"], 1, "names no topic 'payments'"),
        (["read", "order"], 1, "nothing of it was ever copied; did you mean 'orders'?"),
        (["find-offset", "Orders", "0"], 1, "did you mean 'orders'?"),
        (["find-offset", "orders", "5", "--partition", "4"], 1, "names no partitions [4]"),
    ],
)
def test_what_cannot_be_read_has_a_line(
    world: TieredOrders, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert said in " ".join(captured.err.split())
    assert captured.out == ""


@pytest.mark.parametrize(
    ("segments", "number"), [(3, 0), (3, 2), (1, 0)], ids=["the first", "the last", "the only one"]
)
@pytest.mark.parametrize("files", [False, True], ids=["printed", "into files"])
def test_a_segment_whose_add_is_missing_shortens_nothing(
    monkeypatch: pytest.MonkeyPatch,
    world: TieredOrders,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    segments: int,
    number: int,
    files: bool,
) -> None:
    put_behind(monkeypatch, TieredOrders(segments=segments, without_add={(1, number)}))
    options = ["--output", str(tmp_path / "out")] if files else []
    assert run(["read", "orders", *options, "--allow-incomplete"]) == 1
    captured = capsys.readouterr()
    assert "1 segment of" in captured.err
    assert "has an incomplete history" in " ".join(captured.err.split())
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
    assert run(["read", "orders", "0", *options]) == 0


@pytest.fixture
def compacted(monkeypatch: pytest.MonkeyPatch, world: TieredOrders) -> TieredOrders:
    """A metadata topic that has lost the add of the first segment of partition 1, and all of partition 2."""
    fake = put_behind(monkeypatch, TieredOrders(without_add={(1, 0)}))
    fake.log.policy = frozenset({"compact"})
    fake.topics.starts = {0: 0, 1: 7, 2: 5}
    return fake


_DOUBT = "the metadata topic is compacted: its cleanup.policy is compact. What it does not say may have been said"


@pytest.mark.parametrize("files", [False, True], ids=["printed", "into files"])
def test_a_compacted_log_is_read_for_what_it_names_and_nobody_calls_it_whole(
    compacted: TieredOrders, capsys: pytest.CaptureFixture[str], tmp_path: Path, files: bool
) -> None:
    options = ["--output", str(tmp_path / "out")] if files else ["--limit", "1000"]
    assert run(["read", "orders", *options, "--json"]) == 4
    captured = capsys.readouterr()
    # The first line says where the settings come from.
    rows, said = [json.loads(line) for line in captured.out.splitlines()], captured.err.splitlines()[1:]
    if files:
        assert [(row["partition"], row["start"], row["end"]) for row in rows] == [(0, 0, 90), (1, 30, 90)]
    else:
        assert rows == [as_printed(p, offset) for p, first in ((0, 0), (1, 30)) for offset in range(first, 90)]
    assert _DOUBT in said[0]
    unknown = "1 segment is named whose contents are not known"
    assert said[1:] == [
        "rlmm: partition 0: read from offset 0 on; ListOffsets: it begins at offset 0",
        f"rlmm: partition 1: read from offset 30 on; ListOffsets: it begins at offset 7; {unknown}",
        "rlmm: partition 2: nothing was read; ListOffsets: it begins at offset 5",
    ]
    assert run(["read", "orders", "1", *options, "--from-offset", "40"]) == 4
    printed = capsys.readouterr().out
    assert _DOUBT in printed
    assert "partition 1: read from offset 40 on; ListOffsets: it begins at offset 7" in printed
    assert "partition 0:" not in printed


def test_of_a_topic_that_is_gone_nobody_knows_where_it_began(
    compacted: TieredOrders, capsys: pytest.CaptureFixture[str]
) -> None:
    compacted.topics.delete("orders")
    compacted.topics.create("orders")
    assert run(["read", ORDERS_ID, "0"]) == 4
    assert "partition 0: read from offset 0 on; the cluster shows no such topic id" in capsys.readouterr().out


def test_a_compacted_log_that_has_lost_its_beginning_or_a_search_in_it_is_refused(
    compacted: TieredOrders, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["find-offset", "orders", "5"]) == 1
    assert "records may be gone from anywhere" in " ".join(capsys.readouterr().err.split())
    compacted.log.truncate(metadata_partition_for(ORDERS[0], METADATA_PARTITIONS), 1)
    assert run(["read", "orders", "0"]) == 1
    assert "begins at offset 1" in " ".join(capsys.readouterr().err.split())


def test_offsets_are_found_by_time(world: TieredOrders, capsys: pytest.CaptureFixture[str]) -> None:
    world.copy(ORDERS[1], batches(90, 1))
    time = str(START_MS + 89_001)
    found = lines(capsys, "find-offset", "orders", time)
    assert found == [
        {"partition": 0},
        {"partition": 1, "offset": 90, "timestamp_ms": START_MS + 90_000, "leader_epoch": 0},
    ]
    assert lines(capsys, "find-offset", "orders", "2023-11-14T22:13:20Z", "--partition", "0")[0]["offset"] == 0
    assert run(["find-offset", "orders", time]) == 0
    printed = capsys.readouterr().out
    assert "2023-11-14 22:14:50 UTC" in printed
    assert "remote storage has no such record of partitions [0]" in printed
