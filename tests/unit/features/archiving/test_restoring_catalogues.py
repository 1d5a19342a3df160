# SPDX-License-Identifier: Apache-2.0
"""A topic is restored from a bucket by its catalogue: by the leave by which it is read, from a start that a person names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    CatalogueError,
    ConfigurationError,
    OffsetNotInRemoteLogError,
    RestoreError,
)
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.features.archiving import restore_steps
from airflow_provider_rlmm.features.archiving.restore_catalogue import NOT_IN_A_BUCKET, CatalogueToRestore
from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
from airflow_provider_rlmm.features.archiving.restore_rules import RestoreStart, Undecided
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport, restore
from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked
from tests.builders import CLUSTER_ID
from tests.catalogued import CLUSTER, ID, RUN, CataloguedTopic, files_of
from tests.kafka_log import TRANSACTIONAL, Batch, producer_snapshot
from tests.remote_log_world import TIP
from tests.restoring import FakeAccess, FakeTopic
from tests.tiered_orders import START_MS, record

BEGINNING = RestoreStart(beginning=True)


@pytest.fixture
def into(monkeypatch: pytest.MonkeyPatch) -> FakeTopic:
    fake = FakeTopic()
    fake.take_the_place_of_kafkas(monkeypatch)
    monkeypatch.setattr(restore_steps, "system_clock", lambda: START_MS)
    return fake


@pytest.fixture
def source(tmp_path: Path) -> CataloguedTopic:
    """A bucket with the offsets 10 to 99, and no cluster."""
    return CataloguedTopic(tmp_path, *(files_of(n, 10 + 30 * n) for n in range(3)))


def access_to(source: CataloguedTopic, **changed: Any) -> FakeAccess:
    """Return a new cluster, whose settings name the bucket of the lost one."""
    settings = source.settings(allow_writes=True, expected_cluster_id=CLUSTER_ID, **changed)
    return FakeAccess(
        settings, storage=lambda: ObjectStoreRemoteStorageManager(source.storage_uri, source.bucket.layout)
    )


def restored(
    source: CataloguedTopic,
    start: RestoreStart = BEGINNING,
    *,
    catalogue: str | None = None,
    access: FakeAccess | None = None,
    topic_id: str = ID,
    dry_run: bool = False,
    cluster_id: str | None = None,
    undecided: Undecided | None = None,
    offset_header: bool = False,
    **asked: Any,
) -> RestoreReport:
    catalogue = catalogue or source.recover()
    given: Any = access or access_to(source)
    return restore(
        given,
        topic_id,
        "restored",
        by=RestoreRun(RUN, str(source.folder / "work")),
        archived_cluster_id=cluster_id,
        catalogue=CatalogueToRestore(
            asked=CatalogueAsked(**{"uri": catalogue, "was_not_deleted": [ID], **asked}),
            start=start,
        ),
        undecided=undecided,
        offset_header=offset_header,
        dry_run=dry_run,
    )


def rows(*offsets: int) -> list[dict[str, object]]:
    return [record(offset).as_row() for offset in offsets]


def test_every_record_is_written_and_each_partition_says_how_far_it_reaches(
    source: CataloguedTopic, into: FakeTopic
) -> None:
    report = restored(source)
    assert into.rows == rows(*range(10, 100))
    assert (report.source, report.archived_cluster_id, report.archived_topic, report.records) == (
        "catalogue", CLUSTER, "orders", 90,
    )  # fmt: skip
    (reaches,) = report.reaches
    assert reaches.startswith("partition 0 reaches to offset 99; its newest record is of 2023-11-14T22:14:59")
    assert reaches.endswith("; offsets differ from 10 on, and 99 becomes 89")
    assert NOT_IN_A_BUCKET in report.said
    assert any("is read by its lineage" in said for said in report.said)
    assert report.needs_person is False


def test_what_reading_takes_is_said_at_the_rate_that_is_set(source: CataloguedTopic, into: FakeTopic) -> None:
    report = restored(source, dry_run=True)
    assert report.log_bytes == sum(len(files_of(n, 10 + 30 * n).log) for n in range(3))
    assert "bounds how fast" in report.takes(None)
    assert f"in {report.log_bytes * 3 / 3600:.1f} hours or more" in report.takes(1)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (RestoreStart(offsets={0: 42}), 42),
        (RestoreStart(time_ms=START_MS + 55_000), 55),
        (RestoreStart(time_ms=START_MS + 55_000, offsets={0: 12}), 12),
        (RestoreStart(beginning=True, offsets={0: 99}), 99),
    ],
)
def test_it_begins_where_a_person_says(
    source: CataloguedTopic, into: FakeTopic, start: RestoreStart, first: int
) -> None:
    restored(source, start)
    assert into.rows == rows(*range(first, 100))


def test_a_start_behind_all_that_there_is_restores_nothing_and_says_it(
    source: CataloguedTopic, into: FakeTopic
) -> None:
    report = restored(source, RestoreStart(time_ms=START_MS + 10**9))
    assert (into.rows, report.reaches) == ([], ["partition 0: nothing is there to restore"])


def test_offsets_that_stay_are_said(tmp_path: Path, into: FakeTopic) -> None:
    report = restored(CataloguedTopic(tmp_path, files_of(0, 0)))
    assert report.reaches[0].endswith("all offsets stay the same")


def test_a_start_has_to_be_named() -> None:
    with pytest.raises(ConfigurationError, match="no start is named, and the bucket cannot tell what retention"):
        RestoreStart()
    with pytest.raises(ConfigurationError, match="name one of them"):
        RestoreStart(beginning=True, time_ms=1)


def test_a_start_names_every_partition_and_no_other(source: CataloguedTopic, into: FakeTopic) -> None:
    source.put(files_of(9, 0, of=TopicIdPartition(TIP.topic_id, TIP.topic, 1)))
    with pytest.raises(ConfigurationError, match=r"names no offset of partitions \[1\]"):
        restored(source, RestoreStart(offsets={0: 42}))
    with pytest.raises(ConfigurationError, match=r"the start names partitions \[7\]"):
        restored(source, RestoreStart(beginning=True, offsets={7: 42}))
    assert into.rows == []


def test_what_was_deleted_before_the_start_is_not_made_up(source: CataloguedTopic, into: FakeTopic) -> None:
    with pytest.raises(OffsetNotInRemoteLogError, match="Begin at 10"):
        restored(source, RestoreStart(offsets={0: 0}))
    assert into.rows == []


REFUSED: list[tuple[Callable[[CataloguedTopic], dict[str, Any]], str]] = [
    (lambda s: {"access": access_to(s, allow_catalogue="")}, "allow_catalogue does not name it"),
    (lambda s: {"was_not_deleted": []}, "--was-not-deleted"),
    (lambda s: {"catalogue": s.recover(cluster_id=None)}, "name it by --archived-cluster-id"),
    (lambda s: {"cluster_id": "elsewhere"}, "'elsewhere' is expected"),
]


@pytest.mark.parametrize(("how", "said"), REFUSED)
def test_it_is_restored_by_the_leave_by_which_it_is_read(
    source: CataloguedTopic, into: FakeTopic, how: Callable[[CataloguedTopic], dict[str, Any]], said: str
) -> None:
    with pytest.raises(CatalogueError, match=said):
        restored(source, **how(source))
    assert (into.rows, source.audit()) == ([], [])


def test_a_list_of_erased_ids_wins(source: CataloguedTopic, into: FakeTopic) -> None:
    erased = source.folder / "erased"
    erased.write_text(ID)
    with pytest.raises(CatalogueError, match="erased"):
        restored(source, deleted=str(erased))
    assert into.rows == []


def test_the_audit_log_says_it_before_a_record_is_written(source: CataloguedTopic, into: FakeTopic) -> None:
    restored(source, RestoreStart(offsets={0: 42}), dry_run=True)
    (written,) = (path for path in source.audit() if ".read." in path.name)
    assert f'"topic_id": "{ID}"' in written.read_text()
    assert '"start_offset": 42' in written.read_text()


def test_what_a_person_should_decide_is_refused_though_it_is_read_elsewhere(
    source: CataloguedTopic, into: FakeTopic
) -> None:
    source.put(files_of(7, 40))
    with pytest.raises(CatalogueError, match="nothing tells which of them the cluster counted"):
        restored(source, or_doubtful=True)
    assert into.rows == []


def test_a_hole_is_refused(source: CataloguedTopic, into: FakeTopic) -> None:
    source.put(files_of(8, 200))
    with pytest.raises(OffsetNotInRemoteLogError, match="Nothing is read around a hole"):
        restored(source)
    restored(source, RestoreStart(offsets={0: 200}))
    assert into.rows == rows(*range(200, 230))


def test_a_topic_is_not_restored_into_itself(source: CataloguedTopic, into: FakeTopic) -> None:
    into.topic_id = TIP.topic_id
    access = replace(access_to(source), settings=source.settings(allow_writes=True, expected_cluster_id=CLUSTER_ID))
    with pytest.raises(RestoreError, match="is the one that the records are of"):
        restored(source, access=access, catalogue=source.recover(cluster_id=CLUSTER_ID))
    assert into.rows == []
    into.topic_id = UUID(int=5)
    assert kafka_uuid_str(into.topic_id) != ID
    assert restored(source, access=access, catalogue=source.recover(cluster_id=CLUSTER_ID)).records == 90


def open_source(folder: Path) -> CataloguedTopic:
    """A bucket whose last ten records are behind ten of a transaction that has no end there."""
    batches = [
        Batch(tuple(map(record, range(10)))),
        Batch(tuple(map(record, range(10, 20))), attributes=TRANSACTIONAL, producer_id=7),
        Batch(tuple(map(record, range(20, 30)))),
    ]
    files = files_of(0, 0, written=batches)
    return CataloguedTopic(
        folder, replace(files, indexes={**files.indexes, IndexType.PRODUCER_SNAPSHOT: producer_snapshot([(7, 10)])})
    )


@pytest.mark.parametrize(
    ("choice", "offsets", "became"),
    [
        (None, [*range(10), *range(20, 30)], "it counts as aborted, and its records are left out"),
        (Undecided.ABORT, [*range(10), *range(20, 30)], "it counts as aborted, and its records are left out"),
        (Undecided.KEEP, [*range(30)], "its records are restored"),
    ],
)
def test_a_transaction_without_an_end_needs_a_person_until_one_has_decided(
    tmp_path: Path, into: FakeTopic, choice: Undecided | None, offsets: list[int], became: str
) -> None:
    report = restored(open_source(tmp_path), undecided=choice)
    assert into.rows == rows(*offsets)
    named = f"partition 0: the source has no end of a transaction (producer 7 from offset 10 on, 10 records): {became}"
    assert report.transactions == [named]
    assert report.needs_person == (choice is None)
    assert [why.startswith(f"{named}. It may have been committed") for why in report.problems] == [True] * (
        choice is None
    )
    assert report.left_out == 30 - len(offsets)


def test_a_choice_is_bound_to_the_restore_that_was_begun(tmp_path: Path, into: FakeTopic) -> None:
    source = open_source(tmp_path)
    catalogue = source.recover()
    restored(source, catalogue=catalogue)
    with pytest.raises(RestoreError, match="undecided"):
        restored(source, catalogue=catalogue, undecided=Undecided.KEEP)
    assert restored(source, catalogue=catalogue, undecided=Undecided.ABORT).records == 20
