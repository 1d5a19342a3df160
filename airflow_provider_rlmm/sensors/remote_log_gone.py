# SPDX-License-Identifier: Apache-2.0
"""Waiting until every byte of a deleted topic is gone, for those who delete credentials or buckets afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.sdk import Context
from airflow.triggers.base import BaseTrigger

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.plans.limits import ALLOWED_QUARANTINE, NAMED_OVERRIDES
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.sensors.proving import ProvingSensor
from airflow_provider_rlmm.triggers.topic_gone import TopicDeletionFinishedTrigger

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.cleanup.topic_gone_steps import TopicGone

__all__ = ["RemoteLogGoneSensor"]

RECHECK_INTERVAL = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoneArguments:
    topic_id: UUID = given.read_by(given.topic_id)
    topic: str | None = given.read_by(given.text_or_none, None)
    rlmm_conn_id: str = given.read_by(given.text, DEFAULT_CONN_ID)
    allowed_quarantine: frozenset[str] = given.declared_as(ALLOWED_QUARANTINE)
    overrides: frozenset[str] = given.declared_as(NAMED_OVERRIDES)


class RemoteLogGoneSensor(ProvingSensor[_GoneArguments, "TopicGone"]):
    """
    Waits until every byte of a topic id is gone. It deletes nothing and writes nothing to the log.

    It is true only if all of this holds in one look:

    - for every user partition that the metadata topic names of the id, DELETE_PARTITION_FINISHED is durable, no event of a
      segment came after it, and no segment is unfinished;
    - the cluster calls the topic deleted;
    - the storage root is proved to be this cluster's and up to date, and a listing of all its places shows no object of the
      id, under any name;
    - the bucket keeps no hidden versions of what was deleted.

    What time may heal is waited for: brokers or a store that do not answer never count as gone. What it cannot heal fails the
    task without another try: an id that the metadata topic never named, a log that lost records, a storage root of another
    cluster.

    Deferred, it takes no worker slot: a trigger waits for the DELETE_PARTITION_FINISHED records, and a worker looks when they
    came, and each ``recheck_interval``. The return value says what was proved: ``cluster_id``, ``topic_id``, ``topic``,
    ``user_partitions`` and ``finished_at_ms``.

    :param topic_id: id of the deleted topic, in Kafka's text form; names return, ids do not.
    :param topic: its name, to be sure of the id; ``None`` where the id alone is known.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param allowed_quarantine: kinds of records that cannot be applied and are known not to be about this topic.
    :param overrides: names out of :data:`~airflow_provider_rlmm.core.plans.limits.OVERRIDES`, such as ``unproven_root``.
    :param recheck_interval: deferred: how long after a look the next one comes at the latest, seconds or a ``timedelta``.
    :param deferrable: wait in the triggerer; ``None`` takes ``[operators] default_deferrable``.
    :param kwargs: what :class:`BaseSensorOperator` takes: ``timeout``, ``soft_fail`` and so on. ``poke_interval`` is also how
        often the trigger asks the brokers.
    :raises AirflowFailException: with what no time heals.
    :raises AirflowSensorTimeout: naming why the topic is not gone.
    """

    template_fields: Sequence[str] = ("topic_id", "topic", "rlmm_conn_id", "allowed_quarantine", "overrides")
    arguments = _GoneArguments
    not_yet = "not gone"

    def __init__(
        self,
        *,
        topic_id: str,
        topic: str | None = None,
        rlmm_conn_id: str = DEFAULT_CONN_ID,
        allowed_quarantine: Sequence[str] | None = None,
        overrides: Sequence[str] | None = None,
        recheck_interval: timedelta | float = RECHECK_INTERVAL,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic_id = topic_id
        self.topic = topic
        self.rlmm_conn_id = rlmm_conn_id
        self.allowed_quarantine = allowed_quarantine
        self.overrides = overrides
        self.recheck_interval = self._coerce_poke_interval(recheck_interval).total_seconds()
        self.check_literals()

    def look(self, context: Context, read: _GoneArguments) -> TopicGone:
        """Ask log, cluster and storage."""
        from airflow_provider_rlmm.features.cleanup.topic_gone import WantedTopic
        from airflow_provider_rlmm.features.cleanup.topic_gone_steps import look_for_topic

        wanted = WantedTopic(read.topic_id, read.topic, read.allowed_quarantine)
        limits = CleanerLimits(overrides=read.overrides)
        with session_of(context, read.rlmm_conn_id, limits, dry_run=True) as session:
            return look_for_topic(session, wanted, limits)

    def next_look(self, found: TopicGone | None, left_s: float) -> tuple[BaseTrigger, float]:
        """Wait for the records that say so, and look again in any case after a while."""
        trigger = TopicDeletionFinishedTrigger(
            rlmm_conn_id=self.rlmm_conn_id,
            topic_id=kafka_uuid_str(given.topic_id("topic_id", self.topic_id)),
            position=found.position.to_dict() if found else {},
            unfinished=list(found.unfinished) if found else [],
            poll_s=self.poke_interval,
            recheck_s=min(self.recheck_interval if found else self.poke_interval, left_s),
        )
        return trigger, self.recheck_interval
