# SPDX-License-Identifier: Apache-2.0
"""A world in which one work folder is used for run after run, by the steps of the session."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.floored_log import Confirmation
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.plans.guards import BlastRadius, ScrubLimits
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId, TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.attention import Acknowledgements, Attention
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession, cleaner_session
from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.cleanup import steps as cleaning
from airflow_provider_rlmm.features.cleanup.checking import check
from airflow_provider_rlmm.features.cleanup.run_report import report_of_run
from airflow_provider_rlmm.features.scrub import steps as scrubbing
from airflow_provider_rlmm.features.scrub.scrub_files import open_scrub, problems_of
from tests.simulation.baton import Baton
from tests.simulation.folder_access import WorldAccess
from tests.simulation.folder_moves import AWAY, COPY, FIRST, PREFIX, SECOND, Moves
from tests.simulation.folder_run import FolderRun, Memory
from tests.simulation.roots import CLUSTER_ID
from tests.simulation.witness import Process
from tests.simulation.world import CALM, Trouble
from tests.unit.core.storage.test_aiven import custom_prefix

_LOSS = re.compile(r'"confirm_lost_records": "(\d+@\d+)"')
WIDE = BlastRadius(max_share=1.0)
DAY_MS = 24 * HOUR_MS


class FolderWorld(Moves):
    """
    :param seed: decides the world's content and the adversary's choices.
    :param trouble: how hostile it is.
    :param moves: what may become of it between runs.
    :param work: an empty folder.
    """

    def __init__(self, seed: int, trouble: Trouble, moves: frozenset[str], work: Path) -> None:
        self.moves, self.work = moves, work
        self.memory, self.memory_to_be = Memory(), Memory()
        self.confirmed: set[str] = set()
        self.evidence: dict[UUID, dict[tuple[str, int, str], str]] = defaultdict(dict)
        """Segment → (run, its task, batch) → what is written down of it."""
        self.cloned: set[str] = set()
        self.runs = 0
        self.to_confirm: tuple[str, ...] = ()
        self.asks_for_topic, self.known_topic_id = False, self.metadata_topic_id
        self.prefixes: dict[RemoteLogSegmentId, bytes] = {}
        super().__init__(seed, trouble)

    def _populate(self) -> None:
        # Something lives, and tells whose storage it is.
        self.lonely, self.overrides = False, frozenset()
        self.expected_root = (
            str(replace(self.here, prefix="kafka-tiered-storage")) if self.random.random() < 0.3 else None
        )
        if {COPY, PREFIX} & self.moves:
            self.expected_root = None
        super()._populate()

    @property
    def settings(self) -> RemoteLogSettings:
        return RemoteLogSettings(
            storage_uri="memory:///",
            layout=self.known_layout.name,
            key_prefix=FIRST if PREFIX in self.moves else None,
            allow_writes=True,
            expected_cluster_id=CLUSTER_ID,
            expected_root=self.expected_root,
            hold=self.held,
        )

    # --- the layout --------------------------------------------------------------------------------------------------

    def chosen_layout(self) -> Layout:
        self._known_layout: Layout = AivenLayout(FIRST) if PREFIX in self.moves else super().chosen_layout()
        return self._known_layout

    @property
    def known_layout(self) -> Layout:
        return self._known_layout

    def mount(self, hook: Callable[[object], tuple[Any, Any]]) -> InMemoryRemoteStorageManager:
        storage = super().mount(hook)
        if AWAY in self.moves:
            storage.folders = {}  # a store that has no folders cannot tell that one was taken away
        return storage

    def custom_metadata_of(self, segment: RemoteLogSegmentId, state: S) -> bytes | None:
        if PREFIX in self.moves and state is S.COPY_SEGMENT_FINISHED:
            prefix = FIRST if self.layout is self.known_layout else SECOND
            self.prefixes[segment] = custom_prefix(prefix)
        return self.prefixes.get(segment)

    def answer_truly(self) -> None:
        super().answer_truly()
        self.topics.metadata_topic_id = self.metadata_topic_id

    # --- runs --------------------------------------------------------------------------------------------------------

    def next_run(self, *, scrubs: bool, dry_run: bool, crash_at: int | None = None) -> FolderRun:
        self.runs += 1
        return FolderRun(
            self,
            dry_run,
            crash_at,
            crash_in_changes=True,
            confirms=self.to_confirm if self.adversary.random() < 0.5 else (),
            confirms_topic=self.asks_for_topic and self.adversary.random() < 0.5,
            elsewhere_at_first=self.knows_another_prefix(),
            below_a_copy=self.hidden is not None,
            strangers_at_first=self.written_by_another(),
            name=f"run-{self.runs}",
            scrubs=scrubs,
        )

    def uri_of(self, name: str) -> str:
        return f"{self.work}/{name}"

    def _run_dag(self, process: Process) -> Iterator[str]:
        assert isinstance(process, FolderRun)
        return self._scrub(process) if process.scrubs else self._clean_up(process)

    def _opener(self, run: FolderRun) -> Callable[[], AbstractContextManager[CleanerSession]]:
        access = WorldAccess(self, run)
        topic_id = self.metadata_topic_id if run.confirms_topic else None
        said = Confirmation(run.confirms, "somebody", topic_id)
        return lambda: cleaner_session(
            access, self.limits, work_uri=str(self.work), dry_run=run.dry_run, confirmation=said
        )

    def _clean_up(self, run: FolderRun) -> Iterator[str]:
        opened, uri, failed = self._opener(run), self.uri_of(run.name), 0
        with opened() as session:
            check(session, uri, limits=self.limits, dry_run=run.dry_run)
            cleaning.mark(session, uri, limits=self.limits, dry_run=run.dry_run)
            summary = cleaning.plan(session, uri, run.name, limits=self.limits, blast_radius=WIDE)
        self._end_task(run)
        who = RunIdentity("simulation", run.name, run.name, "nobody")
        for number in sorted(summary.by_metadata_partition):
            try:
                with opened() as session:
                    done = cleaning.clean(
                        session, uri, summary, number, limits=self.limits, dry_run=run.dry_run, run=who
                    )
                self.happened.update(str(partition.outcome) for partition in done.partitions)
            except RlmmError as error:
                failed += 1
                run.told.append(str(error))
                yield type(error).__name__
        report = report_of_run(
            uri,
            run.name,
            failed_tasks=failed,
            marked=True,
            dry_run=run.dry_run,
            acknowledgements=Acknowledgements((), ()),
            now_ms=self.now_ms,
        )
        run.told += [_in_words(judged.attention) for judged in report.judgement.failing]

    def _scrub(self, run: FolderRun) -> Iterator[str]:
        opened, uri, limits = self._opener(run), self.uri_of(run.name), ScrubLimits(overrides=self.overrides)
        with opened() as session:
            scrubbing.scrub(
                session,
                self.uri_of,
                run.name,
                limits=limits.of_the_cleaner,
                max_copy_ms=MAX_COPY.default,
                price=None,
            )
            scrubbing.plan(session, uri, limits=limits, blast_radius=WIDE, max_segments=None, expires_in_ms=DAY_MS)
        with open_scrub(uri) as (summary, rows):
            problems = problems_of(summary, rows)
        who = RunIdentity("simulation", run.name, run.name, "nobody")
        if not run.dry_run:
            problems += scrubbing.delete(opened(), uri, limits=limits, dry_run=False, run=who).problems()
        run.told += map(_in_words, problems)
        yield from ()

    # --- the judge ---------------------------------------------------------------------------------------------------

    def require_untouched(self, number: int, what: object) -> None:
        """Judge that a run changes anything in a metadata partition, or what it tells of."""
        lost = self.has_lost(number)
        assert not lost, (
            f"I18: {what}, though metadata partition {number} is not what runs of this work folder had read"
        )

    def judge_end(self, run: FolderRun, end: str) -> None:
        """Judge what a run has said, and let later ones remember what it knew."""
        said = {int(name.partition("@")[0]) for name in run.confirms}
        numbers = () if run.confirms_topic else range(self.log.partition_count)
        lost = [n for n in numbers if n not in said and self.has_lost(n)]
        crashed = end.startswith(("before ", "after ", "audit "))
        quiet = not run.told and not crashed
        assert not (lost and quiet), f"I18: {run.name} is green, and {lost} have lost what was read of them"
        assert not (run.elsewhere_at_first and quiet), f"I18: {run.name} is green, and copies lie below another prefix"
        assert not (run.below_a_copy and quiet), f"I2: {run.name} is green, and a copy of the root is mounted"
        strangers = run.strangers_at_first and run.scrubs
        assert not (strangers and quiet), f"I20: {run.name} is green, and storage holds what the log does not name"
        self.memory.add(self.memory_to_be)
        self.memory_to_be = Memory()
        if not crashed:
            self.memory.add(run.learned)
        self.to_confirm = tuple(sorted({name for said in run.told for name in _LOSS.findall(said)}))
        self.asks_for_topic = any("confirm_metadata_topic_id" in said for said in run.told)

    def has_lost(self, number: int) -> bool:
        """Tell whether a metadata partition has lost what was read of it, and nobody has confirmed that on record."""
        if not self.memory.lost(number, self.model.logs[number]):
            return False
        on_record = FloorFiles(f"{self.work}/{cluster_folder(CLUSTER_ID)}").metadata_topic_id()
        if on_record == self.metadata_topic_id != self.known_topic_id:
            self.happened["topic confirmed"] += 1
            self.known_topic_id = self.metadata_topic_id
            self.memory.read.clear()
            return False
        words = {path.name for path in self.work.glob(f"*/floors/*.{number}.*.confirmed.json")} - self.confirmed
        if words:
            self.happened["loss confirmed"] += 1
            self.confirmed |= words
            self.memory.forget(number)
        return not words

    def excuse(self, keys: list[str]) -> None:
        """Where a folder is away nobody knows what lies there, but who had begun to delete it and saw nothing go."""
        for key in keys:
            segment = self.segment_of(key)
            assert segment is not None
            run = self.processes[self.baton.current]
            assert isinstance(run, FolderRun)
            assert run.saw_it_go(segment.id) or not self._is_ours(segment.id), (
                f"I2: {segment} is finished and {key} is there: a run of ours had begun it, and saw nothing go"
            )
        super().excuse(keys)

    def _is_ours(self, segment: UUID) -> bool:
        """Tell whether a run of ours began to delete a segment that was copied."""
        return segment in self.model.copied and segment in self.model.started_by_us

    def _objects_of(self, tips: list[TopicIdPartition]) -> set[str]:
        prefixes = tuple(self.layout.partition_prefix(tip, place) for tip in tips for place in self.layout.places)
        return {key for key in self.keys if key.startswith(prefixes)}

    def settle(self) -> None:
        """Nothing of what lives is gone; where all was as it should be, nothing of what is deleted is left."""
        self.mount_true()
        gone = self._living_objects - self.keys
        assert not gone, f"I13: objects of living topics are gone: {sorted(gone)}"
        if not self.moves:
            self.converge()

    def converge(self) -> None:
        # No run may have come so far that the work folder knows where the root lies: a person names it.
        self.expected_root = str(replace(self.here, prefix="kafka-tiered-storage"))
        self.trouble, self.baton = CALM, Baton(self.adversary, 0.0)
        self.clerk.end_trouble()
        for _ in range(5):
            self.pass_time(DAY_MS)
            self.copied(self.alive[0])
            written, run = self.model.written, self.next_run(scrubs=False, dry_run=False)
            (end,) = self.run(run)
            assert not end or self.lost, f"I5: a run without faults ended with {end}: {run.told}"
            if self.model.written == written:
                break
        else:
            raise AssertionError("I5: four runs without faults, and the last one still had something to write")
        self.check_end_state(run.told)


def _in_words(problem: Attention) -> str:
    return f"{problem}: {problem.what_to_do}"
