# SPDX-License-Identifier: Apache-2.0
"""What a copier says of a segment before it copies it, and how much custom metadata the copy may have."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from airflow_provider_rlmm.core.records.records import (
    COPIER_BROKER_ID,
    MAX_CUSTOM_METADATA_BYTES,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.copying.rules import LocalSegment

logger = logging.getLogger(__name__)

CUSTOM_METADATA_SETTING: Final = "remote.log.metadata.custom.metadata.max.bytes"
"""Kafka's name of the broker setting."""


class AskedBrokers(Protocol):
    """The part of a client that asks brokers for their settings."""

    def broker_setting(self, name: str) -> Mapping[int, str | None]:
        """
        Return a setting of every broker that tells it.

        :param name: Kafka's name of the setting.
        """

    def broker_setting_names(self) -> Mapping[int, Collection[str] | None]:
        """Return the names of the settings that each broker lists, ``None`` where it refuses or does not answer."""


@dataclass(frozen=True, slots=True)
class CustomMetadataLimit:
    """
    How much custom metadata brokers take.

    :param most_bytes: of one segment.
    :param source: who says so, in words.
    """

    most_bytes: int = MAX_CUSTOM_METADATA_BYTES
    source: str = "Kafka's default"

    def obstacle(self, size_in_bytes: int, segment_id: RemoteLogSegmentId) -> str | None:
        """
        Say why a copy cannot be finished, ``None`` where its custom metadata is small enough.

        :param size_in_bytes: of the custom metadata.
        :param segment_id: the segment, for the message.
        """
        if size_in_bytes <= self.most_bytes:
            return None
        return (
            f"the storage layout makes up to {size_in_bytes} bytes of custom metadata of {segment_id}, and brokers take "
            f"{self.most_bytes} at most ({self.source}): raise {CUSTOM_METADATA_SETTING} of all brokers, or leave OBJECT_KEY "
            "and OBJECT_PREFIX out of their plugin's custom.metadata.fields.include"
        )


def limit_of_brokers(brokers: AskedBrokers) -> CustomMetadataLimit:
    """
    Ask all brokers how much custom metadata they take: the least counts, and of those that do not tell Kafka's default.

    :param brokers: who is asked.
    :raises EventLogError: if the login fails, or no broker answers.
    """
    told = {b: int(v) for b, v in brokers.broker_setting(CUSTOM_METADATA_SETTING).items() if v is not None}
    silent = sorted(brokers.broker_setting_names().keys() - told.keys())
    least = min(told.values(), default=MAX_CUSTOM_METADATA_BYTES)
    if told and not silent:
        return CustomMetadataLimit(least, CUSTOM_METADATA_SETTING)
    whose = f"broker {', '.join(map(str, silent))} does" if silent else "brokers do"
    source = (
        f"Kafka's default, as {whose} not tell {CUSTOM_METADATA_SETTING}, which takes DESCRIBE_CONFIGS on the cluster"
    )
    limit = CustomMetadataLimit(min(least, MAX_CUSTOM_METADATA_BYTES), source)
    logger.warning("%d bytes of custom metadata are taken for the most that brokers take: %s", limit.most_bytes, source)
    return limit


def announcement(
    tip: TopicIdPartition, segment: LocalSegment, segment_id: UUID, now_ms: int
) -> RemoteLogSegmentMetadata:
    """
    Return the first event about a copy, COPY_SEGMENT_STARTED.

    :param tip: the user partition.
    :param segment: the local segment.
    :param segment_id: the id of the copy, its own.
    :param now_ms: ms since the epoch.
    """
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, segment_id),
        segment.base_offset,
        segment.end_offset,
        segment.max_timestamp_ms,
        COPIER_BROKER_ID,
        now_ms,
        segment.size_in_bytes,
        None,
        RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment.leader_epochs,
        segment.txn_index_empty,
    )
