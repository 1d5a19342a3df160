# SPDX-License-Identifier: Apache-2.0
"""What one process of ours has read and seen so far, and what it may therefore do: checked at each of its effects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import PublishEffect, ReadEffect
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.simulation.clerk import Trail
from tests.simulation.model import FINISHED, Event, PartitionLog, View, judge

if TYPE_CHECKING:
    from tests.simulation.world import World

BATCH_SEGMENTS = 2
MIN_ABSENCE_MS = 24 * 3_600_000
LOOKING = {"list_topics", "describe_topics", "diskless_topics", "copy_lags", "read", "cluster_id", "beginning_offsets"}


@dataclass
class Process:
    """
    One run of the DAG, as seen from outside.

    :param world: where it runs.
    :param dry_run: it must change nothing.
    :param crash_at: number of its effect at which it crashes, ``None`` for never.
    :param crash_in_changes: count only effects that change something.
    :param clocks_ahead_ms: how far its workers' own clocks are ahead, one per task, over and over.
    :param read: metadata partition → which log it read, up to where, and whether it did so from the log's beginning on, every
        time since it acted last: its own replay may have read less than others that it made for other purposes.
    :param begins: metadata partition → where the log began whenever its present task asked for it.
    :param remembered: metadata partition → where the log began for those who wrote what its present task knows from a
        snapshot.
    :param shown: name → id of the topics that the cluster showed at its last look.
    :param answered: names that the cluster gave an answer to at its last look, one way or the other.
    :param elsewhere: whether another cluster answered its last look.
    :param in_doubt: partitions about which a record of the present task may or may not land.
    :param told: what it has said that a person has to look at.
    :param trail: what its present task has written down, and when it asked for the kill switch.
    """

    world: World
    dry_run: bool = False
    crash_at: int | None = None
    crash_in_changes: bool = False
    clocks_ahead_ms: Sequence[int] = (0,)
    effects: int = 0
    changes: int = 0
    tasks: int = 0
    read: dict[int, list[tuple[PartitionLog, int, bool]]] = field(default_factory=dict)
    begins: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    remembered: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    shown: dict[str, UUID] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    elsewhere: bool = False
    in_doubt: set[TopicIdPartition] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    trail: Trail = field(default_factory=Trail)
    _whole: dict[int, tuple[PartitionLog, int]] = field(default_factory=dict)
    _judged: dict[bytes, View] = field(default_factory=dict)
    _acted: bool = False
    _names_at_look: dict[tuple[int, UUID], list[set[str]]] = field(default_factory=dict)
    _read_since_publish: bool = False
    _looked_since_publish: bool = False
    _touched_since_look: set[RemoteLogSegmentId] = field(default_factory=set)
    _only_looked_since_read: bool = False
    _listed_since_read: bool = False
    _batch_only_looked: bool = False
    _batch_listed: bool = False
    _listed: set[RemoteLogSegmentId] = field(default_factory=set)

    def begin_task(self) -> None:
        """The next task is another process, with another worker's clock."""
        self.tasks += 1
        self.begins.clear()
        self.remembered.clear()
        self._whole.clear()
        self._listed.clear()
        self.trail = Trail()

    @property
    def clock_ahead_ms(self) -> int:
        return self.clocks_ahead_ms[self.tasks % len(self.clocks_ahead_ms)]

    def before(self, name: str, detail: Any) -> None:
        """Judge an effect that is about to happen."""
        if name in ("publish", "delete", "put", "commit"):
            assert not self.dry_run, f"a dry run does {name} {detail}"
            self.trail.judge(name, detail)
        self._acted |= name in ("publish", "delete")
        if name == "publish":
            self._before_publish(detail)
        elif name == "delete":
            self._before_delete(detail)
        elif name == "put":
            assert detail in self.world.stamp_keys, f"put {detail}"
            assert self.world.hidden is None or self.world.swapped, "I2: a strange storage root was stamped as verified"
        elif name == "commit":
            for metadata_partition, offset in detail.items():
                unsettled = [view.first_unsettled() for view in self._views(metadata_partition)]
                passed = [o for o in unsettled if o is not None and o < offset]
                assert len(passed) < len(unsettled), f"I4: committed {offset}, unsettled {passed}"

    def after(self, name: str, detail: Any) -> None:
        """Take note of an effect that has happened."""
        model = self.world.model
        if name == "high_water_marks":
            self._read_since_publish = True
            self._only_looked_since_read, self._listed_since_read = True, False
            return
        if name == "read":
            self._note_read(detail)
        if name == "beginning_offsets":
            for metadata_partition in range(self.world.log.partition_count):
                self.begins[metadata_partition].add(model.begins[metadata_partition])
        if name == "describe_topics":
            self._look(detail)
        if name == "list":
            self._listed_since_read = True
            # The listing of a whole place shows the names of its folders, and no object.
            folders_only = any(place.prefix == detail for place in self.world.known_layout.places)
            keys = () if folders_only else [key for key in self.world.mounted if key.startswith(detail)]
            shown = (self.world.segment_of(key) for key in keys)
            self._listed.update(segment for segment in shown if segment is not None)
        elif name not in LOOKING:
            self._only_looked_since_read = False

    def _note_read(self, effect: ReadEffect) -> None:
        number = effect.metadata_partition
        log = self.world.model.logs[number]
        # What was read from the beginning on is read on from its last records, unless others have taken their place since.
        known_log, known_end = self._whole.get(number, (log, -1))
        goes_on = effect.start <= known_end and known_log.up_to(known_end) == log.up_to(known_end)
        whole = goes_on or effect.start in self.begins[number]
        if whole:
            self._whole[number] = log, effect.end
        before = [] if self._acted else self.read.get(number, [])
        self.read[number] = [*before, (log, effect.end, whole)]
        self._acted = False

    def _look(self, names: frozenset[str]) -> None:
        """Note what one look showed. A listing only supplies names: what was asked for and answered with an id was seen."""
        topics = self.world.topics
        self.elsewhere = topics.metadata_topic_id != self.world.metadata_topic_id
        self.answered = names - topics.denied
        self.shown = {name: i for name, i in topics.topics.items() if name in self.answered}
        self._names_at_look = {
            (p, tip.topic_id): [view.names_of(tip.topic_id) for view in self._views(p)]
            for tip, p in self.world.model.metadata_partition_of.items()
        }
        self._touched_since_look.clear()
        self._looked_since_publish = True

    def _views(self, metadata_partition: int, from_the_log: bool = False) -> list[View]:
        """
        Return what the process can know: from where the log began when its task asked for it, one time or another.

        :param from_the_log: leave out what it knows from a snapshot only.
        """
        begins = self.begins[metadata_partition]
        remembered = begins | self.remembered[metadata_partition]
        return [
            View(log, begin, end)
            for log, end, whole in self.read.get(metadata_partition, [])
            if whole or not from_the_log
            for begin in sorted(begins if from_the_log else remembered)
        ]

    def _judge(self, tip: TopicIdPartition, rule: Callable[[View], None]) -> View:
        """Apply a rule to what the process has read of the log itself; any of several beginnings will do."""
        views = self._views(self.world.model.metadata_partition_of.get(tip, 0), from_the_log=True)
        assert views, f"I14: something is done to {tip} that was not read from the log itself"
        *others, last = views
        for view in others:
            try:
                rule(view)
            except AssertionError:
                continue
            return view
        rule(last)
        return last

    def judged(self, value: bytes) -> View:
        """Return what the process had read when it published a record."""
        return self._judged[value]

    def _require_absent(self, tip: TopicIdPartition, what: object) -> None:
        assert tip.topic_id not in self.world.living_ids(), f"I7: {what} is of the living {tip}"
        assert not self.elsewhere, f"I9: {what}, though another cluster answered its last look"
        assert tip.topic_id not in self.shown.values(), f"I7: {what}, though its last look showed {tip}"
        assert tip.topic in self.answered, f"§7: {what}, though its last look said nothing about {tip.topic}"
        names = self._names_at_look.get((self.world.model.metadata_partition_of[tip], tip.topic_id), [])
        assert any(len(known) == 1 for known in names), f"§7: {what}, though its topic id has the names {names}"

    def _before_publish(self, effect: PublishEffect) -> None:
        event: Event = deserialize(effect.value)  # type: ignore[assignment]  # judge() refuses what is no event of ours
        tip = topic_id_partition_of(event)
        if effect.index == 0:
            assert self._read_since_publish, f"I6: {event} without having read back the batch before it"
            fresh_look = self._looked_since_publish
            assert fresh_look or event.state is S.DELETE_SEGMENT_FINISHED, f"I7: {event} without a new look"
            self._read_since_publish = self._looked_since_publish = False
            # What one batch rests on was read and seen before its first record.
            self._batch_only_looked, self._batch_listed = self._only_looked_since_read, self._listed_since_read
        self._require_absent(tip, event)
        if int(event.state) == FINISHED and isinstance(event, RemotePartitionDeleteMetadata):
            del self.read[effect.metadata_partition][:-1]
        view = self._judge(tip, lambda view: judge(event, view, self.world.now_ms, MIN_ABSENCE_MS))
        self._judged[effect.value] = view
        if isinstance(event, RemotePartitionDeleteMetadata):
            if int(event.state) == FINISHED:
                # Where more may have been said than was read, storage is listed once more.
                listed = self._batch_listed and not self.world.is_doubtful(tip)
                assert self._batch_only_looked, "I3: finished on an old replay"
                assert not listed, "I3: finished on an old replay"
                assert tip not in self.in_doubt, "I3: finished while a record of this run may still land"
                left = sorted(set(self.world.objects_unknown_to(view, tip)) - self.world.renamed.keys())
                assert not left, f"I3: {tip} finished while {left} are there, which its log does not account for"
            return
        segment = event.remote_log_segment_id
        state = view.of(tip).segments[segment.id]
        if state == S.COPY_SEGMENT_FINISHED:
            assert segment in self._listed, f"I2: {segment} was never seen in storage"
        if event.state is S.DELETE_SEGMENT_FINISHED:
            left = self.world.objects_of_segment(segment)
            if left and self.world.renamed.keys() >= set(left) and segment not in self._listed:
                self.world.excuse(left)
            else:
                assert not left, f"I2: {segment} finished while {left} are there"

    def _before_delete(self, key: str) -> None:
        segment = self.world.segment_of(key)
        assert segment is not None, f"deleted a key of no known segment: {key}"
        self.trail.judge_deletion(key, segment, BATCH_SEGMENTS)
        tip = segment.topic_id_partition
        self._require_absent(tip, f"deleting {key}")
        self._judge(tip, lambda view: self._judge_deletion(key, segment, view))
        self._touched_since_look.add(segment)
        assert len(self._touched_since_look) <= BATCH_SEGMENTS, "I7: more than a batch deleted after one look"

    def _judge_deletion(self, key: str, segment: RemoteLogSegmentId, view: View) -> None:
        seen = view.of(segment.topic_id_partition)
        state = seen.segments.get(segment.id)
        assert state == S.DELETE_SEGMENT_STARTED, f"I1: {key} deleted, its last state read is {state}"
        settled = view.is_settled(segment.topic_id_partition, self.world.now_ms, MIN_ABSENCE_MS)
        assert settled, f"§7: {key} deleted, not settled: {seen}"
