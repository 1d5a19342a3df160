# SPDX-License-Identifier: Apache-2.0
"""Waiting for a Spark driver that runs on a standalone cluster, without a worker slot of Airflow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_rlmm.core.base.errors import SparkMasterError
from airflow_provider_rlmm.hooks.spark_master import ACTIVE, SparkMaster
from airflow_provider_rlmm.triggers.one_thread import OneThread

logger = logging.getLogger(__name__)

_SAY_EVERY_S: Final = 600.0


class SparkDriverTrigger(BaseTrigger):
    """
    Fires with the state of a driver when that has ended. While no master answers it asks again.

    A user who ends the waiting task ends the driver, too, on Airflow 3.3 and later; older ones tell no trigger.

    :param addresses: of the masters' REST servers, as
        :class:`~airflow_provider_rlmm.hooks.spark_master.SparkMaster` has them.
    :param driver_id: the driver.
    :param poll_s: seconds between two questions.
    """

    def __init__(self, addresses: Sequence[str], driver_id: str, poll_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow says no types of it
        self.addresses = list(addresses)
        self.driver_id = driver_id
        self.poll_s = poll_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow makes this trigger of again."""
        arguments = {"addresses": self.addresses, "driver_id": self.driver_id, "poll_s": self.poll_s}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and fire once."""
        yield TriggerEvent(await self._wait())  # type: ignore[no-untyped-call]  # Airflow says no types of it

    async def on_kill(self) -> None:
        """End the driver: the task that waits for it was ended."""
        master = SparkMaster(tuple(self.addresses))
        with OneThread() as thread:
            await thread.call(lambda: master.kill(self.driver_id))

    async def _wait(self) -> str:
        master, said_at = SparkMaster(tuple(self.addresses)), float("-inf")
        with OneThread() as thread:
            while True:
                try:
                    state = await thread.call(lambda: master.state(self.driver_id))
                except SparkMasterError as e:
                    if time.monotonic() - said_at > _SAY_EVERY_S:
                        said_at = time.monotonic()
                        logger.warning("whether driver %s has ended is not known: %s", self.driver_id, e)
                else:
                    if state not in ACTIVE:
                        return state
                await asyncio.sleep(self.poll_s)
