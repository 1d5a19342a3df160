# SPDX-License-Identifier: Apache-2.0
"""
What may be done to the user partitions of one metadata partition, decided before anything is changed (I2, I7).

Whether a marked one may be cleaned now says one rule for planner and cleaner: :func:`refusal_of`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.ahead import ahead
from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import (
    ForeignPrefixError,
    StorageError,
    StorageRootError,
    UnsafeObjectKeyError,
)
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.plan import PlannedSegments
from airflow_provider_rlmm.core.plans.plan_archive import NOT_ARCHIVED_ADVICE
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.records import OWN_BROKER_ID, RemoteLogSegmentMetadata, TopicIdPartition
from airflow_provider_rlmm.core.storage.hidden_copies import VERSIONED_BUCKET, Freed
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import foreign_prefix
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager, StoredObject
from airflow_provider_rlmm.core.world.absence import refusal_of
from airflow_provider_rlmm.core.world.cluster_look import ClusterLook, look
from airflow_provider_rlmm.core.world.earlier_deletions import EarlierDeletions, was_started_by_us
from airflow_provider_rlmm.core.world.effects import Effects
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.core.world.replay import MetadataPartitionReplay
from airflow_provider_rlmm.core.world.root_proof import ProvenRoot
from airflow_provider_rlmm.core.world.unseen import SETTLE_MISSING, UnseenSegment, UnseenVerdict, decide_unseen
from airflow_provider_rlmm.core.world.wholeness import incompleteness, unnamed_segments
from airflow_provider_rlmm.features.archiving.archive_guard import NO_ARCHIVE, ArchiveGuard

_LOOKED_AT = 10
_MOST_AHEAD = 2_500
"""Unfinished segments of a user partition that is listed before its turn comes, at most: some megabytes."""

NEXT_RUN = "nothing: the next run goes on from here"
STORAGE_ADVICE = "see the reason; the other partitions of this run went on without this one"
UNSAFE_ADVICE = (
    "compare layout, key_prefix and former_key_prefixes of the rlmm connection with the brokers' configuration"
)
KEPT_FOR_GOOD_ADVICE = (
    f"set the rule; the override {VERSIONED_BUCKET!r} deletes all the same, and keeps paying for what is hidden"
)
MISSING_ADVICE = (
    "check storage URI, layout and mount; if the objects are really lost, the override '{override}' settles them"
)


@dataclass(frozen=True, slots=True)
class CleaningContext:
    """What the user partitions of one metadata partition share during a run."""

    log: MetadataLogReader  # the log that is read and written
    topics: ClusterTopics  # the cluster's topics
    replay: MetadataPartitionReplay  # the metadata partition, read from its beginning and kept current by the effects
    effects: Effects  # everything that changes the world
    storage: RemoteStorageManager  # remote storage, for listings
    limits: CleanerLimits  # limits of destructive work
    root: ProvenRoot  # what is known about the storage root
    clock: Clock  # time
    gate: Gate  # what is asked again before every batch
    archive: ArchiveGuard = NO_ARCHIVE  # what may go because it is archived, asked before every batch
    # what earlier runs have deleted, by the audit log
    deletions: EarlierDeletions = field(default_factory=EarlierDeletions)

    def look(self, histories: Iterable[UserPartitionHistory]) -> ClusterLook:
        """
        Look at the cluster again.

        :param histories: of the user partitions in question.
        """
        names = self.replay.names({history.topic_id_partition.topic_id for history in histories})
        return look(self.topics, self.log, names)

    def refusal(self, history: UserPartitionHistory, seen: ClusterLook) -> Refusal | None:
        """
        Return why nothing may be done to a user partition (I7, the rules of absence, a hold), ``None`` where it may.

        :param history: its history.
        :param seen: the latest look, which asked for it.
        """
        tip = history.topic_id_partition
        held = self.gate.hold().refusal_of(tip, seen.names[tip.topic_id])
        observation = seen.observations[tip.topic_id]
        return held or refusal_of(history, observation, self.clock(), self.limits) or self.archive.refusal_of(tip)

    def incompleteness(self, history: UserPartitionHistory, listed: Collection[UUID]) -> Refusal | None:
        """
        Return why a user partition must be left alone because not all that was said of it can be seen.

        :param history: its history.
        :param listed: its segments of which storage lists an object.
        """
        doubt = self.replay.doubt_about(history.topic_id_partition, self.limits.allowed_quarantine)
        return None if doubt is None else incompleteness(history, listed, doubt, root_shown=self.root.shown)

    def unnamed(self, history: UserPartitionHistory, listed: Collection[UUID]) -> Refusal | None:
        """
        Return why a user partition must not be declared deleted: storage holds what the log does not name (I18).

        :param history: its history, read on after the listing.
        :param listed: its segments of which storage lists an object.
        """
        number = self.replay.metadata_partition
        return self.incompleteness(history, listed) or unnamed_segments(history, listed, number)


@dataclass(frozen=True, slots=True)
class Left:
    """A segment that stays."""

    what: str  # which one
    why: str  # the reason
    what_to_do: str  # what a person may do about it
    kind: RefusalKind = RefusalKind.NEXT_RUN  # kind of the reason
    missing: bool = False  # whether its copy was finished and no object is there


@dataclass(frozen=True, slots=True)
class Eligibility:
    """What may be done to one user partition."""

    refused: Refusal | None = None  # why nothing may be, ``None`` where something may
    listed: frozenset[UUID] = frozenset()  # its segments of which storage lists an object
    segments: tuple[RemoteLogSegmentMetadata, ...] = ()  # those that may be deleted, by start offset
    left: tuple[Left, ...] = ()  # what stays, and why
    others: frozenset[str] = frozenset()  # keys of these with suffixes that the layout does not know
    foreign_offset: int | None = None  # of the last foreign segment event that was known when this was decided


_Looked = Eligibility | Mapping[UUID, tuple[StoredObject, ...]]
"""What was found out about a user partition by a look at storage: that nothing may be done, or what lies there."""


def find_eligible(
    work: Collection[UserPartitionHistory], context: CleaningContext, planned: PlannedSegments
) -> dict[TopicIdPartition, Eligibility]:
    """
    Look at cluster and storage and decide what may be deleted; nothing is changed.

    All user partitions are decided upon before the first is touched: a wrong storage root must leave no trace.

    :param work: the user partitions whose deletion is under way.
    :param context: what the run shares.
    :param planned: segments that may be deleted.
    :raises StorageRootError: if the root is gone, or more expected segments are missing than the limit allows.
    :raises EventLogError: if the cluster cannot be asked, or the log not be read on where segments seem to be missing.
    """
    seen = context.look(work)
    found: dict[TopicIdPartition, Eligibility] = {}
    missing = 0
    # Here, and not in a thread: histories change when the log is read on.
    asked = ((h.topic_id_partition, context.refusal(h, seen), len(h.unfinished()) <= _MOST_AHEAD) for h in work)
    looked = ahead(partial(_looked_ahead, context), asked, context.storage.listings_at_once, "rlmm look")
    for history, listed in zip(work, looked, strict=True):
        tip = history.topic_id_partition
        decided = _decide(history, listed, context, seen, planned.get((tip.topic_id, tip.partition), frozenset()))
        missing += sum(left.missing for left in decided.left)
        _require_few_missing(missing, tip, context)
        found[tip] = decided
    return found


def _looked_ahead(context: CleaningContext, asked: tuple[TopicIdPartition, Refusal | None, bool]) -> _Looked | None:
    """Look at storage before the user partition's turn comes; ``None`` where so much may be there that it has to wait."""
    tip, refused, is_small = asked
    if refused is not None:
        return Eligibility(refused)
    return _looked(context, tip) if is_small else None


def _looked(context: CleaningContext, tip: TopicIdPartition) -> _Looked:
    """Return what storage lists of a user partition, or what storage alone has decided already."""
    try:
        objects = context.storage.list_log_segments(tip)
        refused = _kept_for_good(tip, objects, context)
    except StorageRootError:
        raise
    except StorageError as e:
        return Eligibility(storage_refusal(tip, context.replay.metadata_partition, e))
    return objects if refused is None else Eligibility(refused, frozenset(objects))


def _decide(
    history: UserPartitionHistory,
    looked: _Looked | None,
    context: CleaningContext,
    seen: ClusterLook,
    planned: frozenset[UUID],
) -> Eligibility:
    objects = _looked(context, history.topic_id_partition) if looked is None else looked
    if isinstance(objects, Eligibility):
        return objects
    refused = context.incompleteness(history, objects.keys())
    if refused is not None:
        return Eligibility(refused, frozenset(objects))
    decided = _judged(history, context, objects, planned)
    if any(left.missing for left in decided.left):
        # Another cleaner may have deleted them since this one read the log; it has said so there, and in the audit log,
        # before it did.
        context.replay.advance()
        context.deletions.forget()
        refused = context.refusal(history, seen)
        decided = Eligibility(refused) if refused is not None else _judged(history, context, objects, planned)
    return decided


def _judged(
    history: UserPartitionHistory,
    context: CleaningContext,
    objects: Mapping[UUID, Sequence[StoredObject]],
    planned: frozenset[UUID],
) -> Eligibility:
    """Decide about every unfinished segment by one listing of the user partition."""
    listed = frozenset(objects)
    segments: list[RemoteLogSegmentMetadata] = []
    left: list[Left] = []
    others: set[str] = set()
    for metadata in history.unfinished():
        reason = _why_left(history, metadata, listed, planned, context)
        if reason is None:
            segments.append(metadata)
            others |= _keys_of_another_kind(metadata, objects, context.storage.layout)
        else:
            left.append(reason)
    return Eligibility(None, listed, tuple(segments), tuple(left), frozenset(others), history.last_foreign_offset)


def _keys_of_another_kind(
    metadata: RemoteLogSegmentMetadata, objects: Mapping[UUID, Sequence[StoredObject]], layout: Layout
) -> set[str]:
    keys = {stored.key for stored in objects.get(metadata.remote_log_segment_id.id, ())}
    for place in layout.places_of(metadata):
        stem = layout.segment_stem(metadata, place)
        keys -= {stem + suffix for suffix in layout.suffixes}
    return keys


def _kept_for_good(
    tip: TopicIdPartition, stored: Mapping[UUID, tuple[StoredObject, ...]], context: CleaningContext
) -> Refusal | None:
    """Return why deletion would free nothing, where only the objects themselves can tell: some of them are asked."""
    if context.root.effect.freed is not Freed.UNKNOWN or VERSIONED_BUCKET in context.limits.overrides:
        return None
    keys = sorted(objects[0].key for objects in stored.values())
    effect = context.storage.deletion_effect(keys[:: -(-len(keys) // _LOOKED_AT) or 1])
    if effect.freed is not Freed.NEVER:
        return None
    number = context.replay.metadata_partition
    return Refusal(str(tip), effect.sentence, KEPT_FOR_GOOD_ADVICE, RefusalKind.STORAGE, number, topic=tip.topic)


def _why_left(
    history: UserPartitionHistory,
    metadata: RemoteLogSegmentMetadata,
    listed: Collection[UUID],
    planned: Collection[UUID],
    context: CleaningContext,
) -> Left | None:
    """Return why a segment may not be started, ``None`` where it may (I2: never seen is not gone)."""
    segment_id = metadata.remote_log_segment_id
    if segment_id.id not in planned:
        return Left(str(segment_id), "not in the plan", "make a new plan")
    if not context.archive.holds(metadata):
        why = "the archive of this run does not hold it as the log names it"
        return Left(str(segment_id), why, NOT_ARCHIVED_ADVICE, RefusalKind.ARCHIVE)
    try:
        for place in context.storage.layout.places_of(metadata):
            context.storage.layout.segment_stem(metadata, place)
    except ForeignPrefixError as e:
        # In words that all segments of the same cause share: they are told together.
        return Left(str(segment_id), foreign_prefix(e.prefix), UNSAFE_ADVICE, RefusalKind.STORAGE)
    except UnsafeObjectKeyError as e:
        return Left(str(segment_id), str(e), UNSAFE_ADVICE, RefusalKind.STORAGE)
    if segment_id.id in listed:
        return None
    known = context.replay.copied_is_known
    unseen = as_unseen(history, metadata, context.root, context.storage, context.deletions, copied_is_known=known)
    decision = decide_unseen(unseen, context.limits.overrides)
    if decision.verdict is UnseenVerdict.MAY_FINISH:
        return None
    why = decision.why if decision.override else f"{decision.why}: {context.root.check.reason}"
    advice = MISSING_ADVICE.format(override=decision.override or SETTLE_MISSING)
    missing = decision.verdict is UnseenVerdict.MISSING
    return Left(str(segment_id), why, advice, RefusalKind.MISSING_OBJECTS, missing)


def _require_few_missing(missing: int, tip: TopicIdPartition, context: CleaningContext) -> None:
    root = context.root.check
    tolerated = context.limits.max_missing_segments if root.verified else 0
    if missing > tolerated:
        raise StorageRootError(
            f"{number_of(missing, 'segment')}, {tip} among them, {agreeing(missing, 'has', 'have')} no object in "
            f"storage though {agreeing(missing, 'its', 'their')} copy was finished "
            f"({root.reason}): nothing more is deleted. " + MISSING_ADVICE.format(override=SETTLE_MISSING)
        )


def storage_refusal(tip: TopicIdPartition, metadata_partition: int, error: StorageError) -> Refusal:
    """
    Say that storage failed for one user partition.

    :param tip: the user partition.
    :param metadata_partition: where its events lie.
    :param error: what storage said.
    """
    todo, kind = (NEXT_RUN, RefusalKind.NEXT_RUN) if error.retriable else (STORAGE_ADVICE, RefusalKind.STORAGE)
    return Refusal(str(tip), str(error), todo, kind, metadata_partition, topic=tip.topic)


def as_unseen(
    history: UserPartitionHistory,
    metadata: RemoteLogSegmentMetadata,
    root: ProvenRoot,
    storage: RemoteStorageManager,
    deletions: EarlierDeletions,
    *,
    copied_is_known: bool,
) -> UnseenSegment:
    """
    Put together what is known of a segment of which no listing of this run showed an object.

    :param history: of its user partition.
    :param metadata: the segment.
    :param root: what is known about the storage root.
    :param storage: knows the layout.
    :param deletions: what earlier runs have deleted; asked where that decides.
    :param copied_is_known: whether no record is missing that may have said that it was copied.
    """
    segment_id = metadata.remote_log_segment_id.id
    ours = history.started_by.get(segment_id) == OWN_BROKER_ID
    check, places = root.check, frozenset(place.name for place in storage.layout.places_of(metadata))
    return UnseenSegment(
        state=metadata.state,
        was_copied=segment_id in history.copied or not copied_is_known,
        places_proven=places <= check.verified_places,
        only_place=len(storage.layout.places) == 1,
        root_is_fresh=all(root.freshness.is_fresh(place, check.expected_places) for place in places),
        started_by_us=ours,
        places_shown=places <= check.shown_places,
        # A start of ours counts below the root where an earlier run of the cluster worked.
        same_root=all(check.root_ids.get(place) in root.recorded for place in places),
        on_record=was_started_by_us(history, metadata) and deletions.names(metadata),
        unread=deletions.unread,
    )
