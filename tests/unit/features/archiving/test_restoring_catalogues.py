# SPDX-License-Identifier: Apache-2.0
"""A topic is restored from a bucket by its catalogue: by the leave by which it is read, from a start that a person names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
from airflow_provider_rlmm.features.archiving import restore_effects, restore_steps
from airflow_provider_rlmm.features.archiving.restore_catalogue import NOT_IN_A_BUCKET, CatalogueToRestore
from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
from airflow_provider_rlmm.features.archiving.restore_progress import at_rest
from airflow_provider_rlmm.features.archiving.restore_rules import (
    INCOMPLETE_ARCHIVE,
    INCOMPLETE_CATALOGUE,
    RestoreRange,
    Undecided,
)
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport, restore
from airflow_provider_rlmm.features.reading.catalogue_steps import CatalogueAsked
from tests.builders import CLUSTER_ID
from tests.catalogued import CLUSTER, ID, RUN, CataloguedTopic, files_of
from tests.kafka_log import TRANSACTIONAL, Batch, control_batch, producer_snapshot, transaction_index
from tests.remote_log_world import TIP
from tests.restoring import FakeAccess, FakeTopic, Killed
from tests.tiered_orders import START_MS, record

BEGINNING = RestoreRange(beginning=True)


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
    wanted: RestoreRange = BEGINNING,
    *,
    catalogue: str | None = None,
    access: FakeAccess | None = None,
    topic_id: str = ID,
    dry_run: bool = False,
    cluster_id: str | None = None,
    undecided: Undecided | None = None,
    offset_header: bool = False,
    overrides: Sequence[str] = (),
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
            wanted=wanted,
        ),
        overrides=overrides,
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
        (RestoreRange(offsets={0: 42}), 42),
        (RestoreRange(time_ms=START_MS + 55_000), 55),
        (RestoreRange(time_ms=START_MS + 55_000, offsets={0: 12}), 12),
        (RestoreRange(beginning=True, offsets={0: 99}), 99),
    ],
)
def test_it_begins_where_a_person_says(
    source: CataloguedTopic, into: FakeTopic, start: RestoreRange, first: int
) -> None:
    restored(source, start)
    assert into.rows == rows(*range(first, 100))


@pytest.mark.parametrize(
    ("wanted", "first", "end"),
    [
        (RestoreRange(beginning=True, ends={0: 55}), 10, 55),
        (RestoreRange(beginning=True, ends={0: 100}), 10, 100),
        (RestoreRange(offsets={0: 42}, ends={0: 43}), 42, 43),
        (RestoreRange(time_ms=START_MS + 55_000, ends={0: 71}), 55, 71),
        (RestoreRange(offsets={0: 42}, ends={0: 42}), 42, 42),
    ],
)
def test_it_ends_where_a_person_says(
    source: CataloguedTopic, into: FakeTopic, wanted: RestoreRange, first: int, end: int
) -> None:
    report = restored(source, wanted)
    assert into.rows == rows(*range(first, end))
    assert (report.needs_person, report.left_out) == (False, 0)
    audited = next(path for path in source.audit() if ".read." in path.name)
    assert f'"end_offset": {end}' in audited.read_text()


def test_an_end_is_one_that_the_source_has(source: CataloguedTopic, into: FakeTopic) -> None:
    with pytest.raises(ConfigurationError, match="lies before the start"):
        RestoreRange(offsets={0: 42}, ends={0: 41})
    with pytest.raises(ConfigurationError, match=r"the end names partitions \[7\]"):
        restored(source, RestoreRange(beginning=True, ends={7: 42}))
    with pytest.raises(OffsetNotInRemoteLogError, match=r"offset 100 of .* is wanted"):
        restored(source, RestoreRange(beginning=True, ends={0: 101}))
    assert into.rows == []


def test_an_end_is_bound_to_the_restore_that_was_begun(source: CataloguedTopic, into: FakeTopic) -> None:
    catalogue = source.recover()
    restored(source, RestoreRange(beginning=True, ends={0: 55}), catalogue=catalogue)
    with pytest.raises(
        RestoreError, match=r"start \(the beginning, up to offset 55 of partition 0 then, the beginning now"
    ):
        restored(source, catalogue=catalogue)
    assert len(into.rows) == 45


def test_a_start_behind_all_that_there_is_restores_nothing_and_says_it(
    source: CataloguedTopic, into: FakeTopic
) -> None:
    report = restored(source, RestoreRange(time_ms=START_MS + 10**9))
    assert (into.rows, report.reaches) == ([], ["partition 0: nothing is there to restore"])


def test_offsets_that_stay_are_said(tmp_path: Path, into: FakeTopic) -> None:
    report = restored(CataloguedTopic(tmp_path, files_of(0, 0)))
    assert report.reaches[0].endswith("all offsets stay the same")


def test_a_start_has_to_be_named() -> None:
    with pytest.raises(ConfigurationError, match="no start is named, and the bucket cannot tell what retention"):
        RestoreRange()
    with pytest.raises(ConfigurationError, match="name one of them"):
        RestoreRange(beginning=True, time_ms=1)


def test_a_start_names_every_partition_and_no_other(source: CataloguedTopic, into: FakeTopic) -> None:
    source.put(files_of(9, 0, of=TopicIdPartition(TIP.topic_id, TIP.topic, 1)))
    with pytest.raises(ConfigurationError, match=r"names no offset of partitions \[1\]"):
        restored(source, RestoreRange(offsets={0: 42}))
    with pytest.raises(ConfigurationError, match=r"the start names partitions \[7\]"):
        restored(source, RestoreRange(beginning=True, offsets={7: 42}))
    assert into.rows == []


def test_what_was_deleted_before_the_start_is_not_made_up(source: CataloguedTopic, into: FakeTopic) -> None:
    with pytest.raises(OffsetNotInRemoteLogError, match="Begin at 10"):
        restored(source, RestoreRange(offsets={0: 0}))
    assert into.rows == []


REFUSED: list[tuple[Callable[[CataloguedTopic], dict[str, Any]], str]] = [
    (lambda s: {"access": access_to(s, allow_catalogue="")}, "allow_catalogue does not name it"),
    (lambda s: {"was_not_deleted": []}, "was_not_deleted"),
    (lambda s: {"catalogue": s.recover(cluster_id=None)}, "name it by archived_cluster_id"),
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
    restored(source, RestoreRange(offsets={0: 42}), dry_run=True)
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
    restored(source, RestoreRange(offsets={0: 200}))
    assert into.rows == rows(*range(200, 230))


def test_what_there_is_round_a_hole_is_restored_where_a_person_takes_it(
    source: CataloguedTopic, into: FakeTopic
) -> None:
    source.put(files_of(8, 200))
    with pytest.raises(OffsetNotInRemoteLogError, match="The override incomplete_catalogue restores what there is"):
        restored(source)
    report = restored(source, overrides=[INCOMPLETE_CATALOGUE])
    assert into.rows == rows(*range(10, 100), *range(200, 230))
    assert report.incomplete == ("partition 0: no segment that can be read holds offsets 100 to 199",)
    assert report.problems == [f"the catalogue is not whole: {report.incomplete[0]}"]
    assert report.needs_person


LACKING: list[tuple[RestoreRange, list[int], list[str]]] = [
    (
        RestoreRange(offsets={0: 0}),
        [*range(10, 100), *range(200, 230)],
        ["offset 0 is where it is to begin", "100 to 199"],
    ),
    (RestoreRange(offsets={0: 150}), [*range(200, 230)], ["holds offsets 150 to 199"]),
    (RestoreRange(offsets={0: 300}), [], ["offset 300 is where it is to begin, and offsets 10 to 229 can be read"]),
    (
        RestoreRange(beginning=True, ends={0: 250}),
        [*range(10, 100), *range(200, 230)],
        ["offset 249 is where it is to end", "100 to 199"],
    ),
    (RestoreRange(beginning=True, ends={0: 150}), [*range(10, 100)], ["holds offsets 100 to 149"]),
    (RestoreRange(offsets={0: 150}, ends={0: 160}), [], ["holds offsets 150 to 159"]),
    (RestoreRange(time_ms=START_MS + 10**9), [], ["holds offsets 100 to 199, which may be of that time or later"]),
    (
        RestoreRange(time_ms=START_MS + 150_000),
        [*range(200, 230)],
        ["holds offsets 100 to 199, which may be of that time or later"],
    ),
    (RestoreRange(offsets={0: 20}, ends={0: 90}), [*range(20, 90)], []),
]


@pytest.mark.parametrize(("wanted", "offsets", "missing"), LACKING)
def test_what_is_missing_is_named_wherever_it_lies(
    source: CataloguedTopic, into: FakeTopic, wanted: RestoreRange, offsets: list[int], missing: list[str]
) -> None:
    source.put(files_of(8, 200))
    report = restored(source, wanted, overrides=[INCOMPLETE_CATALOGUE])
    assert into.rows == rows(*offsets)
    assert len(report.incomplete) == len(missing)
    for said, part in zip(report.incomplete, missing, strict=True):
        assert part in said


def test_a_segment_that_cannot_be_read_is_missing_by_its_id(source: CataloguedTopic, into: FakeTopic) -> None:
    source.put(files_of(8, 100), encrypted=True)
    with pytest.raises(OffsetNotInRemoteLogError, match="it is encrypted"):
        restored(source)
    report = restored(source, overrides=[INCOMPLETE_CATALOGUE])
    assert into.rows == rows(*range(10, 100))
    (said,) = report.incomplete
    assert said.startswith(
        f"partition 0: segment {kafka_uuid_str(UUID(int=1008))} (offsets 100 to 129): it is encrypted"
    )


def test_an_older_lineage_fills_no_hole(source: CataloguedTopic, into: FakeTopic) -> None:
    source.put(files_of(8, 100))
    source.put(files_of(9, 130, [(0, 0), (1, 100)]))
    with pytest.raises(CatalogueError, match="so an older one does"):
        restored(source)
    report = restored(source, overrides=[INCOMPLETE_CATALOGUE])
    assert into.rows == rows(*range(10, 100), *range(130, 160))
    assert report.incomplete == ("partition 0: no segment that can be read holds offsets 100 to 129",)


@pytest.mark.parametrize("count", range(0, 100, 5))
def test_killed_at_twenty_points_it_converges_round_a_hole_and_up_to_an_end(
    source: CataloguedTopic, into: FakeTopic, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    seconds = [0.0]
    rest = partial(at_rest, clock=lambda: seconds[0], sleep=lambda s: seconds.append(seconds.pop() + s))
    monkeypatch.setattr(restore_effects, "at_rest", rest)
    source.put(files_of(8, 200))
    catalogue, wanted = source.recover(), RestoreRange(beginning=True, ends={0: 220})
    into.dies_at = count
    with pytest.raises(Killed):
        restored(source, wanted, catalogue=catalogue, overrides=[INCOMPLETE_CATALOGUE])
    assert len(into.rows) == count
    into.dies_at = None
    report = restored(source, wanted, catalogue=catalogue, overrides=[INCOMPLETE_CATALOGUE])
    assert into.rows == rows(*range(10, 100), *range(200, 220))
    assert (report.records, len(report.incomplete)) == (110, 1)


def test_what_a_person_should_decide_is_refused_round_a_hole_too(source: CataloguedTopic, into: FakeTopic) -> None:
    source.put(files_of(7, 40))
    source.put(files_of(8, 200))
    with pytest.raises(CatalogueError, match="nothing tells which of them the cluster counted"):
        restored(source, overrides=[INCOMPLETE_CATALOGUE])
    assert into.rows == []


def test_an_override_is_about_its_own_source(source: CataloguedTopic, into: FakeTopic) -> None:
    with pytest.raises(ConfigurationError, match=f"here it is {INCOMPLETE_CATALOGUE}"):
        restored(source, overrides=[INCOMPLETE_ARCHIVE])
    assert source.audit() == []


def test_a_transaction_that_ends_behind_the_end_is_no_open_one(tmp_path: Path, into: FakeTopic) -> None:
    def of(producer: int, *offsets: int) -> Batch:
        return Batch(tuple(map(record, offsets)), attributes=TRANSACTIONAL, producer_id=producer)

    first = [of(7, 0, 1, 2), of(8, 3, 4, 5), of(9, 6, 7, 8), Batch(tuple(map(record, range(9, 12))))]
    second = [
        control_batch(12, 7, commit=True), control_batch(13, 8, commit=False), of(7, 14, 15),
    ]  # fmt: skip
    files = [files_of(0, 0, written=first), files_of(1, 12, written=second)]
    snapshots = [[(7, 0), (8, 3), (9, 6)], [(7, 14), (9, 6)]]
    for number, (one, said) in enumerate(zip(files, snapshots, strict=True)):
        indexes = {**one.indexes, IndexType.PRODUCER_SNAPSHOT: producer_snapshot(said)}
        if number:
            indexes[IndexType.TRANSACTION] = transaction_index([(8, 3, 13, 14)])
        metadata = replace(one.metadata, txn_idx_empty=not number)
        files[number] = replace(one, metadata=metadata, indexes=indexes)
    report = restored(CataloguedTopic(tmp_path, *files), RestoreRange(beginning=True, ends={0: 11}))
    # Of the first producer all was committed, of the second aborted; nothing tells how the third one ended.
    assert into.rows == rows(0, 1, 2, 9, 10)
    (undecided,) = report.partitions[0].undecided
    assert (undecided.producer_id, undecided.records, report.left_out) == (9, 3, 6)


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
