# SPDX-License-Identifier: Apache-2.0
"""
A small cluster in memory: a log, a store, topics, a virtual clock, other actors, and an adversary between them all.

The adversary sees every effect before and after it happens. It lets others act in between, has the invariants checked,
and may let the effect fail or the process crash. One seed makes one world; the same seed makes the same world again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import ProvenClock, TimeProof, TimeReading
from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    EventLogUnavailableError,
    RlmmError,
    StorageAccessError,
    StorageRootError,
    StorageUnavailableError,
)
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog, InProcessOffsetStore, PublishEffect
from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.core.log.protocol import Failed, Unknown
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.records.records import TopicIdPartition, topic_id_partition_of
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.effects import DryRunEffects, RealEffects
from airflow_provider_rlmm.core.world.proven_time import prove_time
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.cleanup.cleaner import RemoteLogCleaner
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker, DryRunMarkerEffects, RealMarkerEffects
from airflow_provider_rlmm.features.cleanup.planner import CleanupPlanner
from tests.roots import KNOWN_FROM_THE_BEGINNING
from tests.simulation import actors
from tests.simulation.baton import Baton
from tests.simulation.clerk import Clerk, CrashError
from tests.simulation.mistakes import MINUTE_MS, Mistakes
from tests.simulation.model import Event, View, check_landing
from tests.simulation.reports import check_marking, check_planning, check_report
from tests.simulation.roots import CLUSTER_ID
from tests.simulation.witness import BATCH_SEGMENTS, MIN_ABSENCE_MS, Process
from tests.simulation.work_folder import WorkFolder

CHANGES = {"publish", "delete", "put", "list", "commit"}
"""Effects that change something, and the listings that tell what did change."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """
    How hostile the world is; all rates are probabilities, 0 to 1.

    :param fault_rate: of a fault at an effect that can fail.
    :param actor_rate: of somebody else acting before an effect.
    :param scripts: number of scripts that other actors may begin.
    :param mistake_rate: of the world going wrong at an effect before which somebody may act.
    :param stale_rate: of a topic listing that still shows a deleted topic.
    :param switch_rate: of another process of ours going first.
    :param pause_rate: of a copier that sleeps through half a lease, or all of it, before one of its events.
    :param kinds: what is wrong with the world, see :data:`tests.simulation.mistakes.KINDS`.
    """

    fault_rate: float = 0.0
    actor_rate: float = 0.0
    scripts: int = 0
    mistake_rate: float = 0.3
    stale_rate: float = 0.0
    switch_rate: float = 0.0
    pause_rate: float = 0.0
    kinds: frozenset[str] = frozenset()


CALM = Trouble()


class World(Mistakes):
    """
    :param seed: decides the world's content and the adversary's choices.
    :param trouble: how hostile it is.
    """

    def __init__(self, seed: int, trouble: Trouble = CALM) -> None:
        self.random = random.Random(seed)
        self.adversary = random.Random(seed + 1_000_003)
        self.owner = random.Random(seed + 7_000_027)
        self.renamer = random.Random(seed + 9_000_011)
        self.lister = random.Random(seed + 11_000_027)
        self.trouble = trouble
        self.scripts_left = trouble.scripts
        self.scripts: list[actors.Script] = []
        self.happened: Counter[str] = Counter()
        self.processes: list[Process] = []
        self.in_flight: list[tuple[Process, PublishEffect]] = []
        self.baton = Baton(self.adversary, trouble.switch_rate)
        self.log = InProcessMetadataEventLog(self.random.choice([1, 2, 2, 3]), clock=self.clock)
        self.topics = InProcessClusterTopics(cluster_id=CLUSTER_ID)
        self.offsets = InProcessOffsetStore()
        self.snapshots = WorkFolder(self)
        self.audit = InMemoryAuditLog()
        self.clerk = Clerk(seed, self.happened, calm=trouble is CALM)
        super().__init__(trouble.kinds)
        if trouble.scripts and self.adversary.random() < 0.3:
            self.scripts += [actors.zombie_goes_on(self, metadata) for metadata in self.being_copied]
        for part in (self.log, self.topics, self.offsets):
            part.on_effect, part.after_effect = self._hooks(part)

    def clock(self) -> int:
        return self.now_ms

    # --- the adversary -------------------------------------------------------------------------------------------

    def _hooks(self, part: object) -> tuple[Callable[[str, Any], Any], Callable[[str, Any], Any]]:
        return self._before(part), self._after(part)

    def _before(self, part: object) -> Callable[[str, Any], Any]:
        def hook(name: str, detail: Any) -> Any:
            self.baton.pass_on()
            self._others_act()
            process = self.processes[self.baton.current]
            process.before(name, detail)
            self._count_and_crash(process, "before", name)
            fault = self._fault_before(part, process, name, detail)
            if part is self.topics and fault is None:
                self._show_deleted_topic(detail)
                self.answer_wrongly()
            if name == "delete":
                self.rename_before_deletion(detail)
            return fault

        return hook

    def _after(self, part: object) -> Callable[[str, Any], Any]:
        def hook(name: str, detail: Any) -> Any:
            process = self.processes[self.baton.current]
            process.after(name, detail)
            if name == "publish":
                self._land(process, detail, process.judged(detail.value))
            elif part is self.topics:
                self.answer_truly()
            self._count_and_crash(process, "after", name)
            return self._fault_after(part, process, name, detail)

        return hook

    def _count_and_crash(self, process: Process, when: str, name: str) -> None:
        # Most effects read: a crash is to hit one that changes something as often as not.
        process.effects += 1
        process.changes += name in CHANGES
        if process.crash_at == (process.changes if process.crash_in_changes else process.effects):
            self.happened[f"crash {when} {name}"] += 1
            raise CrashError(f"{when} {name}")

    def _happens(self, when: str, name: str) -> bool:
        rate = self.trouble.fault_rate if name in CHANGES else self.trouble.fault_rate / 8
        if rate and self.adversary.random() < rate:
            self.happened[f"fault {when} {name}"] += 1
            return True
        return False

    def _fault_before(self, part: object, process: Process, name: str, detail: Any) -> Any:
        # Without its stamp a root with nothing left in it stays unproven.
        if (self.lonely and name == "put") or not self._happens("before", name):
            return None
        if name == "publish":
            return self._refuse(process, detail)
        if name == "read":
            return self.adversary.randint(detail.start, detail.end)
        if isinstance(part, InMemoryRemoteStorageManager):
            root = StorageRootError if name == "list" else StorageUnavailableError
            raise self.adversary.choice([StorageUnavailableError, root, StorageAccessError])(f"{name} refused")
        raise self.adversary.choice([EventLogUnavailableError, EventLogAccessError])(f"{name} refused")

    def _refuse(self, process: Process, effect: PublishEffect) -> Failed | Unknown:
        fate = self.adversary.choice(["refused", "timed out", "in flight"])
        self.happened[f"record {fate}"] += 1
        if fate == "refused":
            return Failed("refused", retriable=True)
        process.in_doubt.add(topic_id_partition_of(_event_of(effect)))
        if fate == "in flight":
            self.in_flight.append((process, effect))
        return Unknown(fate)

    def _fault_after(self, part: object, process: Process, name: str, detail: Any) -> Any:
        if name == "publish":
            if not self._happens("after", name):
                return None
            process.in_doubt.add(topic_id_partition_of(_event_of(detail)))
            if self.adversary.random() < 0.3:  # it was sent twice
                self.in_flight.append((process, detail))
            return Unknown("reply lost")
        if isinstance(part, InMemoryRemoteStorageManager) and self._happens("after", name):
            raise StorageUnavailableError(f"reply of {name} lost")
        if part is self.offsets and self._happens("after", name):
            raise EventLogUnavailableError(f"reply of {name} lost")
        return None

    def _land(self, process: Process, effect: PublishEffect, view: View) -> None:
        event = _event_of(effect)
        self._check_landing(event, view)
        self.model.append(effect.metadata_partition, event, self.now_ms, self.now_ms)

    def _check_landing(self, event: Event, view: View) -> None:
        tip = topic_id_partition_of(event)
        log = self.model.log_of(tip)
        if log is view.log:  # else the log has lost what its writer had read, and nothing could tell him yet
            check_landing(event, view.of(tip), log.at(tip, begin=view.begin))

    def _land_late(self, number: int) -> None:
        process, effect = self.in_flight.pop(number)
        self.happened["late landing"] += 1
        event, view = _event_of(effect), process.judged(effect.value)
        tip = topic_id_partition_of(event)
        # Its own writer's records count as others' here: it was told that the outcome is unknown.
        if self.model.log_of(tip).at(tip, begin=view.begin) is not view.of(tip):
            self._check_landing(event, view)
        self.log.append(effect.metadata_partition, effect.value)
        self.model.append(effect.metadata_partition, event, self.now_ms, self.now_ms)

    def _show_deleted_topic(self, asked: frozenset[str] | None) -> None:
        """Let a broker that lags behind answer: it still shows a topic that is deleted."""
        if not self.trouble.stale_rate or self.adversary.random() >= self.trouble.stale_rate:
            return
        ghost = self.adversary.choice(self.gone)
        if asked is None or (ghost.topic in asked and ghost.topic not in self.existing):
            self.happened["stale topics"] += 1
            self.topics.topics = {**self.existing, ghost.topic: ghost.topic_id}

    # --- the others ----------------------------------------------------------------------------------------------

    def _others_act(self) -> None:
        if not self.trouble.actor_rate or self.adversary.random() >= self.trouble.actor_rate:
            return
        choices: list[Callable[[], None]] = [self._resume] * bool(self.scripts) * 2
        choices += [self._begin] * (self.scripts_left > 0)
        choices += [lambda: self._land_late(0)] * bool(self.in_flight)
        choices += [self.mistake] * (bool(self.kinds) and self.adversary.random() < self.trouble.mistake_rate)
        if choices:
            self.adversary.choice(choices)()

    def _begin(self) -> None:
        self.scripts_left -= 1
        tip = self.adversary.choice(self.gone)
        may_delete = [] if self.lonely else [lambda: actors.leader_deletes(self, tip)]
        begin: Callable[[], actors.Script] = self.adversary.choice(
            [
                *may_delete * 3,
                lambda: actors.zombie_copies(self, tip),
                lambda: actors.zombie_copies(self, tip),
                lambda: actors.owner_recreates(self),
                lambda: actors.owner_deletes(self),
                lambda: actors.controller_marks(self, self.adversary.choice([tip, tip, *self.alive[:1]])),
                lambda: actors.group_expires(self),
            ]
        )
        script = begin()
        self.happened[script.__name__] += 1  # type: ignore[attr-defined]  # generators have names
        self.scripts.append(script)
        self._resume()

    def _resume(self) -> None:
        script = self.adversary.choice(self.scripts)
        if next(script, script) is script or self.adversary.random() < 0.02:
            self.scripts.remove(script)  # it is done, or its process died

    def pass_time(self, ms: int) -> None:
        """Let time pass; whoever was in the middle of something has gone on, or died, long before it is over."""
        for script in self.scripts:
            if self.adversary.random() < 0.8:
                for _ in script:
                    pass
        self.scripts.clear()
        self.now_ms += ms

    # --- what is under test ----------------------------------------------------------------------------------------

    def run(self, *processes: Process) -> list[str]:
        """Run one or more processes at once to their ends; tell what stopped each, empty where nothing did."""
        self.processes = list(processes)
        ends = [""] * len(processes)

        def play(number: int) -> Callable[[], None]:
            def task() -> None:
                ends[number] = self._run_to_its_end(processes[number])

            return task

        self.baton.run([play(number) for number in range(len(processes))])
        return ends

    def _run_to_its_end(self, process: Process) -> str:
        try:
            return ", ".join(self._run_dag(process))
        except CrashError as crash:
            return str(crash)
        except RlmmError as error:
            process.told.append(str(error))
            return type(error).__name__
        finally:
            self.answer_truly()
            self._end_task(process)

    def _end_task(self, process: Process) -> None:
        """What a task has sent lands soon after its end, or never."""
        for number in reversed(range(len(self.in_flight))):
            if self.in_flight[number][0] is process:
                if self.adversary.random() < 0.5:
                    self._land_late(number)
                else:
                    del self.in_flight[number]
        process.in_doubt.clear()

    def _clock_of(self, process: Process) -> ProvenClock:
        """The clock of a worker that asks the brokers for the time."""
        process.begin_task()

        def worker() -> int:
            return self.now_ms + process.clock_ahead_ms

        def prove() -> TimeProof:
            brokers = TimeReading("the brokers", self.now_ms, worker())
            return prove_time([lambda: brokers], [], worker, required=True)

        return ProvenClock(prove, worker_clock=worker, monotonic=self.clock)

    def _run_dag(self, process: Process) -> Iterator[str]:
        """Mark, wait, plan, clean, as the DAG does; yield the errors of the cleaning tasks."""
        publisher = GuardedPublisher(self.log, allow_writes=True)
        clock, dry_run = self._clock_of(process), process.dry_run
        denied, losses = self.looks_denied(), self.losses
        topic = TopicReplay(self.log, self.topics, clock, self.snapshots)
        effects = DryRunMarkerEffects(self.log) if dry_run else RealMarkerEffects(publisher)
        marking = DeletedPartitionMarker(topic, effects, clock=clock).mark()
        topic.keep()
        # Of a log that loses records meanwhile nobody can say what the marker has read. A topic that was made anew by the
        # name of another one has its own work: the marker may have looked after the old one had any, and before the new one.
        unseen = denied & self.looks_denied() if self.losses == losses else set()
        process.told += check_marking(marking, {tip.topic for tip in unseen})
        self._end_task(process)
        hurried = self.trouble is not CALM and self.adversary.random() < 0.2
        self.pass_time(MIN_ABSENCE_MS - (self.adversary.choice([MIN_ABSENCE_MS // 2, 3 * MINUTE_MS]) if hurried else 0))
        clock, begins, losses = self._clock_of(process), Counter(self.model.begins), self.losses
        topic = TopicReplay(self.log, self.topics, clock, self.snapshots)
        plan = CleanupPlanner(topic, limits=self.limits, clock=clock).plan("sim", expires_in_ms=1)
        topic.keep()
        unreadable = self.unreadable if self.losses == losses else {}
        process.told += check_planning(plan.summary, unreadable, begins, self.model.begins)
        planned: dict[tuple[UUID, int], set[UUID]] = {}
        for row in plan.rows.to_pylist():
            key = UUID(bytes=row["topic_id"]), row["partition"]
            planned.setdefault(key, set()).add(UUID(bytes=row["segment_id"]))
        for metadata_partition in sorted(plan.summary.by_metadata_partition):
            try:
                report = self._cleaner(process, publisher).clean(
                    metadata_partition,
                    {k: frozenset(v) for k, v in planned.items()},
                    plan.summary.tails[metadata_partition],
                )
            except RlmmError as error:  # one mapped task fails, the others go on
                process.told.append(str(error))
                process.trail.check_ended()
                yield type(error).__name__
            else:
                process.told += check_report(report)
                process.trail.check_ended(report)
                self.happened.update(str(partition.outcome) for partition in report.partitions)

    @property
    def limits(self) -> CleanerLimits:
        return CleanerLimits(min_absence_ms=MIN_ABSENCE_MS, batch_segments=BATCH_SEGMENTS, overrides=self.overrides)

    def _cleaner(self, process: Process, publisher: GuardedPublisher) -> RemoteLogCleaner:
        storage, clock = self.mount(self._hooks), self._clock_of(process)
        audit = InMemoryAuditLog(lambda name, rows: self.clerk.write_down(process, name, rows), beside=self.audit)
        real = RealEffects(publisher, storage, self.offsets, audit)
        return RemoteLogCleaner(
            self.log,
            DryRunEffects(self.log, storage, clock) if process.dry_run else real,
            self.offsets,
            self.topics,
            storage,
            limits=self.limits,
            audit=audit,
            expected_cluster_id=CLUSTER_ID,
            clock=clock,
            should_stop=lambda: self.clerk.should_stop(process),
            root=RootExpectation(self.recorded_roots(), self.expected_root),
            ledger=KNOWN_FROM_THE_BEGINNING,
            snapshots=self.snapshots,
        )

    def converge(self) -> None:
        """Run without trouble until a run writes nothing, and check the end state (I5)."""
        self.trouble, self.baton = CALM, Baton(self.adversary, 0.0)
        self.end_mistakes()
        self.clerk.end_trouble()
        for _ in range(6):
            self.pass_time(MIN_ABSENCE_MS)
            written, process = self.model.written, Process(self)
            (end,) = self.run(process)
            self.damaged.update(self._beside_strangers(process, end))
            if "StorageRootError" in end and "unproven_root" not in self.overrides:
                self.overrides |= {"unproven_root"}  # a person has looked
                # Of what a log has lost its beginning nothing but a person knows what it was.
                self.damaged.update(tip for tip in self.gone if any(self.model.begins.values()))
                continue
            assert not end or self.lost or self.damaged, f"I5: a run without faults ended with {end}"
            if self.model.written == written:
                break
        else:
            raise AssertionError("I5: five runs without faults, and the last one still had something to write")
        self.check_end_state(process.told)

    def _beside_strangers(self, process: Process, end: str) -> list[TopicIdPartition]:
        """Return what is left because among few good records a stray one says that nothing is to be written."""
        if "PartitionerMismatchError" in end:
            return self.gone if any(map(self.is_doubtful, self.gone)) else []
        refused = [
            tip for tip in self.gone if any(said.startswith(_strangers(self.home_of(tip))) for said in process.told)
        ]
        return [tip for tip in refused if self.is_doubtful(tip)]


def _strangers(metadata_partition: int) -> str:
    return f"metadata partition {metadata_partition}: no record observed in the metadata topic proves our partitioner"


def _event_of(effect: PublishEffect) -> Event:
    return deserialize(effect.value)  # type: ignore[return-value]  # the witness has judged it: no snapshot record
