# SPDX-License-Identifier: Apache-2.0
"""The pages' data in an object store, and while surveys replace them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import replace_file
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.survey.inventory import INVENTORY_DOCUMENT
from airflow_provider_rlmm.overview import tables
from airflow_provider_rlmm.overview.inventories import clusters, inventory, partitions, segments, topics
from airflow_provider_rlmm.overview.runs import history, progress
from tests.moto_s3 import REGION, SECRET, running_moto_s3
from tests.sample_work_folder import NOW_MS, Sample, sample_work_folder, topic_id


@contextmanager
def in_a_store(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Copy a work folder into a bucket; yields its URI."""
    with running_moto_s3() as s3:
        for name, value in {
            "AWS_ENDPOINT_URL": s3.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "a-key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }.items():
            monkeypatch.setenv(name, value)
        uri = f"s3://{s3.bucket()}/rlmm"
        for file in sample.work.rglob("*"):
            if file.is_file():
                replace_file(f"{uri}/{file.relative_to(sample.work)}", [file.read_bytes()])
        yield uri


@pytest.mark.slow
def test_a_store_gives_out_the_same_as_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = sample_work_folder(tmp_path, topics=10, runs=9)
    work, folder, one = str(tmp_path), sample.cluster.name, kafka_uuid_str(topic_id(3))
    with in_a_store(sample, monkeypatch) as uri:
        assert clusters(uri) == clusters(work) == [folder]
        assert topics(uri, folder, search="TOPIC", sort="oldest_ms") == topics(
            work, folder, search="TOPIC", sort="oldest_ms"
        )
        assert partitions(uri, folder, one) == partitions(work, folder, one)
        found = segments(uri, folder, one, 1)
        assert found == segments(work, folder, one, 1)
        assert found.total == 3
        assert history(uri, folder) == history(work, folder)
        assert progress(uri, sample.running) == progress(work, sample.running)
        replace_file(f"{uri}/{folder}/{sample.inventory.generation}/segments-4.parquet", [b"something else"])
        with pytest.raises(DocumentError, match="were written"):
            segments(uri, folder, one, 1)


@pytest.mark.slow
def test_readers_get_the_old_or_the_new_whole_while_surveys_replace_each_other(tmp_path: Path) -> None:
    """Two surveys of different sizes write in turns, at once, while a reader asks again and again."""
    sample = sample_work_folder(tmp_path, topics=5, runs=1)
    work, folder = str(tmp_path), sample.cluster.name
    sizes = (5, 8)
    stopped, failures, counted = threading.Event(), list[BaseException](), list[int]()

    def surveys(topics_of_it: int) -> None:
        try:
            for moment in range(25):
                sample_work_folder(tmp_path, topics=topics_of_it, runs=1, now_ms=NOW_MS + 10 * moment + topics_of_it)
        except BaseException as e:
            failures.append(e)

    def reads() -> None:
        try:
            while not stopped.is_set():
                found = topics(work, folder)
                counted.append(found.total)
                assert found.total in sizes
                assert len(found.rows) == found.total
                one = found.rows[0].topic_id
                # By then there may be another one, which has no such topic.
                assert segments(work, folder, one, 0).total in (0, 3)
        except BaseException as e:
            failures.append(e)

    reader = threading.Thread(target=reads)
    writers = [threading.Thread(target=surveys, args=(size,)) for size in sizes]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stopped.set()
    reader.join()
    assert failures == []
    assert set(counted) == set(sizes)
    named = inventory(work, folder)
    assert named is not None
    assert (sample.cluster / named.generation / INVENTORY_DOCUMENT).exists()
    whole = list(sample.cluster.glob("inventory-*/inventory.json"))
    assert len(whole) <= 3


def test_a_survey_that_another_one_outran_leaves_the_newer_one_named(tmp_path: Path) -> None:
    sample = sample_work_folder(tmp_path, topics=4, now_ms=NOW_MS + 5)
    slow = sample_work_folder(tmp_path, topics=9, now_ms=NOW_MS)
    assert slow.inventory.totals.topics == 9
    assert topics(str(tmp_path), sample.cluster.name).total == 4


def test_a_table_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    sample = sample_work_folder(tmp_path, topics=4)
    work, folder = str(tmp_path), sample.cluster.name
    assert topics(work, folder).total == 4
    sample_work_folder(tmp_path, topics=6, now_ms=NOW_MS + 1)
    assert topics(work, folder).total == 6


def test_tables_that_are_kept_give_way_to_newer_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_MAX_CACHED_BYTES", 1)
    cache = tables._Cache()
    monkeypatch.setattr(tables, "_cache", cache)
    sample = sample_work_folder(tmp_path, topics=40)
    for moment in range(3):
        sample_work_folder(tmp_path, topics=40, now_ms=NOW_MS + moment + 1)
        assert topics(str(tmp_path), sample.cluster.name).total == 40
    assert len(cache._tables) == 1
