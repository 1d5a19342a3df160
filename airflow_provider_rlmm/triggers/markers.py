# SPDX-License-Identifier: Apache-2.0
"""
Markers that others write, as an event trigger: KIP-405 gives the controller the role to write DELETE_PARTITION_MARKED.

What is written while nobody watches (the triggerer is down, the DAG is paused) is found on Airflow 3.3 and later, which keeps
how far the topic was read; on older ones the watch begins at the end of the topic. Nothing is lost by that but time: the
cleaner's own marker and planner read the whole topic at every run, so a daily run finds what no event told of.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_rlmm.errors import RlmmError
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.policy.watching import MarkerNews, WatchPosition
from airflow_provider_rlmm.settings import DEFAULT_CONN_ID
from airflow_provider_rlmm.triggers.one_thread import OneThread

if TYPE_CHECKING:
    from airflow_provider_rlmm.session.watching import DeletionWatch

logger = logging.getLogger(__name__)

POLL_S: Final = 10.0
GATHER_S: Final = 60.0
_POSITION_KEY: Final = "position"
_KEEP_EVERY_S: Final = 300.0
"""How old a kept position may be, seconds: so much is read twice after a restart, and the database is written to so often."""
_MAX_WAIT_S: Final = 120.0
_SAY_EVERY_S: Final = 600.0


class RemoteLogMarkersTrigger(BaseEventTrigger):
    """
    Fires when somebody else than this package marks user partitions as deleted.

    Markers that come within ``gather_s`` become one event: a deleted topic has a marker for each of its partitions, and many
    topics may be deleted at once. Its payload names the ``connection`` and the ``cluster_id``, counts ``markers`` and
    ``topics`` and names the first 100 ``topic_ids``.

    It never ends by itself: while the brokers are away, or the connection cannot be used, it tries again, and says so.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param poll_s: seconds between two looks at the topic.
    :param gather_s: seconds for which markers are gathered after the first one.
    """

    def __init__(self, rlmm_conn_id: str = DEFAULT_CONN_ID, poll_s: float = POLL_S, gather_s: float = GATHER_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rlmm_conn_id = rlmm_conn_id
        self.poll_s = poll_s
        self.gather_s = gather_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow makes this trigger of again."""
        arguments = {"rlmm_conn_id": self.rlmm_conn_id, "poll_s": self.poll_s, "gather_s": self.gather_s}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the metadata topic, without end."""
        watcher = _Watcher(self, await self._kept_position())
        with OneThread(at_end=watcher.close) as thread:
            while True:
                await watcher.look(thread)
                if (payload := watcher.news_to_tell()) is not None:
                    logger.info("markers of others: %s", payload)
                    yield TriggerEvent(payload)  # type: ignore[no-untyped-call]
                    await self._keep(watcher)
                elif watcher.is_due_to_keep():
                    await self._keep(watcher)
                await asyncio.sleep(watcher.wait_s())

    async def _kept_position(self) -> WatchPosition | None:
        """Return how far an earlier triggerer has read, ``None`` where nobody knows."""
        if (store := self._store()) is None:
            return None
        try:
            plain = await store.aget(_POSITION_KEY)
            return None if plain is None else WatchPosition.from_dict(plain)
        except Exception:
            # Whatever keeps it: to begin at the end is harmless, see above.
            logger.exception("how far the topic was read is not known: it is followed from its end on")
            return None

    async def _keep(self, watcher: _Watcher) -> None:
        """Keep how far the topic was read, after what was found there was told."""
        position = watcher.take_position()
        if (store := self._store()) is None or position is None:
            return
        try:
            await store.aset(_POSITION_KEY, position.to_dict())
        except Exception:
            logger.exception("how far the topic was read is not kept: after a restart markers may be told of twice")

    def _store(self) -> Any:
        # Airflow 3.3 and later; the triggerer gives it to triggers that an asset watches.
        return getattr(self, "asset_state_store", None)


class _Watcher:
    """What a run of the trigger knows: the watch, the news, and when to do what."""

    def __init__(self, trigger: RemoteLogMarkersTrigger, position: WatchPosition | None) -> None:
        self._trigger = trigger
        self._position = position
        self._watch: DeletionWatch | None = None
        self._news = MarkerNews()
        self._news_since = 0.0
        self._kept_at = float("-inf")
        self._failures = 0
        self._said_at = float("-inf")

    async def look(self, thread: OneThread) -> None:
        """Look once; what fails is said and tried again by the next look, with the connections as they are then."""
        try:
            watch = self._watch or await self._open(thread)
            events = await thread.call(watch.look)
        except Exception as e:
            self._failures += 1
            self._say(e)
            await thread.call(self.close)
            return
        if self._failures:
            logger.info("the metadata topic is followed again")
        self._failures, self._said_at = 0, float("-inf")
        had_news = self._news.markers
        self._news.note(found.event for found in events)
        if self._news.markers and not had_news:
            self._news_since = time.monotonic()

    async def _open(self, thread: OneThread) -> DeletionWatch:
        hook = RemoteLogMetadataHook(self._trigger.rlmm_conn_id)
        await thread.call(_import_what_is_heavy)
        await hook.read_ahead()
        from airflow_provider_rlmm.session.watching import DeletionWatch

        self._watch = DeletionWatch(hook, self._position)
        return self._watch

    def _say(self, error: Exception) -> None:
        """Say what went wrong, at once and then every few minutes."""
        if time.monotonic() - self._said_at < _SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        text = "markers of others are not seen until this is solved, the cleaner's own runs find them: %s"
        # What this package says of an error is enough; of others only the place tells.
        logger.warning(text, error, exc_info=not isinstance(error, RlmmError))

    def news_to_tell(self) -> dict[str, Any] | None:
        """Return the payload of an event, ``None`` where there is nothing to tell, or it is still gathered."""
        if not self._news.markers or self._left_to_gather() > 0:
            return None
        news, self._news = self._news, MarkerNews()
        cluster_id = position.cluster_id if self._watch and (position := self._watch.position) else None
        return {"connection": self._trigger.rlmm_conn_id, "cluster_id": cluster_id, **news.to_dict()}

    def _left_to_gather(self) -> float:
        return self._news_since + self._trigger.gather_s - time.monotonic()

    def is_due_to_keep(self) -> bool:
        """Tell whether the position is to be kept, and may be: not as long as there is something to tell."""
        return not self._news.markers and time.monotonic() - self._kept_at >= _KEEP_EVERY_S

    def take_position(self) -> WatchPosition | None:
        """Return how far the topic was read, and note that it is kept."""
        position = self._watch.position if self._watch else None
        if position is not None:
            self._kept_at = time.monotonic()
        return position

    def wait_s(self) -> float:
        """Return for how many seconds to wait before the next look."""
        if self._failures:
            longer: float = self._trigger.poll_s * 2.0 ** min(self._failures - 1, 10)
            return min(longer, max(_MAX_WAIT_S, self._trigger.poll_s))
        if self._watch is not None and self._watch.is_behind:
            return 0.0
        if self._news.markers:
            return max(0.0, min(self._trigger.poll_s, self._left_to_gather()))
        return self._trigger.poll_s

    def close(self) -> None:
        """Close the clients; in the thread that uses them."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
            self._position = watch.position


def _import_what_is_heavy() -> None:
    """Import in the thread what would hold up the event loop for a second: Kafka's client and Arrow."""
    import airflow_provider_rlmm.kafka.cluster
    import airflow_provider_rlmm.kafka.event_log
    import airflow_provider_rlmm.session.watching  # noqa: F401
