# SPDX-License-Identifier: Apache-2.0
"""Waiting until the records of a topic up to a time are in remote storage, for those who read them there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, conf
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.bases.sensor import PokeReturnValue

from airflow_provider_rlmm.errors import RlmmError
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.settings import DEFAULT_CONN_ID

if TYPE_CHECKING:
    from airflow_provider_rlmm.session.remote_copies import CopiesLook

POKE_INTERVAL_S = 300.0


class RemoteLogCopiedSensor(CheckedOperator, BaseSensorOperator):
    """
    Waits until all records of a living topic up to a time are in remote storage: a task behind it can read them there.

    The leaders say at which offset each partition reaches the time, or ends before it. All offsets from the partition's
    first one to there must lie in copied segments of the leader's history. A broker copies a segment after it has rolled:
    the end of a partition to which nobody writes any more comes only by ``segment.ms``.

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
    readers: ClassVar[Mapping[str, given.Reader]] = {
        "topic": given.text,
        "up_to": given.moment,
        "partitions": given.partitions,
        "rlmm_conn_id": given.text,
    }
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))
    ui_color = "#d5e8d4"

    def __init__(
        self,
        *,
        topic: str,
        up_to: Any,
        partitions: Sequence[int] | str | None = None,
        rlmm_conn_id: str = DEFAULT_CONN_ID,
        deferrable: bool | None = None,
        poke_interval: timedelta | float = POKE_INTERVAL_S,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.topic = topic
        self.up_to = up_to
        self.partitions = partitions
        self.rlmm_conn_id = rlmm_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.check_literals()

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        found = self._look(context)
        is_there = found is not None and not found.why_not
        return PokeReturnValue(is_there, found.proof if found and is_there else None)

    def execute(self, context: Context) -> Any:
        """Wait: in this task, or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        return self.look_again(context, None, time.time() + self.timeout)

    def look_again(self, context: Context, event: Any, until_s: float) -> Any:
        """
        Look, and wait on in the triggerer if something is not there; Airflow calls it when the trigger has fired.

        :param context: of the task.
        :param event: of the trigger, ``None`` for the first look.
        :param until_s: when the wait is over, seconds since the epoch.
        """
        found = self._look(context)
        if found is not None and not found.why_not:
            return found.proof
        left_s = until_s - time.time()
        if left_s <= 0:
            why = "; ".join(found.why_not) if found else "cluster or storage did not answer"
            raise AirflowSensorTimeout(f"not in remote storage after {self.timeout:.0f} s: {why}")
        # The trigger ends in time for a last look, which says why; the time-out of the deferral is the net below it.
        self.defer(
            trigger=TimeDeltaTrigger(timedelta(seconds=min(self.poke_interval, left_s))),
            method_name="look_again",
            kwargs={"until_s": until_s},
            timeout=timedelta(seconds=left_s + self.poke_interval),
        )
        raise AssertionError("a deferral ends the task")

    def _look(self, context: Context) -> CopiesLook | None:
        """Return what a look has shown, ``None`` where cluster or storage did not answer."""
        from airflow_provider_rlmm.session.remote_copies import look_for_copies

        read = self.read_arguments()
        try:
            with session_of(context, read.rlmm_conn_id, CleanerLimits(), dry_run=True) as session:
                found = look_for_copies(session, read.topic, read.up_to, read.partitions)
        except RlmmError as e:
            if not e.retriable:
                raise AirflowFailException(str(e)) from e
            self.log.warning("nothing can be told as yet: %s", e)
            return None
        for why in found.why_not:
            self.log.info("not there: %s", why)
        if not found.why_not:
            self.log.info("all is in remote storage: %s", found.proof)
        return found
