# SPDX-License-Identifier: Apache-2.0
"""What the leaders of a living topic delete of remote storage next: which topic is meant, and what it takes to tell."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.clock import Clock, ProvenClock
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, RemoteLogError
from airflow_provider_rlmm.core.base.file_systems import read_file, replace_file
from airflow_provider_rlmm.core.base.quoting import in_quotes

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass, PassTimes
    from airflow_provider_rlmm.features.retention.overdue import DueSegments, Overdue

logger = logging.getLogger(__name__)

_MAX_DUE_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """
    What the leaders of a topic delete next.

    :param partitions: what is told of each user partition.
    :param overdue: what they should have deleted long ago, by user partition.
    :param not_judged: why nobody can tell whether anything is overdue, ``None`` where it was judged.
    """

    partitions: list[PartitionPass]
    overdue: dict[int, Overdue]
    not_judged: str | None = None


def retention_of_topic(
    session: CleanerSession, topic: str, partitions: Collection[int] | None = None
) -> TopicRetention:
    """
    Tell what the leaders of a topic delete next, and what of that was due in runs some hours ago: that is remembered in the
    folder of the cluster.

    :param session: of the run.
    :param topic: its name.
    :param partitions: of the topic, ``None`` for all that the metadata topic names.
    :raises RlmmError: as :func:`passes_of_leaders`.
    """
    from airflow_provider_rlmm.core.records.records import kafka_uuid_str
    from airflow_provider_rlmm.features.retention.overdue import DueSegments, overdue_of, remembered

    found, now_ms = passes_of_leaders(session, topic, partitions), session.clock()
    topic_id = kafka_uuid_str(found[0].topic_id_partition.topic_id)
    uri = f"{session.cluster_uri}/retention/{topic_id}.json"
    try:
        interval_ms = _pass_interval_ms(session)
        before = _read_due(uri, topic_id)
        known = {one.topic_id_partition.partition: one for one in found}
        now = {p: remembered(one, before.partitions.get(p), now_ms) for p, one in known.items()}
        due = {**before.partitions, **{p: partition for p, partition in now.items() if partition is not None}}
        replace_file(uri, [DueSegments(topic_id, due).to_json().encode()])
    except (PlanError, ConfigurationError, OSError) as e:
        logger.warning("whether anything is overdue cannot be told: %s", e)
        return TopicRetention(found, {}, str(e))
    late = {p: overdue_of(one, due.get(p), now_ms, interval_ms) for p, one in known.items()}
    return TopicRetention(found, {p: one for p, one in late.items() if one is not None})


def _times(clock: Clock) -> PassTimes:
    from airflow_provider_rlmm.features.retention.leader_pass import PassTimes

    now_ms = clock()
    return PassTimes(now_ms, clock.not_before_ms() if isinstance(clock, ProvenClock) else None)


def _read_due(uri: str, topic_id: str) -> DueSegments:
    from airflow_provider_rlmm.features.retention.overdue import DueSegments

    try:
        text = read_file(uri, _MAX_DUE_BYTES).to_pybytes().decode()
    except FileNotFoundError:
        return DueSegments(topic_id)
    found = DueSegments.from_json(text)
    if found.topic_id != topic_id:
        raise PlanError(f"{uri} is of topic {found.topic_id}; remove the file")
    return found


def _pass_interval_ms(session: CleanerSession) -> int:
    """Return how often the leaders of the cluster pass: the longest interval of any broker that tells it."""
    from airflow_provider_rlmm.features.retention.overdue import TASK_INTERVAL

    told = session.access.get_cluster_topics().broker_setting(TASK_INTERVAL)
    found = [int(value) for value in told.values() if value is not None]
    if not found:
        raise PlanError(f"no broker tells {TASK_INTERVAL}: that takes DESCRIBE_CONFIGS on the cluster")
    return max(found)


def passes_of_leaders(
    session: CleanerSession, topic: str, partitions: Collection[int] | None = None
) -> list[PartitionPass]:
    """
    Tell what the leaders of a topic delete in the next pass of their expiration tasks, by user partition.

    The leaders are asked before the metadata topic is read and after it, so that what is told is of one moment.

    :param session: of the run.
    :param topic: its name.
    :param partitions: of the topic, ``None`` for all that the metadata topic names.
    :raises RemoteLogError: if the cluster has no such topic, or the metadata topic does not name such a partition of it.
    :raises TopicInDoubtError: if records about the topic may be missing, or cannot be applied.
    :raises EventLogError: if cluster or metadata topic cannot be read.
    :raises StorageError: if no storage is named.
    """
    from airflow_provider_rlmm.core.log.known_segments import PartitionSegments
    from airflow_provider_rlmm.features.retention.leader_pass import pass_of_leader

    storage = session.storage.get_storage_manager()
    with session.access.open_leader(session.cluster_id) as leader:
        answer = leader.ask(topic, 0)
        if answer is None:
            raise RemoteLogError(
                f"cluster {session.cluster_id!r} has no topic {in_quotes(topic)}: orphans are told by 'orphans'"
            )
        with session.topic() as replay:
            replay.advance()
            named = [t for t in replay.partitions() if t.topic_id == answer.topic_id_partition.topic_id]
        wanted = sorted(
            (t for t in named if partitions is None or t.partition in partitions), key=lambda t: t.partition
        )
        if not wanted:
            raise RemoteLogError(f"the metadata topic names no segment of such a partition of {in_quotes(topic)}")
        looks = {tip: leader.ask(topic, tip.partition) for tip in wanted}
        segments = PartitionSegments(session.log, wanted)
        times = _times(session.clock)
        found = []
        for tip in wanted:
            found.append(pass_of_leader(tip, looks[tip], segments.cache(tip), storage, leader, times))
            logger.info("%s: %s", tip, found[-1].certainty)
    return found
