# SPDX-License-Identifier: Apache-2.0
"""The manifest of a generation, and the folder in which generations lie."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import files_below, local_path
from airflow_provider_rlmm.core.generations.files import new_file, opened, read_whole
from airflow_provider_rlmm.core.generations.manifest import (
    MANIFEST_NAME,
    Anchor,
    Generation,
    GenerationFile,
    GenerationPart,
)
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra
from airflow_provider_rlmm.features.retention.spark.plan_folder import PlanFolder
from tests.moto_s3 import MotoS3

ROWS = GenerationFile("generation=4/metadata_partition=0/a.parquet", 7, "ab")
STATE = GenerationFile("generation=2/metadata_partition=0/_a.state", 9, "cd")
CHANGES = GenerationFile("generation=4/metadata_partition=0/_a.changes", 8, "ef")
GAP = HistoryGap(0, 4, 6)
ANCHORS = (Anchor(17, "x"), Anchor(19, "y"))
PART = GenerationPart(
    20, 3, 300, 1, 2, ANCHORS, holes=(GAP,), more_holes=5, keyed_at=7, rows=ROWS, state=STATE, changes=CHANGES
)
PARTS = {0: PART, 1: GenerationPart(0)}
GENERATION = Generation(
    4,
    "cluster",
    "AAAAAAAAAAAAAAAAAAAACA",
    3,
    1_800_000_000_000,
    1_799_999_999_000,
    PARTS,
    ToldEra(EraName.KEYED, "a key"),
)
BEGIN, END = {0: 0, 1: 0}, {0: 25, 1: 5}


def numbered(number: int, state_of: int | None = None) -> Generation:
    """A generation with files of its own, and a state that perhaps an earlier one has written."""
    owners = {"rows": number, "changes": number, "state": state_of or number}
    files = {
        name: replace(file, name=file.name.replace(file.name.partition("/")[0], f"generation={owners[name]}"))
        for name, file in (("rows", ROWS), ("state", STATE), ("changes", CHANGES))
    }
    return replace(changed(**files), number=number)


def write(store: GenerationStore, name: str, data: bytes = b"some bytes") -> GenerationFile:
    with new_file(store.root, name) as file:
        file.write(data)
    return file.described()


def changed(**parts: Any) -> Generation:
    return replace(GENERATION, parts={0: replace(PART, **parts), 1: GenerationPart(0)})


def test_a_manifest_reads_back_as_it_was_written() -> None:
    for generation in (GENERATION, changed(bytes=-5), replace(GENERATION, parts={})):
        assert Generation.from_json(generation.to_json()) == generation


@pytest.mark.parametrize(
    "parts",
    [
        {"anchors": ()},
        {"rows": None},
        {"state": None},
        {"anchors": (Anchor(19, "y"), Anchor(17, "x"))},
        {"anchors": (Anchor(17, "x"), Anchor(17, "x"))},
        {"anchors": (Anchor(20, "y"),)},
        {"anchors": tuple(Anchor(n, "x") for n in range(17))},
        {"rows": replace(ROWS, name="generation=4/metadata_partition=1/a.parquet")},
        {"rows": replace(ROWS, name="generation=4/metadata_partition=0/../../a.parquet")},
        {"rows": replace(ROWS, name="metadata_partition=0/a.parquet")},
        {"changes": replace(CHANGES, name="generation=5/metadata_partition=0/_a.changes")},
        {"rows": None, "state": None, "anchors": ()},
        {"state": replace(STATE, name="/etc/passwd")},
        {"next_offset": -1},
        {"begin": 21},
        {"holes": (replace(GAP, metadata_partition=1),)},
        {"holes": tuple(HistoryGap(0, n, n + 1) for n in range(0, 130, 2))},
    ],
)
def test_a_manifest_that_contradicts_itself_is_not_written_or_read(parts: dict[str, Any]) -> None:
    with pytest.raises(SnapshotRefusedError):
        changed(**parts).to_json()


def test_metadata_partitions_are_all_there() -> None:
    with pytest.raises(SnapshotRefusedError, match=r"it has the metadata partitions \[0, 2\]"):
        replace(GENERATION, parts={0: PART, 2: GenerationPart(0)}).to_json()


def test_a_manifest_with_another_byte_is_refused() -> None:
    text = GENERATION.to_json()
    for damaged in (
        text.replace('"next_offset": 20', '"next_offset": 21'),
        text[:-1],
        "",
        "[]",
        text.replace("cluster", "c"),
    ):
        with pytest.raises(SnapshotRefusedError, match="manifest cannot be read"):
            Generation.from_json(damaged)


def test_a_manifest_of_another_format_is_refused() -> None:
    document = json.loads(GENERATION.to_json())
    del document["sha256"]
    document["format_version"] = 1
    text = json.dumps({**document, "sha256": strict_json.checksum(document)})
    with pytest.raises(SnapshotRefusedError, match="format_version is 1"):
        Generation.from_json(text)


MISFITS: dict[str, tuple[Generation, dict[int, int], dict[int, int]]] = {
    "its cluster is cluster": (replace(GENERATION, cluster_id="other"), BEGIN, END),
    "its topic id is": (replace(GENERATION, topic_id="AAAAAAAAAAAAAAAAAAAACQ"), BEGIN, END),
    "its metadata partitions is": (replace(GENERATION, parts={0: PART}), {0: 0}, {0: 25}),
    "its fold version is 3": (replace(GENERATION, fold_version=4), BEGIN, END),
    "high watermark is 19 now": (GENERATION, BEGIN, {0: 19, 1: 5}),
    "begins at offset 21 now": (GENERATION, {0: 21, 1: 0}, END),
    "begins at offset 18 now": (GENERATION, {0: 18, 1: 0}, END),
    "metadata partition 1 begins at offset 1 now": (GENERATION, {0: 0, 1: 1}, END),
}


@pytest.mark.parametrize("why", MISFITS)
def test_what_a_generation_does_not_fit(why: str) -> None:
    other, begin, end = MISFITS[why]
    found = GENERATION.misfit(other, begin, end)
    assert found is not None
    assert why in found


def test_what_a_generation_fits() -> None:
    assert GENERATION.misfit(replace(GENERATION, number=5, created_at_ms=0), {0: 17, 1: 0}, {0: 20, 1: 0}) is None


@pytest.fixture
def store(tmp_path: Path) -> GenerationStore:
    return GenerationStore(str(tmp_path / "data set"))


def test_only_generations_with_a_manifest_are_there(store: GenerationStore, tmp_path: Path) -> None:
    assert store.numbers() == []
    for number in (3, 12, 4):
        store.create(numbered(number))
    write(store, "generation=13/metadata_partition=0/a.parquet")
    (tmp_path / "data set" / "segments" / "generation=x").mkdir()
    assert store.numbers() == [12, 4, 3]
    assert store.read(4) == numbered(4)
    assert store.uri == (tmp_path / "data set").as_uri()


def test_of_two_that_write_one_generation_one_fails(store: GenerationStore) -> None:
    store.create(GENERATION)
    with pytest.raises(PlanError, match=r"another run has written generation 4 .* at the same time; run again"):
        store.create(replace(GENERATION, created_at_ms=5))
    assert store.read(4) == GENERATION


def test_a_manifest_under_another_number_is_refused(store: GenerationStore, tmp_path: Path) -> None:
    store.create(GENERATION)
    folder = tmp_path / "data set" / "segments"
    (folder / "generation=9").mkdir()
    (folder / "generation=9" / MANIFEST_NAME).write_text(GENERATION.to_json())
    (folder / "generation=8").mkdir()
    (folder / "generation=8" / MANIFEST_NAME).write_bytes(b"\xff")
    with pytest.raises(SnapshotRefusedError, match="its manifest is that of generation 4"):
        store.read(9)
    with pytest.raises(SnapshotRefusedError, match="cannot be read"):
        store.read(8)


def test_the_last_two_generations_stay(store: GenerationStore) -> None:
    for number in (1, 2, 4, 5):
        store.create(numbered(number))
    write(store, "generation=3/metadata_partition=0/a.parquet", b"of a run that was killed")
    under_way = write(store, "generation=6/metadata_partition=0/a.parquet", b"of a run that is under way")
    assert store.remove_old(5) == [1, 2, 3]
    assert store.numbers() == [5, 4]
    assert store.remove_old(5) == []
    assert read_whole(store.root, under_way).to_pybytes() == b"of a run that is under way"


def files_of(store: GenerationStore, number: int) -> list[str]:
    return [name for name in files_below(store.root) if name.startswith(f"generation={number}/")]


def test_what_a_later_generation_names_stays_as_long_as_it_is_named(store: GenerationStore) -> None:
    for number, state_of in ((1, 1), (2, 1), (3, 1), (4, 4)):
        generation = numbered(number, state_of)
        store.create(generation)
        for name in {file.name for file in generation.parts[0].files} - {*files_below(store.root)}:
            write(store, name)
        write(store, f"generation={number}/metadata_partition=0/_of-a-lost-worker.state")
    state = "generation=1/metadata_partition=0/_a.state"
    assert store.remove_old(3) == [1]
    assert (store.numbers(), files_of(store, 1)) == ([4, 3, 2], [state])
    assert store.remove_old(3) == []
    assert store.remove_old(4) == [2]
    assert (files_of(store, 1), files_of(store, 2)) == ([state], []), "the third goes on from the first one's state"
    store.create(numbered(5, 4))
    assert store.remove_old(5) == [1, 3]
    assert {name.partition("/")[0] for name in files_below(store.root)} == {"generation=4", "generation=5"}


def test_where_nobody_knows_what_a_later_generation_names_nothing_is_removed(store: GenerationStore) -> None:
    for number in (1, 2, 3):
        store.create(numbered(number, 1))
    damaged = local_path(store.folder(2))
    assert damaged is not None
    (damaged / MANIFEST_NAME).write_text("{}")
    with pytest.raises(SnapshotRefusedError, match="cannot be read"):
        store.remove_old(3)
    assert store.numbers() == [3, 2, 1]


def test_a_file_is_read_only_as_it_was_written(store: GenerationStore, tmp_path: Path) -> None:
    with new_file(store.root, ROWS.name) as file:
        assert [file.write(b"some "), file.write(memoryview(b"bytes"))] == [5, 5]
    described = file.described()
    assert read_whole(store.root, described).to_pybytes() == b"some bytes"
    for other in (replace(described, bytes=9), replace(described, sha256="0"), replace(described, name="no such file")):
        with pytest.raises(SnapshotRefusedError):
            read_whole(store.root, other)
        with pytest.raises(SnapshotRefusedError), opened(store.root, other) as stream:
            stream.read(4)
    with opened(store.root, described) as stream:
        assert [stream.read(4), stream.read(100)] == [b"some", b" bytes"]
    with pytest.raises(SnapshotRefusedError, match="no sense"), opened(store.root, described):
        raise SnapshotRefusedError("no sense")
    changed = replace(described, sha256="0")
    with pytest.raises(SnapshotRefusedError, match="checksum differs"), opened(store.root, changed):
        raise SnapshotRefusedError("no sense")


def test_a_file_that_fails_is_gone(store: GenerationStore, tmp_path: Path) -> None:
    with suppress(ZeroDivisionError), new_file(store.root, ROWS.name) as file:
        file.write(b"half")
        _ = 1 // 0
    assert file.closed
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("uri", ["hdfs://name/a", "viewfs://name/a", "dbfs:///a"])
def test_a_place_where_nothing_can_be_created_only_if_there_is_none_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"'{uri}' is no URI .*give a path, or .*s3://"):
        GenerationStore(uri)
    with pytest.raises(ConfigurationError, match="is no URI"):
        PlanFolder(uri)


def test_a_folder_has_one_name_for_driver_and_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for uri in ("a b", str(tmp_path / "a b"), (tmp_path / "a b").as_uri()):
        assert GenerationStore(uri).uri == PlanFolder(uri).uri == (tmp_path / "a b").as_uri()
    for uri in ("s3a://bucket/x/", "gs://bucket/x", "az://container/x", "abfss://c@a.dfs.core.windows.net/x"):
        assert GenerationStore(uri).folder(1) == f"{uri.rstrip('/')}/segments/generation=1"


@pytest.mark.slow
def test_a_data_set_in_an_object_store(s3: MotoS3) -> None:
    bucket = s3.bucket()
    store = GenerationStore(f"s3a://{bucket}/some/data/")
    assert store.numbers() == []
    large = bytes(range(256)) * 50_000
    for number in (1, 2, 3):
        file = write(store, f"generation={number}/metadata_partition=0/_a.state", large)
        assert read_whole(store.root, file).to_pybytes() == large
        store.create(numbered(number))
    with pytest.raises(PlanError, match="another run has written generation 3"):
        store.create(replace(numbered(3), created_at_ms=5))
    assert store.numbers() == [3, 2, 1]
    assert store.read(3) == numbered(3)
    assert store.remove_old(3) == [1]
    assert store.numbers() == [3, 2]
    kept = [(n, name) for n in (2, 3) for name in ("metadata_partition=0/_a.state", MANIFEST_NAME)]
    assert s3.objects(bucket).keys() == {f"some/data/segments/generation={n}/{name}" for n, name in kept}
    with pytest.raises(SnapshotRefusedError, match="cannot be read"):
        read_whole(store.root, replace(file, name=file.name.replace("=3/", "=1/")))
