# SPDX-License-Identifier: Apache-2.0
"""The first task of the cleaner: everything that can be known to be wrong is found before the first event is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context

from airflow_provider_rlmm.errors import ClockSkewError, EventLogAccessError
from airflow_provider_rlmm.lifecycle.run_report import CHECK_DOCUMENT
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.session import CleanerSession, cleaner_session
from airflow_provider_rlmm.policy.guards import CleanerLimits
from airflow_provider_rlmm.policy.proven_time import UNPROVEN_CLOCK, check_agreement
from airflow_provider_rlmm.settings import artifact_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.storage.root import PlaceCheck


class CheckRemoteLogCleanupOperator(BaseOperator):
    """
    Check parameters, overrides, limits, layout, cluster, permissions, clock, storage root and work folder. No event
    is written and nothing is deleted.

    :param rlmm_conn_id: connection of type ``rlmm``.
    :param limits: fields of :class:`~airflow_provider_rlmm.policy.guards.CleanerLimits`.
    :param blast_radius: fields of :class:`~airflow_provider_rlmm.policy.guards.BlastRadius`.
    :param hold: topics that are not to be touched: names, patterns, ids.
    :param max_segments_this_run: the most segments that this run may take.
    :param dry_run_only: whether nothing will be written.
    :return: what was verified, one sentence each: ``cluster``, ``clock``, ``layout``, ``topic``, ``root``, ``deletion``,
        ``writes``, ``work``; the run's folder keeps it as ``check.json``.
    :raises ConfigurationError: naming the field, or if the brokers' storage plugin has another layout.
    :raises EventLogAccessError: naming the right that is missing.
    :raises ClockSkewError: if the storage of the work folder has another time.
    :raises OSError: if the work folder cannot be written.
    :raises StorageRootError: if the storage root is not this cluster's, or not up to date.
    :raises RlmmError: for anything else that would stop the run later.
    """

    template_fields: Sequence[str] = (
        "rlmm_conn_id", "limits", "blast_radius", "hold", "max_segments_this_run", "dry_run_only",
    )  # fmt: skip
    ui_color = "#d9d2e9"

    def __init__(
        self,
        *,
        rlmm_conn_id: str = "rlmm_default",
        limits: Mapping[str, Any] | None = None,
        blast_radius: Mapping[str, Any] | None = None,
        hold: Sequence[str] | None = None,
        max_segments_this_run: int | str | None = None,
        dry_run_only: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.rlmm_conn_id = rlmm_conn_id
        self.limits = limits
        self.blast_radius = blast_radius
        self.hold = hold
        self.max_segments_this_run = max_segments_this_run
        self.dry_run_only = dry_run_only

    def execute(self, context: Context) -> dict[str, str]:
        """Check."""
        conn_id = given.text("rlmm_conn_id", self.rlmm_conn_id)
        limits, dry_run = given.cleaner_limits(self.limits), given.flag("dry_run_only", self.dry_run_only)
        given.blast_radius(self.blast_radius)
        given.optional_integer("max_segments_this_run", self.max_segments_this_run, minimum=1)
        hold = given.hold_entries(self.hold)
        with cleaner_session(context, conn_id, limits, dry_run=dry_run, hold=hold) as session:
            session.hold()
            verified = {
                "cluster": str(session.hook.get_cluster()),
                "clock": str(session.clock),
                "writes": _check_rights(session, dry_run),
                "layout": session.hook.check_layout(),
            }
            with session.topic() as topic:
                root = session.prove_root(topic, limits)
                verified["root"] = ". ".join([*map(_place_in_words, root.check.places), *root.freshness.sentences])
                verified["deletion"] = ". ".join(filter(None, [root.effect.sentence, root.effect.uploads]))
                verified["topic"] = topic.what_was_read
            verified["work"] = _check_work_folder(artifact_uri(given.artifact_name(context)), verified, session, limits)
        for subject, sentence in verified.items():
            self.log.info("%s: %s", subject, sentence)
        return verified


def _place_in_words(check: PlaceCheck) -> str:
    """Say where a place lies, which root it is and whether that was known before."""
    known = "new, it has no root id yet"
    if check.root_id is not None:
        known = f"root {check.root_id}, {'expected' if check.expected else 'which no earlier run has recorded'}"
    return f"place {check.place.name} at {check.where}: {known}; {check.reason}"


def _check_work_folder(uri: str, verified: Mapping[str, str], session: CleanerSession, limits: CleanerLimits) -> str:
    """Write down what was verified, and compare the time at which that was stored with the time that was proven."""
    from airflow_provider_rlmm.file_systems import modified_ms
    from airflow_provider_rlmm.lifecycle.plan_files import write_document

    stored_ms = modified_ms(write_document(uri, CHECK_DOCUMENT, json.dumps(verified, indent=2)))
    try:
        check_agreement("the clock of the work folder's storage", stored_ms, "the proven clock", session.clock())
    except ClockSkewError as e:
        if UNPROVEN_CLOCK not in limits.overrides:
            raise
        return f"can be written; the override {UNPROVEN_CLOCK!r} lets this pass: {e}"
    return "can be written, and its storage has the same time"


def _check_rights(session: CleanerSession, dry_run: bool) -> str:
    """Say what may be done with the metadata topic, and refuse what is not enough."""
    settings = session.hook.get_connection_settings()
    session.hook.get_publisher(session.log)
    allowed = session.hook.get_cluster_topics().describe_metadata_topic(settings.metadata_topic).authorized_operations
    needed = {"READ"} if dry_run or not settings.allow_writes else {"READ", "WRITE"}
    if allowed is not None and (missing := sorted(needed - allowed)):
        raise EventLogAccessError(
            f"topic {settings.metadata_topic}: {', '.join(missing)} is missing from the ACLs of Kafka connection "
            f"{settings.kafka_conn_id!r}"
        )
    return "off" if dry_run else ("allowed" if settings.allow_writes else "not allowed by the connection")
