# SPDX-License-Identifier: Apache-2.0
"""What the button "Test" of Airflow's connection form does: it looks, never writes, and reads no topic."""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import format_tb
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import EventLogAccessError, RlmmError
from airflow_provider_rlmm.core.base.quoting import printable
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.kafka.admin import MetadataTopicDescription
    from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
    from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager

logger = logging.getLogger(__name__)

_MAX_SENTENCE = 2_000

READS_NO_TOPIC: Final = (
    "This test reads no topic, so it cannot tell whether this is the storage that brokers write to now: 'rlmm check', or the "
    "task check of the DAG remote_log_doctor, can."
)


class ConnectionFinding(NamedTuple):
    """One thing that was looked at: whether it is as it should be, and what was found."""

    good: bool
    sentence: str


class ConnectionCheck:
    """
    Looks at everything that settings name.

    :param access: what opens it.
    """

    def __init__(self, access: RemoteLogAccess) -> None:
        self._access = access
        self._cluster_id = ""
        self._topic_ids: frozenset[UUID] = frozenset()
        self._description: MetadataTopicDescription | None = None
        self._manager: RemoteStorageManager | None = None

    def findings(self) -> list[ConnectionFinding]:
        """Look; what cannot be looked at because something before it failed is left out. Never raises."""
        found = [finding("the connection", self._settings)]
        if not found[0].good:
            return found
        found.append(finding("the cluster", self._cluster))
        if found[-1].good:
            found += [f for f in [finding("the connection", self._may_write)] if not f.good]
            found += [finding("the metadata topic", self._topic), finding("the permissions", self._permissions)]
        if self._description is not None:
            found += self._health(self._description)
        if self._cluster_id and self._access.get_connection_settings().storage_uri is not None:
            found.append(finding("the layout", self._layout))
        return [*found, finding("the storage", self._storage), *self._deletion()]

    def _deletion(self) -> list[ConnectionFinding]:
        """Say whether deletion works, and frees space; nothing where the storage cannot be opened: that was said."""
        if self._manager is None:
            return []
        manager = self._manager
        found: list[DeletionEffect] = []

        def look() -> str:
            found.append(manager.deletion_effect())
            return ". ".join(filter(None, [found[0].sentence, found[0].uploads]))

        looked = finding("what becomes of deleted objects", look)
        kept = any(effect.needs_person for effect in found)
        return [looked._replace(good=looked.good and not kept)]

    def _settings(self) -> str:
        settings = self._access.get_connection_settings()
        copying = " Copying segments of living topics is allowed." if settings.allow_copy else ""
        return f"Writing is {'allowed' if settings.allow_writes else 'off'}.{copying}"

    def _cluster(self) -> str:
        self._cluster_id = self._access.check_cluster()
        settings = self._access.get_connection_settings()
        answers = f"Cluster {self._cluster_id} answers at {', '.join(self._access.get_cluster().answered)}"
        if settings.expected_cluster_id:
            return f"{answers}, as expected."
        return f"{answers}; copy its id to expected_cluster_id: then no other one is ever worked on."

    def _may_write(self) -> str:
        self._access.get_connection_settings().check_writable()
        return ""

    def _topic(self) -> str:
        settings = self._access.get_connection_settings()
        with self._access.naming_connection():
            topic = self._access.get_cluster_topics().describe_metadata_topic(settings.metadata_topic)
        self._description = topic
        allowed = topic.authorized_operations
        needed = {"READ", "WRITE"} if settings.allow_writes else {"READ"}
        if allowed is not None and (missing := sorted(needed - allowed)):
            raise EventLogAccessError(
                f"topic {settings.metadata_topic} may not be used as needed: {', '.join(missing)} is missing from the ACLs "
                f"of {self._access.login_owner}"
            )
        may = "its permissions are not told" if allowed is None else f"one may {', '.join(sorted(allowed))}"
        return f"Topic {settings.metadata_topic} has {number_of(topic.partition_count, 'partition')}, {may}."

    def _health(self, description: MetadataTopicDescription) -> list[ConnectionFinding]:
        from airflow_provider_rlmm.core.log.kafka.health import check_metadata_topic
        from airflow_provider_rlmm.core.log.metadata_settings import HealthFinding, HealthSeverity

        found: list[HealthFinding] = []

        def look() -> str:
            metadata_topic = self._access.get_connection_settings().metadata_topic
            with self._access.naming_connection():
                found.extend(check_metadata_topic(self._access.get_cluster_topics(), description, metadata_topic))
            return "Its replicas, cleanup policy and retention are as they must be."

        looked = finding("the health of the metadata topic", look)
        return [ConnectionFinding(f.severity is not HealthSeverity.ERROR, _sentence(str(f))) for f in found] or [looked]

    def _permissions(self) -> str:
        with self._access.naming_connection():
            topics = self._access.get_cluster_topics().list_topics()
        self._topic_ids = frozenset(topics.values())
        needed = "Others would not show here: the principal needs DESCRIBE on every topic."
        return f"{number_of(len(topics), 'topic')} may be described. {needed}"

    def _layout(self) -> str:
        return self._access.check_layout()

    def _storage(self) -> str:
        uri = self._access.get_connection_settings().storage_uri
        if uri is None:
            return "No storage is configured."
        storage = self._access.get_storage()
        manager = self._manager = storage.get_storage_manager()
        if not self._cluster_id:
            manager.check_root(frozenset(), "unknown")
            return f"Storage {uri} can be listed; whose it is cannot be told before the cluster answers."
        root = manager.check_root(self._topic_ids, self._cluster_id, storage.root_expectation())
        if root.verified:
            ids = ", ".join(f"{c.root_id or 'not stamped yet'} at {c.where}" for c in root.places)
            return f"Storage {uri} belongs to this cluster: {root.reason}. Its root id is {ids}."
        return f"Storage {uri} can be listed, but nothing shows yet that it belongs to this cluster: {root.reason}."


def finding(subject: str, look: Callable[[], str]) -> ConnectionFinding:
    """
    Return what a look has found; never raises.

    :param subject: what is looked at, in words.
    :param look: looks, and says what it has found, or raises.
    """
    try:
        return ConnectionFinding(True, _sentence(look()))
    except RlmmError as e:
        text = str(e)
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        # Every error belongs into the form, the panic of a Rust library too, which is no Exception. Text that this
        # package did not write may hold a secret, and so may a log of it; where it happened cannot.
        where = "".join(format_tb(e.__traceback__))
        logger.warning("%s cannot be checked: %s at\n%s", subject, type(e).__name__, where)
        look_at = "look at its settings; the log of this process says where it happened"
        text = f"{subject} cannot be checked ({type(e).__name__}): {look_at}"
    return ConnectionFinding(False, _sentence(text))


def _sentence(text: str) -> str:
    text = printable(text, _MAX_SENTENCE)
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
