# SPDX-License-Identifier: Apache-2.0
"""What is read by a catalogue, by whose leave, by which lineage, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from airflow_provider_rlmm.core.base.errors import (
    AuditError,
    CatalogueError,
    ConfigurationError,
    DamagedObjectError,
    OffsetNotInRemoteLogError,
)
from airflow_provider_rlmm.core.plans.catalogue_document import CatalogueAmount, UnlistedFolder
from airflow_provider_rlmm.core.plans.catalogue_files import CatalogueFiles
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.world.catalogue_reads import AuditedRange, CatalogueRead
from airflow_provider_rlmm.features.reading import catalogue_steps
from tests.catalogued import CLUSTER, ID, NOW_MS, CataloguedTopic, files_of, offsets_in
from tests.remote_log_world import TIP
from tests.tiered_orders import START_MS, batches

OTHER = TopicIdPartition(UUID(int=8), TIP.topic, 0)


def segment_id(number: int) -> str:
    return kafka_uuid_str(UUID(int=1000 + number))


@pytest.fixture
def topic(tmp_path: Path) -> CataloguedTopic:
    return CataloguedTopic(tmp_path, *(files_of(n, 30 * n) for n in range(3)))


# --- leave ------------------------------------------------------------------------------------------------------------


def test_all_is_read_and_stands_on_the_audit_log(topic: CataloguedTopic) -> None:
    log = topic.open(wanted=ReadRange(5, 70), isolation=ReadIsolation.READ_COMMITTED)
    (written,) = topic.audit()
    assert written.parent.parent.name == "audit"
    assert written.parents[2].name == f"cluster-{CLUSTER}"
    found = CatalogueRead.from_json(written.read_text())
    assert (found.time_ms, found.dag_id, found.triggered_by) == (NOW_MS, "rlmm read", "ada")
    assert (found.cluster_id, found.topic, found.topic_id) == (CLUSTER, "orders", ID)
    assert found.ranges == (AuditedRange(0, 5, 70, None, None),)
    assert (found.isolation, found.what) == (ReadIsolation.READ_COMMITTED, "read")
    assert offsets_in(log) == list(range(90))
    assert offsets_in(log, ReadRange(5, 70)) == list(range(5, 70))
    assert offsets_in(log, ReadRange(start_ms=START_MS + 42_000, end_ms=START_MS + 50_000)) == list(range(42, 50))
    assert log.problems == []
    assert (
        log.said[0]
        == f"partition 0 is read by its lineage, the one that segment {segment_id(2)} keeps, up to leader epoch 0"
    )


def test_nothing_is_read_that_cannot_be_written_down(topic: CataloguedTopic) -> None:
    (topic.folder / "work").write_text("no folder")
    with pytest.raises(AuditError, match="so nothing is read"):
        topic.open()


def test_no_topic_is_allowed_unless_the_settings_name_it(topic: CataloguedTopic) -> None:
    catalogue = topic.recover()
    for allowed in (None, "invoices", kafka_uuid_str(OTHER.topic_id)):
        with pytest.raises(CatalogueError, match=f"allow_catalogue does not name it.*put {ID} into"):
            topic.open(catalogue, settings=topic.settings(allow_catalogue=allowed))
    assert topic.audit() == []
    for allowed in ("orders", f"invoices, {ID}"):
        assert offsets_in(topic.open(catalogue, settings=topic.settings(allow_catalogue=allowed)))[-1] == 89
    with pytest.raises(ConfigurationError, match="patterns are not taken"):
        topic.settings(allow_catalogue="*").check()


def test_a_person_says_of_each_topic_that_it_was_not_deleted(topic: CataloguedTopic) -> None:
    catalogue = topic.recover()
    with pytest.raises(
        CatalogueError, match=f" may have been deleted: a bucket does not know it.*was_not_deleted {ID}"
    ):
        topic.open(catalogue, was_not_deleted=[])
    with pytest.raises(CatalogueError, match=f"{kafka_uuid_str(OTHER.topic_id)} is said not to have been deleted"):
        topic.open(catalogue, was_not_deleted=[ID, kafka_uuid_str(OTHER.topic_id)])
    with pytest.raises(ConfigurationError, match="no id in Kafka's form"):
        topic.open(catalogue, was_not_deleted=["orders"])
    assert topic.audit() == []


def test_what_a_person_calls_erased_is_never_read(topic: CataloguedTopic) -> None:
    catalogue, erased = topic.recover(), topic.folder / "erased"
    erased.write_text(f"# by request 17\n\n{ID} # orders\n")
    with pytest.raises(CatalogueError, match="in the list of what was erased"):
        topic.open(catalogue, deleted=str(erased))
    erased.write_text(f"{segment_id(1)}\n")
    log = topic.open(catalogue, deleted=str(erased))
    with pytest.raises(OffsetNotInRemoteLogError, match=f"offsets 30 to 59.*{segment_id(1)}.*list of what was erased"):
        offsets_in(log)
    assert offsets_in(log, ReadRange(end_offset=30)) == list(range(30))
    erased.write_text("orders\n")
    with pytest.raises(ConfigurationError, match=r"line 1 of the list of erased ids .* is 'orders'"):
        topic.open(catalogue, deleted=str(erased))
    with pytest.raises(ConfigurationError, match=r"cannot be read .* nothing is read"):
        topic.open(catalogue, deleted=str(topic.folder / "missing"))


def test_a_name_of_two_ids_means_nothing(topic: CataloguedTopic) -> None:
    topic.put(files_of(7, 0, of=OTHER))
    catalogue = topic.recover()
    both = sorted([ID, kafka_uuid_str(OTHER.topic_id)])
    with pytest.raises(CatalogueError, match=f"is the name of 2 topic ids: {', '.join(both)}"):
        topic.open(catalogue, "orders")
    assert offsets_in(topic.open(catalogue))[-1] == 89
    # Nor does the name in the settings: it would allow both.
    with pytest.raises(CatalogueError, match="Its name is not enough"):
        topic.open(catalogue, settings=topic.settings(allow_catalogue="orders"))


def test_a_name_counts_only_where_all_ids_of_it_were_looked_for(topic: CataloguedTopic) -> None:
    topic.put(files_of(7, 0, of=OTHER))
    catalogue = topic.recover(topics=[ID])
    with pytest.raises(CatalogueError, match="it was made of some topic ids only: give the id"):
        topic.open(catalogue, "orders")
    assert offsets_in(topic.open(catalogue))[-1] == 89


def test_one_name_of_one_id_is_taken_and_others_are_not_known(topic: CataloguedTopic) -> None:
    catalogue = topic.recover()
    assert offsets_in(topic.open(catalogue, "orders"))[-1] == 89
    with pytest.raises(CatalogueError, match="names no topic 'invoices'"):
        topic.open(catalogue, "invoices")
    with pytest.raises(CatalogueError, match=r"names no partitions \[4\] of 'orders'. It names 1, from 0 to 0"):
        topic.open(catalogue, "orders", [0, 4])


# --- the catalogue and the objects ------------------------------------------------------------------------------------


def test_a_catalogue_that_was_changed_is_not_read(topic: CataloguedTopic) -> None:
    catalogue = Path(topic.recover())
    document, table = catalogue / "catalogue.json", catalogue / "catalogue.parquet"
    right = document.read_text()
    document.write_text(right.replace('"asked_for": []', '"asked_for": ["orders"]'))
    with pytest.raises(CatalogueError, match="cannot be read"):
        topic.open(str(catalogue))
    document.write_text(right)
    rows = pq.read_table(table)
    pq.write_table(rows.slice(0, 2), table)
    with pytest.raises(CatalogueError, match="not the one that its document names"):
        topic.open(str(catalogue))
    table.unlink()
    with pytest.raises(CatalogueError, match="not the one that its document names"):
        topic.open(str(catalogue))
    with pytest.raises(CatalogueError, match="there is no catalogue in"):
        topic.open(str(topic.folder / "nowhere"))


def test_a_catalogue_of_another_storage_or_cluster_is_refused(topic: CataloguedTopic) -> None:
    catalogue = topic.recover()
    with pytest.raises(CatalogueError, match=r"the settings name .* correct them"):
        topic.open(catalogue, settings=topic.settings(storage_uri="s3://other"))
    with pytest.raises(CatalogueError, match="'cluster-1', and 'cluster-2' is expected"):
        topic.open(catalogue, settings=topic.settings(expected_cluster_id="cluster-2"))
    unknown = topic.recover(cluster_id=None)
    with pytest.raises(CatalogueError, match="name it by expected_cluster_id"):
        topic.open(unknown)
    topic.open(unknown, settings=topic.settings(expected_cluster_id="cluster-2"))
    assert [path.parents[2].name for path in topic.audit()] == ["cluster-cluster-2"]


def test_objects_are_compared_with_the_catalogue_before_they_are_read(topic: CataloguedTopic) -> None:
    catalogue = topic.recover()
    log = next(path for path in topic.root.rglob("*.log") if segment_id(1) in path.name)
    right = log.read_bytes()
    log.write_bytes(right + b"x")
    with pytest.raises(CatalogueError, match=r"bytes, and the catalogue says .*: they are others"):
        offsets_in(topic.open(catalogue))
    log.unlink()
    with pytest.raises(
        CatalogueError, match=r"1 object of segment .* has gone since the catalogue was made, .*\.log first"
    ):
        offsets_in(topic.open(catalogue))
    log.write_bytes(right)
    assert offsets_in(topic.open(catalogue))[-1] == 89


def test_keys_that_the_layout_does_not_build_are_not_read(topic: CataloguedTopic) -> None:
    catalogue = topic.recover()
    topic.bucket.layout = AivenLayout("other/")
    log = topic.open(catalogue, settings=topic.settings(key_prefix="other/"))
    with pytest.raises(OffsetNotInRemoteLogError, match=r"it lies at the place .*, and the settings name no such"):
        offsets_in(log)


def test_a_log_that_ends_before_its_last_offset_is_damaged(tmp_path: Path) -> None:
    """Where a bit of an end offset in a manifest has flipped, records of the next segment would be passed over."""
    first = files_of(0, 0)
    said = first.metadata.end_offset | 32
    flipped = replace(first, metadata=replace(first.metadata, end_offset=said))
    log = CataloguedTopic(tmp_path, flipped, files_of(1, 30)).open(or_doubtful=True)
    with pytest.raises(DamagedObjectError, match=f"ends in offset 29, and it is said to hold offset {said}"):
        offsets_in(log)


# --- what is not there ------------------------------------------------------------------------------------------------


def test_nothing_is_read_around_a_hole(tmp_path: Path) -> None:
    topic = CataloguedTopic(tmp_path, files_of(0, 0), files_of(2, 60))
    log = topic.open()
    for wanted in (ReadRange(), ReadRange(10, 70), ReadRange(start_ms=START_MS + 5_000)):
        for allow_incomplete in (False, True):
            with pytest.raises(
                OffsetNotInRemoteLogError, match=r"has offsets 30 to 59 .* up to offset 30, .* from offset 60"
            ):
                offsets_in(log, wanted, allow_incomplete=allow_incomplete)
    assert offsets_in(log, ReadRange(end_offset=30)) == list(range(30))
    assert offsets_in(log, ReadRange(start_offset=60)) == list(range(60, 90))
    # The first record of that time may be in the hole.
    with pytest.raises(OffsetNotInRemoteLogError, match="has offsets 30 to 59"):
        offsets_in(log, ReadRange(start_ms=START_MS + 40_000))


def test_encrypted_segments_are_refused_by_name(topic: CataloguedTopic) -> None:
    topic.put(files_of(3, 90), encrypted=True)
    log = topic.open()
    for wanted in (ReadRange(), ReadRange(start_offset=10), ReadRange(end_offset=100), ReadRange(start_ms=0)):
        with pytest.raises(OffsetNotInRemoteLogError, match=rf"{segment_id(3)} \(offsets 90 to 119\): it is encrypted"):
            offsets_in(log, wanted)
    assert offsets_in(log, ReadRange(0, 90)) == list(range(90))
    assert offsets_in(log, ReadRange(end_offset=90)) == list(range(90))
    assert offsets_in(log, allow_incomplete=True) == list(range(90))
    assert f"left out, as an incomplete range is allowed: segment {segment_id(3)}" in log.said[-1]


def test_a_topic_of_encrypted_segments_only_is_refused(tmp_path: Path) -> None:
    topic = CataloguedTopic(tmp_path)
    topic.put(files_of(0, 0), encrypted=True)
    with pytest.raises(OffsetNotInRemoteLogError, match=r"it is encrypted.*nothing of it can"):
        offsets_in(topic.open())
    assert offsets_in(topic.open(), allow_incomplete=True) == []


def test_an_encrypted_copy_of_what_can_be_read_refuses_nothing(topic: CataloguedTopic) -> None:
    topic.put(files_of(3, 30), encrypted=True)
    assert offsets_in(topic.open(or_doubtful=True)) == list(range(90))


@pytest.mark.parametrize("at", [0, 2])
def test_damaged_segments_at_an_end_are_said(topic: CataloguedTopic, at: int) -> None:
    stem = topic.bucket.stem(files_of(at, 30 * at).metadata)
    topic.bucket.storage.put_object(f"{stem}.rsm-manifest", b"{")
    log = topic.open()
    with pytest.raises(
        OffsetNotInRemoteLogError, match=rf"{segment_id(at)} \(offsets {30 * at} to an unknown offset\)"
    ):
        offsets_in(log)
    there = range(30, 90) if at == 0 else range(60)
    assert offsets_in(log, ReadRange(there.start, there.stop)) == list(there)
    assert offsets_in(log, allow_incomplete=True) == list(there)


def test_unfinished_copies_are_said(topic: CataloguedTopic) -> None:
    topic.put(files_of(3, 90), without=[".rsm-manifest"])
    log = topic.open()
    assert offsets_in(log) == list(range(90))
    assert "of 1 more segment a copy or a deletion had not come to its end" in log.said[1]


# --- lineages ---------------------------------------------------------------------------------------------------------

OLD, NEW = ((3, 0),), ((3, 0), (5, 60))
"""Two lineages: the leader of epoch 5 never had what that of epoch 3 wrote from offset 60 on."""


@pytest.fixture
def elected(tmp_path: Path) -> CataloguedTopic:
    """Segments 0 and 1 are both lineages', 2 and 3 are the older one's, 4 the newer one's."""
    common = [files_of(n, 30 * n, OLD) for n in range(2)]
    return CataloguedTopic(tmp_path, *common, files_of(2, 60, OLD), files_of(3, 90, OLD), files_of(4, 60, NEW))


def test_the_lineage_of_the_highest_last_epoch_is_read(elected: CataloguedTopic) -> None:
    log = elected.open()
    assert offsets_in(log) == list(range(90))
    assert f"segment {segment_id(4)} keeps, up to leader epoch 5. There are 1 other lineages: " in log.said[0]
    assert f"segment {segment_id(3)} keeps, up to leader epoch 3" in log.said[0]
    assert log.problems == []


def test_an_older_lineage_is_read_where_it_alone_covers_the_range_and_a_person_is_told(
    elected: CataloguedTopic,
) -> None:
    catalogue, wanted = elected.recover(), ReadRange(60, 120)
    with pytest.raises(CatalogueError, match=f'an older one does.*"lineages": "{segment_id(3)}"'):
        offsets_in(elected.open(catalogue), wanted)
    log = elected.open(catalogue, or_doubtful=True)
    assert offsets_in(log, wanted) == list(range(60, 120))
    assert f'"lineages": "{segment_id(3)}"' in log.problems[0]
    named = elected.open(catalogue, lineages=[segment_id(3)])
    assert offsets_in(named, wanted) == list(range(60, 120))
    assert offsets_in(named) == list(range(120))
    assert named.problems == []


def test_a_lineage_that_nothing_keeps_is_refused(elected: CataloguedTopic) -> None:
    catalogue = elected.recover()
    with pytest.raises(CatalogueError, match="a lineage is named by a segment that keeps it"):
        elected.open(catalogue, lineages=[segment_id(9)])
    with pytest.raises(CatalogueError, match="two lineages are named"):
        elected.open(catalogue, lineages=[segment_id(3), segment_id(4)])


def test_a_newest_lineage_that_cannot_be_read_is_passed_over_by_name_only(elected: CataloguedTopic) -> None:
    broken = files_of(5, 90, NEW)
    broken.indexes[IndexType.LEADER_EPOCH] = b"0\n1\nnone"
    elected.put(broken)
    catalogue = elected.recover()
    with pytest.raises(
        CatalogueError, match=f"cannot be read, the one that segment {segment_id(5)}.*by the argument .lineages."
    ):
        offsets_in(elected.open(catalogue))
    # Its records can be read by what another segment of its lineage keeps.
    assert offsets_in(elected.open(catalogue, lineages=[segment_id(4)])) == list(range(120))


def test_copies_between_which_nothing_decides_are_said(topic: CataloguedTopic) -> None:
    topic.put(files_of(3, 30))
    catalogue = topic.recover()
    with pytest.raises(CatalogueError, match=f"{segment_id(1)} and {segment_id(3)} have the same offsets"):
        offsets_in(topic.open(catalogue))
    log = topic.open(catalogue, or_doubtful=True)
    assert offsets_in(log) == list(range(90))
    assert 'by the argument "deleted" of the operator' in log.problems[0]
    assert offsets_in(topic.open(catalogue), ReadRange(0, 30)) == list(range(30))
    (topic.folder / "erased").write_text(segment_id(3))
    assert offsets_in(topic.open(catalogue, deleted=str(topic.folder / "erased"))) == list(range(90))


def test_segments_in_any_order_and_overlap_hide_no_offset(tmp_path: Path) -> None:
    """A leader that copies anew may begin earlier and end later than the segments that it takes the places of."""
    long = [batch for start in range(0, 90, 30) for batch in batches(start)]
    topic = CataloguedTopic(tmp_path, files_of(9, 0, written=long), files_of(1, 30))
    log = topic.open(or_doubtful=True)
    assert offsets_in(log) == list(range(90))
    assert offsets_in(log, ReadRange(start_offset=60)) == list(range(60, 90))


def test_what_was_not_listed_is_said(topic: CataloguedTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = topic.recover()
    made = CatalogueFiles(catalogue)
    folder = UnlistedFolder("kp/orders-x/", "it broke off", CatalogueAmount())
    monkeypatch.setattr(made, "document", replace(made.document, incomplete=(folder,)))
    monkeypatch.setattr(catalogue_steps, "CatalogueFiles", lambda _: made)
    log = topic.open(catalogue)
    with pytest.raises(OffsetNotInRemoteLogError, match="1 folder was not listed whole"):
        offsets_in(log)
    assert offsets_in(log, ReadRange(0, 90)) == list(range(90))
    assert offsets_in(log, allow_incomplete=True) == list(range(90))
    with pytest.raises(CatalogueError, match="as not all folders were listed whole: give the id"):
        topic.open(catalogue, "orders")
