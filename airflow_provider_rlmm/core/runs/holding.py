# SPDX-License-Identifier: Apache-2.0
"""Whether a hold, or a command, names what there is: asked before the first event, never of what is added in mid-run."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import ConfigurationError, UnknownHoldError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.world.topic_entries import KnownTopics

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

logger = logging.getLogger(__name__)

NOTHING_HELD = "nothing is on hold"


def require_known_hold(session: CleanerSession, topic: TopicReplay) -> list[Refusal]:
    """
    Refuse a run whose own hold names a topic that there is not; say the same of the hold of the settings.

    The user who starts a run sees its refusal at once. The settings are of all runs: these go on, and a person has to look.

    :param session: of the run.
    :param topic: the metadata topic; it is read if nothing of it was yet.
    :return: what a person has to look at.
    :raises UnknownHoldError: naming the entry, the nearest names and what to do.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    hold = session.hold()
    if not hold.entries:
        return []
    unknown = hold.unknown(_known(topic))
    of_run = frozenset(session.run_hold)
    if wrong := [entry for entry in unknown if entry.entry in of_run]:
        raise UnknownHoldError("; ".join(f"{entry.why} To do: {entry.what_to_do}" for entry in wrong))
    for entry in unknown:
        logger.warning("%s. To do: %s", entry.why, entry.what_to_do)
    return [entry.to_refusal() for entry in unknown]


def hold_in_words(session: CleanerSession, topic: TopicReplay) -> str:
    """
    Say what is held, and what of it does not exist.

    :param session: of the run.
    :param topic: the metadata topic; it is read if nothing of it was yet.
    :raises UnknownHoldError: if the hold of the run names a topic that there is not.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    hold = session.hold()
    if not hold.entries:
        return NOTHING_HELD
    unknown = require_known_hold(session, topic)
    return ". ".join([hold.in_words(_known(topic)), *(f"{found.why} To do: {found.what_to_do}" for found in unknown)])


def require_known_only(session: CleanerSession, topic: TopicReplay) -> None:
    """
    Refuse a run that is for topics of which there are none: to say "nothing" of them would be an answer.

    :param session: of the run.
    :param topic: the metadata topic; it is read if nothing of it was yet.
    :raises ConfigurationError: naming the entries, the nearest names, and what could not be read.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    if session.only.is_all or not (unknown := session.only.unmatched(_known(topic))):
        return
    unread = sorted(number for number, lost in topic.log.losses.items() if lost.is_open)
    unseen = (
        f". UNSEEN: metadata partitions {', '.join(map(str, unread))} have lost records, which may have named such a topic; "
        "see 'rlmm doctor'"
        if unread
        else ""
    )
    named = "; ".join(
        f"only names {found.entry!r}, and neither log nor cluster knows a topic of that name, pattern or id{found.meant}"
        for found in unknown
    )
    ends = "" if named.endswith("?") else "."
    raise ConfigurationError(
        f"{named}{ends} Nothing was done. To do: correct the entry; 'rlmm topics' lists those with remote segments{unseen}"
    )


def require_known_topic(topic: TopicReplay, name: str) -> None:
    """
    Refuse to say "nothing" of a topic that there is not.

    :param topic: the metadata topic; it is read if nothing of it was yet.
    :param name: name or id of the topic that was asked for.
    :raises ConfigurationError: naming the nearest names.
    :raises EventLogError: if log or cluster cannot be asked.
    """
    if (unknown := _known(topic).unknown(name)) is not None:
        raise ConfigurationError(
            f"neither log nor cluster knows a topic of the name or id {in_quotes(name)}{unknown.meant or ';'} 'rlmm topics' "
            "lists those with remote segments"
        )


def _known(topic: TopicReplay) -> KnownTopics:
    """Return what log and cluster name; a name that may not be described is one all the same."""
    from airflow_provider_rlmm.core.world.cluster_look import look

    if topic.is_behind:
        topic.advance()
    in_log, seen = topic.names(), look(topic.topics, topic.log, {})
    names = {name for of_id in in_log.values() for name in of_id} | seen.living.keys() | seen.denied
    return KnownTopics(frozenset(names), frozenset(map(kafka_uuid_str, {*in_log, *seen.living.values()})))
