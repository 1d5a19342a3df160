# SPDX-License-Identifier: Apache-2.0
"""
Runs of one work folder, as seen from outside: what each has read, listed and begun, and what no later one may forget.

The rules that :class:`~tests.simulation.witness.Process` has for a single run hold here, too. Beyond them, wrong is: a living
object goes; a held topic is written about, or an object of it goes; anything is finished while an object of it lies there
that a record read by this work folder, or a listing of it, had named; a run that could have known says nothing that needs a
person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.log.in_process import PublishEffect, ReadEffect
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
    kafka_uuid_str,
    topic_id_partition_of,
)
from airflow_provider_rlmm.core.records.serde import deserialize
from tests.simulation.model import FINISHED, Event, PartitionLog
from tests.simulation.witness import Process

if TYPE_CHECKING:
    from tests.simulation.folder_world import FolderWorld

DELETED = 3


@dataclass
class Memory:
    """
    What runs of a work folder have learned, by an account that nothing can take from them.

    :param named: segments that a record names which one of them has read, or of which one has listed an object.
    :param read: metadata partition → every log that one of them has read, and up to where.
    """

    named: set[RemoteLogSegmentId] = field(default_factory=set)
    read: dict[int, list[tuple[PartitionLog, int]]] = field(default_factory=lambda: defaultdict(list))

    def note_read(self, number: int, log: PartitionLog, end: int) -> None:
        """Learn what a log says up to an offset, exclusive."""
        known = next((known for seen, known in self.read[number] if seen is log), 0)
        if end <= known:
            return
        self.read[number] = [*((seen, k) for seen, k in self.read[number] if seen is not log), (log, end)]
        for record in log.records:
            event = record.event
            if known <= record.offset < end and isinstance(
                event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
            ):
                self.named.add(event.remote_log_segment_id)

    def forget(self, number: int) -> None:
        """Somebody has confirmed that a metadata partition has lost records: what was read of it counts no more."""
        self.read.pop(number, None)

    def add(self, other: Memory) -> None:
        """Learn what somebody else has learned."""
        self.named |= other.named
        for number, seen in other.read.items():
            for log, end in seen:
                self.note_read(number, log, end)

    def lost(self, number: int, log: PartitionLog) -> bool:
        """Tell whether a log is not what was read of it, goes on: whether it has lost records at its end."""
        return any(seen.up_to(end) != log.up_to(end) for seen, end in self.read[number] if seen is not log)


@dataclass
class FolderRun(Process):
    """
    One run of the cleaner or of the scrub, all steps of it.

    :param name: of its folder below the work folder.
    :param scrubs: whether it is a scrub.
    :param elsewhere_at_first: whether brokers had said before it that they copy below a prefix that nobody named.
    :param below_a_copy: whether a copy of the root was mounted before it, in place of the one that brokers write to.
    :param strangers_at_first: whether another cluster had written below a living topic id before it.
    :param confirms: the losses that a person confirms with it, by name.
    :param confirms_topic: whether that person confirms the metadata topic that is there now, too.
    :param learned: what it has learned by itself.
    """

    name: str = ""
    scrubs: bool = False
    elsewhere_at_first: bool = False
    below_a_copy: bool = False
    strangers_at_first: bool = False
    confirms: tuple[str, ...] = ()
    confirms_topic: bool = False
    learned: Memory = field(default_factory=Memory)
    _remembered: set[int] = field(default_factory=set)

    @property
    def folder(self) -> FolderWorld:
        return self.world  # type: ignore[return-value]  # runs of a work folder happen in a world that has one

    @property
    def judges_audit(self) -> bool:
        """The rules about the audit log of the cleaner; those of the scrub are judged elsewhere."""
        return not self.scrubs

    def note_audit(self, rows: Sequence[Mapping[str, Any]], outcomes: Sequence[str | None]) -> None:
        """Know what is written down of a segment: what became of a batch takes the place of its beginning."""
        for row, outcome in zip(rows, outcomes, strict=True):
            batches = self.folder.evidence[UUID(bytes=row["segment_id"])]
            batches[self.name, self.tasks, str(row["batch"])] = str(outcome)

    def saw_it_go(self, segment: UUID) -> bool:
        """Tell whether an earlier task has written down that it deleted a segment, and not that it saw nothing of it."""
        batches = self.folder.evidence[segment].items()
        return any(
            outcome != "NEVER_SEEN" for (run, task, _), outcome in batches if (run, task) != (self.name, self.tasks)
        )

    def after(self, name: str, detail: Any) -> None:
        super().after(name, detail)
        if name == "list":
            shown = (self.world.segment_of(key) for key in self.world.mounted if key.startswith(detail))
            self.learned.named.update(segment for segment in shown if segment is not None)

    def _note_read(self, effect: ReadEffect) -> None:
        super()._note_read(effect)
        number = effect.metadata_partition
        self.learned.note_read(number, self.world.model.logs[number], effect.end)

    def knows(self, segment: RemoteLogSegmentId) -> bool:
        """Tell whether this run, or one that had ended before it began, has met a segment."""
        return segment in self.learned.named or segment in self.folder.memory.named

    def _remember(self) -> None:
        """Whatever ends a task, what it had read before it changed anything is known from then on."""
        if self.tasks not in self._remembered:
            self._remembered.add(self.tasks)
            self.folder.memory_to_be.add(self.learned)

    def _before_publish(self, effect: PublishEffect) -> None:
        self._remember()
        event: Event = deserialize(effect.value)  # type: ignore[assignment]  # the witness judges what it is
        assert not self.scrubs, f"I13: a scrub writes {event}"
        self._require_not_held(topic_id_partition_of(event), event)
        self._require_same_world(effect.metadata_partition, event)
        super()._before_publish(effect)
        if isinstance(event, RemotePartitionDeleteMetadata) and int(event.state) == FINISHED:
            tip = topic_id_partition_of(event)
            objects = ((key, self.world.segment_of(key)) for key in sorted(self.world._objects_of([tip])))
            left = [key for key, segment in objects if segment is not None and self.knows(segment)]
            away = self.world.renamed.keys() >= set(left)
            assert not left or away, f"I18: {tip} is finished, and runs of this work folder know of {left}"

    def _require_not_held(self, tip: TopicIdPartition, what: object) -> None:
        assert kafka_uuid_str(tip.topic_id) != self.folder.held, f"hold: {what}, though {tip} is held"

    def _require_same_world(self, number: int, what: object) -> None:
        self.folder.require_untouched(number, what)
        assert not self.elsewhere_at_first, f"I18: {what}, though copies lie below a prefix that nobody named"

    def _before_delete(self, key: str) -> None:
        self._remember()
        segment = self.world.segment_of(key)
        assert segment is not None, f"deleted a key of no known segment: {key}"
        tip = segment.topic_id_partition
        self._require_not_held(tip, f"deleting {key}")
        self._require_same_world(self.world.home_of(tip), f"deleting {key}")
        if not self.scrubs:
            super()._before_delete(key)
            return
        assert key not in self.folder.cloned, f"I20: {key} goes, which another cluster has written"
        finished = segment.id in self.world.model.finished
        living = tip.topic_id in self.world.living_ids()
        assert finished or not living, f"I13: {key} of the living {tip} goes"
        self.world.happened["scrubbed a finished one" if finished else "scrubbed an unreferenced one"] += 1
