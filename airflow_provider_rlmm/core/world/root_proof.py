# SPDX-License-Identifier: Apache-2.0
"""
Is this the storage root where this cluster's brokers write now? Asked before anything is marked, planned or deleted.

Whose root it is, its objects and stamps say. A stamp proves nothing by lying there, since a copy of the root holds a copy of
it: it counts once a run that had verified the root by its objects has recorded the root id
(:mod:`~airflow_provider_rlmm.core.world.root_ledger`).

Whether it is up to date, the newest copies of living topics say: a copy of the root, or an old root, holds objects of this
cluster and perhaps its stamp, but nothing that was copied since. The order is read, list, read again: what is missing counts
only if the log, read after the listing, still says that it is there.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import (
    EventLogAccessError,
    PlanError,
    StorageRootError,
    UnsafeObjectKeyError,
)
from airflow_provider_rlmm.core.base.quoting import name_in_text
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.records.segment_rows import OF_METADATA, metadata_of
from airflow_provider_rlmm.core.records.topic_names import INTERNAL_TOPICS
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.storage.root import PlaceCheck, RootCheck, RootExpectation
from airflow_provider_rlmm.core.world.cluster_look import look
from airflow_provider_rlmm.core.world.current_root import (
    COMPARE,
    NOTHING_RECORDED,
    NotCurrent,
    PlaceLedger,
    why_not_current,
)
from airflow_provider_rlmm.core.world.freshness import Freshness, FreshnessVerdict, Sample
from airflow_provider_rlmm.core.world.known_places import require_known_places
from airflow_provider_rlmm.core.world.late_copies import late_copies
from airflow_provider_rlmm.core.world.topic_view import TopicReplay

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.records.fold.selected import SelectedSegments

logger = logging.getLogger(__name__)

MOST_SAMPLES = 20
_ROUNDS = 3
_NAMED = 3
_LOOKED_AT = 5
_AT_ONCE = 1000
_OF_A_SAMPLE = (*OF_METADATA, "metadata_partition", "added_offset")


def look_for_freshness(
    topic: TopicReplay, living: Collection[UUID], storage: RemoteStorageManager, *, most_samples: int = MOST_SAMPLES
) -> Freshness:
    """
    Read the topic, and look for the newest copied segment of each living topic in storage.

    Of the living topics those are taken that were copied last, for every place the same number.

    :param topic: the metadata topic; it is advanced.
    :param living: ids of the topics that exist, of a complete and proven look at the cluster, taken before this.
    :param storage: remote storage, listed only.
    :param most_samples: segments to look for at most.
    :raises EventLogError: if the topic cannot be read.
    :raises StorageError: if storage cannot be listed.
    """
    for _ in range(_ROUNDS):
        topic.advance()
        samples = _newest_copied(topic, living, storage, most_samples)
        found = check_samples(topic, samples, storage)
        if found.samples or not samples:
            break
        # All of them were deleted by their brokers in between: there are newer ones now.
    return found


def check_samples(topic: TopicReplay, samples: Sequence[Sample], storage: RemoteStorageManager) -> Freshness:
    """
    Look for given segments in storage: those that a plan has recorded, right before its first deletion.

    Only if one is missing, its metadata partition is read on.

    :param topic: the metadata topic; it is advanced where that is needed.
    :param samples: of a :func:`look_for_freshness`.
    :param storage: remote storage, listed only.
    :return: what became of them. Those that were deleted since are left out; if none is left, look anew.
    :raises EventLogError: if the topic cannot be read.
    :raises StorageError: if storage cannot be listed.
    """
    absent = storage.missing_keys({key for sample in samples for key in sample.keys})
    doubtful = [sample for sample in samples if not absent.isdisjoint(sample.keys)]
    copied = _still_copied(topic, doubtful)
    missing = tuple(sample for sample in doubtful if sample.segment_id in copied)
    left_out = {sample.segment_id for sample in doubtful} - copied
    freshness = Freshness(tuple(s for s in samples if s.segment_id not in left_out), missing)
    for sentence in freshness.sentences:
        logger.info("storage root: %s", sentence)
    return freshness


def _newest_copied(
    topic: TopicReplay, living: Collection[UUID], storage: RemoteStorageManager, most: int
) -> tuple[Sample, ...]:
    copied = topic.not_finished.copied().of_topics(living)
    by_place = defaultdict(list)
    for sample in sorted(_found(list(_samples_of(copied, storage.layout, most)), storage), key=_newest_first):
        by_place[sample.place].append(sample)
    share = max(1, most // max(1, len(by_place)))
    return tuple(sample for place in sorted(by_place) for sample in by_place[place][:share])


def newest_copies(topic: TopicReplay) -> Iterator[RemoteLogSegmentMetadata]:
    """
    Yield the copied segments of all topics, the newest first; the topic is read when the first is asked for.

    :param topic: the metadata topic; it is advanced.
    :raises EventLogError: if the topic cannot be read.
    """
    topic.advance()
    yield from map(metadata_of, _rows_of(topic.not_finished.copied().newest_first(), OF_METADATA))


def _newest_first(sample: Sample) -> tuple[int, str]:
    return -sample.copied_at_ms, str(sample.segment_id)


def _found(samples: Sequence[Sequence[Sample]], storage: RemoteStorageManager) -> Iterator[Sample]:
    """Yield each sample where it lies, of those places at which it can; as one of the first place where it lies at none."""
    open_ones = [sample for places in samples if len(places) > 1 for sample in places]
    absent = storage.missing_keys({key for sample in open_ones for key in sample.keys})
    for places in samples:
        yield next((sample for sample in places if absent.isdisjoint(sample.keys)), places[0])


def _samples_of(copied: SelectedSegments, layout: Layout, most: int) -> Iterator[tuple[Sample, ...]]:
    """
    Yield the newest copied segment of each topic and place, of the topics that were copied last: once for each place at which
    its copy can lie, the one that is written to first.
    """
    copied = copied.newest_first()
    if len(layout.places) == 1:
        copied = copied.first_of_topics().at(slice(0, most))
    found: dict[str, set[bytes]] = {place.name: set() for place in layout.places}
    for row in _rows_of(copied, _OF_A_SAMPLE):
        samples = _sample_of(row, layout)
        seen = found[samples[0].place] if samples else set()
        if samples and row["topic_id"] not in seen and len(seen) < most:
            seen.add(row["topic_id"])
            yield samples


def _rows_of(copied: SelectedSegments, names: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield rows of the table of segments, in their order: some at a time, as objects take more than columns."""
    for start in range(0, copied.size, _AT_ONCE):
        yield from copied.at(slice(start, start + _AT_ONCE)).table(names).to_pylist()


def _sample_of(row: Mapping[str, Any], layout: Layout) -> tuple[Sample, ...]:
    """Return the sample of a segment at each place of its copy; none where no key can be built."""
    metadata = metadata_of(row)
    try:
        keys = {place.name: layout.required_keys(metadata, place) for place in layout.places_of(metadata)}
    except UnsafeObjectKeyError:
        # A record that lies about the name of a living topic, or about its copy; the marker and the doctor tell of it.
        return ()
    segment = metadata.remote_log_segment_id
    return tuple(
        Sample(
            row["metadata_partition"],
            segment.topic_id_partition,
            segment.id,
            place,
            required,
            copied_at_ms=row["event_timestamp_ms"],
            broker_id=row["broker_id"],
            added_offset=row["added_offset"],
        )
        for place, required in keys.items()
    )


def _still_copied(topic: TopicReplay, samples: Sequence[Sample]) -> set[UUID]:
    """Return those of some segments that the log, as of now, calls COPY_SEGMENT_FINISHED."""
    if not samples:
        return set()
    topic.advance({sample.metadata_partition for sample in samples})
    copied = topic.not_finished.copied().with_ids([sample.segment_id for sample in samples])
    return {UUID(bytes=raw) for raw in copied.table(["segment_id"]).column("segment_id").to_pylist()}


@dataclass(frozen=True, slots=True)
class ProvenRoot:
    """What is known about the storage root in this run."""

    check: RootCheck  # whose root it is, per place
    freshness: Freshness  # whether it is up to date, per place
    effect: DeletionEffect  # whether deletion frees space there
    recorded: frozenset[str] = frozenset()  # root ids that earlier plans and reports of the cluster recorded
    # Why a real run would be refused, ``None`` where something shows that it is no current copy of the root.
    not_current: NotCurrent | None = None

    @property
    def shown(self) -> bool:
        """Whether every place is verified, and showed something of this cluster."""
        return all(place.verified and place.shown for place in self.check.places)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Where each place lies, which root it is, what was seen there and how to pin it, for people."""
        refused = [f"a real run would be refused: {self.not_current}"] if self.not_current else []
        pinned = f"{self.check.to_paste} ({COMPARE})"
        return (*map(_place_in_words, self.check.places), *self.freshness.sentences, pinned, *refused)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types, for plans and reports."""
        places = [
            {
                "place": check.place.name,
                "where": str(check.where),
                "verified": check.verified,
                "how": check.how and check.how.value,
                "root_id": check.root_id,
                "reason": check.reason,
            }
            for check in self.check.places
        ]
        refused = self.not_current and asdict(self.not_current)
        return {
            "places": places, "deletion": self.effect.to_dict(), **self.freshness.to_dict(), "not_current": refused,
        }  # fmt: skip

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why a real run would be refused below it, for plans and dry runs."""
        return (self.not_current.to_refusal(),) if self.not_current else ()


def _place_in_words(check: PlaceCheck) -> str:
    """Say where a place lies, which root it is and whether that was known before."""
    known = "new, it has no root id yet"
    if check.root_id is not None:
        known = f"root {check.root_id}, {'expected' if check.expected else 'which no earlier run has recorded'}"
    return f"place {check.place.name} at {check.where}: {known}; {check.reason}"


def prove_root(
    topic: TopicReplay,
    storage: RemoteStorageManager,
    *,
    cluster_id: str,
    expectation: RootExpectation,
    overrides: Collection[str],
    samples: Sequence[Sample] | None = None,
    ledger: PlaceLedger = NOTHING_RECORDED,
    dry_run: bool = False,
) -> ProvenRoot:
    """
    Look at the root, and refuse one that is not this cluster's or not up to date. Nothing is changed.

    :param topic: the metadata topic, advanced as far as that is needed. Objects of topics that it names tell whose root it
        is, as those of living topics do.
    :param storage: remote storage, listed only.
    :param cluster_id: the verified cluster.
    :param expectation: what was known about the root before.
    :param overrides: overrides in force.
    :param samples: the newest copies that a plan has recorded; ``None`` reads the whole topic for them.
    :param ledger: since when the root is known; it learns of a new one.
    :param dry_run: only say where nothing shows that this is the root that brokers write to now.
    :raises StorageRootError: naming the place, what is missing and what to do.
    :raises PlanError: if what the ledger has recorded cannot be read.
    :raises HiddenCopiesError: if deletion would free nothing there, naming the rule to set.
    :raises StorageError: if storage does not answer.
    :raises ClusterMismatchError: if the topics are those of another cluster than the log.
    :raises EventLogAccessError: if nothing tells whether the root is up to date but topics that may not be described.
    :raises EventLogError: if the topic or the cluster cannot be read.
    """
    names = look(topic.topics, topic.log, {}).living
    living, late = _that_may_be_tiered(names, topic.log), cache(lambda: late_copies(topic.topics, names))
    # A former place gets no new copies: nothing can tell whether it is up to date, so it is not asked.
    places = [storage.layout.places[0].name]
    check = storage.check_root(living.union(topic.names()), cluster_id, expectation)
    if not check.verified and topic.is_behind:
        # Objects of any topic that the log names tell whose root it is: in other metadata partitions there may be some.
        topic.advance()
        check = storage.check_root(living.union(topic.names()), cluster_id, expectation)
    logger.info("storage root: %s", check.reason)
    freshness = check_samples(topic, samples, storage) if samples is not None else None
    if freshness is None or (samples and not freshness.samples):
        # All of the plan's were deleted by their brokers since: there are newer ones now.
        freshness, living = _of_all_that_lives(topic, living, storage)
    if samples is None:
        # A plan was made after this look, for the very same places.
        require_known_places(topic, living, storage.layout)
    begun_late = {number for number, begin in topic.log.beginning_offsets().items() if begin > 0}
    lost = tuple(sorted(begun_late.union(topic.log.losses)))
    freshness = replace(freshness, lost=lost if living else ())
    freshness = _told_why(freshness, places, check.expected_places, late)
    freshness.require(places, check.expected_places, overrides, hint=_hint(freshness, storage), to_paste=check.to_paste)
    named = bool(expectation.expected)
    not_current = why_not_current(check, freshness, ledger, topic.log, named=named, late=late, overrides=overrides)
    if not_current is not None and samples is not None:
        # What was copied since the plan was made may tell.
        newer, living = _of_all_that_lives(topic, living, storage)
        freshness = replace(freshness, samples=newer.samples, missing=newer.missing)
        freshness.require(places, check.expected_places, overrides)
        not_current = why_not_current(check, freshness, ledger, topic.log, named=named, late=late, overrides=overrides)
    if not_current is not None:
        if not dry_run:
            raise StorageRootError(f"nothing is deleted: {not_current}")
        logger.warning("a real run would be refused: %s", not_current)
    effect = storage.deletion_effect([sample.keys[0] for sample in freshness.samples[:_LOOKED_AT]])
    logger.info("storage: %s", effect.sentence)
    effect.require_freed(overrides)
    return ProvenRoot(check, freshness, effect, expectation.recorded, not_current)


def require_brokers_root(
    topic: TopicReplay,
    storage: RemoteStorageManager,
    *,
    cluster_id: str,
    expectation: RootExpectation,
    overrides: Collection[str],
    ledger: PlaceLedger = NOTHING_RECORDED,
) -> None:
    """
    Refuse a root that brokers do not copy to now, before anything is copied there: what lies in an old copy of a root is lost
    to them, and they delete their own once it is called finished. Nothing is changed.

    :param topic: the metadata topic, advanced as far as that is needed.
    :param storage: remote storage, listed only.
    :param cluster_id: the verified cluster.
    :param expectation: what was known about the root before.
    :param overrides: overrides in force.
    :param ledger: since when the root is known; it learns of a new one.
    :raises StorageRootError: naming the place, what is missing and what to do.
    :raises StorageError: if storage does not answer.
    :raises EventLogAccessError: if nothing tells whether the root is up to date but topics that may not be described.
    :raises EventLogError: if the topic or the cluster cannot be read.
    """
    names = look(topic.topics, topic.log, {}).living
    living, late = _that_may_be_tiered(names, topic.log), cache(lambda: late_copies(topic.topics, names))
    check = storage.check_root(living.union(topic.names()), cluster_id, expectation)
    freshness, living = _of_all_that_lives(topic, living, storage)
    require_known_places(topic, living, storage.layout, nothing="nothing is copied")
    places = [storage.layout.places[0].name]
    freshness = _told_why(freshness, places, check.expected_places, late)
    freshness.require(
        places,
        check.expected_places,
        overrides,
        nothing="nothing is copied there",
        hint=_hint(freshness, storage),
        to_paste=check.to_paste,
    )
    why = why_not_current(check, freshness, ledger, topic.log, named=bool(expectation.expected), late=late)
    if why is not None:
        raise StorageRootError(f"nothing is copied: {why}")


def _told_why(
    freshness: Freshness, places: Sequence[str], expected: Collection[str], late: Callable[[], str]
) -> Freshness:
    """Add what may be the cause where no living topic has a copy, and that is going to be refused: some are copied late."""
    without = (FreshnessVerdict.NOTHING_LIVES, FreshnessVerdict.UNKNOWN)
    is_cause = any(freshness.verdict(p) in without and not freshness.is_fresh(p, expected) for p in places)
    return replace(freshness, late=late()) if is_cause else freshness


def _hint(freshness: Freshness, storage: RemoteStorageManager) -> str:
    """Return what may be wrong with the key prefix where none of the newest copies is at their place, else nothing."""
    place = storage.layout.places[0]
    if place.twin is None or freshness.verdict(place.name) is not FreshnessVerdict.STALE:
        return ""
    own = place.twin[:-1] if place.twin.endswith("/") else f"{place.twin}/"
    keys = [key for sample in freshness.missing for key in sample.keys if key.startswith(own)][:_LOOKED_AT]
    there = {place.twin + key.removeprefix(own) for key in keys}
    return "" if not there or there & storage.missing_keys(there) else f"they are beside it: {place.did_you_mean}"


def _of_all_that_lives(
    topic: TopicReplay, living: frozenset[UUID], storage: RemoteStorageManager
) -> tuple[Freshness, frozenset[UUID]]:
    """
    Look for the newest copies of living topics, those among them that no listing shows.

    Topics that may not be described count where their newest copies are missing, and only there: they may be gone, so what
    is there of them says nothing, and what is not may be what was copied since this root was one.
    """
    freshness = look_for_freshness(topic, living, storage)
    by_name, hidden, denied = _beside(topic, living)
    if by_name:
        living |= by_name
        freshness = look_for_freshness(topic, living, storage)
    if hidden and freshness.verdict(storage.layout.places[0].name) is FreshnessVerdict.NOTHING_LIVES:
        raise _no_topic_tells(denied)
    if not hidden:
        return freshness, living
    missing = check_samples(topic, _newest_copied(topic, hidden, storage, MOST_SAMPLES), storage).missing
    freshness = replace(
        freshness,
        samples=(*freshness.samples, *missing),
        missing=(*freshness.missing, *missing),
        hidden=tuple(sorted({sample.topic_id_partition.topic for sample in missing})),
    )
    return freshness, living


def _that_may_be_tiered(living: Mapping[str, UUID], log: MetadataLogReader) -> frozenset[UUID]:
    """Return the ids of the topics that are not Kafka's own: these are never tiered."""
    own = {log.topic_id, *(living[name] for name in INTERNAL_TOPICS & living.keys())}
    return frozenset(living.values()) - own


def _beside(topic: TopicReplay, living: frozenset[UUID]) -> tuple[frozenset[UUID], frozenset[UUID], frozenset[str]]:
    """
    Ask for the topics with copied segments that no listing has shown, by every name in the log: a listing leaves out what may
    not be described. Return the ids of those that live, of those that may not be described, and the names of the latter.
    """
    names = topic.names()
    asked = {i: names[i] for i in topic.not_finished.copied().topic_ids() if i in names and i not in living}
    if not asked:
        return frozenset(), frozenset(), frozenset()
    seen = look(topic.topics, topic.log, asked)
    by_name = _that_may_be_tiered(seen.living, topic.log) & asked.keys()
    hidden = frozenset(i for i, known in asked.items() if i not in by_name and known & seen.denied)
    return by_name, hidden, frozenset().union(*(asked[i] for i in hidden)) & seen.denied


def _no_topic_tells(hidden: Collection[str]) -> EventLogAccessError:
    """Return the error where only topics that may not be described could tell whether a root is up to date."""
    more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
    return EventLogAccessError(
        f"no copied segment of a topic that may be described tells whether the storage root is up to date, and topics "
        f"{', '.join(map(name_in_text, sorted(hidden)[:_NAMED]))}{more} may not be described: nothing is done; give the "
        "principal DESCRIBE on every topic, then run again"
    )


def require_places_of_plan(root: Mapping[str, Any], check: RootCheck) -> None:
    """
    Refuse a plan that was made for other places than those of now: no run has looked there for copies of living topics.

    :param root: what :meth:`ProvenRoot.to_dict` returned when the plan was made.
    :param check: the root of now.
    :raises PlanError: naming both, or if they cannot be understood.
    """
    try:
        planned = [str(place["place"]) for place in root["places"]]
    except (TypeError, KeyError) as e:
        raise PlanError(f"the plan's places of the storage root cannot be read ({e}); make a new plan") from e
    now = [place.place.name for place in check.places]
    if planned != now:
        raise PlanError(
            f"the plan was made for the places {', '.join(planned)}, the rlmm connection names {', '.join(now)} now; make a "
            "new plan"
        )


def samples_of(root: Mapping[str, Any]) -> tuple[Sample, ...] | None:
    """
    Return the samples that a plan's summary has recorded, ``None`` where it has recorded none of this kind.

    :param root: what :meth:`ProvenRoot.to_dict` returned.
    :raises PlanError: if they cannot be understood.
    """
    if "samples" not in root:
        return None
    try:
        return tuple(Sample.from_dict(plain) for plain in root["samples"])
    except (TypeError, ValueError) as e:
        raise PlanError(f"the plan's samples of the storage root cannot be read ({e}); make a new plan") from e
