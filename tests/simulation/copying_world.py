# SPDX-License-Identifier: Apache-2.0
"""
A :class:`~tests.simulation.world.World` in which copiers run, too, beside cleaners, leaders and owners.

The copiers work on topics of their own, which live. One that is deleted is the cleaners' from then on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import PublishEffect
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.cache import RemoteLogMetadataCache
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.segments.lineage import find_highest_remote_offset
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.world import root_proof
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.rules import CopyLimits, LocalSegment
from tests.roots import KNOWN_FROM_THE_BEGINNING
from tests.simulation import copy_actors
from tests.simulation.actors import BROKER, Script
from tests.simulation.baton import Baton
from tests.simulation.copier_run import COPIED, COPIER, COPYING, DELETED, DELETING, CopierRun, uncovered
from tests.simulation.led import NOT_COPIED, Led, ScriptedLeader, draw_led, draw_replica, whole_replica
from tests.simulation.mistakes import HOUR_MS, MINUTE_MS, RIGHTS
from tests.simulation.model import Event, View
from tests.simulation.roots import CLUSTER_ID
from tests.simulation.witness import Process
from tests.simulation.world import CALM, World

UNCOPIED = "uncopied"
DROPPED = {(COPIED, DELETING), (COPIED, DELETED), (DELETING, DELETED), (DELETED, DELETED), (DELETING, DELETING)}
"""(event, state that it meets): what brokers drop. Its writer was overtaken by somebody since he looked."""


class CopyingWorld(World):
    """See the module."""

    def _populate(self) -> None:
        self.led: list[Led] = []
        self.metadata_of: dict[UUID, RemoteLogSegmentMetadata] = {}
        self.announced_ms: dict[UUID, int] = {}
        self.deleted_by_leaders: set[UUID] = set()
        self.cleaned = False
        self.left_out: set[TopicIdPartition] = set()
        """Of which a copier has left segments to expire."""
        self.undecodable: dict[int, set[int]] = defaultdict(set)
        self.crossed: set[UUID] = set()
        """Copies that were finished late and taken back at the same moment: what they hold is copied again."""
        # Something always tells whose storage it is: where nothing does, no copier begins.
        self.lonely, self.overrides = False, frozenset()
        self.expected_root = str(replace(self.here, prefix="kafka-tiered-storage"))
        super()._populate()
        for name in [UNCOPIED, "uncopied-too"][: self.random.choice([1, 1, 2])]:
            self._add_led(draw_led(self.random, self._create(name), self.now_ms))

    def _add_led(self, led: Led) -> None:
        self.led.append(led)
        for segment in led.segments[: self.random.choice([0, 0, 1, 2])]:
            if led.log_start <= segment.end_offset < led.stable:
                for _ in self.broker_copies(led, segment):
                    pass
        self._leave_dangling(led)

    def _leave_dangling(self, led: Led) -> None:
        """A broker, or a copier, has died in the middle of a copy, a while ago."""
        whose = self.random.choice([None] * 8 + [BROKER, COPIER, COPIER])
        waiting = self.waiting(led)
        if whose is None or not waiting:
            return
        metadata = self._new_copy(led, waiting[0], whose, self.now_ms - self.random.choice([0, 2 * HOUR_MS]))
        self.note_announcement(metadata)
        self.foreign(metadata)
        for key in self.layout.required_keys(metadata)[: self.random.randint(0, 5)]:
            self.put(key)

    def waiting(self, led: Led) -> list[LocalSegment]:
        """Return the segments that a leader would copy, by Kafka's rule, ascending."""
        highest = find_highest_remote_offset(
            led.epochs, self.cache_of(led.tip).highest_offset_for_epoch, led.high_watermark
        )
        after = max(led.log_start - 1, -1 if highest is None else highest[0])
        return [s for s in led.segments if after < s.end_offset < led.offsets.last_stable_offset]

    # --- topics ----------------------------------------------------------------------------------------------------

    def led_of(self, topic: str) -> Led | None:
        """Return what the topic of a name is now."""
        return next((led for led in self.led if led.tip.topic == topic and self.is_led(led)), None)

    def is_led(self, led: Led) -> bool:
        return self.existing.get(led.tip.topic) == led.tip.topic_id

    def delete_led(self, led: Led) -> None:
        if self.is_led(led):
            del self.existing[led.tip.topic]
            self.gone.append(led.tip)

    def recreate_led(self, led: Led) -> None:
        if led.tip.topic not in self.existing:
            self._add_led(draw_led(self.random, self._create(led.tip.topic), self.now_ms))

    def broker_copies(self, led: Led, segment: LocalSegment) -> Script:
        """A leader copies a segment; it may die in the middle."""
        metadata = self._new_copy(led, segment, BROKER, self.now_ms)
        self.note_announcement(metadata)
        self.foreign(metadata)
        yield
        segment_id = metadata.remote_log_segment_id
        if segment_id.id in self.deleted_by_leaders:
            return  # A leader that deletes a topic ends its own copies of it first.
        for key in self.layout.required_keys(metadata):
            self.put(key)
        yield
        if self.model.at(led.tip).segments.get(segment_id.id) == COPYING:
            self.foreign(RemoteLogSegmentMetadataUpdate(segment_id, self.now_ms, None, S.COPY_SEGMENT_FINISHED, BROKER))

    def _new_copy(self, led: Led, segment: LocalSegment, broker_id: int, now_ms: int) -> RemoteLogSegmentMetadata:
        return RemoteLogSegmentMetadata(
            RemoteLogSegmentId(led.tip, self._uuid()),
            segment.base_offset,
            segment.end_offset,
            segment.max_timestamp_ms,
            broker_id,
            now_ms,
            segment.size_in_bytes,
            None,
            S.COPY_SEGMENT_STARTED,
            segment.leader_epochs,
            True,
        )

    def note_announcement(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Know a segment of these topics from now on, whether its announcement lands or not."""
        segment_id = metadata.remote_log_segment_id
        self.metadata_of[segment_id.id] = metadata
        self.announced_ms[segment_id.id] = metadata.event_timestamp_ms
        self._segment_of_stem[self.layout.segment_stem(metadata)] = segment_id
        self.announced[segment_id] = self.model.ends[self.home_of(segment_id.topic_id_partition)]

    def is_copiers(self, segment_id: UUID) -> bool:
        return segment_id in self.metadata_of and self.metadata_of[segment_id].broker_id == COPIER

    def cache_of(self, tip: TopicIdPartition) -> RemoteLogMetadataCache:
        """Return what a broker knows that has read all: by the package's own copy of Kafka's cache."""
        cache = RemoteLogMetadataCache()
        for record in self.model.log_of(tip).records:
            event = record.event
            if isinstance(event, RemoteLogSegmentMetadata) and topic_id_partition_of(event) == tip:
                cache.add_copy_in_progress_segment(event)
            elif isinstance(event, RemoteLogSegmentMetadataUpdate) and topic_id_partition_of(event) == tip:
                cache.update_remote_log_segment_metadata(event)
        return cache

    # --- the adversary -----------------------------------------------------------------------------------------------

    def _before(self, part: object) -> Callable[[str, Any], Any]:
        act = super()._before(part)

        def hook(name: str, detail: Any) -> Any:
            if name == "publish":
                self._pause()
            return act(name, detail)

        return hook

    def _pause(self) -> None:
        """Between the last look and the event: no lease can help here."""
        sleeper = self.processes[self.baton.current]
        rate = self.trouble.pause_rate
        if rate and isinstance(sleeper, CopierRun) and self.adversary.random() < rate:
            self.happened["paused before an event"] += 1
            self.let_time_pass(self.adversary.choice([31, 61]))
            self.baton.pass_on(certainly=True)

    # --- the others --------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        living = [led for led in self.led if self.is_led(led)]
        if not living or self.adversary.random() < 0.3:
            super()._begin()
            return
        self.scripts_left -= 1
        led = self.adversary.choice(living)
        begin = self.adversary.choice(
            [
                copy_actors.leader_takes_over,
                copy_actors.leader_moves_its_start,
                copy_actors.leader_commits,
                copy_actors.leader_cleans_up,
                copy_actors.owner_reconfigures,
                copy_actors.somebody_marks,
                copy_actors.owner_deletes_what_is_copied,
                *[lambda world, _: copy_actors.time_passes(world)] * 5,
            ]
        )
        script = begin(self, led)
        self.happened[script.__name__] += 1  # type: ignore[attr-defined]  # generators have names
        self.scripts.append(script)
        self._resume()

    def pass_time(self, ms: int) -> None:
        self._settle_in_flight()
        super().pass_time(ms)

    def let_time_pass(self, minutes: int) -> None:
        """Let time pass in the middle of everything."""
        self._settle_in_flight()
        self.now_ms += minutes * MINUTE_MS

    def sleep(self, seconds: float) -> None:
        """A copier waits for its quota, and may oversleep."""
        self.happened["waited for its quota"] += 1
        self.now_ms += int(seconds * 1000 * self.adversary.choice([1, 1, 60])) + 1

    def _settle_in_flight(self) -> None:
        """A producer gives up what was not written after two minutes: what a copier has sent lands before, or never."""
        for process in {id(process): process for process, _ in self.in_flight}.values():
            if isinstance(process, CopierRun):
                self._end_task(process)

    def _unreadable(self, number: int, value: bytes | None) -> None:
        self.undecodable[number].add(self.model.ends[number])
        super()._unreadable(number, value)

    def _old_root(self) -> None:
        """What was copied last may be told by a topic that nobody may describe, while others tell that all is well."""
        if RIGHTS in self.kinds:
            self._copied_root()
        else:
            super()._old_root()

    def _end_at(self, number: int, end: int) -> None:
        super()._end_at(number, end)
        self.undecodable[number] = {offset for offset in self.undecodable[number] if offset < end}

    # --- what lands --------------------------------------------------------------------------------------------------

    def _fault_after(self, part: object, process: Process, name: str, detail: Any) -> Any:
        fault = super()._fault_after(part, process, name, detail)
        if name == "publish" and isinstance(process, CopierRun):
            # An idempotent producer sends nothing twice.
            self.in_flight = [(p, effect) for p, effect in self.in_flight if effect is not detail]
        return fault

    def _land(self, process: Process, effect: PublishEffect, view: View) -> None:
        super()._land(process, effect, view)
        self._check_copies()

    def _land_late(self, number: int) -> None:
        super()._land_late(number)
        self._check_copies()

    def _check_landing(self, event: Event, view: View) -> None:
        if event.broker_id != COPIER:
            super()._check_landing(event, view)
            return
        assert isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
        segment_id, target = event.remote_log_segment_id, int(event.state)
        if self.model.log_of(segment_id.topic_id_partition) is not view.log:
            return  # the log has lost what its writer had read, and nothing could tell him yet
        now = self.model.at(segment_id.topic_id_partition)
        assert now.deletion != 2, f"C3: {event} lands behind DELETE_PARTITION_FINISHED"
        state = now.segments.get(segment_id.id)
        follows = (state, target) in {(None, COPYING), (COPYING, COPIED), (COPYING, DELETING), (DELETING, DELETED)}
        if (state, target) == (COPIED, DELETING):
            assert view.of(segment_id.topic_id_partition).segments[segment_id.id] == COPYING, f"C5: {event}"
            self.crossed.add(segment_id.id)
            self.happened["crossed"] += 1
        else:
            assert follows or (target, state) in DROPPED, f"C3: {event} meets {state}"
            self.happened["copier's event dropped"] += not follows

    def foreign(self, event: Event) -> None:
        super().foreign(event)
        if self.led:
            self._check_copies()

    def _check_copies(self) -> None:
        for led in self.led:
            if self.is_led(led) and led.tip not in self.damaged:
                self.check_copies(led)

    def check_copies(self, led: Led) -> None:
        """No hole, no object missing, nothing copied twice by copiers: whoever did what."""
        states = self.model.at(led.tip).segments
        finished = [self.metadata_of[s] for s, state in states.items() if state == COPIED]
        highest = max((m.end_offset for m in finished), default=-1)
        late = [self.metadata_of[s] for s in self.crossed if s in self.metadata_of]
        soon = led.expired_end(self.now_ms + HOUR_MS + 10 * MINUTE_MS)
        hole = uncovered([*finished, *late], max(led.log_start, soon), highest + 1)
        assert not hole, f"C8: {led.tip} has a hole at {hole} below {highest}: {states}"
        ours = sorted((m.start_offset, m.end_offset) for m in finished if m.broker_id == COPIER)
        twice = [after for before, after in pairwise(ours) if after[0] <= before[1]]
        assert not twice, f"C9: {led.tip} has copies of the same offsets: {ours}"
        for metadata in finished:
            if metadata.end_offset >= led.log_start:
                missing = set(self.layout.required_keys(metadata)) - self.keys
                assert not missing, f"C10: {metadata} is finished and lacks {missing}"

    def owner_adopts(self, runs: Sequence[CopierRun]) -> None:
        """
        After green runs the owner does what the how-to says: copying is enabled, and retention raised, by one alter.

        :param runs: of copiers that have just ended.
        """
        for led in self.led:
            about = [run for run in runs if run.tip == led.tip]
            green = about and not any(run.told or run.ended for run in about)
            waited = led.tip in self.left_out
            if green and self.is_led(led) and (waited or self.owner.random() < 0.5):
                self.happened["adopted"] += 1
                led.configs = replace(led.configs, remote_log_copy_disable=False, retention_ms=-1)
                if led.tip not in self.damaged:
                    self.check_copies(led)

    # --- what is under test ------------------------------------------------------------------------------------------

    def draw_copier(self) -> CopierRun:
        """Return a run of a copier on a log directory of some replica, often a shorter one after segments were left out."""
        adversary = self.adversary
        again = [led for led in self.led if led.tip in self.left_out]
        short = bool(again) and adversary.random() < 0.7
        led = adversary.choice(again if short else self.led)
        self.happened["copied again from less"] += short
        crashes, in_changes = not short and adversary.random() < 0.5, adversary.random() < 0.7
        crash_at = adversary.randint(1, 30 if in_changes else 120) if crashes else None
        return CopierRun(
            self,
            draw_replica(adversary, led, short=short),
            CopyLimits(
                bytes_per_second=adversary.choice([None, None, None, 1]),
                max_segments=adversary.choice([None, None, None, 1]),
            ),
            crash_at=crash_at,
            crash_in_changes=in_changes,
            clocks_ahead_ms=self.clocks_ahead_ms(),
        )

    def _run_dag(self, process: Process) -> Iterator[str]:
        if isinstance(process, CopierRun):
            return self._run_copier(process)
        self.cleaned = True
        return super()._run_dag(process)

    def _run_copier(self, run: CopierRun) -> Iterator[str]:
        storage, clock = self.mount(self._hooks), self._clock_of(run)  # type: ignore[arg-type]  # it asks for the clock only
        root = RootExpectation(self.recorded_roots(), self.expected_root)
        root_proof.require_brokers_root(
            TopicReplay(self.log, self.topics, clock),
            storage,
            cluster_id=CLUSTER_ID,
            expectation=root,
            overrides=run.limits.overrides,
            ledger=KNOWN_FROM_THE_BEGINNING,
        )
        context = CopyContext(
            self.log,
            ScriptedLeader(self),
            storage,
            CLUSTER_ID,
            root,
            limits=run.limits,
            should_stop=lambda: self.clerk.should_stop(run),  # type: ignore[arg-type]  # it asks for the trail only
            clock=clock,
            monotonic=self.clock,
        )
        writer = CopyWriter(GuardedPublisher(self.log, allow_writes=True, allow_copy=True), storage)
        report = RemoteLogCopier(context, writer).copy(run.replica)
        self.happened["copied"] += len(report.copied)
        self.happened["taken back"] += len(report.taken_back)
        self.happened["left to expire"] += len(report.expiring)
        if report.expiring:
            self.left_out.add(run.tip)
        if report.stopped_by is not None:
            run.told.append(report.stopped_by)
            yield "needs a person" if report.needs_person else "left to a later run"

    def converge(self) -> None:
        """Let all go well: what may be copied is copied, nothing dangles, and cleaners find what they may delete."""
        self.trouble, self.baton = CALM, Baton(self.adversary, 0.0)
        self.end_mistakes()
        self.clerk.end_trouble()
        self.pass_time(2 * HOUR_MS)
        for led in [led for led in self.led if self.is_led(led)]:
            told = self._copy_all(led)
            if led.tip not in self.damaged:
                self.check_copied(led, told)
        if self.cleaned or any(led.tip in self.gone for led in self.led):
            super().converge()

    def _copy_all(self, led: Led) -> list[str]:
        """Copy until there is nothing to write, and return what the last copier said of its end."""
        for _ in range(3):
            written, run = self.model.written, CopierRun(self, whole_replica(led))
            self.run(run)
            for _ in copy_actors.leader_cleans_up(self, led):
                pass
            if self.model.written == written:
                return run.told
        raise AssertionError(f"C12: copiers of {led.tip} always find something to write: {run.told}")

    def check_copied(self, led: Led, told: list[str]) -> None:
        """Nothing dangles, nothing lies there that nobody names, and all is copied that may be."""
        self.check_copies(led)
        states = self.model.at(led.tip).segments
        finished = [self.metadata_of[s] for s, state in states.items() if state == COPIED]
        named = {key for metadata in finished for key in self.layout.required_keys(metadata)}
        theirs = {s for s in states if s in self.deleted_by_leaders or not self.is_copiers(s)}
        left = [key for key in sorted(self._objects_of([led.tip]) - named) if self._id_of(key) not in theirs]
        unfinished = [s for s, state in states.items() if state not in (COPIED, DELETED)]
        dangling = [s for s in unfinished if self.is_copiers(s)]
        forbidden = replace(led.configs, retention_ms=-1) != NOT_COPIED or len(dangling) < len(unfinished)
        marked = self.model.at(led.tip).deletion is not None
        if (
            forbidden or marked or self.is_doubtful(led.tip)
        ):  # no run of ours may do anything; the leader deletes what dangles when it expires
            self.happened["dangles where copying is forbidden"] += bool(dangling)
            return
        assert not dangling, f"C12: {dangling} of {led.tip} dangle: {states}"
        assert not left, f"C12: {left} of {led.tip} belong to nobody"
        end = max((s.end_offset + 1 for s in led.segments if s.end_offset < led.stable), default=0)
        start = max(led.log_start, led.expired_end(self.now_ms + HOUR_MS))
        waiting = uncovered(finished, start, end)
        if waiting and self._nothing_is_said(led.tip):
            self.happened["nothing proves our partitioner"] += 1
            assert any("PartitionerMismatchError" in said for said in told), (
                f"C12: {led.tip} is not copied, unsaid: {told}"
            )
            return
        assert not waiting, f"C12: {led.tip} has {waiting} left to copy: {states}"
        self.happened["all copied"] += 1

    def _nothing_is_said(self, tip: TopicIdPartition) -> bool:
        """Tell whether a metadata partition has no record, so that none proves where its events lie."""
        number = self.home_of(tip)
        return self.model.ends[number] == self.model.begins[number]

    def _id_of(self, key: str) -> UUID | None:
        segment = self.segment_of(key)
        return None if segment is None else segment.id
