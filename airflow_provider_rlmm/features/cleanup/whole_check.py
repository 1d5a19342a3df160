# SPDX-License-Identifier: Apache-2.0
"""
What ``rlmm check`` and the operator of the same name do: what the connection form's button does, and then what a run asks.

A run reads the metadata topic before it believes a storage. A check that looks less cannot say that a run would go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.connection_check import ConnectionCheck, ConnectionFinding, finding
from airflow_provider_rlmm.core.runs.holding import hold_in_words, require_known_hold
from airflow_provider_rlmm.core.runs.kept_metadata import kept_metadata
from airflow_provider_rlmm.core.runs.second_place import second_place
from airflow_provider_rlmm.core.storage.hidden_copies import VERSIONED_BUCKET
from airflow_provider_rlmm.features.cleanup.checking import ALL_SEEN, what_is_unseen

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay


def check_whole(
    access: RemoteLogAccess, open_session: Callable[[], AbstractContextManager[CleanerSession]]
) -> list[ConnectionFinding]:
    """
    Look at everything that settings name, read the metadata topic, and ask of the storage what mark, plan, clean and scrub
    ask; then tell of what the topic names whether it can be seen to be there or gone. Nothing is changed but what the work
    folder remembers, and its copy in the second place of snapshots. Never raises.

    :param access: what opens cluster and storage.
    :param open_session: opens a session that writes nothing.
    """
    found = ConnectionCheck(access).findings()
    if not all(look.good for look in found):
        return found
    has_storage = access.get_connection_settings().storage_uri is not None

    def look() -> str:
        with open_session() as session, session.topic() as topic:
            topic.advance()
            found.extend(_lost(session))
            if has_storage:
                found.append(finding("the storage root", lambda: _root(session, topic)))
            found.append(_judged("the hold", lambda: _hold(session, topic)))
            found.append(_judged("the topics that the metadata topic names", lambda: _unseen(topic)))
            found.append(_judged("the retention of the metadata topic", lambda: _retention(session, topic)))
            if session.snapshots.second is not None:
                found.append(_judged("the second place of snapshots", lambda: _second_place(session)))
        return ""

    read = finding("the records of the metadata topic", look)
    return found if read.good else [*found, read]


def _lost(session: CleanerSession) -> list[ConnectionFinding]:
    """Say what the metadata topic does not hold of what earlier runs of the work folder have read of it."""
    said = {f"{lost.why}. What to do: {lost.what_to_do}": lost.is_open for lost in session.log.losses.values()}
    return [ConnectionFinding(not is_open, sentence) for sentence, is_open in said.items()]


def _root(session: CleanerSession, topic: TopicReplay) -> str:
    # Whether deletion frees space was said before.
    limits = replace(CleanerLimits(), overrides=frozenset({VERSIONED_BUCKET}))
    root = session.prove_root(topic, limits)
    return f"The storage root is the one that brokers write to: {'. '.join(root.sentences)}"


def _judged(subject: str, look: Callable[[], tuple[str, bool]]) -> ConnectionFinding:
    """Say what a look has shown, and whether that is good; a look that fails is not."""
    good: list[bool] = []

    def said() -> str:
        sentence, is_good = look()
        good.append(is_good)
        return sentence

    looked = finding(subject, said)
    return looked._replace(good=looked.good and all(good))


def _hold(session: CleanerSession, topic: TopicReplay) -> tuple[str, bool]:
    """Say what is held, and whether there is all of it."""
    unknown = require_known_hold(session, topic)
    return f"The hold: {hold_in_words(session, topic)}", not unknown


def _unseen(topic: TopicReplay) -> tuple[str, bool]:
    """Say whether of what the metadata topic names it can be told whether it is there or gone."""
    unseen = what_is_unseen(topic, CleanerLimits())
    return unseen or ALL_SEEN, not unseen


def _retention(session: CleanerSession, topic: TopicReplay) -> tuple[str, bool]:
    """Say how long the metadata topic keeps what is still needed of it."""
    kept = kept_metadata(session, topic)
    return f"The metadata topic's retention: {kept}", not kept.refusals


def _second_place(session: CleanerSession) -> tuple[str, bool]:
    """Say whether the second place has the earlier snapshots of the metadata topic."""
    place = second_place(session)
    return f"The second place of snapshots: {place}", not place.why
