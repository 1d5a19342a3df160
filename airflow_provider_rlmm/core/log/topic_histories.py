# SPDX-License-Identifier: Apache-2.0
"""The histories of one topic, kept by the way while another reader reads all of the metadata topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import equals
from airflow_provider_rlmm.core.log.event_decoding import QuarantinedRecord
from airflow_provider_rlmm.core.log.follower import ReadSoFar
from airflow_provider_rlmm.core.records.histories import Histories
from airflow_provider_rlmm.core.records.history import UserPartitionHistory
from airflow_provider_rlmm.core.records.located import located_records
from airflow_provider_rlmm.core.records.records import TopicIdPartition


@dataclass(frozen=True, slots=True)
class ReadHistories:
    """
    What was read of user partitions: all that the log has said of them.

    :param histories: of those that it names; of any other one it says nothing.
    :param quarantined: the records that cannot be applied, of any metadata partition; of keyed ones a sample.
    :param read: how far.
    """

    histories: Mapping[TopicIdPartition, UserPartitionHistory]
    quarantined: Sequence[QuarantinedRecord]
    read: ReadSoFar


@dataclass(slots=True)
class TopicHistories:
    """
    Keeps the histories of one topic's user partitions.

    :param topic: its name.
    :param topic_id: an id whose user partitions are kept, too; ``None`` for none.
    """

    topic: str
    topic_id: UUID | None
    histories: Histories = field(default_factory=lambda: Histories(grows=True))

    def take(self, decoded: Any) -> None:
        """
        Take the next records of the log.

        :param decoded: what :func:`~airflow_provider_rlmm.core.log.event_decoding.decode_records` returned, of any number of
            metadata partitions.
        """
        import pyarrow.compute as pc

        wanted = equals(decoded.column("topic"), self.topic)
        if self.topic_id is not None:
            wanted = pc.or_(wanted, equals(decoded.column("topic_id"), self.topic_id.bytes))
        for located in located_records(decoded, wanted):
            self.histories.apply(located)
