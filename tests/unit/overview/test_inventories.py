# SPDX-License-Identifier: Apache-2.0
"""What the pages are given of an inventory: the rows that were asked for, of this cluster, and nothing that was put there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.bounded_parquet import BoundedParquet
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.survey.inventory import InventoryFile
from airflow_provider_rlmm.overview import inventories
from airflow_provider_rlmm.overview.inventories import (
    SORTS,
    clusters,
    id_of,
    inventory,
    partition,
    partitions,
    segments,
    topic,
    topics,
)
from tests.sample_work_folder import NASTY_TOPIC, NOW_MS, Sample, sample_work_folder, topic_id

TOPICS, PARTITIONS, SEGMENTS = 30, 3, 4


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return sample_work_folder(
        tmp_path_factory.mktemp("filled"), topics=TOPICS, partitions=PARTITIONS, segments=SEGMENTS
    )


@pytest.fixture
def sample(filled: Sample, tmp_path: Path) -> Sample:
    return filled.copied_to(tmp_path / "work")


def asked(sample: Sample, **choice: Any) -> tuple[list[str], int]:
    found = topics(str(sample.work), sample.cluster.name, **choice)
    return [row.topic for row in found.rows], found.total


def text_id(number: int) -> str:
    return kafka_uuid_str(topic_id(number))


def test_the_largest_topics_come_first_page_by_page(sample: Sample) -> None:
    whole, total = asked(sample)
    assert (whole[:2], total) == ([NASTY_TOPIC, "topic-000028"], TOPICS)
    pages = [asked(sample, start=start, rows=7) for start in range(0, 35, 7)]
    assert [name for names, _ in pages for name in names] == whole
    assert {count for _, count in pages} == {TOPICS}
    assert asked(sample, start=1_000) == ([], TOPICS)


@pytest.mark.slow
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("descending", [True, False])
def test_topics_are_sorted_and_what_is_not_known_comes_last(sample: Sample, sort: str, descending: bool) -> None:
    rows = topics(str(sample.work), sample.cluster.name, sort=sort, descending=descending).rows
    found = [getattr(row, sort) for row in rows]
    known = [value for value in found if value is not None]
    assert found[: len(known)] == sorted(known, reverse=descending)
    assert len(rows) == TOPICS


def test_a_search_is_plain_text(sample: Sample) -> None:
    assert asked(sample, search="IMG SRC") == ([NASTY_TOPIC], 1)
    assert asked(sample, search="topic-00001")[1] == 10
    for pattern in (".*", "%", "topic_", "^topic", "[", "\\", "\x00"):
        assert asked(sample, search=pattern) == ([], 0)
    assert asked(sample, search=text_id(5)) == (["topic-000005"], 1)
    assert asked(sample, search="topic-00001", state="WAITING")[0] == ["topic-000016"]
    assert asked(sample, state="nonsense") == ([], 0)
    assert asked(sample, sort="why") == asked(sample)


def test_a_topic_is_told_by_its_id_alone(sample: Sample) -> None:
    work, folder = str(sample.work), sample.cluster.name
    found = topic(work, folder, text_id(2))
    assert found is not None
    assert (found.topic, found.state, found.segments) == ("topic-000002", "WAITING", PARTITIONS * SEGMENTS)
    assert found.eligible_ms is not None
    for nobody in ("topic-000002", text_id(99), "", "A" * 22, "é" * 22):
        assert topic(work, folder, nobody) is None
        assert partitions(work, folder, nobody) == ((), 0)
        assert segments(work, folder, nobody, 0) == ((), 0)
    assert [p.partition for p in partitions(work, folder, text_id(2)).rows] == list(range(PARTITIONS))
    rest = partitions(work, folder, text_id(2), start=1, rows=1)
    assert ([p.partition for p in rest.rows], rest.total) == ([1], PARTITIONS)
    assert partition(work, folder, text_id(2), PARTITIONS) is None


@pytest.mark.slow
def test_every_segment_is_found_with_its_partition(sample: Sample) -> None:
    work, folder = str(sample.work), sample.cluster.name
    for number in range(TOPICS):
        for user_partition in range(PARTITIONS):
            found = segments(work, folder, text_id(number), user_partition)
            assert found.total == SEGMENTS
            assert [row.start_offset for row in found.rows] == [0, 100, 200, 300]
            assert {(row.topic_id, row.partition) for row in found.rows} == {(text_id(number), user_partition)}
    page = segments(work, folder, text_id(1), 1, start=3, rows=5)
    assert ([row.start_offset for row in page.rows], page.total) == ([300], SEGMENTS)
    assert page.rows[0].leader_epochs == ((1, 300),)


@pytest.mark.slow
def test_only_the_row_groups_that_can_hold_them_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = sample_work_folder(tmp_path, topics=5, partitions=1, segments=12_000, metadata_partitions=1)
    work, folder = str(sample.work), sample.cluster.name
    read: list[Any] = []
    groups = BoundedParquet.read

    def noted(file: Any, numbers: Any, columns: Any) -> Any:
        read.extend((number, tuple(columns)) for number in numbers)
        return groups(file, numbers, columns)

    monkeypatch.setattr(BoundedParquet, "read", noted)
    first = segments(work, folder, text_id(0), 0, start=6_000, rows=10)
    assert ([row.start_offset for row in first.rows], first.total) == ([*range(600_000, 601_000, 100)], 12_000)
    whole = {number for number, columns in read if len(columns) > 10 and "segment_id" in columns}
    assert len(whole) == 1
    assert len({number for number, _ in read}) <= 4


def test_a_survey_that_replaces_the_files_meanwhile_is_read_instead(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, folder = str(sample.work), sample.cluster.name
    read = inventories.inventory
    older = read(work, folder)
    sample_work_folder(sample.work, topics=7, now_ms=NOW_MS + 1)
    assert older is not None
    shutil.rmtree(sample.cluster / older.generation)
    answers = [older]
    monkeypatch.setattr(inventories, "inventory", lambda *a: answers.pop() if answers else read(*a))
    assert asked(sample)[1] == 7
    assert answers == []


def test_files_that_are_gone_for_good_are_said_to_be(sample: Sample) -> None:
    shutil.rmtree(sample.cluster / sample.inventory.generation)
    with pytest.raises(DocumentError, match="are gone; the next run surveys anew"):
        asked(sample)


def test_a_cluster_that_nobody_surveyed_has_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster-x"
    folder.mkdir()
    (tmp_path / "remote_log_cleaner.run").mkdir()
    (tmp_path / "cluster-file").write_text("no folder")
    assert clusters(str(tmp_path)) == ["cluster-x"]
    assert inventory(str(tmp_path), "cluster-x") is None
    assert topics(str(tmp_path), "cluster-x") == ((), 0)
    assert clusters(str(tmp_path / "nowhere")) == []


def test_the_inventory_of_another_cluster_is_refused(sample: Sample) -> None:
    other = sample.work / cluster_folder("another")
    shutil.copytree(sample.cluster, other)
    with pytest.raises(DocumentError, match="of another cluster"):
        topics(str(sample.work), other.name)


# --- whoever can write there chooses what lies there --------------------------------------------------------------------


def rewrite(sample: Sample, name: str, table: pa.Table, **options: Any) -> None:
    """Put another file in the place of one, and have the document name it: somebody means it."""
    path = sample.cluster / sample.inventory.generation / name
    pq.write_table(table, path, **options)
    data = path.read_bytes()
    files = {**sample.inventory.files, name: InventoryFile.of(sample.inventory.files[name].rows, data)}
    (sample.cluster / "inventory.json").write_text(replace(sample.inventory, files=files).to_json())


def of_file(sample: Sample, name: str) -> tuple[Path, pa.Table]:
    path = sample.cluster / sample.inventory.generation / name
    return path, pq.read_table(path)


def cut(sample: Sample) -> None:
    path, _ = of_file(sample, "topics.parquet")
    path.write_bytes(path.read_bytes()[:-1])


def exchanged(sample: Sample) -> None:
    path, _ = of_file(sample, "topics.parquet")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def lacking_a_column(sample: Sample) -> None:
    rewrite(sample, "topics.parquet", of_file(sample, "topics.parquet")[1].drop(["why"]))


def of_another_type(sample: Sample) -> None:
    table = of_file(sample, "topics.parquet")[1]
    rewrite(sample, "topics.parquet", table.set_column(6, "bytes", table.column("bytes").cast(pa.string())))


def with_fewer_rows(sample: Sample) -> None:
    rewrite(sample, "topics.parquet", of_file(sample, "topics.parquet")[1].slice(1))


def with_ids_that_are_none(sample: Sample) -> None:
    table = of_file(sample, "topics.parquet")[1]
    short = pa.array([b"short"] * table.num_rows, pa.binary())
    rewrite(sample, "topics.parquet", table.set_column(1, "topic_id", short))


def no_parquet(sample: Sample) -> None:
    path, _ = of_file(sample, "topics.parquet")
    path.write_bytes(b"PAR1" + b"\x00" * 100 + b"PAR1")
    file = InventoryFile.of(TOPICS, path.read_bytes())
    files = {**sample.inventory.files, "topics.parquet": file}
    (sample.cluster / "inventory.json").write_text(replace(sample.inventory, files=files).to_json())


def a_link_out(sample: Sample) -> None:
    path, _ = of_file(sample, "topics.parquet")
    outside = sample.work.parent / "outside.parquet"
    path.rename(outside)
    path.symlink_to(outside)


def a_pipe(sample: Sample) -> None:
    path, _ = of_file(sample, "topics.parquet")
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (cut, "is not the file that was written"),
        (exchanged, "is not the file that was written"),
        (lacking_a_column, "lacks the column why"),
        (of_another_type, "column bytes is string, not int64"),
        (with_fewer_rows, "29 rows, 30 were written"),
        (with_ids_that_are_none, "no id of 16 bytes"),
        (no_parquet, "cannot be read"),
        (a_link_out, "leads out of the work folder"),
        (a_pipe, "is a named pipe, not a file"),
    ],
)
def test_what_is_not_the_file_of_a_survey_is_refused(sample: Sample, harm: Callable[[Sample], None], why: str) -> None:
    harm(sample)
    with pytest.raises(DocumentError, match=why):
        asked(sample)


def test_a_large_text_that_all_rows_share_is_there_once(sample: Sample) -> None:
    path, table = of_file(sample, "topics.parquet")
    many, length = 20_000, 50_000
    huge = pa.DictionaryArray.from_arrays(pa.array([0] * many, pa.int32()), pa.array(["x" * length]))
    columns = {name: table.column(name).take(pa.array([0] * many)) for name in table.column_names}
    grown = pa.table({**columns, "why": huge})
    # Nothing but the reader makes dictionaries of it.
    pq.write_table(grown, path, store_schema=False)
    assert path.stat().st_size < 10_000_000
    files = {**sample.inventory.files, "topics.parquet": InventoryFile.of(many, path.read_bytes())}
    totals = replace(sample.inventory.totals, topics=many)
    document = replace(sample.inventory, files=files, totals=totals).to_json()
    (sample.cluster / "inventory.json").write_text(document)
    # The peak of all tests until now, which are small.
    before = pa.default_memory_pool().max_memory()
    names, total = asked(sample, rows=2)
    assert (len(names), total) == (2, many)
    assert pa.default_memory_pool().max_memory() - before < many * length // 20


@pytest.mark.parametrize("text", ["", "null", "[]", "\ud800", "{}", '{"format_version": 1}'])
def test_a_document_that_is_none_is_refused(sample: Sample, text: str) -> None:
    (sample.cluster / "inventory.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(DocumentError):
        asked(sample)


def test_files_outside_the_generation_are_never_named(sample: Sample) -> None:
    document = json.loads((sample.cluster / "inventory.json").read_text())
    document["generation"] = "../inventory"
    (sample.cluster / "inventory.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match="sha256 differs"):
        asked(sample)


@pytest.mark.parametrize(
    "text", ["", "A" * 21, "A" * 23, "!" * 22, "A" * 20 + "==", "g9LiIua4STiXAgIF9bPVMh", " " * 22]
)
def test_what_is_no_id_is_told_apart(text: str) -> None:
    assert id_of(text) is None


def test_ids_read_back() -> None:
    for number in range(200):
        assert id_of(text_id(number)) == topic_id(number).bytes
