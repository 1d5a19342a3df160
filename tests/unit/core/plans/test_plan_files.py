# SPDX-License-Identifier: Apache-2.0
"""Plans on disk: only the very bytes that were written are ever taken for the plan."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans import plan_files
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanFile, PlanSummary, Reason, plan_file_name
from airflow_provider_rlmm.core.plans.plan_files import (
    orphaned_partitions,
    planned_segments,
    read_document,
    read_plan,
    write_document,
    write_plan,
)
from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
from airflow_provider_rlmm.features.cleanup.planner import Plan
from tests.builders import Cluster, tip
from tests.examples import examples

TIPS = [tip("gone", number) for number in range(4)]
PARTITIONS = 3


@pytest.fixture
def plan() -> Plan:
    """A plan of four user partitions with three segments each, in more than one metadata partition."""
    cluster = Cluster(PARTITIONS)
    for number, gone in enumerate(TIPS):
        for segment in range(3):
            cluster.segment(gone, 10 * number + segment)
    cluster.mark_and_wait()
    plan = cluster.plan()
    assert len(plan.summary.by_metadata_partition) > 1
    return replace(plan, summary=plan.summary.judged_by(BlastRadius(max_share=1.0)))


@pytest.fixture(params=["path", "file URI"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    folder = tmp_path / "plans" / "one"
    return str(folder) if request.param == "path" else folder.as_uri()


@pytest.fixture
def written(plan: Plan, tmp_path: Path) -> Path:
    write_plan(str(tmp_path), plan.rows, plan.summary)
    return tmp_path


def segments_of(plan: Plan, metadata_partition: int) -> dict[tuple[UUID, int], frozenset[UUID]]:
    found: dict[tuple[UUID, int], frozenset[UUID]] = {}
    for row in plan.rows.to_pylist():
        if row["metadata_partition"] == metadata_partition and row["reason"] == Reason.ORPHANED:
            key = UUID(bytes=row["topic_id"]), row["partition"]
            found[key] = found.get(key, frozenset()) | {UUID(bytes=row["segment_id"])}
    return found


def test_a_plan_comes_back_from_its_files(plan: Plan, uri: str, tmp_path: Path) -> None:
    summary = write_plan(uri, plan.rows, plan.summary)
    folder = tmp_path / "plans/one"
    assert {p.name for p in folder.iterdir()} == {"summary.json", *(f.name for f in summary.files.values())}
    assert read_plan(uri) == summary == replace(plan.summary, files=summary.files)
    assert summary.files.keys() == {metadata_partition_for(gone, PARTITIONS) for gone in TIPS}
    for metadata_partition, file in summary.files.items():
        assert file.name == f"metadata-partition-{metadata_partition}.parquet"
        rows = plan.rows.filter(pc.equal(plan.rows["metadata_partition"], metadata_partition))
        assert pq.read_table(folder / file.name).equals(rows)
        assert planned_segments(uri, summary, metadata_partition) == segments_of(plan, metadata_partition)
    assert orphaned_partitions(uri, summary) == {(gone.topic_id, gone.partition) for gone in TIPS}


def test_a_metadata_partition_is_read_from_its_own_file_alone(written: Path, plan: Plan) -> None:
    summary = read_plan(str(written))
    first, *others = summary.files
    for other in others:
        (written / summary.files[other].name).unlink()
    (written / "metadata-partition-99.parquet").write_bytes(b"of nobody's plan")
    assert planned_segments(str(written), summary, first) == segments_of(plan, first)
    for missing in (others[0], 99):
        with pytest.raises(PlanError, match=r"make a new plan|has no metadata partition 99"):
            planned_segments(str(written), summary, missing)
    with pytest.raises(PlanError, match="cannot be read"):
        orphaned_partitions(str(written), summary)


def test_a_partition_that_only_needs_to_be_finished_has_a_file_without_rows(plan: Plan, tmp_path: Path) -> None:
    nothing = Count(0, 0)
    summary = replace(
        plan.summary, by_reason={"ORPHANED": nothing}, by_metadata_partition={2: nothing}, within_blast_radius=True
    )
    summary = write_plan(str(tmp_path), plan.rows.slice(0, 0), summary)
    assert (summary.files[2].rows, planned_segments(str(tmp_path), read_plan(str(tmp_path)), 2)) == (0, {})


def test_rows_of_other_reasons_are_not_the_cleaner_s(plan: Plan, tmp_path: Path) -> None:
    reasons = [Reason.DANGLING.value] * plan.rows.num_rows
    reasons[-1] = Reason.ORPHANED.value
    position = plan.rows.schema.get_field_index("reason")
    rows = plan.rows.set_column(position, plan.rows.schema.field(position), pa.array(reasons))
    summary = write_plan(str(tmp_path), rows, plan.summary)
    last = rows.to_pylist()[-1]
    key = UUID(bytes=last["topic_id"]), last["partition"]
    found = [planned_segments(str(tmp_path), summary, p) for p in summary.files]
    assert [f for f in found if f] == [{key: {UUID(bytes=last["segment_id"])}}]
    assert orphaned_partitions(str(tmp_path), summary) == {key}


def test_rows_that_the_summary_does_not_count_are_no_plan(plan: Plan, tmp_path: Path) -> None:
    dropped = next(iter(plan.summary.by_metadata_partition))
    parts = {p: c for p, c in plan.summary.by_metadata_partition.items() if p != dropped}
    for rows, summary in (
        (plan.rows, replace(plan.summary, by_metadata_partition=parts)),
        (plan.rows.slice(1), plan.summary),
    ):
        with pytest.raises(PlanError):
            write_plan(str(tmp_path), rows, summary)
        assert not (tmp_path / "summary.json").exists()


# --- other bytes -----------------------------------------------------------------------------------------------------


def flipped(data: bytes, wanted: int) -> Iterator[bytes]:
    bits = range(8 * len(data))
    for bit in random.Random(1).sample(bits, min(wanted, len(bits))):
        copy = bytearray(data)
        copy[bit // 8] ^= 1 << bit % 8
        yield bytes(copy)


def outcome(folder: Path) -> tuple[PlanSummary, list[Any]]:
    summary = read_plan(str(folder))
    return summary, [planned_segments(str(folder), summary, p) for p in sorted(summary.files)]


@pytest.mark.slow
def test_no_flipped_bit_gives_another_plan(written: Path) -> None:
    expected = outcome(written)
    refused = 0
    for path in sorted(written.iterdir()):
        original = path.read_bytes()
        for data in flipped(original, examples(450)):
            path.write_bytes(data)
            try:
                assert outcome(written) == expected
            except PlanError:
                refused += 1
        path.write_bytes(original)
    assert refused >= examples(1_700)
    assert outcome(written) == expected


def test_a_file_of_another_plan_is_refused(plan: Plan, written: Path) -> None:
    summary = read_plan(str(written))
    first, second, *_ = summary.files
    paths = [written / summary.files[p].name for p in (first, second)]
    contents = [path.read_bytes() for path in paths]
    for path, data in zip(paths, reversed(contents), strict=True):
        path.write_bytes(data)
    for metadata_partition in (first, second):
        with pytest.raises(PlanError, match="make a new plan"):
            planned_segments(str(written), summary, metadata_partition)


def test_a_file_that_is_larger_than_its_summary_says_is_not_read(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = read_plan(str(written))
    number, file = next(iter(summary.files.items()))
    with (written / file.name).open("ab") as opened:
        opened.truncate(2**40)
    with pytest.raises(PlanError, match=f"1099511627776 bytes, at most {file.bytes} are expected"):
        planned_segments(str(written), summary, number)
    with (written / "summary.json").open("ab") as opened:
        opened.truncate(2**40)
    with pytest.raises(PlanError, match="at most 67108864 are expected"):
        read_plan(str(written))


Change = Callable[[pa.Table], pa.Table]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop_columns(["segment_id"]), "segment_id"),
        (lambda rows: column(rows, "segment_id", pa.array([b"short"] * len(rows))), "no id of 16 bytes"),
        (lambda rows: column(rows, "topic_id", pa.array([None] * len(rows), pa.binary())), "holds null"),
        (lambda rows: column(rows, "partition", pa.array([0] * len(rows), pa.int64())), "is int64, not int32"),
        (lambda rows: column(rows, "metadata_partition", pa.array([9] * len(rows), pa.int32())), "another metadata"),
        (lambda rows: pa.concat_tables([rows.slice(1), rows.slice(1, 1)]), "names a segment twice"),
        (lambda rows: rows.slice(1), "rows, the plan says"),
    ],
)
def test_rows_that_are_no_rows_of_a_plan_are_refused_though_their_hash_fits(
    written: Path, plan: Plan, change: Change, message: str
) -> None:
    summary = read_plan(str(written))
    number, file = next(iter(summary.files.items()))
    data = plan_files.parquet_bytes(change(pq.read_table(written / file.name)))
    (written / file.name).write_bytes(data)
    bound = replace(summary, files={**summary.files, number: PlanFile.of(plan_file_name(number), file.rows, data)})
    with pytest.raises(PlanError, match=message):
        planned_segments(str(written), bound, number)


def column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


def test_bytes_that_are_no_parquet_are_refused_though_their_hash_fits(written: Path) -> None:
    summary = read_plan(str(written))
    number, file = next(iter(summary.files.items()))
    data = b"PAR1 and then nothing"
    (written / file.name).write_bytes(data)
    bound = replace(summary, files={number: PlanFile.of(plan_file_name(number), file.rows, data)})
    with pytest.raises(PlanError, match="cannot be read"):
        planned_segments(str(written), bound, number)


# --- two at once, and tries that ended in the middle -----------------------------------------------------------------


def test_a_plan_that_is_made_again_takes_the_place_of_the_older_one(plan: Plan, written: Path) -> None:
    again = write_plan(str(written), plan.rows, replace(plan.summary, plan_id="again"))
    assert read_plan(str(written)) == again


def test_of_two_that_write_a_plan_at_once_one_fails(plan: Plan, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = plan_files.create_file

    def overtaken(uri: str, parts: Any) -> None:
        monkeypatch.setattr(plan_files, "create_file", original)
        write_plan(str(written), plan.rows, replace(plan.summary, plan_id="other"))
        original(uri, parts)

    monkeypatch.setattr(plan_files, "create_file", overtaken)
    with pytest.raises(PlanError, match="another try wrote a plan at the same time"):
        write_plan(str(written), plan.rows, plan.summary)
    assert outcome(written)[0].plan_id == "other"


def test_a_plan_that_cannot_be_written_to_its_end_is_none(
    plan: Plan, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(uri: str, parts: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(plan_files, "replace_file", full)
    with pytest.raises(OSError, match="disk full"):
        write_plan(str(written), plan.rows, plan.summary)
    with pytest.raises(PlanError, match="make a new plan"):
        read_plan(str(written))


# --- documents -------------------------------------------------------------------------------------------------------


def test_documents_come_back(uri: str) -> None:
    assert write_document(uri + "/", "a.json", "Grüße") == f"{uri}/a.json"
    assert read_document(uri, "a.json") == "Grüße"


@pytest.mark.parametrize("content", [b"{}", b"no json", b"\xff\xfe", b"[" * 100_000, b'{"format_version": 2}'])
def test_a_summary_that_cannot_be_understood_is_a_plan_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_bytes(content)
    with pytest.raises(PlanError, match="make a new plan"):
        read_plan(str(tmp_path))


def test_a_plan_that_is_not_there_is_a_plan_error(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="make a new plan"):
        read_plan(str(tmp_path / "none"))


def test_a_uri_that_nobody_understands_is_a_plan_error() -> None:
    with pytest.raises(PlanError, match="no URI of a directory"):
        read_plan("gopher://plans/one")


def test_the_summary_is_json_that_others_can_read(written: Path) -> None:
    document = json.loads((written / "summary.json").read_text())
    assert document["format_version"] == 1
    assert document["blast_radius"] == {"max_segments": 100_000, "max_bytes": 10 * 2**40, "max_share": 1.0}
