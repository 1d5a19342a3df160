# SPDX-License-Identifier: Apache-2.0
"""Copying a topic from a disk, as operator and command do it: over the in-process log, a leader and a store in memory."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, system_clock
from airflow_provider_rlmm.core.base.errors import (
    ClusterMismatchError,
    LogDirectoryError,
    StoppedError,
    StorageRootError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.answers import CopyConfigs
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.runs.cleaner_session import cleaner_session
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetrics
from airflow_provider_rlmm.core.storage.layouts import PlainPacker
from airflow_provider_rlmm.features.copying.announcing import CUSTOM_METADATA_SETTING
from airflow_provider_rlmm.features.copying.rules import CopyLimits
from airflow_provider_rlmm.features.copying.steps import copy_topic
from tests.access import ClusterAccess, source_of
from tests.log_directories import CLUSTER_ID
from tests.recording import Recorder
from tests.tiered_orders import START_MS, batches
from tests.unit.features.copying.decommissioned import LIVING, ROOT, Decommissioned, files

REMEMBERED = (".snapshot", "floors/", "metadata-topic.json", "roots.json")
"""What every run keeps of what it has seen, dry or not."""


class Run:
    """
    Runs of the step.

    :param work: the work folder.
    """

    def __init__(self, world: Decommissioned, work: Path) -> None:
        self.world, self.work = world, work
        self.cluster_id = CLUSTER_ID
        self.stopped: str | None = None
        self.settings: dict[str, Any] = {"allow_writes": True, "allow_copy": True}

    def __call__(self, *, log_dir: str | None = None, topic: str = "living", dry_run: bool = False, **more: Any) -> Any:
        more = {"limits": CopyLimits(), "metrics": RemoteLogMetrics(), **more}
        at = Path(log_dir) if log_dir else self.world.log_dir
        with cleaner_session(self._access(), CleanerLimits(), work_uri=str(self.work), dry_run=dry_run) as session:
            return copy_topic(session, f"{self.work}/run", at, topic, dry_run=dry_run, **more)

    def _access(self) -> ClusterAccess:
        settings = RemoteLogSettings(
            storage_uri="memory:///", expected_cluster_id=self.cluster_id, expected_root=ROOT, **self.settings
        )
        source = source_of(lambda: settings, lambda: self.world.storage, read_stop=lambda: self.stopped)

        def clock() -> ProvenClock:
            return ProvenClock(lambda: TimeProof(START_MS + 3_600_000, system_clock(), "a test", proven=True))

        return _Access(self.world, self.cluster_id, source, clock)


class _Access(ClusterAccess):
    def open_leader(self, cluster_id: str) -> AbstractContextManager[Any]:
        return nullcontext(self._opened.leader)


@pytest.fixture
def world(tmp_path: Path) -> Decommissioned:
    return Decommissioned(tmp_path)


@pytest.fixture
def copy(world: Decommissioned, tmp_path: Path) -> Run:
    return Run(world, tmp_path / "work")


def test_a_disk_is_copied_and_left_as_it_is(world: Decommissioned, copy: Run, tmp_path: Path) -> None:
    before, recorder = files(tmp_path / "kafka"), Recorder(tmp_path, world.log, world.storage)
    told = copy()
    assert {effect.split(" ")[1] for effect in recorder.effects()} == {"publish", "put"}
    assert (told.segments, told.dry_run) == (6, False)
    assert [(p.partition, p.report.remote_end, p.stopped_by) for p in told.partitions] == [(0, 90, None), (1, 90, None)]
    assert world.copied(0) == world.copied(1) == list(range(90))
    assert files(tmp_path / "kafka") == before
    document = json.loads((tmp_path / "work" / "run" / "copy.json").read_text())
    assert document == {"cluster_id": CLUSTER_ID, **told.to_json()}
    assert copy().segments == 0


def test_a_dry_run_says_what_would_go_and_writes_nothing(world: Decommissioned, copy: Run, tmp_path: Path) -> None:
    copy.settings = {"allow_writes": False}
    recorder = Recorder(tmp_path, world.log, world.storage)
    told = copy(dry_run=True, partitions=[1])
    assert [s.base_offset for s in told.partitions[0].planned.segments] == [0, 30, 60]
    assert (told.segments, recorder.effects()) == (3, [])
    left = {file for file in recorder.files() if not any(remembered in file for remembered in REMEMBERED)}
    assert left == {"work/run/copy.json"}
    assert told.bytes == sum(len(b.to_bytes()) for start in (0, 30, 60) for b in batches(start))


def test_brokers_are_asked_how_much_custom_metadata_they_take(
    world: Decommissioned, copy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainPacker, "most_custom_metadata_bytes", lambda *_: 100)
    events = world.events
    world.topics.broker_settings = {1: {CUSTOM_METADATA_SETTING: "100"}, 2: {CUSTOM_METADATA_SETTING: "99"}}
    for dry_run in (True, False):
        refused = [p.refused or p.stopped_by for p in copy(dry_run=dry_run).partitions]
        assert all("brokers take 99 at most" in str(why) for why in refused)
    assert world.events == events
    world.topics.broker_settings[2] = {CUSTOM_METADATA_SETTING: "100"}
    assert copy().segments == 6


@pytest.mark.parametrize("settings", [{"allow_writes": True}, {"allow_writes": False}])
def test_nothing_is_copied_where_the_settings_do_not_allow_it(
    world: Decommissioned, copy: Run, settings: dict[str, Any]
) -> None:
    copy.settings, events = settings, world.events
    with pytest.raises(WritesNotAllowedError):
        copy(log_dir="/nowhere/yet")
    assert world.events == events


def test_nothing_is_copied_into_an_old_copy_of_the_brokers_storage(world: Decommissioned, copy: Run) -> None:
    world.lose("orders")
    events = world.events
    with pytest.raises(StorageRootError, match="nothing is copied there; check storage URI, layout and mount"):
        copy()
    assert world.events == events


def test_what_brokers_have_lost_themselves_may_be_missing_where_somebody_says_so(
    world: Decommissioned, copy: Run
) -> None:
    other = TopicIdPartition(UUID(int=78), "other", 0)
    world.topics.topics["other"] = other.topic_id
    world.copy(other, batches(0))
    world.lose("orders")
    with pytest.raises(StorageRootError, match="the override 'missing_living_segments' lets the run go on"):
        copy()
    assert copy(limits=CopyLimits(overrides=frozenset({"missing_living_segments"}))).segments == 6


def test_nothing_is_copied_under_the_kill_switch(copy: Run) -> None:
    copy.stopped = "somebody said stop"
    with pytest.raises(StoppedError, match="somebody said stop"):
        copy()
    assert copy(dry_run=True).segments == 6


def test_a_directory_that_a_broker_has_marked_is_named_with_what_for(world: Decommissioned, copy: Run) -> None:
    (world.log_dir / "living-0").rename(world.log_dir / f"living-0.{'0' * 32}-delete")
    only = r"has no directory of partition 0 of topic 'living', only such a one: .*living-0\.0{32}-delete"
    with pytest.raises(LogDirectoryError, match=only):
        copy(partitions=[0])
    assert copy().segments == 3


def test_a_run_may_be_a_canary(world: Decommissioned, copy: Run) -> None:
    assert copy(partitions=[0], limits=CopyLimits(max_segments=1, bytes_per_second=10**9)).segments == 1
    assert world.copied(0) == list(range(30))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "orders"}, "has no directory of topic 'orders': name another one of the log.dirs"),
        ({"partitions": [1, 4]}, r"has no directory of partition 4 of topic 'living': name another one"),
        ({"log_dir": "/nowhere"}, "/nowhere"),
        ({"snapshot_in": Path("/nowhere")}, "no snapshot can be made in /nowhere"),
    ],
)
def test_a_disk_without_it_is_refused(copy: Run, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(LogDirectoryError, match=said):
        copy(**arguments)


def test_a_disk_of_another_cluster_is_refused(world: Decommissioned, copy: Run) -> None:
    copy.cluster_id = "another"
    events = world.events
    with pytest.raises(ClusterMismatchError, match=f"is of cluster '{CLUSTER_ID}', and the connection leads to"):
        copy()
    assert world.events == events


def test_a_partition_whose_leader_copies_is_refused_and_the_other_copied(world: Decommissioned, copy: Run) -> None:
    world.lead(CopyConfigs(True, False, frozenset({"delete"}), -1, -1), LIVING[:1])
    told = copy()
    assert [p.needs_person for p in told.partitions] == [True, False]
    assert "remote.log.copy.disable" in (told.partitions[0].stopped_by or "")
    assert world.copied(1) == list(range(90))
