# SPDX-License-Identifier: Apache-2.0
"""
What the Spark job is told of living leaders: what each says of itself, and the lineage that it confirmed to an earlier run.

The job reads the metadata topic after this, and asks the leaders again after that: what has changed meanwhile it does not
tell. A leader whose lineage no run has kept is told by name; ``rlmm retention`` finds and keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import (
    ClockSkewError,
    ConfigurationError,
    EventLogError,
    UnprovenClockError,
)
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.answers import NotTold, PartitionLook, TopicLook
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.runs.observing import observe
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic, ToldLeader
from airflow_provider_rlmm.features.retention.kept_lineages import KeptLineages
from airflow_provider_rlmm.features.retention.leader_memory import read_lineages
from airflow_provider_rlmm.features.retention.leader_pass import obstacle_of

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.living_leader import LivingLeaders
    from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
    from airflow_provider_rlmm.core.runs.access import RemoteLogAccess

logger = logging.getLogger(__name__)

NOT_KEPT: Final = "no lineage of its leader is kept: rlmm retention, or the task leaders of remote_log_doctor, finds it"


def observe_with_leaders(access: RemoteLogAccess, work_uri: str) -> ClusterState:
    """
    List the topics of the cluster, with what their leaders say.

    Where leaders cannot be asked, the listing says nothing of them, and the log says why.

    :param access: what opens the cluster; errors name where its login comes from.
    :param work_uri: the folder of what runs remember.
    :raises ClusterMismatchError: if the settings do not lead to one cluster, the expected one.
    :raises EventLogAccessError: if the metadata topic may not be described, or the configuration of a topic that may be.
    :raises EventLogUnavailableError: if an answer is partial or late.
    """
    state = observe(access, work_uri)
    kept = read_lineages(f"{work_uri}/{cluster_folder(state.cluster_id)}", state.cluster_id)
    metadata_topic = access.get_connection_settings().metadata_topic
    topic_id = next(topic.topic_id for topic in state.topics if topic.name == metadata_topic)
    try:
        with access.open_leaders(state.cluster_id, topic_id) as leaders, access.get_event_log() as log:
            told = with_leaders(replace(state, passed_ms=_passed_ms(access, log)), leaders, kept)
    except EventLogError as e:
        logger.warning("nothing is told of leaders, as they cannot be asked: %s", e)
        return state
    leaders_told = sum(len(topic.leaders) for topic in told.topics)
    untold = sum(len(topic.untold) for topic in told.topics)
    logger.info("%d leaders have told what they know, nothing is told of %d", leaders_told, untold)
    return told


def _passed_ms(access: RemoteLogAccess, log: MetadataLogReader) -> int | None:
    """Return a time that has passed for certain; ``None`` where none is told: then nothing is due by time for certain."""
    try:
        return access.get_proven_clock(log, dry_run=True).not_before_ms()
    except (ClockSkewError, UnprovenClockError, ConfigurationError) as e:
        logger.warning("no segment is told to be due by time, as no time is proven: %s", e)
        return None


def with_leaders(state: ClusterState, leaders: LivingLeaders, kept: KeptLineages) -> ClusterState:
    """
    Add to a listing what the leaders of tiered topics say.

    :param state: the listing.
    :param leaders: who is asked.
    :param kept: the lineages that earlier runs have kept.
    :raises EventLogUnavailableError: if no broker answers.
    :raises EventLogAccessError: if the login fails.
    """
    topics = leaders.topics()
    tips = [
        TopicIdPartition(look.topic_id, name, number)
        for name, look in topics.items()
        if isinstance(look, TopicLook) and not isinstance(look.configs, NotTold) and look.configs.remote_storage_enable
        for number in range(look.partitions)
    ]
    looks: dict[str, list[tuple[TopicIdPartition, PartitionLook | NotTold]]] = {}
    for tip, look in leaders.look(tips).items() if tips else ():
        looks.setdefault(tip.topic, []).append((tip, look))
    listed = (
        _with_its_leaders(topic, topics.get(topic.name), looks.get(topic.name, ()), kept) for topic in state.topics
    )
    return replace(state, topics=tuple(listed))


def _with_its_leaders(
    topic: ListedTopic,
    look: TopicLook | NotTold | None,
    partitions: Iterable[tuple[TopicIdPartition, PartitionLook | NotTold]],
    kept: KeptLineages,
) -> ListedTopic:
    if not isinstance(look, TopicLook) or look.topic_id != topic.topic_id or isinstance(look.configs, NotTold):
        # Made anew, gone or not to be described: nothing is known of its leaders.
        return topic
    told: dict[int, ToldLeader] = {}
    untold: dict[int, str] = {}
    for tip, answer in partitions:
        found = _told(topic, tip, answer, kept)
        if isinstance(found, ToldLeader):
            told[tip.partition] = found
        else:
            untold[tip.partition] = found
    return replace(topic, tiered=look.configs.remote_storage_enable, leaders=told, untold=untold)


def _told(
    topic: ListedTopic, tip: TopicIdPartition, look: PartitionLook | NotTold, kept: KeptLineages
) -> ToldLeader | str:
    """Return what a leader has told, or why nothing is told of it."""
    if (obstacle := obstacle_of(tip, look)) is not None or isinstance(look, NotTold):
        return str(obstacle)
    if (look.configs.retention_ms, look.configs.retention_bytes) != (topic.retention_ms, topic.retention_bytes):
        return "its settings have changed while its leader was asked"
    known = kept.of(tip)
    if known is None or look.leader_epoch is None or known.leader_epoch != look.leader_epoch:
        return NOT_KEPT
    return ToldLeader(
        leader_epoch=look.leader_epoch,
        log_start_offset=look.log_start_offset,
        log_end_offset=look.high_watermark,
        lineage=known.leader_epochs.truncate_from_start(look.log_start_offset).entries,
        known_up_to=None if known.is_whole else (known.last_epoch, known.end_offset),
    )
