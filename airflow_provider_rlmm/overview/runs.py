# SPDX-License-Identifier: Apache-2.0
"""Past runs of a cluster, and how far a run is that works now."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import list_files
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.runs.task_failure import MAX_FAILURE_BYTES, TaskFailure, is_failure
from airflow_provider_rlmm.features.cleanup.cleaning_progress import (
    MAX_PROGRESS_BYTES,
    CleaningProgress,
    ProgressState,
    progress_name,
)
from airflow_provider_rlmm.overview.documents import read_bytes
from airflow_provider_rlmm.overview.run_summary import (
    MAX_RUN_SUMMARY_BYTES,
    RUNS_FOLDER,
    RunKind,
    RunSummary,
    run_of_file,
)

CHARTED_RUNS = 400
SEARCHED_RUNS = 2_000
"""Of how many of the newest runs those of one kind are looked for."""

MAX_PROGRESS_FILES = 1_000
MAX_FAILURES = 20
_KEPT = 4_000
_READ_AT_ONCE = 8
_PROGRESS = re.compile(r"progress-(0|[1-9][0-9]{0,9})\.json")


@dataclass(frozen=True, slots=True)
class UnreadableRun:
    """A run whose summary cannot be read."""

    artifact: str  # of the run, by the name of the file
    ended_at_ms: int  # by the name of the file, ms since the epoch
    why: str  # what is wrong with it


@dataclass(frozen=True, slots=True)
class RunPage:
    """Past runs, the newest first."""

    rows: tuple[RunSummary | UnreadableRun, ...]  # of this page
    total: int  # of all pages


@dataclass(frozen=True, slots=True)
class RunProgress:
    """
    How far the cleaning tasks of a run are.

    :param tasks: by metadata partition.
    :param unreadable: metadata partition → why its document cannot be read.
    """

    tasks: tuple[CleaningProgress, ...]
    unreadable: dict[int, str]

    @property
    def segments_total(self) -> int:
        """Segments that the tasks may delete."""
        return sum(task.segments_total for task in self.tasks)

    @property
    def segments_done(self) -> int:
        """Those of them that are deleted."""
        return sum(task.segments_done for task in self.tasks)

    @property
    def bytes_total(self) -> int:
        """Sizes of the segments that the tasks may delete, summed."""
        return sum(task.bytes_total for task in self.tasks)

    @property
    def bytes_done(self) -> int:
        """Sizes of those that are deleted, summed."""
        return sum(task.bytes_done for task in self.tasks)

    @property
    def objects_per_second(self) -> float:
        """Deleted within the last minute, by all tasks that work."""
        return sum(task.objects_per_second for task in self.tasks if task.state is ProgressState.RUNNING)

    @property
    def seconds_left(self) -> float | None:
        """How long the slowest task that works will take at the pace that it had; ``None`` where it cannot be told."""
        times = [_seconds_left(task) for task in self.tasks if task.state is ProgressState.RUNNING]
        known = [time for time in times if time is not None]
        return max(known, default=None) if len(known) == len(times) else None


def _seconds_left(task: CleaningProgress) -> float | None:
    worked = (task.updated_at_ms - task.began_at_ms) / 1000
    left = task.segments_total - task.segments_done
    if left <= 0:
        return 0.0
    return worked / task.segments_done * left if task.segments_done and worked > 0 else None


def runs(work_uri: str, folder: str, *, kind: RunKind | None = None, start: int = 0, rows: int = 100) -> RunPage:
    """
    Return past runs of a cluster, the newest first. Of one kind only the newest :data:`SEARCHED_RUNS` are looked through.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param kind: only those of this kind, ``None`` for all; one that cannot be read may be of any kind.
    :param start: how many are left out before.
    :param rows: how many are returned, at most.
    :raises OSError: if the folder cannot be listed.
    """
    names = _names(work_uri, folder)[::-1]
    if kind is None:
        return RunPage(tuple(_read_all(work_uri, folder, names[start : start + rows])), len(names))
    found = [
        run
        for run in _read_all(work_uri, folder, names[:SEARCHED_RUNS])
        if isinstance(run, UnreadableRun) or run.kind is kind
    ]
    return RunPage(tuple(found[start : start + rows]), len(found))


def history(work_uri: str, folder: str, newest: int = CHARTED_RUNS) -> list[RunSummary]:
    """
    Return past runs of a cluster, the oldest first; those that cannot be read are left out, see :func:`runs`.

    :param work_uri: the work folder.
    :param folder: of the cluster.
    :param newest: how many, at most.
    :raises OSError: if the folder cannot be listed.
    """
    names = _names(work_uri, folder)[-newest:]
    return [run for run in _read_all(work_uri, folder, names) if isinstance(run, RunSummary)]


def run_of(work_uri: str, folder: str, artifact: str) -> RunSummary | UnreadableRun | None:
    """
    Return the summary of a run, ``None`` where it has none, or not yet; of several tries the last one.

    :raises OSError: if the folder cannot be listed.
    """
    names = [name for name in _names(work_uri, folder) if (told := run_of_file(name)) and told[1] == artifact]
    return next(iter(_read_all(work_uri, folder, names[-1:])), None)


def progress(work_uri: str, artifact: str) -> RunProgress:
    """
    Return how far the cleaning tasks of a run are, those of the first :data:`MAX_PROGRESS_FILES` metadata partitions.

    :raises OSError: if the folder cannot be listed.
    """
    names = list_files(f"{work_uri}/{artifact}")
    numbers = sorted(int(found[1]) for name in names if (found := _PROGRESS.fullmatch(name)))[:MAX_PROGRESS_FILES]
    tasks: list[CleaningProgress] = []
    unreadable: dict[int, str] = {}
    for number in numbers:
        try:
            data = read_bytes(work_uri, artifact, progress_name(number), max_bytes=MAX_PROGRESS_BYTES)
            task = CleaningProgress.from_json(data.decode())
            if (task.artifact, task.metadata_partition) != (artifact, number):
                raise DocumentError(f"it is that of metadata partition {task.metadata_partition} of {task.artifact}")
        except FileNotFoundError:
            continue
        except (DocumentError, UnicodeDecodeError) as e:
            unreadable[number] = str(e)
        else:
            tasks.append(task)
    return RunProgress(tuple(tasks), unreadable)


def failures(work_uri: str, artifact: str) -> list[TaskFailure]:
    """
    Return why tasks of a run failed, the first failure first; what cannot be read is left out.

    :raises OSError: if the folder cannot be listed.
    """
    found: list[TaskFailure] = []
    for name in [name for name in list_files(f"{work_uri}/{artifact}") if is_failure(name)][:MAX_FAILURES]:
        try:
            data = read_bytes(work_uri, artifact, name, max_bytes=MAX_FAILURE_BYTES)
            failure = TaskFailure.from_json(data.decode())
        except (FileNotFoundError, DocumentError, UnicodeDecodeError):
            continue
        if failure.file_name == name:
            found.append(failure)
    return sorted(found, key=lambda failure: failure.failed_at_ms)


class _Kept:
    """Summaries never change: what was read once is not read again."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, str, str], RunSummary] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, str, str]) -> RunSummary | None:
        with self._lock:
            return self._read.get(key)

    def put(self, key: tuple[str, str, str], run: RunSummary) -> None:
        with self._lock:
            self._read[key] = run
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)


_kept = _Kept()


def _names(work_uri: str, folder: str) -> list[str]:
    """Return the names of the summaries, the oldest first."""
    return [name for name in list_files(f"{work_uri}/{folder}/{RUNS_FOLDER}") if run_of_file(name)]


def _read_all(work_uri: str, folder: str, names: Sequence[str]) -> list[RunSummary | UnreadableRun]:
    def read(name: str) -> RunSummary | UnreadableRun | None:
        return _read(work_uri, folder, name)

    unknown = sum(_kept.get((work_uri, folder, name)) is None for name in names)
    if unknown < _READ_AT_ONCE:
        found = [read(name) for name in names]
    else:
        # A store answers many requests at once.
        with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="rlmm-runs") as pool:
            found = list(pool.map(read, names))
    return [run for run in found if run is not None]


def _read(work_uri: str, folder: str, name: str) -> RunSummary | UnreadableRun | None:
    """Read a summary; ``None`` where it was removed meanwhile."""
    key = (work_uri, folder, name)
    if (known := _kept.get(key)) is not None:
        return known
    told = run_of_file(name)
    ended_at_ms, artifact = told or (0, name)
    try:
        data = read_bytes(work_uri, folder, RUNS_FOLDER, name, max_bytes=MAX_RUN_SUMMARY_BYTES)
        run = RunSummary.from_json(data.decode())
        if cluster_folder(run.cluster_id) != folder:
            raise DocumentError(f"it is of another cluster, {run.cluster_id}")
        if run.file_name != name:
            raise DocumentError(f"it is that of {run.file_name}")
    except FileNotFoundError:
        return None
    except (DocumentError, UnicodeDecodeError) as e:
        return UnreadableRun(artifact, ended_at_ms, str(e))
    _kept.put(key, run)
    return run
