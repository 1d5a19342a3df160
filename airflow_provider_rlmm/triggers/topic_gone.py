# SPDX-License-Identifier: Apache-2.0
"""
Waiting for the end of a topic's deletion, cheaply.

The trigger proves nothing: it waits for the DELETE_PARTITION_FINISHED records, which it reads as they come, and for the time
of the next look. The replay of the topic and the listing of storage are a worker's business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.log.watching import WatchPosition
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.triggers.following import Following
from airflow_provider_rlmm.triggers.one_thread import OneThread

FINISHED = "finished"
"""Every user partition that was waited for is finished: time for a look."""
TIME = "time"
"""The time of the next look has come."""
TROUBLE = "trouble"
"""Waiting on is of no use: a look will say what is wrong."""


class TopicDeletionFinishedTrigger(BaseTrigger):
    """
    Fires when the deletion of some user partitions was finished, or when it is time to look again.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param topic_id: in Kafka's text form.
    :param position: from where on the topic is read: what
        :meth:`~airflow_provider_rlmm.core.log.watching.WatchPosition.to_dict` returned.
    :param unfinished: the user partitions that are waited for; none waits for the time alone.
    :param poll_s: seconds between two looks at the topic.
    :param recheck_s: seconds after which it fires in any case.
    """

    def __init__(
        self,
        rlmm_conn_id: str,
        topic_id: str,
        position: Mapping[str, Any],
        unfinished: Sequence[int],
        poll_s: float,
        recheck_s: float,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow says no types of it
        self.rlmm_conn_id = rlmm_conn_id
        self.topic_id = topic_id
        self.position = dict(position)
        self.unfinished = list(unfinished)
        self.poll_s = poll_s
        self.recheck_s = recheck_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow makes this trigger of again."""
        names = ("rlmm_conn_id", "topic_id", "position", "unfinished", "poll_s", "recheck_s")
        arguments = {name: getattr(self, name) for name in names}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and fire once."""
        yield TriggerEvent(await self._wait())  # type: ignore[no-untyped-call]  # Airflow says no types of it

    async def _wait(self) -> str:
        until = time.monotonic() + self.recheck_s
        if not self.unfinished:
            await asyncio.sleep(self.recheck_s)
            return TIME
        topic_id, left = parse_kafka_uuid(self.topic_id), set(self.unfinished)
        following = Following(
            self.rlmm_conn_id,
            WatchPosition.from_dict(self.position),
            poll_s=self.poll_s,
            what_it_means=f"whether topic id {self.topic_id} is gone is not seen until this is solved:",
        )
        with OneThread(at_end=following.close) as thread:
            while (left_s := until - time.monotonic()) > 0:
                for found in await following.look(thread):
                    event = found.event
                    if (
                        event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
                        and event.topic_id_partition.topic_id == topic_id
                    ):
                        left.discard(event.topic_id_partition.partition)
                if not left:
                    return FINISHED
                if following.began_anew or _is_for_good(following.failed):
                    return TROUBLE
                await asyncio.sleep(min(following.wait_s(), left_s))
        return TIME


def _is_for_good(failed: Exception | None) -> bool:
    return isinstance(failed, RlmmError) and not failed.retriable
