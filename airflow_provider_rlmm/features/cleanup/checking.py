# SPDX-License-Identifier: Apache-2.0
"""The first step of a cleanup: everything that can be known to be wrong is found before the first event is written."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.errors import ClockSkewError, ConfigurationError, EventLogAccessError
from airflow_provider_rlmm.core.base.work_folder import CHECK_DOCUMENT
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
from airflow_provider_rlmm.core.runs.holding import hold_in_words, require_known_only
from airflow_provider_rlmm.core.runs.kept_metadata import kept_metadata
from airflow_provider_rlmm.core.runs.run_decision import DECISION, RunDecision
from airflow_provider_rlmm.core.runs.second_place import second_place
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.core.world.proven_time import UNPROVEN_CLOCK, check_agreement
from airflow_provider_rlmm.core.world.visibility import UNSEEN_ADVICE
from airflow_provider_rlmm.features.archiving.steps import archive_wanted

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.world.topic_view import TopicReplay

logger = logging.getLogger(__name__)

ALL_SEEN = "of every segment that is not finished it can be told whether its topic is there or gone"
_NO_FOLDER = (errno.EACCES, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS)
"""What no other try changes."""


def check(
    session: CleanerSession,
    uri: str,
    *,
    limits: CleanerLimits,
    dry_run: bool,
    decision: RunDecision | None = None,
    source_plan: str | None = None,
    archive_first: bool = False,
) -> dict[str, str]:
    """
    Check layout, cluster, permissions, clock, storage root and work folder. No event is written and nothing is deleted.

    :param session: of the run.
    :param uri: of the folder of the run, which keeps the result as ``check.json``.
    :param limits: with the overrides in force.
    :param dry_run: whether nothing will be written.
    :param decision: how the run works, for the tasks after this one; ``None`` where it is not asked for.
    :param source_plan: folder of the plan that the run takes its work from, ``None`` for none.
    :param archive_first: whether the run is told to archive what it deletes.
    :return: what was verified, one sentence each: ``switch``, ``cluster``, ``clock``, ``layout``, ``topic``, ``hold``,
        ``unseen`` (what cannot be told of the topics in it: the report of the run is red for it), ``retention`` (how
        long the topic keeps what is needed), ``snapshots`` (whether their second place has them), ``root``, ``deletion``,
        ``archive``, ``writes``, ``work``.
    :raises StoppedError: if the kill switch is on or cannot be read, and the run is for real.
    :raises ConfigurationError: naming the field, if the brokers' storage plugin has another layout, or the work folder can
        never be written.
    :raises UnknownHoldError: if the hold of this run names a topic that neither log nor cluster knows.
    :raises EventLogAccessError: naming the right that is missing.
    :raises ClockSkewError: if the storage of the work folder has another time.
    :raises OSError: if the work folder cannot be written now.
    :raises PlanError: if the plan cannot be read, has expired or is of another cluster.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises RlmmError: for anything else that would stop the run later.
    """
    verified = {
        "switch": session.require_running(dry_run=dry_run),
        "cluster": str(session.access.get_cluster()),
        "clock": str(session.clock),
        "writes": _check_rights(session, dry_run),
        "layout": session.access.check_layout(),
    }
    verified["archive"] = "not asked for"
    settings = session.access.get_connection_settings()
    if archive_wanted(settings, archive_first):
        verified["archive"] = f"in {settings.required_archive_uri()}, before anything is deleted"
    if source_plan is not None:
        session.check_plan(source_plan)
    if decision is not None:
        verified["run"] = str(decision)
    with step(uri, "check"), session.topic() as topic:
        verified["hold"] = hold_in_words(session, topic)
        if not session.only.is_all:
            require_known_only(session, topic)
            verified["only"] = f"the run is for {', '.join(session.only.entries)}"
        root = session.prove_root(topic, limits, dry_run=dry_run)
        verified["root"] = ". ".join(root.sentences)
        verified["deletion"] = ". ".join(filter(None, [root.effect.sentence, root.effect.uploads]))
        lost = [f"{lost.why}. What to do: {lost.what_to_do}" for lost in session.log.losses.values()]
        verified["topic"] = ". ".join([topic.what_was_read, *dict.fromkeys(lost)])
        verified["unseen"] = what_is_unseen(topic, limits) or ALL_SEEN
        verified["retention"] = str(kept_metadata(session, topic))
    verified["snapshots"] = str(second_place(session))
    kept = verified if decision is None else {**verified, DECISION: decision.to_dict()}
    verified["work"] = _check_work_folder(uri, kept, session, limits)
    return verified


def what_is_unseen(topic: TopicReplay, limits: CleanerLimits) -> str:
    """
    Say of which unfinished segments it cannot be told whether they are orphaned, and what to do; empty where that is known.

    :param topic: the metadata topic, read.
    :param limits: with the kinds of records that raise no doubt.
    :raises EventLogError: if the cluster cannot be asked.
    """
    from airflow_provider_rlmm.core.world.out_of_service import unseen_in_words

    if not (why := unseen_in_words(topic, limits)):
        return ""
    logger.warning("%s. %s", why, UNSEEN_ADVICE)
    return f"{why}. {UNSEEN_ADVICE}"


def _check_work_folder(uri: str, verified: Mapping[str, Any], session: CleanerSession, limits: CleanerLimits) -> str:
    """Write down what was verified, and compare the time at which that was stored with the time that was proven."""
    from airflow_provider_rlmm.core.base.file_systems import modified_ms
    from airflow_provider_rlmm.core.plans.plan_files import write_document

    try:
        stored_ms = modified_ms(write_document(uri, CHECK_DOCUMENT, json.dumps(verified, indent=2)))
    except OSError as e:
        if e.errno not in _NO_FOLDER:
            raise
        raise ConfigurationError(
            f"the folder {uri} below [rlmm] work_uri cannot be written ({e.strerror}): plans and reports need one that every "
            "worker can make folders in"
        ) from None
    try:
        check_agreement("the clock of the work folder's storage", stored_ms, "the proven clock", session.clock())
    except ClockSkewError as e:
        if UNPROVEN_CLOCK not in limits.overrides:
            raise
        return f"can be written; the override {UNPROVEN_CLOCK!r} lets this pass: {e}"
    return "can be written, and its storage has the same time"


def _check_rights(session: CleanerSession, dry_run: bool) -> str:
    """Say what may be done with the metadata topic, and refuse what is not enough."""
    settings = session.access.get_connection_settings()
    session.access.get_publisher(session.log)
    allowed = session.access.get_cluster_topics().describe_metadata_topic(settings.metadata_topic).authorized_operations
    needed = {"READ"} if dry_run or not settings.allow_writes else {"READ", "WRITE"}
    if allowed is not None and (missing := sorted(needed - allowed)):
        raise EventLogAccessError(
            f"topic {settings.metadata_topic}: {', '.join(missing)} is missing from the ACLs of "
            f"{session.access.login_owner}"
        )
    return "off" if dry_run else ("allowed" if settings.allow_writes else "not allowed by the connection")
