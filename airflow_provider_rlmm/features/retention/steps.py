# SPDX-License-Identifier: Apache-2.0
"""What the leaders of living topics delete of remote storage next: which topics are meant, and what it takes to tell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock, ProvenClock
from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    PlanError,
    RemoteLogError,
    RlmmError,
    StorageError,
)
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.world.topic_entries import names_like
from airflow_provider_rlmm.features.retention.leader_lineage import SegmentIndexes, ignore_step

if TYPE_CHECKING:
    from uuid import UUID

    from airflow_provider_rlmm.core.log.answers import NotTold, TopicLook
    from airflow_provider_rlmm.core.log.living_leader import LivingLeaders
    from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata, TopicIdPartition
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.storage.index_type import IndexType
    from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders
    from airflow_provider_rlmm.features.retention.leader_memory import Judged
    from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass, PassTimes
    from airflow_provider_rlmm.features.retention.leader_retention import LeaderRetention

logger = logging.getLogger(__name__)

RECORDS_AT_ONCE: Final = 1_000_000
"""Records of the metadata topic whose segments memory holds at once."""


def retention_of_leaders(
    session: CleanerSession,
    topic: str | None = None,
    partition: int | None = None,
    on_step: Callable[[str, int, int], object] = ignore_step,
) -> LeaderRetention:
    """
    Tell what leaders delete next, and what of that was due in runs some hours ago.

    Since when segments are due or wait to be copied, and the lineages that leaders have confirmed, are remembered in the
    folder of the cluster.

    :param session: of the run.
    :param topic: name of the topic, ``None`` for all that have remote segments.
    :param partition: of the topic, ``None`` for all that the metadata topic names.
    :param on_step: told how far this is.
    :raises RemoteLogError: if the cluster has no such topic, or the metadata topic does not name such a partition of it.
    :raises EventLogError: if cluster or metadata topic cannot be read.
    """
    from airflow_provider_rlmm.core.log.answers import TopicLook
    from airflow_provider_rlmm.features.retention.leader_retention import LeaderRetention

    with session.access.open_leaders(session.cluster_id, session.log.topic_id) as leaders:
        answers = leaders.topics(None if topic is None else [topic])
        topics = {name: look for name, look in answers.items() if isinstance(look, TopicLook)}
        if topic is not None:
            _require_topic(session.cluster_id, topic, answers, lambda: leaders.topics(None))
        found = _passes(session, leaders, topics, partition, all_topics=topic is None, on_step=on_step)
    untold = {name: look.why for name, look in answers.items() if not isinstance(look, TopicLook)}
    # A topic that may not be described is none that is gone.
    living = None if topic is not None or untold else frozenset(look.topic_id for look in topics.values())
    judged = _judge(session, found, living)
    shown = [one for one in found if _says_something(one, judged)]
    if topic is not None and not shown:
        raise RemoteLogError(f"the metadata topic names no segment of such a partition of {in_quotes(topic)}")
    return LeaderRetention(shown, judged.overdue, judged.hanging, judged.why_not, untold)


def _says_something(one: PartitionPass, judged: Judged) -> bool:
    """Tell whether a user partition is told: where nothing was ever copied, only if that is wrong or cannot be told."""
    from airflow_provider_rlmm.core.plans.certainty import Certainty

    tip = one.topic_id_partition
    not_judged = tip.topic in judged.why_not
    return one.is_named or tip in judged.hanging or not_judged or one.certainty is Certainty.UNRESOLVED


def report_leaders(session: CleanerSession, found: LeaderRetention, connection: str) -> ReportedLeaders:
    """
    Return the document of what the leaders of all topics delete next; the pages and the doctor have it from now on.

    :param session: of the run.
    :param found: what was told, of all topics.
    :param connection: by which the cluster was reached.
    """
    from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders
    from airflow_provider_rlmm.features.retention.leader_memory import keep_report

    report = ReportedLeaders.of(
        found, cluster_id=session.cluster_id, connection=connection, asked_at_ms=session.clock()
    )
    keep_report(session.cluster_uri, report)
    return report


class _NoStorage:
    """Stands for a storage that cannot be opened: no lineage can be told then, and everything else can."""

    def __init__(self, why: RlmmError) -> None:
        self._why = why

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """Refuse it."""
        raise self._why


def _storage(session: CleanerSession) -> SegmentIndexes:
    try:
        return session.storage.get_storage_manager()
    except (ConfigurationError, StorageError) as e:
        logger.warning("no lineage can be told without the storage: %s", e)
        return _NoStorage(e)


def _require_topic(
    cluster_id: str, topic: str, answers: Mapping[str, TopicLook | NotTold], names: Callable[[], Iterable[str]]
) -> None:
    from airflow_provider_rlmm.core.log.answers import NotTold

    if (found := answers.get(topic)) is None:
        raise RemoteLogError(
            f"cluster {cluster_id!r} has no topic {in_quotes(topic)}: 'rlmm orphans' lists those of deleted topics"
            f"{names_like(topic, names())}"
        )
    if isinstance(found, NotTold):
        raise RemoteLogError(f"nothing is told of topic {in_quotes(topic)}: {found.why}")


def _passes(
    session: CleanerSession,
    leaders: LivingLeaders,
    topics: Mapping[str, TopicLook],
    partition: int | None,
    *,
    all_topics: bool,
    on_step: Callable[[str, int, int], object],
) -> list[PartitionPass]:
    """Ask the leaders of topics, metadata partitions after metadata partitions, and keep the lineages that were found."""
    from airflow_provider_rlmm.core.log.doubted_segments import DoubtedSegments, groups_of, records_of
    from airflow_provider_rlmm.features.retention.leader_memory import keep_lineages, read_lineages
    from airflow_provider_rlmm.features.retention.leader_sweep import LeaderSweep

    places = _places(session.log.partition_count, topics, partition)
    copied = _copied_topics(topics)
    kept = read_lineages(session.cluster_uri, session.cluster_id)
    sweep = LeaderSweep(leaders, _storage(session), kept, lambda: _times(session.clock), on_step)
    topic_ids = {look.topic_id for look in topics.values()}
    records = records_of(session.log, places.keys())
    found: list[PartitionPass] = []
    read, total = 0, sum(records.values())

    def on_read(count: int) -> None:
        nonlocal read
        read += count
        on_step("reading the metadata topic", min(read, total), total)

    try:
        for group in groups_of(records, RECORDS_AT_ONCE):
            segments = DoubtedSegments(session.log, group, topic_ids, on_read)
            found += sweep.passes(segments, [tip for number in group for tip in places[number]], copied)
            logger.info("%d user partitions told, by %d records of the metadata topic", len(found), read)
    finally:
        # What was found is worth keeping even where the rest fails.
        lineages = kept.with_lineages(sweep.found, frozenset(topic_ids) if all_topics else None)
        if lineages != kept:
            keep_lineages(session.cluster_uri, lineages)
    return sorted(found, key=lambda one: (one.topic_id_partition.topic, one.topic_id_partition.partition))


def _copied_topics(topics: Mapping[str, TopicLook]) -> frozenset[str]:
    """Return the topics whose leaders copy; of how many that is not told the log says."""
    from airflow_provider_rlmm.core.log.answers import NotTold
    from airflow_provider_rlmm.features.retention.hanging_copies import copies

    untold = {name: look.configs.why for name, look in topics.items() if isinstance(look.configs, NotTold)}
    if untold:
        name = min(untold)
        why = f"{in_quotes(name)} for one: {untold[name]}"
        of = number_of(len(untold), "topic")
        logger.warning("of %s it cannot be told whether copies of them should have begun, %s", of, why)
    told = ((name, look.configs) for name, look in topics.items() if not isinstance(look.configs, NotTold))
    return frozenset(name for name, configs in told if copies(configs))


def _places(
    partition_count: int, topics: Mapping[str, TopicLook], partition: int | None
) -> dict[int, list[TopicIdPartition]]:
    """Return the user partitions of topics by the metadata partition that names their segments."""
    from airflow_provider_rlmm.core.records.partitioner import metadata_partition_for
    from airflow_provider_rlmm.core.records.records import TopicIdPartition

    places: dict[int, list[TopicIdPartition]] = {}
    for name, look in sorted(topics.items()):
        for number in range(look.partitions):
            if partition in (None, number):
                tip = TopicIdPartition(look.topic_id, name, number)
                places.setdefault(metadata_partition_for(tip, partition_count), []).append(tip)
    return places


def _times(clock: Clock) -> PassTimes:
    from airflow_provider_rlmm.features.retention.leader_pass import PassTimes

    now_ms = clock()
    return PassTimes(now_ms, clock.not_before_ms() if isinstance(clock, ProvenClock) else None)


def _judge(session: CleanerSession, found: list[PartitionPass], living: frozenset[UUID] | None) -> Judged:
    """Tell what is overdue, and by topic why that cannot be done; forget topics that are gone, where all living are known."""
    from airflow_provider_rlmm.features.retention.leader_memory import DueFiles, Judged

    try:
        interval_ms, remembered = _pass_interval_ms(session), DueFiles(session.cluster_uri)
    except (PlanError, ConfigurationError, OSError) as e:
        logger.warning("whether anything is overdue cannot be told: %s", e)
        return Judged({}, {}, dict.fromkeys((one.topic_id_partition.topic for one in found), str(e)))
    judged = remembered.judge(found, _times(session.clock), interval_ms)
    if living is not None:
        remembered.forget_all_but(living)
    return judged


def _pass_interval_ms(session: CleanerSession) -> int:
    """Return how often the leaders of the cluster pass: the longest interval of any broker that tells it."""
    from airflow_provider_rlmm.features.retention.overdue import TASK_INTERVAL

    told = session.access.get_cluster_topics().broker_setting(TASK_INTERVAL)
    found = [int(value) for value in told.values() if value is not None]
    if not found:
        raise PlanError(f"no broker tells {TASK_INTERVAL}: that takes DESCRIBE_CONFIGS on the cluster")
    return max(found)
