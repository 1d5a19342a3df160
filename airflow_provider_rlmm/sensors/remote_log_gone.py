# SPDX-License-Identifier: Apache-2.0
"""Waiting until every byte of a deleted topic is gone, for those who delete credentials or buckets afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, conf
from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.bases.sensor import PokeReturnValue

from airflow_provider_rlmm.errors import RlmmError
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.settings import DEFAULT_CONN_ID
from airflow_provider_rlmm.triggers.topic_gone import TopicDeletionFinishedTrigger

if TYPE_CHECKING:
    from airflow_provider_rlmm.session.topic_gone import TopicGone

RECHECK_INTERVAL = timedelta(hours=1)


class RemoteLogGoneSensor(CheckedOperator, BaseSensorOperator):
    """
    Waits until every byte of a topic id is gone. It deletes nothing and writes nothing to the log.

    It is true only if all of this holds in one look:

    - for every user partition that the metadata topic names of the id, DELETE_PARTITION_FINISHED is durable, no event of a
      segment came after it, and no segment is unfinished;
    - the cluster calls the topic deleted;
    - the storage root is proved to be this cluster's and up to date, and a listing of all its places shows no object of the
      id, under whatever name;
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
    :param overrides: names out of :data:`~airflow_provider_rlmm.policy.guards.OVERRIDES`, such as ``unproven_root``.
    :param recheck_interval: deferred: how long after a look the next one comes at the latest, seconds or a ``timedelta``.
    :param deferrable: wait in the triggerer; ``None`` takes ``[operators] default_deferrable``.
    :param kwargs: what :class:`BaseSensorOperator` takes: ``timeout``, ``soft_fail`` and so on. ``poke_interval`` is also how
        often the trigger asks the brokers.
    :raises AirflowFailException: with what no time heals.
    :raises AirflowSensorTimeout: naming why the topic is not gone.
    """

    template_fields: Sequence[str] = ("topic_id", "topic", "rlmm_conn_id", "allowed_quarantine", "overrides")
    readers: ClassVar[Mapping[str, given.Reader]] = {
        "topic_id": given.topic_id,
        "topic": given.text_or_none,
        "rlmm_conn_id": given.text,
        "allowed_quarantine": given.quarantine_kinds,
        "overrides": given.overrides,
    }
    ui_color = "#d5e8d4"

    def __init__(
        self,
        *,
        topic_id: str,
        topic: str | None = None,
        rlmm_conn_id: str = DEFAULT_CONN_ID,
        allowed_quarantine: Sequence[str] | None = None,
        overrides: Sequence[str] | None = None,
        recheck_interval: timedelta | float = RECHECK_INTERVAL,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic_id = topic_id
        self.topic = topic
        self.rlmm_conn_id = rlmm_conn_id
        self.allowed_quarantine = allowed_quarantine
        self.overrides = overrides
        self.recheck_interval = self._coerce_poke_interval(recheck_interval).total_seconds()
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.check_literals()

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        found = self._look(context)
        is_gone = found is not None and not found.why_not
        return PokeReturnValue(is_gone, found.proof if found and is_gone else None)

    def execute(self, context: Context) -> Any:
        """Wait: in this task, or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        return self.look_again(context, None, time.time() + self.timeout)

    def look_again(self, context: Context, event: str | None, until_s: float) -> Any:
        """
        Look, and wait on in the triggerer if the topic is not gone; Airflow calls it when the trigger has fired.

        :param context: of the task.
        :param event: why the trigger fired, ``None`` for the first look.
        :param until_s: when the wait is over, seconds since the epoch.
        """
        self.log.info("a look, as %s", event or "the task begins")
        found = self._look(context)
        if found is not None and not found.why_not:
            return found.proof
        left_s = until_s - time.time()
        if left_s <= 0:
            why = "; ".join(found.why_not) if found else "log or storage did not answer"
            raise AirflowSensorTimeout(f"not gone after {self.timeout:.0f} s: {why}")
        # The trigger ends in time for a last look, which says why; the time-out of the deferral is the net below it.
        self.defer(
            trigger=TopicDeletionFinishedTrigger(
                rlmm_conn_id=self.rlmm_conn_id,
                topic_id=kafka_uuid_str(given.topic_id("topic_id", self.topic_id)),
                position=found.position.to_dict() if found else {},
                unfinished=list(found.unfinished) if found else [],
                poll_s=self.poke_interval,
                recheck_s=min(self.recheck_interval if found else self.poke_interval, left_s),
            ),
            method_name="look_again",
            kwargs={"until_s": until_s},
            timeout=timedelta(seconds=left_s + self.recheck_interval),
        )
        raise AssertionError("a deferral ends the task")

    def _look(self, context: Context) -> TopicGone | None:
        """Return what a look has shown, ``None`` where log or storage did not answer."""
        from airflow_provider_rlmm.lifecycle.topic_gone import WantedTopic
        from airflow_provider_rlmm.session.topic_gone import look_for_topic

        read = self.read_arguments()
        wanted = WantedTopic(read.topic_id, read.topic, read.allowed_quarantine)
        limits = CleanerLimits(overrides=read.overrides)
        try:
            with session_of(context, read.rlmm_conn_id, limits, dry_run=True) as session:
                found = look_for_topic(session, wanted, limits)
        except RlmmError as e:
            if not e.retriable:
                raise AirflowFailException(str(e)) from e
            self.log.warning("nothing can be told as yet: %s", e)
            return None
        for why in found.why_not:
            self.log.info("not gone: %s", why)
        if not found.why_not:
            self.log.info("every byte of %s is gone: %s", wanted, found.proof)
        return found
