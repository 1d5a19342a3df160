# SPDX-License-Identifier: Apache-2.0
"""A restore takes an archive only where it is whole: what a run has named and is not there is refused, or needs a person."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import ArchiveError, StoppedError
from airflow_provider_rlmm.core.log.answers import TargetTopic
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.features.archiving import restore_steps as session_restoring
from airflow_provider_rlmm.features.archiving.archive import documents
from airflow_provider_rlmm.features.archiving.archive.reading import open_topic
from airflow_provider_rlmm.features.archiving.archive_run import file_name
from airflow_provider_rlmm.features.archiving.restore_document import RestoreRun
from airflow_provider_rlmm.features.archiving.restore_rules import INCOMPLETE_ARCHIVE
from airflow_provider_rlmm.features.archiving.restore_steps import RestoreReport, restore
from tests.archiving import ArchivingCluster, Run
from tests.builders import CLUSTER_ID, START_MS, tip
from tests.restoring import GONE_ID, RUN, FakeAccess, FakeTopic

pytestmark = pytest.mark.slow

RECORDS = 60
"""Of two partitions with three segments each."""


@dataclass
class PartitionedTopic(FakeTopic):
    """A topic of two partitions in memory."""

    written: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: {0: [], 1: []})

    def look(self) -> TargetTopic:
        ends = {partition: len(rows) for partition, rows in self.written.items()}
        return TargetTopic("restored", self.topic_id, {0: 0, 1: 0}, ends, self.settings)

    def write(self, partition: int, batches: Iterable[pa.RecordBatch], begin: int, max_message_bytes: int) -> int:
        self.written[partition] += [row for batch in batches for row in batch.to_pylist()]
        return len(self.written[partition])

    def read_back(self, partition: int, begin: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(self.written[partition][begin:end], schema)

    @property
    def count(self) -> int:
        return sum(map(len, self.written.values()))


@dataclass
class World:
    """A deleted topic of two partitions, archived by three runs, and the empty topic that it is restored into."""

    folder: Path
    topic: PartitionedTopic
    access: Any

    @property
    def archive(self) -> Path:
        (found,) = (self.folder / "archives").glob(f"*/*-{GONE_ID}")
        return found

    def manifest(self, run: str, partition: int = 0) -> Path:
        (found,) = (self.archive / f"{partition}" / "manifests").glob(f"{run}.*")
        return found

    def document(self, run: str) -> Path:
        (found,) = (self.archive / "runs").glob(f"{run}.*")
        return found

    def restore(self, *overrides: str, dry_run: bool = False) -> RestoreReport:
        return restore(
            self.access,
            GONE_ID,
            "restored",
            by=RestoreRun(RUN, str(self.folder / "work")),
            overrides=overrides,
            dry_run=dry_run,
        )


def cluster_with_two_partitions() -> ArchivingCluster:
    cluster = ArchivingCluster()
    for partition in (0, 1):
        cluster.real_segments(tip("gone", partition), 3)
    cluster.mark_and_wait()
    return cluster


def archive_in_three_runs(cluster: ArchivingCluster, folder: Path) -> None:
    """Each run archives two segments more and deletes nothing: the plans overlap."""
    for number in (1, 2, 3):
        run = Run(cluster, folder, f"run-{number}")
        run.plan_again(max_segments=2 * number)
        assert run.archive().refused == {}


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives of three runs; each test spoils a copy of them."""
    folder = tmp_path_factory.mktemp("archived")
    archive_in_three_runs(cluster_with_two_partitions(), folder)
    return folder


@pytest.fixture
def world(archived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    shutil.copytree(archived, tmp_path, dirs_exist_ok=True)
    topic = PartitionedTopic()
    topic.take_the_place_of_kafkas(monkeypatch)
    monkeypatch.setattr(session_restoring, "system_clock", lambda: START_MS)
    settings = RemoteLogSettings(
        archive_uri=str(tmp_path / "archives"), allow_writes=True, expected_cluster_id=CLUSTER_ID
    )
    return World(tmp_path, topic, FakeAccess(settings))


def lose_partition(world: World) -> str:
    shutil.rmtree(world.archive / "1")
    return "partition 1: 3 of the 3 segments that the log named are in no manifest, with offsets 0 to 29"


def lose_manifest(world: World) -> str:
    lost = world.manifest("run-3", 1)
    lost.unlink()
    return f"partition 1: manifests/{lost.name} of 3 segments, with offsets 0 to 29 is not there"


def add_manifest(world: World) -> str:
    """As a try leaves it that was killed before its document."""
    cluster = cluster_with_two_partitions()
    other = world.folder / "other"
    Run(cluster, other, "killed").archive()
    (folder,) = (other / "archives").glob("*/*-" + GONE_ID)
    (manifest,) = (folder / "0" / "manifests").iterdir()
    shutil.copytree(folder / "0", world.archive / "0", dirs_exist_ok=True)
    return f"partition 0: manifests/{manifest.name} is there, and no run says that it has written it"


def lose_documents(world: World) -> str:
    shutil.rmtree(world.archive / "runs")
    return "no document says what the archive has to hold"


HALVES = {
    "a partition's folder": (lose_partition, 30),
    "one of its manifests": (lose_manifest, None),
    "an unnamed manifest": (add_manifest, RECORDS),
    "no document": (lose_documents, RECORDS),
}


def test_a_whole_archive_is_restored_and_needs_nobody(world: World) -> None:
    report = world.restore()
    assert (report.records, world.topic.count, report.needs_person, report.incomplete) == (RECORDS, RECORDS, False, ())


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("half", HALVES)
def test_half_an_archive_is_refused(world: World, half: str, dry_run: bool) -> None:
    spoil, _ = HALVES[half]
    why = spoil(world)
    with pytest.raises(ArchiveError) as refused:
        world.restore(dry_run=dry_run)
    assert why in str(refused.value)
    assert f"the override {INCOMPLETE_ARCHIVE} restores what there is" in str(refused.value)
    assert world.topic.count == 0


@pytest.mark.parametrize("half", HALVES)
def test_half_an_archive_that_somebody_takes_needs_a_person(world: World, half: str) -> None:
    spoil, left = HALVES[half]
    why = spoil(world)
    report = world.restore(INCOMPLETE_ARCHIVE)
    assert report.needs_person
    assert any(why in said for said in report.incomplete)
    assert report.records == world.topic.count
    if left is not None:
        assert report.records == left


def spoil_document(world: World) -> None:
    document = world.document("run-2")
    document.write_text(document.read_text() + " ")


def rename_document(world: World) -> None:
    document = world.document("run-2")
    document.rename(document.with_name("run-2.json"))


def other_checksum(world: World) -> None:
    """A manifest with a seal of its own that is not the one that the run has left."""
    target = world.manifest("run-3")
    target.write_text(target.read_text().replace("\n", "\n "))


def move_partition(world: World) -> None:
    (world.archive / "0").rename(world.archive / "2")


def add_folder(world: World) -> None:
    (world.archive / "7" / "segments").mkdir(parents=True)
    (world.archive / "7" / "segments" / "log").write_bytes(b"x")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda world: world.document("run-1").unlink(), r"is not there, which run-\d had found"),
        (spoil_document, "its name says another checksum"),
        (rename_document, "its name says another checksum"),
        (other_checksum, "its run has left another checksum"),
        (move_partition, "put them back"),
        (add_folder, "7 has no manifest"),
        (
            lambda world: (world.archive / "0" / "segments" / "x.log").write_bytes(b"x"),
            "holds what nothing names: x.log",
        ),
        (lambda world: (world.archive / "0" / "manifests" / "x").write_bytes(b"x"), "manifests/x is there"),
    ],
)
def test_what_was_changed_or_added_is_refused(world: World, spoil: Callable[[World], object], why: str) -> None:
    spoil(world)
    with pytest.raises(ArchiveError, match=why):
        world.restore()
    assert world.topic.count == 0


def test_a_run_and_all_that_it_archived_are_missed_by_a_later_document(world: World) -> None:
    world.document("run-1").unlink()
    for partition in (0, 1):
        for manifest in (world.archive / f"{partition}" / "manifests").glob("run-1.*"):
            manifest.unlink()
    with pytest.raises(ArchiveError, match=r"which run-\d had found"):
        world.restore()


def test_part_of_a_plan_is_no_whole_archive_until_the_rest_is_archived(tmp_path: Path) -> None:
    cluster = cluster_with_two_partitions()
    run = Run(cluster, tmp_path)
    run.plan_again(max_segments=4)
    run.archive()
    missing = open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).missing
    assert len([why for why in missing if "that the log named are in no manifest" in why]) == 1
    rest = Run(cluster, tmp_path, "run-2")
    rest.archive()
    assert open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).missing == ()


def test_what_was_archived_and_deleted_by_runs_one_after_the_other_is_whole(tmp_path: Path) -> None:
    cluster = cluster_with_two_partitions()
    for number in (1, 2, 3):
        run = Run(cluster, tmp_path, f"run-{number}")
        run.plan_again(max_segments=2)
        run.clean(run.archive())
    assert cluster.keys_of(tip("gone", 0)) == cluster.keys_of(tip("gone", 1)) == set()
    archived = open_topic(run.archive_uri, CLUSTER_ID, GONE_ID)
    assert (archived.missing, sum(len(log.segments) for log in archived.logs)) == ((), 6)


def test_a_try_that_is_stopped_names_what_it_has_archived(tmp_path: Path) -> None:
    run = Run(cluster_with_two_partitions(), tmp_path)
    answers = iter([None, "the switch is on"])
    with pytest.raises(StoppedError):
        run.archive(should_stop=lambda: next(answers))
    (missing,) = open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).missing
    assert "3 of the 3 segments that the log named are in no manifest" in missing


def test_what_a_killed_try_has_left_is_named_by_the_next_try_of_the_run_and_by_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with_two_partitions()
    run = Run(cluster, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("airflow_provider_rlmm.features.archiving.archiver.leave_document", _killed)
        with pytest.raises(KeyboardInterrupt):
            run.archive()
    Run(cluster, tmp_path, "run-2").archive()
    missing = open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).missing
    assert len([why for why in missing if "no run says that it has written it" in why]) == 2
    run.archive()
    assert open_topic(run.archive_uri, CLUSTER_ID, GONE_ID).missing == ()


def _killed(*_: object) -> str:
    raise KeyboardInterrupt


def test_two_runs_that_archive_side_by_side_name_each_their_own(tmp_path: Path) -> None:
    cluster = cluster_with_two_partitions()
    first, second = Run(cluster, tmp_path, "run-1"), Run(cluster, tmp_path, "run-2")
    real = documents.list_documents
    first.archive()
    with pytest.MonkeyPatch.context() as patched:
        # The second began before the first had left its document.
        patched.setattr("airflow_provider_rlmm.features.archiving.archive_documents.list_documents", lambda uri: [])
        second.archive()
    assert len(real(str(next((tmp_path / "archives").glob("*/*"))))) == 2
    assert open_topic(first.archive_uri, CLUSTER_ID, GONE_ID).missing == ()


def test_a_document_with_the_same_bytes_stays(tmp_path: Path) -> None:
    run = Run(cluster_with_two_partitions(), tmp_path)
    run.archive()
    (topic,) = (tmp_path / "archives").glob("*/*")
    (name,) = documents.list_documents(str(topic))
    said = documents.read_document(str(topic), name)
    assert documents.write_document(str(topic), said) == name
    assert documents.list_documents(str(topic)) == [name]


def test_a_hole_is_refused_and_a_first_offset_above_0_is_said(world: World) -> None:
    shutil.rmtree(world.folder)
    cluster = ArchivingCluster()
    for number in (2, 3, 5):
        cluster.real_segment(tip("gone", 0), number)
    cluster.mark_and_wait()
    run = Run(cluster, world.folder)
    run.archive()
    with pytest.raises(ArchiveError, match="partition 0: no segment that can be read holds offsets 40 to 49"):
        world.restore()
    report = world.restore(INCOMPLETE_ARCHIVE, dry_run=True)
    assert report.needs_person
    assert report.beginnings == ["partition 0 begins at offset 20: what lay before was not remote any more"]


def test_a_first_offset_above_0_alone_needs_nobody(world: World) -> None:
    shutil.rmtree(world.folder)
    cluster = ArchivingCluster()
    for number in (2, 3):
        cluster.real_segment(tip("gone", 0), number)
    cluster.mark_and_wait()
    Run(cluster, world.folder).archive()
    report = world.restore()
    assert (report.needs_person, report.records, len(report.beginnings)) == (False, 20, 1)


@pytest.mark.parametrize(
    "name", ["%2e%2e/x", "a%2Fb", "a b", "a?b", "a#b", "../a", "a/../b", "a//b", "/a", "", ".", "a\\b", "a\0"]
)
def test_a_name_that_walks_however_it_is_spelled_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no path below a folder"):
        file_name(name, "name")
