# SPDX-License-Identifier: Apache-2.0
"""What the leaders of living topics delete of remote storage next, and whether one of them is stuck, as an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.errors import LeaderStuckError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.attention import Judgement
from airflow_provider_rlmm.core.runs.steps import step
from airflow_provider_rlmm.links.artifacts import LeadersLink
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.observability.stats import send_leader_metrics
from airflow_provider_rlmm.operators.arguments import artifact_name, flag, read_by, text
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, judged
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.settings import artifact_uri

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders

__all__ = ["LeaderRetentionOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeaderRetentionArguments:
    fail_on_overdue: bool = read_by(flag, True)
    rlmm_conn_id: str = read_by(text, "rlmm_default")


class LeaderRetentionOperator(CheckedOperator[_LeaderRetentionArguments]):
    """
    Tell which remote segments of living topics their leaders delete next, and find leaders that are stuck.

    Leaders do this by themselves: nothing is written to Kafka or to the storage. A segment is overdue where it was due six
    hours ago, and three passes of a leader ago, in an earlier run, and is still there. A leader has stopped copying where
    more waits behind its newest copy than its last three segments hold, as it did in an earlier run, a quarter of local
    retention ago. So one run alone finds neither.

    What cannot be told is counted, never taken for 0: it is in the log, in the metrics and on the page, and fails nothing.

    :param fail_on_overdue: fail the task, after the document is written, as long as segments are overdue, or leaders have
        stopped copying, and that is not acknowledged (Airflow variable ``rlmm_acknowledgements``).
    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: user partitions of which ``all`` is told, ``at_least`` some, and ``unresolved`` ones; segments and bytes that go
        (``due``), are ``overdue``, ``leaked``, ``dangling`` and ``not_tiered``; user partitions whose leaders have stopped
        copying (``hanging``), and ``not_judged`` ones, of which it cannot be told whether anything is overdue or hangs; and
        the ``report``'s folder.
    :raises LeaderStuckError: naming the first user partition with overdue segments, or whose leader has stopped copying.
    :raises EventLogError: if cluster or metadata topic cannot be read.
    """

    template_fields: Sequence[str] = ("fail_on_overdue", "rlmm_conn_id")
    arguments = _LeaderRetentionArguments
    operator_extra_links = (LeadersLink(),)
    ui_color = "#d9d2e9"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self, *, fail_on_overdue: bool | str = True, rlmm_conn_id: str = "rlmm_default", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.fail_on_overdue = fail_on_overdue
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.core.plans.plan_files import write_document
        from airflow_provider_rlmm.features.retention.leader_document import LEADER_RETENTION_DOCUMENT
        from airflow_provider_rlmm.features.retention.steps import report_leaders, retention_of_leaders

        read, name = self.read_arguments(), artifact_name(context)
        uri = artifact_uri(name)
        with session_of(context, read.rlmm_conn_id, CleanerLimits(), dry_run=True) as session, step(uri, "leaders"):
            report = report_leaders(session, retention_of_leaders(session), read.rlmm_conn_id)
        write_document(uri, LEADER_RETENTION_DOCUMENT, report.to_json())
        LeadersLink.persist(context, name)
        send_leader_metrics(report)
        self._say(report)
        counts = {"all": report.all, "at_least": report.at_least, "unresolved": report.unresolved}
        sizes = {
            "due": report.goes,
            "overdue": report.overdue,
            "leaked": report.leaked,
            "dangling": report.dangling,
            "not_tiered": report.not_tiered,
        }
        counts |= {
            f"{what}_{unit}": getattr(count, unit) for what, count in sizes.items() for unit in ("segments", "bytes")
        }
        counts["hanging"] = report.hanging_partitions or 0
        result = self.told({**counts, "not_judged": report.not_judged, "report": uri})
        judgement = judged(self.log, report.problems(), report.cluster_id) if read.fail_on_overdue else Judgement()
        if judgement.failing:
            raise LeaderStuckError(f"{judgement.headline()} The report is {uri}. {HOW_TO_ACKNOWLEDGE}")
        return result

    def _say(self, report: ReportedLeaders) -> None:
        """Say in the log what cannot be told, and what no leader will ever delete."""
        say = self.log.warning
        for one in report.listed_unresolved:
            are = number_of(one.partitions, "user partition is", "user partitions are")
            say("%s: %s unresolved, from %d on: %s", one.topic, are, one.first, one.why)
        if report.not_told:
            they = agreeing(report.not_told, "it", "they")
            say("nothing is told of %s: %s may not be described", number_of(report.not_told, "topic"), they)
        if count := report.not_judged:
            of = number_of(count, "user partition")
            say("of %s it cannot be told whether anything is overdue: %s", of, report.why_not_judged)
        for leaked in report.listed_leaked:
            say(
                "%s, partition %d: %s, %s, leaked: Kafka lists them for none of their leader epochs",
                leaked.topic, leaked.partition, number_of(leaked.segments, "segment"), human_bytes(leaked.bytes),
            )  # fmt: skip
