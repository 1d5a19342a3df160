# SPDX-License-Identifier: Apache-2.0
"""
What the Spark job has folded of the metadata topic, as a snapshot: mark, plan and survey may begin with it.

It narrows work only. Mark and clean read the metadata partitions in which they write from the log itself, and no snapshot of
this package is ever made of what came from here: each task asks anew for the newest generation. The job folds all anew once a
day and compares; a generation that was not folded from the beginning for longer than that is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import HOUR_MS, Clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError, MetadataError, PlanError, SnapshotRefusedError
from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.snapshot import Snapshot, TopicIdentity
from airflow_provider_rlmm.core.records.era import Era, LogEra
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.outcomes import ErrorCode
from airflow_provider_rlmm.core.records.records import TopicIdPartition, parse_kafka_uuid

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.records.columnar import ColumnarState

MAX_FOLD_AGE_MS = 26 * HOUR_MS
"""A generation is used for so long after all of it was read from the log's beginning: the job does that once a day."""

_AHEAD_MS = HOUR_MS
"""By so much the clock of the job may be ahead of ours."""


@dataclass(frozen=True, slots=True)
class FoldedTopic:
    """
    The newest generation of a data set.

    :param uri: of the data set.
    :param clock: time.
    """

    uri: str
    clock: Clock

    def __str__(self) -> str:
        return f"{self.uri}/segments"

    def read(self, beyond: int) -> Snapshot:
        """
        Return the newest generation as a snapshot; :meth:`Snapshot.check` must follow before it is used.

        :param beyond: how many offsets are known without it, the sum over all metadata partitions.
        :raises SnapshotRefusedError: if there is none that knows more, or it cannot be used; its cause is a
            :class:`FileNotFoundError` where nothing is wrong.
        """
        store, generation = self._newest()
        known = generation.folded.offsets
        if known <= beyond:
            raise SnapshotRefusedError(
                f"generation {generation.number} knows {number_of(known, 'offset')}, not more than an earlier task"
            ) from FileNotFoundError()
        _require_usable(generation, self.clock())
        return _snapshot_of(store, generation)

    def _newest(self) -> tuple[GenerationStore, Generation]:
        try:
            store = GenerationStore(self.uri)
            numbers = store.numbers()
        except (PlanError, ConfigurationError) as e:
            raise SnapshotRefusedError(str(e)) from e
        if not numbers:
            raise SnapshotRefusedError("the Spark job has left no generation") from FileNotFoundError()
        return store, store.read(numbers[0])


def _require_usable(generation: Generation, now_ms: int) -> None:
    """Refuse a generation that is too old, or of a log of which a reader of its own would not believe all."""
    from airflow_provider_rlmm.core.records.fold.ipc import VERSION

    name, age_ms = f"generation {generation.number}", now_ms - generation.folded_at_ms
    if generation.fold_version != VERSION:
        raise SnapshotRefusedError(
            f"{name} was folded by version {generation.fold_version}, this program reads version {VERSION}"
        )
    if not -_AHEAD_MS <= age_ms <= MAX_FOLD_AGE_MS:
        raise SnapshotRefusedError(
            f"{name} was last folded from the beginning of the log {age_ms / HOUR_MS:,.1f} hours ago, and counts for "
            f"{MAX_FOLD_AGE_MS // HOUR_MS} hours: the Spark job folds all anew once a day where it runs"
        )
    if (era := LogEra.of(generation.era)).era is not Era.PLAIN:
        raise SnapshotRefusedError(f"{name} is of a log that is {era}")
    for number, part in sorted(generation.parts.items()):
        if part.more_holes or part.keyed:
            raise SnapshotRefusedError(
                f"{name} does not name all that is doubtful in metadata partition {number}: "
                f"{number_of(part.more_holes, 'gap')} and {number_of(part.keyed, 'record')} with keys are only counted"
            )


def _snapshot_of(store: GenerationStore, generation: Generation) -> Snapshot:
    from airflow_provider_rlmm.core.records.columnar import ColumnarState

    quarantined: list[QuarantinedRecord] = []
    parts = sorted(generation.parts.items())

    def states() -> Iterator[ColumnarState]:
        for number, part in generation.known:
            state, found = _folded(store, generation, number, part)
            quarantined.extend(_quarantined(number, found))
            yield state

    try:
        state = ColumnarState.merged(states())
    except MetadataError as e:
        raise SnapshotRefusedError(f"generation {generation.number} cannot be used: {e}") from e
    return Snapshot(
        TopicIdentity(generation.cluster_id, parse_kafka_uuid(generation.topic_id), len(parts)),
        {number: part.next_offset for number, part in parts},
        tuple(HistoryGap(number, 0, part.begin) for number, part in parts if part.begin > 0),
        generation.created_at_ms,
        state,
        tails={
            number: tuple((anchor.offset, bytes.fromhex(anchor.sha256)) for anchor in part.anchors)
            for number, part in generation.known
        },
        quarantined=tuple(quarantined),
        routed={number: part.routed for number, part in parts if part.routed},
        holes=tuple(hole for _, part in parts for hole in part.holes),
        folded=generation.folded,
    )


def _folded(
    store: GenerationStore, generation: Generation, number: int, part: GenerationPart
) -> tuple[ColumnarState, pa.Table]:
    from airflow_provider_rlmm.core.generations.folding import Folding

    folding = Folding(number, len(generation.parts), part, store.root)
    return folding.state, folding.quarantined


def _quarantined(number: int, found: pa.Table) -> Iterator[QuarantinedRecord]:
    for row in found.to_pylist():
        code, topic_id = ErrorCode(row["code"]).name, row["topic_id"]
        tip = None if topic_id is None else TopicIdPartition(UUID(bytes=topic_id), row["topic"], row["partition"])
        yield QuarantinedRecord(number, row["event_offset"], code, row["cause"] or code, tip)
