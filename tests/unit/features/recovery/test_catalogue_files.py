# SPDX-License-Identifier: Apache-2.0
"""Where a catalogue is written, what binds its two files, and of which cluster it says that it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import CatalogueError, StorageUnavailableError
from airflow_provider_rlmm.core.plans.catalogue_document import (
    CATALOGUE_DOCUMENT,
    CATALOGUE_TABLE,
    Catalogue,
    ClusterIdFrom,
)
from airflow_provider_rlmm.core.runs import table_pairs
from airflow_provider_rlmm.core.segments.pacing import ByteQuota, StoragePatience
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.features.recovery.manifest_reads import Manifests
from airflow_provider_rlmm.features.recovery.rules import KeyReading, ListedSegment
from airflow_provider_rlmm.features.recovery.segment_reads import SegmentReads
from airflow_provider_rlmm.features.recovery.steps import CatalogueRequest, make_catalogue
from tests.recovery import Bucket, kinds, rows_in, segment


def full_bucket(count: int = 30) -> Bucket:
    bucket = Bucket()
    for number in range(count):
        bucket.copy(segment(number, 10 * number, 10 * number + 9))
    return bucket


def made_in(bucket: Bucket, folder: Path, **asked: Any) -> Catalogue:
    asked = {"storage_uri": "memory:///", **asked}
    return make_catalogue(bucket.storage, CatalogueRequest(output=str(folder), **asked), clock=lambda: 77)


def test_the_document_names_the_table_and_seals_itself(tmp_path: Path) -> None:
    made = made_in(full_bucket(), tmp_path / "c")
    table, text = (tmp_path / "c" / CATALOGUE_TABLE).read_bytes(), (tmp_path / "c" / CATALOGUE_DOCUMENT).read_text()
    assert made.file.sha256 == hashlib.sha256(table).hexdigest()
    assert (made.file.rows, made.file.bytes) == (30, len(table))
    assert Catalogue.from_json(text) == made
    assert json.loads(text)["format_version"] == 1
    for damaged in (text.replace('"made_at_ms": 77', '"made_at_ms": 78'), text[:-3], "{}"):
        with pytest.raises(CatalogueError, match="recover again"):
            Catalogue.from_json(damaged)


def test_rows_come_by_user_partition_and_offset_however_many_are_read_at_once(tmp_path: Path) -> None:
    bucket = full_bucket(100)
    for at_once in (1, 8):
        made_in(bucket, tmp_path / str(at_once), at_once=at_once)
    rows = rows_in(str(tmp_path / "8"))
    assert rows == rows_in(str(tmp_path / "1"))
    assert [row.start_offset for row in rows] == list(range(0, 1_000, 10))


@pytest.mark.parametrize("name", ["notes.txt", CATALOGUE_DOCUMENT, "below/notes.txt"])
def test_a_folder_that_holds_something_is_refused_before_anything_is_listed(tmp_path: Path, name: str) -> None:
    bucket, asked = full_bucket(1), list[str]()
    bucket.storage.on_effect = lambda what, _: asked.append(what)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(CatalogueError, match="name another one"):
        made_in(bucket, tmp_path)
    assert (asked, (tmp_path / name).read_text()) == ([], "mine")


def test_a_folder_in_the_storage_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="lies in the storage itself"):
        made_in(full_bucket(1), tmp_path / "kp" / "c", storage_uri=tmp_path.as_uri())
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_come_to_its_end_is_no_catalogue_and_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = full_bucket(3)

    def fail(*_: Any) -> str:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(table_pairs, "write_document", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            made_in(bucket, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [CATALOGUE_TABLE]
    assert made_in(bucket, tmp_path).file.rows == 3


def stamped(bucket: Bucket, *clusters: str) -> None:
    topic_id = segment(0, 0, 9).remote_log_segment_id.topic_id_partition.topic_id
    for cluster in clusters:
        bucket.storage.stamp_root(bucket.storage.check_root(frozenset({topic_id}), cluster))


def test_the_stamp_tells_the_cluster_where_it_is_the_only_one_and_lies_where_it_says(tmp_path: Path) -> None:
    bucket = full_bucket(1)
    made = made_in(bucket, tmp_path / "0")
    assert (made.cluster_id, made.cluster_id_from, made.stamps) == (None, ClusterIdFrom.UNKNOWN, ())
    stamped(bucket, "one")
    made = made_in(bucket, tmp_path / "1")
    assert (made.cluster_id, made.cluster_id_from, made.stamps) == ("one", ClusterIdFrom.STAMP, ("one",))
    assert made.listed.objects == 3
    bucket.storage.where = Location("memory", bucket="copy")
    made = made_in(bucket, tmp_path / "2")
    assert (made.cluster_id, made.cluster_id_from, made.stamps) == (None, ClusterIdFrom.UNKNOWN, ("one",))


def test_of_two_stamped_clusters_a_person_names_one_and_no_third(tmp_path: Path) -> None:
    bucket = full_bucket(1)
    stamped(bucket, "one", "../two")
    made = made_in(bucket, tmp_path / "0")
    assert (made.cluster_id, made.stamps) == (None, ("../two", "one"))
    made = made_in(bucket, tmp_path / "1", cluster_id="../two")
    assert (made.cluster_id, made.cluster_id_from) == ("../two", ClusterIdFrom.PERSON)
    with pytest.raises(
        CatalogueError, match=r"is stamped as that of cluster .*'one'.*, and expected_cluster_id names 'three'"
    ):
        made_in(bucket, tmp_path / "2", cluster_id="three")
    assert not (tmp_path / "2").exists()


def test_a_person_names_the_cluster_where_no_stamp_does(tmp_path: Path) -> None:
    made = made_in(full_bucket(1), tmp_path, cluster_id="three")
    assert (made.cluster_id, made.cluster_id_from) == ("three", ClusterIdFrom.PERSON)


def listed_segments(bucket: Bucket, count: int) -> list[ListedSegment]:
    found = []
    for number in range(count):
        metadata = segment(number, 10 * number, 10 * number + 9)
        stem, place = bucket.stem(metadata), bucket.layout.places[0]
        sizes = {s: len(bucket.storage._objects[stem + s][0]) for s in bucket.layout.suffixes}
        reading = KeyReading(place, metadata.remote_log_segment_id, metadata.start_offset)
        found.append(ListedSegment(stem, (reading,), sizes, is_whole=True))
    return found


def test_no_more_manifests_are_asked_for_ahead_than_are_read_at_once_and_no_faster_than_the_pace() -> None:
    bucket, asked, slept, now = full_bucket(50), list[str](), list[float](), [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def fetch(key: str, start: int, end: int) -> bytes:
        asked.append(key)
        return bucket.storage.fetch_object(key, start, end)

    pace = ByteQuota(10, clock=lambda: now[0], sleep=sleep)
    reads = SegmentReads(Manifests(), fetch, bucket.layout, pace, StoragePatience(0.0), at_once=4)
    for number, _ in enumerate(reads.of(iter(listed_segments(bucket, 50))), 1):
        assert len(asked) <= number + 4
        if number == 20:
            break
    single = SegmentReads(Manifests(), fetch, bucket.layout, pace, StoragePatience(0.0), at_once=1)
    begun = now[0]
    assert len(list(single.of(listed_segments(bucket, 50)))) == 50
    assert now[0] - begun == pytest.approx(5.0, abs=0.2)
    assert slept


def test_a_storage_that_answers_late_is_asked_again() -> None:
    bucket, failures = full_bucket(1), [2]

    def fetch(key: str, start: int, end: int) -> bytes:
        if failures[0]:
            failures[0] -= 1
            raise StorageUnavailableError("busy")
        return bucket.storage.fetch_object(key, start, end)

    patience = StoragePatience(60.0, sleep=lambda _: None)
    reads = SegmentReads(Manifests(), fetch, bucket.layout, ByteQuota(None), patience, at_once=1)
    [(_, said)] = reads.of(listed_segments(bucket, 1))
    assert said is not None
    assert kinds(bucket.rows()) == ["COPIED"]
