# SPDX-License-Identifier: Apache-2.0
"""Whether a marked user partition may be cleaned now: one rule for planner and cleaner."""

from __future__ import annotations

from airflow_provider_rlmm.metadata.history import UserPartitionHistory
from airflow_provider_rlmm.policy.absence import Observation, Presence, first_observation, settle
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.plan import Refusal, RefusalKind

PRESENCE_KINDS = {
    Presence.PRESENT: RefusalKind.TOPIC_PRESENT,
    Presence.AMBIGUOUS: RefusalKind.AMBIGUOUS,
    Presence.DENIED: RefusalKind.ACCESS_DENIED,
}
_PRESENCE_ADVICE = {
    Presence.PRESENT: "a living topic is never cleaned: find out who wrote this marker",
    Presence.AMBIGUOUS: "look at its records",
    Presence.DENIED: "give the principal DESCRIBE on every topic, then run again",
}


def refusal_of(
    history: UserPartitionHistory, observation: Observation, now_ms: int, limits: CleanerLimits
) -> Refusal | None:
    """
    Return why nothing may be done to a partition (I7 and the rules of absence), ``None`` where it may be cleaned.

    :param history: the partition's history.
    :param observation: the latest look at the cluster.
    :param now_ms: ms since the epoch, proven.
    :param limits: limits of destructive work.
    """
    what, topic = str(history.topic_id_partition), history.topic_id_partition.topic
    if not history.deletion_under_way():
        why = "its deletion is not under way: another run has finished it"
        return Refusal(what, why, "nothing", RefusalKind.NEXT_RUN, topic=topic)
    if observation.presence is not Presence.ABSENT:
        kind = PRESENCE_KINDS[observation.presence]
        return Refusal(what, observation.reason, _PRESENCE_ADVICE[observation.presence], kind, topic=topic)
    if history.without_add:
        offset = min(history.without_add.values())
        why = f"{len(history.without_add)} segments have an incomplete history, see offset {offset}"
        todo = "reconcile storage and metadata by hand: these are not orphans"
        return Refusal(what, why, todo, RefusalKind.INCOMPLETE_HISTORY, offset=offset, topic=topic)
    settlement = settle(
        history.observations,
        foreign_offset=history.last_foreign_offset,
        now_ms=now_ms,
        min_absence_ms=limits.min_absence_ms,
    )
    if settlement.settled:
        return None
    # Where no observation stands the next run's marker makes one.
    stands = first_observation(history.observations, now_ms) is not None
    kind = RefusalKind.WAITING if stands else RefusalKind.NEXT_RUN
    return Refusal(what, settlement.reason, settlement.what_to_do, kind, topic=topic)
