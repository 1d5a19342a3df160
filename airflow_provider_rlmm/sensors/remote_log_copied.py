# SPDX-License-Identifier: Apache-2.0
"""Waiting until the records of a topic up to a time are in remote storage, for those who read them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Context
from airflow.triggers.base import BaseTrigger

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.sensors.proving import ProvingSensor

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.reading.remote_copies_steps import CopiesLook

__all__ = ["RemoteLogCopiedSensor"]

POKE_INTERVAL_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopiedArguments:
    topic: str = given.read_by(given.text)
    up_to: int = given.read_by(given.moment)
    partitions: tuple[int, ...] | None = given.read_by(given.partitions, None)
    rlmm_conn_id: str = given.read_by(given.text, DEFAULT_CONN_ID)


class RemoteLogCopiedSensor(ProvingSensor[_CopiedArguments, "CopiesLook"]):
    """
    Waits until all records of a living topic up to a time are in remote storage: a task behind it can read them there.

    The leaders say at which offset each partition reaches the time, or ends before it. All offsets from the partition's
    first one to there must lie in copied segments of the leader's history. A broker copies a segment after it has rolled,
    and has waited for the topic's copy lag (Kafka 4.4), which the log names: the end of a partition without writers
    comes only by ``segment.ms``.

    Deferred, it takes no worker slot between two looks. The return value has ``topic_id``, ``up_to_ms`` and
    ``end_offsets``, which fit as ``end_offsets`` of
    :class:`~airflow_provider_rlmm.operators.remote_log.RemoteLogReadOperator`.

    :param topic: its name.
    :param up_to: the time, exclusive: with its zone, such as ``{{ data_interval_end }}``, or ms since the epoch.
    :param partitions: of the topic; ``None`` for all.
    :param rlmm_conn_id: connection of type ``rlmm``.
    :param deferrable: wait in the triggerer; ``None`` takes ``[operators] default_deferrable``.
    :param poke_interval: seconds between two looks, or a ``timedelta``.
    :param kwargs: what :class:`BaseSensorOperator` takes: ``timeout``, ``soft_fail`` and so on.
    :raises AirflowFailException: with what no time heals.
    :raises AirflowSensorTimeout: naming what is not there.
    """

    template_fields: Sequence[str] = ("topic", "up_to", "partitions", "rlmm_conn_id")
    arguments = _CopiedArguments
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))
    not_yet = "not in remote storage"

    def __init__(
        self,
        *,
        topic: str,
        up_to: Any,
        partitions: Sequence[int] | str | None = None,
        rlmm_conn_id: str = DEFAULT_CONN_ID,
        poke_interval: timedelta | float = POKE_INTERVAL_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.topic = topic
        self.up_to = up_to
        self.partitions = partitions
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def look(self, context: Context, read: _CopiedArguments) -> CopiesLook:
        """Ask leaders and log."""
        from airflow_provider_rlmm.features.reading.remote_copies_steps import look_for_copies

        with session_of(context, read.rlmm_conn_id, CleanerLimits(), dry_run=True) as session:
            return look_for_copies(session, read.topic, read.up_to, read.partitions)

    def next_look(self, found: CopiesLook | None, left_s: float) -> tuple[BaseTrigger, float]:
        """Look again after a while: nothing in the log says that a time is reached."""
        return TimeDeltaTrigger(timedelta(seconds=min(self.poke_interval, left_s))), self.poke_interval
