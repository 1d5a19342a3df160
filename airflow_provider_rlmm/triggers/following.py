# SPDX-License-Identifier: Apache-2.0
"""Following the metadata topic beside an event loop, also while brokers come and go."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.log.watching import WatchPosition
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.triggers.one_thread import OneThread

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.deletion_follower import DeletionEvent
    from airflow_provider_rlmm.core.runs.watching import DeletionWatch

logger = logging.getLogger(__name__)

_MAX_WAIT_S: Final = 120.0
_SAY_EVERY_S: Final = 600.0


class Following:
    """
    The partition-delete events of one cluster, look by look.

    A look that fails is said in the log, at once and then every few minutes; the next one opens new clients, by the
    connections as they are then, and goes on where the last one stopped.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param position: where to begin; ``None`` begins at the end of the log.
    :param poll_s: seconds between two looks.
    :param what_it_means: for the log, what a failure holds up, ending in a colon.
    """

    def __init__(self, rlmm_conn_id: str, position: WatchPosition | None, *, poll_s: float, what_it_means: str) -> None:
        self._rlmm_conn_id = rlmm_conn_id
        self._position = position
        self._poll_s = poll_s
        self._what_it_means = what_it_means
        self._watch: DeletionWatch | None = None
        self._failures = 0
        self._said_at = float("-inf")
        self.failed: Exception | None = None
        """Why the last look failed, ``None`` where it did not."""

    async def look(self, thread: OneThread) -> list[DeletionEvent]:
        """
        Return what came since the last look; nothing where the look fails.

        :param thread: in which all that blocks is done.
        """
        try:
            watch = self._watch or await self._open(thread)
            found = await thread.call(watch.look)
        except Exception as e:
            self._failures, self.failed = self._failures + 1, e
            self._say(e)
            await thread.call(self.close)
            return []
        if self._failures:
            logger.info("the metadata topic of connection %r is followed again", self._rlmm_conn_id)
        self._failures, self.failed, self._said_at = 0, None, float("-inf")
        return found

    async def _open(self, thread: OneThread) -> DeletionWatch:
        hook = RemoteLogMetadataHook(self._rlmm_conn_id)
        await thread.call(_import_what_is_heavy)
        await hook.read_ahead()
        from airflow_provider_rlmm.core.runs.watching import DeletionWatch

        self._watch = DeletionWatch(hook, self._position)
        return self._watch

    def _say(self, error: Exception) -> None:
        if time.monotonic() - self._said_at < _SAY_EVERY_S:
            return
        self._said_at = time.monotonic()
        # What this package says of an error is enough; of others only the place tells.
        logger.warning("%s %s", self._what_it_means, error, exc_info=not isinstance(error, RlmmError))

    @property
    def position(self) -> WatchPosition | None:
        """How far the topic was read."""
        return self._watch.position if self._watch else self._position

    @property
    def began_anew(self) -> str | None:
        """Why the log is not the one that the position was of, ``None`` where it is."""
        return self._watch.began_anew if self._watch else None

    def wait_s(self) -> float:
        """Return for how many seconds to wait before the next look."""
        if self._failures:
            longer: float = self._poll_s * 2.0 ** min(self._failures - 1, 10)
            return min(longer, max(_MAX_WAIT_S, self._poll_s))
        return 0.0 if self._watch is not None and self._watch.is_behind else self._poll_s

    def close(self) -> None:
        """Close the clients; in the thread that uses them."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
            self._position = watch.position


def _import_what_is_heavy() -> None:
    """Import in the thread what would hold up the event loop for a second: Kafka's client and Arrow."""
    import airflow_provider_rlmm.core.log.kafka.cluster
    import airflow_provider_rlmm.core.log.kafka.event_log
    import airflow_provider_rlmm.core.runs.watching  # noqa: F401  # its import is what it is for
