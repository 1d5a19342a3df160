# SPDX-License-Identifier: Apache-2.0
"""How far a cleaning task is, is written for people while it works, and never ends what deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.features.cleanup.cleaning_progress import (
    MAX_PROGRESS_REFUSALS,
    CleaningProgress,
    ProgressState,
)
from airflow_provider_rlmm.features.cleanup.partition_work import UserPartitionWork
from airflow_provider_rlmm.features.cleanup.progress import AFTER_A_FAILURE_MS, EVERY_MS, ProgressWriter
from tests.builders import Cluster, tip

GONE = tip()


class Watcher:
    """Keeps every document that a writer writes, and turns the hands of its clock."""

    def __init__(self, **options: Any) -> None:
        self.now_ms = 0
        self.seen: list[CleaningProgress] = []
        self.broken = False
        self.tries = 0
        self.writer = ProgressWriter(
            "uri", "run", 0, clock=lambda: self.now_ms, monotonic=lambda: self.now_ms, write=self.write,
            **{"dry_run": False, **options},
        )  # fmt: skip

    def write(self, uri: str, name: str, text: str) -> None:
        self.tries += 1
        if self.broken:
            raise OSError("no space left on device")
        assert (uri, name) == ("uri", "progress-0.json")
        self.seen.append(CleaningProgress.from_json(text))


def clean(cluster: Cluster, watcher: Watcher, step_ms: int = EVERY_MS, **limits: Any) -> None:
    """Clean with a writer that is told of each batch; each takes this long."""

    def tell(works: Sequence[UserPartitionWork]) -> None:
        watcher.writer(works)
        watcher.now_ms += step_ms

    cleaner = replace(cluster.cleaner(**limits), on_progress=tell)
    with watcher.writer:
        cleaner.clean(0, cluster.everything())


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.segments(GONE, 6)
    cluster.segments(tip("gone", 1), 2)
    cluster.mark_and_wait()
    return cluster


def test_each_batch_is_told_from_none_to_all(cluster: Cluster) -> None:
    watcher = Watcher()
    clean(cluster, watcher, batch_segments=2)
    told = [(p.segments_done, p.bytes_done, p.partitions_done) for p in watcher.seen]
    # Once before anything is known, then before the first batch and after each, and at the end.
    assert told[0] == told[1] == (0, 0, 0)
    assert told[-1] == told[-2] == (8, 8_000, 2)
    assert told == sorted(told)
    assert len({done for done, *_ in told}) == 5
    assert {(p.segments_total, p.bytes_total, p.partitions_total) for p in watcher.seen[1:]} == {(8, 8_000, 2)}
    assert [p.state for p in watcher.seen] == [ProgressState.RUNNING] * (len(told) - 1) + [ProgressState.ENDED]


def test_a_dry_run_says_how_far_it_is_too(cluster: Cluster) -> None:
    watcher = Watcher(dry_run=True)
    clean(cluster, watcher, batch_segments=2, dry_run=True)
    assert watcher.seen[-1].segments_done == 8
    assert all(p.dry_run for p in watcher.seen)


def test_it_is_written_now_and_then(cluster: Cluster) -> None:
    watcher = Watcher()
    clean(cluster, watcher, step_ms=EVERY_MS // 2, batch_segments=1)
    assert 4 <= len(watcher.seen) <= 7
    times = [p.updated_at_ms for p in watcher.seen[1:-1]]
    assert all(later - time >= EVERY_MS for time, later in pairwise(times))


def test_the_rate_is_that_of_the_last_minute(cluster: Cluster) -> None:
    watcher = Watcher()
    clean(cluster, watcher, step_ms=10_000, batch_segments=1)
    objects = len(cluster.layout.suffixes)
    running = [p.objects_per_second for p in watcher.seen if p.state is ProgressState.RUNNING and p.segments_done]
    assert all(0 < rate <= objects / 10 for rate in running)
    assert watcher.seen[-1].objects_per_second == 0.0


def test_an_error_that_ends_the_try_is_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher()

    def vanished(_: object) -> Any:
        raise StorageRootError("the root is gone")

    monkeypatch.setattr(cluster.storage, "list_log_segments", vanished)
    with pytest.raises(StorageRootError):
        clean(cluster, watcher)
    assert watcher.seen[-1].state is ProgressState.FAILED


def test_whoever_is_killed_says_nothing_more() -> None:
    watcher = Watcher()
    with pytest.raises(KeyboardInterrupt), watcher.writer:
        raise KeyboardInterrupt
    assert [p.state for p in watcher.seen] == [ProgressState.RUNNING]


def test_what_is_refused_is_listed_and_a_wait_is_not(cluster: Cluster) -> None:
    cluster.segments(tip("young", 0, 9), 1)
    cluster.mark()
    present = tip("back", 0, 10)
    cluster.segments(present, 1)
    cluster.mark()
    cluster.topics.create("back", present.topic_id)
    watcher = Watcher()
    clean(cluster, watcher)
    assert [left.what for left in watcher.seen[-1].refused] == [str(present)]
    assert "exists in the cluster" in watcher.seen[-1].refused[0].why
    assert watcher.seen[-1].partitions_total == 2


def test_no_more_is_listed_than_a_page_shows(cluster: Cluster) -> None:
    for number in range(MAX_PROGRESS_REFUSALS + 5):
        back = tip(f"back{number}", 0, 100 + number)
        cluster.segments(back, 1)
    cluster.mark_and_wait()
    for number in range(MAX_PROGRESS_REFUSALS + 5):
        cluster.topics.create(f"back{number}", tip("", 0, 100 + number).topic_id)
    watcher = Watcher()
    clean(cluster, watcher)
    assert len(watcher.seen[-1].refused) == MAX_PROGRESS_REFUSALS


def test_what_cannot_be_written_ends_nothing_and_is_not_tried_at_every_batch(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = Watcher()
    watcher.broken = True
    clean(cluster, watcher, batch_segments=1)
    assert cluster.keys_of(GONE) == set()
    assert "how far it is cannot be written: no space left" in caplog.text
    batches = watcher.now_ms // EVERY_MS
    assert batches * EVERY_MS < AFTER_A_FAILURE_MS
    # At the beginning and at the end.
    assert watcher.tries == 2
    assert batches > 5


def test_the_document_replaces_the_one_before_in_the_folder(tmp_path: Path) -> None:
    writer = partial(ProgressWriter, str(tmp_path), "run", 7, dry_run=False)
    with writer():
        pass
    with writer():
        first = CleaningProgress.from_json((tmp_path / "progress-7.json").read_text())
    assert first.state is ProgressState.RUNNING
    assert CleaningProgress.from_json((tmp_path / "progress-7.json").read_text()).state is ProgressState.ENDED
    assert [path.name for path in tmp_path.iterdir()] == ["progress-7.json"]
