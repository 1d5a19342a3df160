# SPDX-License-Identifier: Apache-2.0
"""Is the metadata topic the one that runs have worked with before? The work folder remembers it, and the storage's stamps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.base.errors import FloorError, MetadataTopicReplacedError, RlmmError
from airflow_provider_rlmm.core.base.given import DELETING_DAGS, parameters
from airflow_provider_rlmm.core.log.floored_log import Confirmation
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
from airflow_provider_rlmm.core.world.kill_switch import StopSource, require_not_stopped

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class StampedTopics(Protocol):
    """What the stamps of the storage say about the metadata topic."""

    def named(self) -> Mapping[str, UUID]:
        """
        Return key of the stamp → id of the metadata topic that it names; empty where there is no storage.

        :raises RlmmError: if they cannot be read.
        """

    def confirm(self, topic_id: UUID, by: str, at_ms: int) -> None:
        """
        Have the stamps that name another metadata topic name this one.

        :param topic_id: id of the new one.
        :param by: who has confirmed it.
        :param at_ms: when, ms since the epoch.
        :raises RlmmError: if that cannot be done.
        """


class NoStamps:
    """Where the storage is not asked."""

    def named(self) -> Mapping[str, UUID]:
        """See :class:`StampedTopics`."""
        return {}

    def confirm(self, topic_id: UUID, by: str, at_ms: int) -> None:
        """See :class:`StampedTopics`."""


NO_STAMPS = NoStamps()


@dataclass(frozen=True, slots=True)
class StorageStamps:
    """
    The stamps below the storage root that settings name.

    :param storage: what opens the storage.
    :param cluster_id: the verified cluster.
    :param should_stop: why nothing may be begun, as of now.
    """

    storage: StorageAccess
    cluster_id: str
    should_stop: StopSource

    def named(self) -> Mapping[str, UUID]:
        """See :class:`StampedTopics`."""
        if self.storage.get_connection_settings().storage_uri is None:
            return {}
        return self.storage.get_storage_manager().stamped_topics(self.cluster_id)

    def confirm(self, topic_id: UUID, by: str, at_ms: int) -> None:
        """See :class:`StampedTopics`."""
        require_not_stopped(self.should_stop())
        self.storage.get_storage_manager().confirm_metadata_topic(self.cluster_id, topic_id, by, at_ms)


def why_replaced(
    now: UUID, store: FloorFiles, stamps: StampedTopics, confirmation: Confirmation, clock: Clock, *, dry_run: bool
) -> tuple[str, str] | None:
    """
    Tell whether the metadata topic is another one than runs of this work folder, or below this storage, have worked with.

    :param now: its id.
    :param store: what the work folder remembers; it learns of the first one, and of one that was confirmed.
    :param stamps: what the storage remembers; it learns of one that was confirmed.
    :param confirmation: what a person has confirmed.
    :param clock: time.
    :param dry_run: whether nothing will be changed.
    :return: why it is another one and what to do; ``None`` where it is not, or a person has confirmed it.
    :raises MetadataTopicReplacedError: if it is another one, the run is for real and that is not confirmed; or if the
        confirmation names another id than it has.
    :raises RlmmError: if what is remembered cannot be read or written, and the run is for real.
    """
    said = confirmation.metadata_topic_id
    if said is not None and said != now:
        raise MetadataTopicReplacedError(
            f"the metadata topic has id {kafka_uuid_str(now)}, and {kafka_uuid_str(said)} was confirmed: nothing is done"
        )
    recorded = _told(store.metadata_topic_id, dry_run=dry_run)
    stamped = _told(stamps.named, dry_run=dry_run)
    others = _others(now, recorded[0] if recorded else None, stamped[0] if stamped else {})
    if others and said is None:
        return _refused(now, others, dry_run=dry_run)
    if others and not dry_run:
        stamps.confirm(now, confirmation.by, clock())
        store.record_metadata_topic(now, confirmation.by, clock())
        logger.warning(
            "confirmed by %s: the metadata topic has id %s, and %s",
            confirmation.by,
            kafka_uuid_str(now),
            "; ".join(others),
        )
    elif not others and recorded == (None,):
        _told(lambda: store.record_metadata_topic(now, confirmation.by, clock()), dry_run=dry_run)
    return None


def _told(ask: Callable[[], Answer], *, dry_run: bool) -> tuple[Answer] | None:
    """Return the answer; ``None`` where there is none, and nothing will be changed."""
    try:
        return (ask(),)
    except RlmmError as e:
        if not dry_run:
            raise
        what = "earlier runs" if isinstance(e, FloorError) else "runs with other work folders"
        logger.warning("which metadata topic %s have worked with is not known, nothing is compared: %s", what, e)
        return None


def _others(now: UUID, recorded: UUID | None, stamped: Mapping[str, UUID]) -> list[str]:
    """Say who remembers another metadata topic."""
    found = []
    if recorded not in (None, now):
        found.append(f"earlier runs of this work folder have worked with {kafka_uuid_str(recorded)}")
    found += [
        f"earlier runs on this storage have worked with {kafka_uuid_str(topic_id)}, as stamp {key} says"
        for key, topic_id in stamped.items()
        if topic_id != now
    ]
    return found


def _refused(now: UUID, others: list[str], *, dry_run: bool) -> tuple[str, str]:
    new_id = kafka_uuid_str(now)
    why = (
        f"the metadata topic has id {new_id}, and {'; '.join(others)}: it was deleted and made anew, and does not name what "
        "was copied before"
    )
    todo = (
        "find out who did that, and whether brokers use this topic; to go on say so once, by "
        f"{parameters({'confirm_metadata_topic_id': new_id}, DELETING_DAGS)}; scrubs wait anew then"
    )
    if not dry_run:
        raise MetadataTopicReplacedError(f"{why}; nothing is done. What to do: {todo}")
    logger.error("%s. What to do: %s", why, todo)
    return why, todo
