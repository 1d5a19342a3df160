# SPDX-License-Identifier: Apache-2.0
"""
Markers that others write, as an event trigger: KIP-405 gives the controller the role to write DELETE_PARTITION_MARKED.

What is written while no trigger watches (the triggerer is down, the DAG is paused) is found on Airflow 3.3 and later, which
keeps how far the topic was read; on older ones the watch begins at the end of the topic. Nothing is lost by that but time:
the cleaner's own marker and planner read the whole topic at every run, so a daily run finds what no event told of.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_rlmm.connection_ids import DEFAULT_CONN_ID
from airflow_provider_rlmm.core.log.watching import MarkerNews, WatchPosition
from airflow_provider_rlmm.triggers.following import Following
from airflow_provider_rlmm.triggers.one_thread import OneThread

__all__ = ["RemoteLogMarkersTrigger"]

logger = logging.getLogger(__name__)

POLL_S: Final = 10.0
GATHER_S: Final = 60.0
_POSITION_KEY: Final = "position"
_KEEP_EVERY_S: Final = 300.0
"""How old a kept position may be, seconds: so much is read twice after a restart, and the database is written to so often."""
_WHILE_IT_FAILS: Final = "markers of others are not seen until this is solved, the cleaner's own runs find them:"


class RemoteLogMarkersTrigger(BaseEventTrigger):
    """
    Fires when another program than this package marks user partitions as deleted.

    Markers that come within ``gather_s`` become one event: a deleted topic has a marker for each of its partitions, and many
    topics may be deleted at once. Its payload names the ``connection`` and the ``cluster_id``, counts ``markers`` and
    ``topics`` and names the first 100 ``topic_ids``.

    It never ends by itself: while the brokers are away, or the connection cannot be used, it tries again, and says so.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param poll_s: seconds between two looks at the topic.
    :param gather_s: seconds for which markers are gathered after the first one.
    """

    def __init__(self, rlmm_conn_id: str = DEFAULT_CONN_ID, poll_s: float = POLL_S, gather_s: float = GATHER_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow says no types of it
        self.rlmm_conn_id = rlmm_conn_id
        self.poll_s = poll_s
        self.gather_s = gather_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow makes this trigger of again."""
        arguments = {"rlmm_conn_id": self.rlmm_conn_id, "poll_s": self.poll_s, "gather_s": self.gather_s}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the metadata topic, without end."""
        following = Following(
            self.rlmm_conn_id, await self._kept_position(), poll_s=self.poll_s, what_it_means=_WHILE_IT_FAILS
        )
        news, gathered_at, kept_at = MarkerNews(), 0.0, float("-inf")
        with OneThread(at_end=following.close) as thread:
            while True:
                found = await following.look(thread)
                is_first = not news.markers
                news.note(event.event for event in found)
                now = time.monotonic()
                if news.markers and is_first:
                    gathered_at = now + self.gather_s
                if news.markers and now >= gathered_at:
                    yield self._event(news, following.position)
                    news, kept_at = MarkerNews(), float("-inf")
                # What is not told of yet is read again after a restart.
                if not news.markers and now - kept_at >= _KEEP_EVERY_S and not following.failed:
                    await self._keep(following.position)
                    kept_at = now
                wait_s = following.wait_s()
                await asyncio.sleep(min(wait_s, max(0.0, gathered_at - now)) if news.markers else wait_s)

    def _event(self, news: MarkerNews, position: WatchPosition | None) -> TriggerEvent:
        cluster_id = position.cluster_id if position else None
        payload = {"connection": self.rlmm_conn_id, "cluster_id": cluster_id, **news.to_dict()}
        logger.info("markers of others: %s", payload)
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]  # Airflow says no types of it

    async def _kept_position(self) -> WatchPosition | None:
        """Return how far an earlier triggerer has read, ``None`` where that is not known."""
        if (store := self._store()) is None:
            return None
        try:
            plain = await store.aget(_POSITION_KEY)
            return None if plain is None else WatchPosition.from_dict(plain)
        except Exception:
            # With any store of it: to begin at the end is harmless, see above.
            logger.exception("how far the topic was read is not known: it is followed from its end on")
            return None

    async def _keep(self, position: WatchPosition | None) -> None:
        """Keep how far the topic was read, after what was found there was told."""
        logger.info("the metadata topic was read up to %s", position and position.to_dict()["offsets"])
        if (store := self._store()) is None or position is None:
            return
        try:
            await store.aset(_POSITION_KEY, position.to_dict())
        except Exception:
            logger.exception("how far the topic was read is not kept: after a restart markers may be told of twice")

    def _store(self) -> Any:
        # Airflow 3.3 and later; the triggerer gives it to triggers that an asset watches.
        return getattr(self, "asset_state_store", None)
