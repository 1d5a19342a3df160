# SPDX-License-Identifier: Apache-2.0
"""
Is this the storage root where this cluster's brokers write now? Asked before anything is marked, planned or deleted.

Whose root it is, its objects and stamps say; whether it is up to date, the newest copies of living topics say.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.errors import EventLogAccessError, PlanError
from airflow_provider_rlmm.event_log.protocol import MetadataLogReader
from airflow_provider_rlmm.lifecycle.cluster_look import look
from airflow_provider_rlmm.lifecycle.freshness import check_samples, look_for_freshness
from airflow_provider_rlmm.lifecycle.topic_view import TopicReplay
from airflow_provider_rlmm.metadata.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.metadata.topic_names import INTERNAL_TOPICS
from airflow_provider_rlmm.policy.freshness import Freshness, FreshnessVerdict, Sample
from airflow_provider_rlmm.quoting import name_in_text
from airflow_provider_rlmm.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.storage.root import RootCheck, RootExpectation

logger = logging.getLogger(__name__)

_NAMED = 3


@dataclass(frozen=True, slots=True)
class ProvenRoot:
    """
    What is known about the storage root in this run.

    :param check: whose root it is, per place.
    :param freshness: whether it is up to date, per place.
    :param recorded: root ids that earlier plans and reports of the cluster recorded.
    """

    check: RootCheck
    freshness: Freshness
    recorded: frozenset[str] = frozenset()

    def places_proven(self, storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether every place that the copy of a segment could have used is verified.

        :param storage: knows the layout.
        :param metadata: the segment.
        """
        return all(self.check.is_verified(place) for place in storage.layout.places_of(metadata))

    @property
    def shown(self) -> bool:
        """Whether every place is verified, and showed something of this cluster."""
        return all(place.verified and place.shown for place in self.check.places)

    def places_shown(self, storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether something of the cluster was seen at every such place.

        :param storage: knows the layout.
        :param metadata: the segment.
        """
        return all(self.check.is_shown(place) for place in storage.layout.places_of(metadata))

    def is_fresh(self, storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether every such place is up to date.

        :param storage: knows the layout.
        :param metadata: the segment.
        """
        expected = self.check.expected_places
        return all(self.freshness.is_fresh(place.name, expected) for place in storage.layout.places_of(metadata))

    def is_recorded(self, storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> bool:
        """
        Tell whether every such place is the one where an earlier run of the cluster worked.

        :param storage: knows the layout.
        :param metadata: the segment.
        """
        ids = self.check.root_ids
        return all(ids.get(place.name) in self.recorded for place in storage.layout.places_of(metadata))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types, for plans and reports."""
        return {"places": [place.to_dict() for place in self.check.places], **self.freshness.to_dict()}


def prove_root(
    topic: TopicReplay,
    storage: RemoteStorageManager,
    *,
    cluster_id: str,
    expectation: RootExpectation,
    overrides: Collection[str],
    samples: Sequence[Sample] | None = None,
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
    :raises StorageRootError: naming the place, what is missing and what to do.
    :raises StorageError: if storage does not answer.
    :raises ClusterMismatchError: if the topics are those of another cluster than the log.
    :raises EventLogAccessError: if nothing tells whether the root is up to date but topics that may not be described.
    :raises EventLogError: if the topic or the cluster cannot be read.
    """
    living = _that_may_be_tiered(look(topic.topics, topic.log, {}).living, topic.log)
    places = [place.name for place in storage.layout.places]
    check = storage.check_root(living.union(topic.names()), cluster_id, expectation)
    if not check.verified and topic.is_behind:
        # Objects of any topic that the log names tell whose root it is: in other metadata partitions there may be some.
        topic.advance()
        check = storage.check_root(living.union(topic.names()), cluster_id, expectation)
    logger.info("storage root: %s", check.reason)
    freshness = check_samples(topic, samples, storage) if samples is not None else None
    if freshness is None or (samples and not freshness.samples):
        # All of the plan's were deleted by their brokers since: there are newer ones now.
        freshness = look_for_freshness(topic, living, storage)
        if FreshnessVerdict.NOTHING_LIVES in map(freshness.verdict, places):
            left_out = _living_by_name(topic) - living
            if left_out:
                living |= left_out
                freshness = look_for_freshness(topic, living, storage)
    lost = tuple(number for number, begin in sorted(topic.log.beginning_offsets().items()) if begin > 0)
    freshness = replace(freshness, lost=lost if living else ())
    freshness.require(places, check.expected_places, overrides)
    return ProvenRoot(check, freshness, expectation.recorded)


def _that_may_be_tiered(living: Mapping[str, UUID], log: MetadataLogReader) -> frozenset[UUID]:
    """Return the ids of the topics that are not Kafka's own: these are never tiered."""
    own = {log.topic_id, *(living[name] for name in INTERNAL_TOPICS & living.keys())}
    return frozenset(living.values()) - own


def _living_by_name(topic: TopicReplay) -> frozenset[UUID]:
    """
    Return the topics that live, asked for by every name in the log: a listing leaves out what may not be described.

    Before nobody is believed to live in this storage.
    """
    topic.advance()
    seen = look(topic.topics, topic.log, topic.names())
    if hidden := sorted(seen.denied):
        more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
        raise EventLogAccessError(
            f"no copied segment of a topic that may be described tells whether the storage root is up to date, and topics "
            f"{', '.join(map(name_in_text, hidden[:_NAMED]))}{more} may not be described: nothing is deleted; give the "
            "principal DESCRIBE on every topic, then run again"
        )
    return _that_may_be_tiered(seen.living, topic.log)


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
