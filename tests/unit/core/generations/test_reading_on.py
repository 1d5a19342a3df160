# SPDX-License-Identifier: Apache-2.0
"""A task that goes on from an earlier generation: what it comes to, and what it does not go on from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.generations import folding
from airflow_provider_rlmm.core.generations.files import new_file
from airflow_provider_rlmm.core.generations.manifest import Anchor, GenerationPart
from airflow_provider_rlmm.features.retention.spark.columns import QUARANTINED, SEGMENT, UNRESOLVED
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from tests.examples import examples
from tests.spark.events import Segment, Topic, random_topic
from tests.unit.features.retention.test_metadata_partition import (
    CLUSTER,
    DEAD,
    MIN_AGE,
    NOW,
    PARTITIONS,
    Record,
    batches_of,
    found,
    rows_of,
    told,
    without_keys,
)

HOME = 0


def ends_of(records: list[Record]) -> dict[int, int]:
    return {p: max((offset + 1 for q, offset, _, _ in records if p == q), default=0) for p in range(PARTITIONS)}


def generation(
    folder: Path, number: int, records: list[Record], before: dict[int, GenerationPart] | None = None
) -> list[TaskReport]:
    """What the tasks tell that read these records, from the anchors of an earlier generation on."""
    known = before or {}
    new = [record for record in records if record[1] >= (known[record[0]].start if record[0] in known else 0)]
    return told(batches_of(new, 37), GenerationOrder(str(folder), number, ends_of(records), known), f"attempt-{number}")


def parts_of(reports: list[TaskReport]) -> dict[int, GenerationPart]:
    return {report.metadata_partition: report.part for report in reports}


def topic_of(seed: int, segments: int = 500) -> list[Record]:
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    return without_keys(random_topic(seed, [*names, DEAD], NOW, MIN_AGE, segments, PARTITIONS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.rare) for seed in (2, 3))])
@pytest.mark.parametrize("share", [0, 1 / 4, 1_000])
def test_reading_on_comes_to_what_reading_all_comes_to(
    seed: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a state is written each time, now and then, or never again."""
    monkeypatch.setattr(folding, "SHARE_OF_CHANGES", share)
    # Of fewer segments a metadata partition may have so few records that it begins later still.
    records = topic_of(seed, max(125, examples(500)))
    before: dict[int, GenerationPart] = {}
    for number, shares in enumerate(((0.0, 0.3), (0.3, 0.3), (0.3, 0.6), (0.8, 0.65), (1.0, 1.0)), 1):
        # Some metadata partitions have nothing new, and one begins late.
        ends = {p: int(end * shares[p > 0]) for p, end in ends_of(records).items()}
        some = [record for record in records if record[1] < ends[record[0]]]
        reports = generation(tmp_path, number, some, before)
        assert [report.refused for report in reports] == [None] * len(reports)
        expected, told_of_all = found(batches_of(some, 1_000))
        rows = rows_of(str(tmp_path), reports)
        assert rows[SEGMENT] == expected[SEGMENT]
        for kind in (UNRESOLVED, QUARANTINED):
            assert sorted(map(repr, rows[kind])) == sorted(map(repr, expected[kind]))
        counts = [(r.part.segments, r.part.bytes, r.part.unresolved, r.part.quarantined) for r in reports]
        assert counts == [(r.part.segments, r.part.bytes, r.part.unresolved, r.part.quarantined) for r in told_of_all]
        assert [r.part.anchors for r in reports] == [r.part.anchors for r in told_of_all]
        known = {p: part.next_offset for p, part in before.items()}
        assert {r.metadata_partition: r.records for r in reports} == {
            r.metadata_partition: r.part.next_offset - known.get(r.metadata_partition, 0) for r in reports
        }, "what was read before is read again by its last records only, and not counted"
        before |= parts_of(reports)
    assert {kind: bool(rows[kind]) for kind in rows} == {SEGMENT: True, UNRESOLVED: True, QUARANTINED: True}
    ages = {part.state.name.partition("/")[0] for part in before.values() if part.state is not None}
    assert ages == {0: {"generation=5"}, 1_000: {"generation=1", "generation=2"}}.get(share, ages)


def names_of(report: TaskReport) -> tuple[str | None, str | None]:
    """Of the state, and of the records since."""
    state, changes = (file and file.name.partition("/")[0] for file in (report.part.state, report.part.changes))
    return state, changes


def test_a_state_stays_until_a_quarter_of_its_bytes_is_new(tmp_path: Path) -> None:
    records = [record for record in topic_of(9) if record[0] == HOME]
    begun = len(records) // 2
    (report,) = generation(tmp_path, 1, records[:begun])
    assert names_of(report) == ("generation=1", None)
    seen = []
    for number, end in enumerate(range(begun, len(records), 8), 2):
        (report,) = generation(tmp_path, number, records[:end], {HOME: report.part})
        state, changes = names_of(report)
        assert report.part.state is not None
        if changes is not None:
            assert report.part.changes is not None
            assert changes == f"generation={number}"
            values = [len(value or b"") for *_, value in records[:end][-9:]]
            # The headers of the file are not among the bytes that count.
            assert report.part.changes.bytes < report.part.state.bytes / 4 + max(values) + 4_096
        elif number > 2:
            assert state == f"generation={number}"
        seen.append((state, changes))
    assert seen[0] == ("generation=1", None), "nothing is new"
    assert ("generation=1", "generation=3") in seen
    assert len({state for state, _ in seen}) > 1, "and then there is another state"


def test_where_nothing_is_new_the_records_behind_a_state_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "SHARE_OF_CHANGES", 1_000)
    records = [record for record in topic_of(9) if record[0] == HOME]
    part = None
    for number, end in enumerate((100, 140, 140), 1):
        (report,) = generation(tmp_path, number, records[:end], part and {HOME: part})
        part = report.part
    assert names_of(report) == ("generation=1", "generation=2")
    assert part is not None
    assert part.rows is not None
    assert part.rows.name.startswith("generation=3/"), "what is said of segments goes by the time"


def one_partition(tmp_path: Path) -> tuple[list[Record], dict[int, GenerationPart]]:
    """A generation of the first half of a metadata partition, which has records behind its state; with the whole of it."""
    records = [record for record in topic_of(9) if record[0] == HOME]
    half = len(records) // 2
    before = parts_of(generation(tmp_path, 1, records[: half - 5]))
    before = parts_of(generation(tmp_path, 2, records[:half], before))
    assert before[HOME].changes is not None
    return records, before


def reading_on(tmp_path: Path, records: list[Record], before: dict[int, GenerationPart]) -> TaskReport:
    (report,) = generation(tmp_path, 3, records, before)
    return report


Change = Callable[[list[Record], int], list[Record]]


def other(record: Record) -> Record:
    return (*record[:3], b"other")


CHANGES: dict[str, Change] = {
    "the last value": lambda records, at: [*records[: at - 1], other(records[at - 1]), *records[at:]],
    "the first value": lambda records, at: [*records[: at - 16], other(records[at - 16]), *records[at - 15 :]],
    "a key": lambda records, at: [*records[: at - 1], (HOME, at - 1, b"key", records[at - 1][3]), *records[at:]],
    "one is gone": lambda records, at: [*records[: at - 1], *records[at:]],
    "all are gone": lambda records, at: [*records[: at - 16], *records[at:]],
    "it ends before": lambda records, at: records[: at - 1],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_log_with_other_records_is_not_gone_on_with(name: str, tmp_path: Path) -> None:
    records, before = one_partition(tmp_path)
    at = before[HOME].next_offset
    (report,) = told(
        batches_of([r for r in CHANGES[name](records, at) if r[1] >= before[HOME].start]),
        GenerationOrder(str(tmp_path), 3, ends_of(records), before),
    )
    assert report.refused is not None
    assert "that it held before" in report.refused
    assert (report.part.rows, report.part.state) == (None, None)
    assert not (tmp_path / "generation=3").exists(), "nothing is written"
    assert reading_on(tmp_path, records, before).refused is None


def test_an_anchor_that_was_never_there_is_asked_for(tmp_path: Path) -> None:
    """Where the first records are gone but later ones are there, and where there are more than expected."""
    records, before = one_partition(tmp_path)
    part = before[HOME]
    for anchors in (
        part.anchors[1:],
        part.anchors[:5] + part.anchors[6:],
        (Anchor(part.start - 1, "0"), *part.anchors[1:]),
    ):
        order = GenerationOrder(str(tmp_path), 3, ends_of(records), {HOME: replace(part, anchors=anchors)})
        (report,) = told(batches_of([r for r in records if r[1] >= part.start]), order)
        assert report.refused is not None


@pytest.mark.parametrize("damage", ["gone", "longer", "another bit", "another's"])
@pytest.mark.parametrize("which", ["state", "changes"])
def test_a_state_that_is_not_the_one_of_the_manifest_is_refused(which: str, damage: str, tmp_path: Path) -> None:
    records, before = one_partition(tmp_path)
    file = getattr(before[HOME], which)
    path = tmp_path / file.name
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "longer":
        path.write_bytes(data + b"\0")
    elif damage == "another bit":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    else:
        other = [r for r in records if r[1] < 40]
        known = parts_of(generation(tmp_path, 7, other[:35]))
        known = parts_of(generation(tmp_path, 8, other, known)) if which == "changes" else known
        path.write_bytes((tmp_path / getattr(known[HOME], which).name).read_bytes())
    report = reading_on(tmp_path, records, before)
    assert report.refused is not None
    assert str(path) in report.refused


def test_a_state_with_a_fitting_checksum_and_no_sense_is_refused(tmp_path: Path) -> None:
    records, before = one_partition(tmp_path)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("state", pa.large_binary())])) as writer:
        writer.write_table(pa.table({"state": pa.array([b"x"], pa.large_binary())}))
    for number, data in enumerate((b"", b"garbage", sink.getvalue().to_pybytes())):
        with new_file(str(tmp_path), f"generation=2/metadata_partition={HOME}/_{number}.state") as file:
            file.write(data)
        for which in ("state", "changes"):
            known = {HOME: replace(before[HOME], **{which: file.described()})}
            report = reading_on(tmp_path, records, known)
            assert report.refused is not None
            assert str(tmp_path / file.described().name) in report.refused


def test_what_cannot_be_applied_is_remembered(tmp_path: Path) -> None:
    """Exact is not said beside a record that an earlier generation could not apply."""
    topic = Topic(PARTITIONS)
    s = Segment(*DEAD, 0, bytes(16))
    home = s.metadata_partition(PARTITIONS)
    topic.put_home(s, b"garbage", s.add(1))
    records = without_keys(topic)
    before = parts_of(generation(tmp_path, 1, records[:1]))
    (report,) = generation(tmp_path, 2, records, before)
    rows = rows_of(str(tmp_path), [report])
    assert [row["exact"] for row in rows[SEGMENT]] == [False]
    assert [(row["metadata_partition"], row["event_offset"]) for row in rows[QUARANTINED]] == [(home, 0)]
    assert rows[QUARANTINED][0]["error"].startswith("MALFORMED: ")
