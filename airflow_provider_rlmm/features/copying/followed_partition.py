# SPDX-License-Identifier: Apache-2.0
"""One user partition of a log directory: what the metadata topic, the leader and the hold say of it as of now."""

from __future__ import annotations

import logging

from airflow_provider_rlmm.core.base.errors import CopyRefusedError
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_replay import CopyReplay
from airflow_provider_rlmm.features.copying.copy_situation import CopySituation
from airflow_provider_rlmm.features.copying.copy_source import CopySource

logger = logging.getLogger(__name__)


class FollowedPartition:
    """
    Looks at one user partition, as often as it is asked; it changes nothing.

    :param context: what it works with.
    :param source: the log directory.
    :raises LogDirectoryError: if the directory cannot be used.
    :raises TopicInDoubtError: if the metadata topic cannot tell what is copied already.
    """

    def __init__(self, context: CopyContext, source: CopySource) -> None:
        self._context = context
        self._source = source
        self._directory = source.facts()
        self.replay = CopyReplay(context.log, source.topic_id_partition)

    def first_look(self) -> CopySituation:
        """
        Look, and refuse a user partition of which nothing may be copied.

        :raises CopyRefusedError: saying why.
        :raises TopicInDoubtError: if the metadata topic cannot tell what is copied already.
        :raises EventLogError: if metadata topic or leader cannot be asked.
        """
        situation = self.look()
        if (obstacle := situation.obstacle()) is not None:
            raise CopyRefusedError(f"{self._source.topic_id_partition} is not copied: {obstacle}")
        if situation.answer is not None and not situation.answer.configs.copy_lag.copies_at_once:
            lag = situation.answer.configs.copy_lag
            logger.info(
                "%s: behind what is copied now, once its leader copies, it is %s", self._source.topic_id_partition, lag
            )
        return situation

    def look(self, proven_end: int | None = None) -> CopySituation:
        """
        Read the metadata topic up to its high watermark, then ask the leader.

        In this order: what the leader has deleted by the time of the reading is below the log start offset that it tells.

        :param proven_end: end of the records that are proven to be the leader's, exclusive.
        :raises TopicInDoubtError: if the metadata topic cannot tell what is copied already.
        :raises EventLogError: if metadata topic or leader cannot be asked.
        """
        self.replay.advance()
        tip = self._source.topic_id_partition
        return CopySituation(
            directory=self._directory,
            cache=self.replay.history.cache,
            answer=self._context.leader.ask(tip.topic, tip.partition),
            limits=self._context.limits,
            hold=self._context.gate.hold(),
            now_ms=self._context.clock(),
            proven_end=proven_end,
        )
