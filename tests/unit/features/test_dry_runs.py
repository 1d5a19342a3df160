# SPDX-License-Identifier: Apache-2.0
"""
A whole dry run of each writer leaves nothing behind but its own documents: no record, no object, no stamp, no offset.

The same run for real is the control: it changes what the recorder must see.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base import file_systems
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, ScrubLimits
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession, cleaner_session
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.cleanup import checking
from airflow_provider_rlmm.features.cleanup import steps as cleanup
from airflow_provider_rlmm.features.scrub import steps as scrub
from tests.access import access_of
from tests.builders import CLUSTER_ID, DAY_MS, Cluster, tip
from tests.recording import Recorder

GONE = tip("gone", 0, 9)
WIDE = BlastRadius(max_share=1.0)
LIMITS = CleanerLimits()
WHO = RunIdentity("test", "dag", "run", "nobody")
REMEMBERED = ("floors/", ".snapshot", "metadata-topic.json", "roots.json")
"""What every run keeps of what it has seen, dry or not: how far the log was read, and since when a root is known."""


@pytest.fixture
def cluster() -> Cluster:
    """A topic that was deleted, marked a day ago, and one with finished segments whose objects are still there."""
    cluster = Cluster(2)
    cluster.segments(GONE, 3)
    cluster.segment(cluster.alive, 1, S.DELETE_SEGMENT_FINISHED)
    cluster.mark_and_wait()
    cluster.segments(tip("gone-later", 0, 10), 2)
    return cluster


class Runs:
    """
    Runs of the real steps in one work folder.

    :param cluster: what they work on.
    :param work: the work folder.
    """

    def __init__(self, cluster: Cluster, work: Path) -> None:
        settings = RemoteLogSettings(
            storage_uri="memory:///",
            allow_writes=True,
            expected_cluster_id=CLUSTER_ID,
            expected_root="memory://kafka-tiered-storage",
        )
        self.access, self.work = access_of(cluster, settings), work

    def session(self, dry_run: bool) -> AbstractContextManager[CleanerSession]:
        return cleaner_session(self.access, LIMITS, work_uri=str(self.work), dry_run=dry_run)

    def clean_up(self, *, dry_run: bool) -> None:
        uri = f"{self.work}/cleanup"
        with self.session(dry_run) as session:
            checking.check(session, uri, limits=LIMITS, dry_run=dry_run)
            cleanup.mark(session, uri, limits=LIMITS, dry_run=dry_run)
            summary = cleanup.plan(session, uri, "cleanup", limits=LIMITS, blast_radius=WIDE)
            assert summary.planned.segments == 3
            for number in summary.by_metadata_partition:
                cleanup.clean(session, uri, summary, number, limits=LIMITS, dry_run=dry_run, run=WHO)

    def scrub(self, *, dry_run: bool) -> None:
        uri, limits = f"{self.work}/scrub", ScrubLimits()
        with self.session(dry_run) as session:
            scrub.scrub(
                session,
                lambda name: f"{self.work}/{name}",
                "scrub",
                limits=LIMITS,
                max_copy_ms=MAX_COPY.default,
                price=None,
            )
            plan = scrub.plan(session, uri, limits=limits, blast_radius=WIDE, max_segments=None, expires_in_ms=DAY_MS)
            assert plan.planned.segments == 1
        scrub.delete(self.session(dry_run), uri, limits=limits, dry_run=dry_run, run=WHO)


@pytest.fixture
def runs(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr(file_systems, "modified_ms", lambda uri: cluster.now_ms)
    return Runs(cluster, tmp_path)


def of_nobody(files: set[str], folder: str) -> set[str]:
    """Return the files that are not the run's own, nor what it remembers of the log."""
    return {file for file in files if not file.startswith(f"{folder}/") and not any(r in file for r in REMEMBERED)}


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry", "for real"])
def test_a_cleanup(cluster: Cluster, runs: Runs, tmp_path: Path, dry_run: bool) -> None:
    recorder = Recorder(tmp_path, cluster.log, cluster.storage, cluster.offsets)
    runs.clean_up(dry_run=dry_run)
    changes = {effect.split(" ")[1] for effect in recorder.effects()}
    left = of_nobody(recorder.files(), "cleanup")
    (roots,) = tmp_path.glob("*/roots.json")
    proven = json.loads(roots.read_text())["root_ids"]
    if dry_run:
        assert (recorder.effects(), left, proven) == ([], set(), {})
    else:
        assert changes >= {"publish", "delete", "commit"}
        assert {Path(file).parts[1] for file in left} == {"audit"}
        assert proven


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry", "for real"])
def test_a_scrub(cluster: Cluster, runs: Runs, tmp_path: Path, dry_run: bool) -> None:
    recorder = Recorder(tmp_path, cluster.log, cluster.storage, cluster.offsets)
    runs.scrub(dry_run=dry_run)
    changes = {effect.split(" ")[1] for effect in recorder.effects()}
    # Which scrub was the latest is remembered by each of them: the next one counts from it.
    left = {file for file in of_nobody(recorder.files(), "scrub") if Path(file).name != "latest-scrub.json"}
    if dry_run:
        assert (recorder.effects(), left) == ([], set())
    else:
        assert "delete" in changes
        assert {Path(file).parts[1] for file in left} == {"audit"}
