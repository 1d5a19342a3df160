# SPDX-License-Identifier: Apache-2.0
"""A scrub of contents as an operator: are the bytes of copied segments what brokers have written?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import Context

from airflow_provider_rlmm.core.base.errors import DamagedContentsError
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.attention import Judgement
from airflow_provider_rlmm.observability.lineage import Place, Touched
from airflow_provider_rlmm.operators import arguments as given
from airflow_provider_rlmm.operators.checked import CheckedOperator
from airflow_provider_rlmm.operators.failing import HOW_TO_ACKNOWLEDGE, judged
from airflow_provider_rlmm.operators.history import facts_of, keep_summary
from airflow_provider_rlmm.operators.session import session_of
from airflow_provider_rlmm.settings import artifact_uri

__all__ = ["VerifyRemoteSegmentsOperator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifyArguments:
    topic: str | None = given.read_by(given.text_or_none, None)
    share: float = given.read_by(given.share, 1.0)
    allow_gaps: bool = given.read_by(given.flag, False)
    bytes_per_second: int | None = given.read_by(partial(given.optional_integer, minimum=1), None)
    fail_on_damage: bool = given.read_by(given.flag, True)
    rlmm_conn_id: str = given.read_by(given.text, "rlmm_default")


class VerifyRemoteSegmentsOperator(CheckedOperator[_VerifyArguments]):
    """
    Read copied segments and prove log, indexes and metadata by each other; nothing is written to Kafka or to the storage.

    What is damaged or missing counts only if the log, read again since, still calls the segment copied. Encrypted and
    archived segments are counted as what cannot be told. A sample looks first at what was not looked at for longest.

    :param topic: its name or its id in Kafka's text form; ``None`` for all.
    :param share: of each topic's segments that is looked at, above 0 and at most 1; one segment at least.
    :param allow_gaps: whether offsets may be missing: topics that were compacted once.
    :param bytes_per_second: the most that is fetched in a second; ``None`` for as much as the store gives.
    :param fail_on_damage: fail the task, after the report is written, as long as something needs a person and is not
        acknowledged (Airflow variable ``rlmm_acknowledgements``).
    :param rlmm_conn_id: connection of type ``rlmm``.
    :return: segments that are ``copied``, ``chosen`` and ``looked_at``, those of each outcome, in lower case, and the
        ``report``'s URI.
    :raises DamagedContentsError: saying first what to type, then what needs a person.
    :raises AirflowFailException: if the run's summary cannot be kept.
    :raises RlmmError: if the log cannot be read, or the storage hands out nothing.
    """

    template_fields: Sequence[str] = (
        "topic",
        "share",
        "allow_gaps",
        "bytes_per_second",
        "fail_on_damage",
        "rlmm_conn_id",
    )
    arguments = _VerifyArguments
    ui_color = "#d9d2e9"
    touched = Touched(reads=(Place.TOPIC, Place.STORAGE))

    def __init__(
        self,
        *,
        topic: str | None = None,
        share: float | str = 1.0,
        allow_gaps: bool | str = False,
        bytes_per_second: int | str | None = None,
        fail_on_damage: bool | str = True,
        rlmm_conn_id: str = "rlmm_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.share = share
        self.allow_gaps = allow_gaps
        self.bytes_per_second = bytes_per_second
        self.fail_on_damage = fail_on_damage
        self.rlmm_conn_id = rlmm_conn_id
        self.check_literals()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_provider_rlmm.features.contents.criticals import criticals_of
        from airflow_provider_rlmm.features.contents.report_document import CONTENTS_DOCUMENT
        from airflow_provider_rlmm.features.contents.rules import Choice
        from airflow_provider_rlmm.features.contents.steps import ContentsRequest, verify_contents
        from airflow_provider_rlmm.overview.run_summaries import contents_summary

        read, name = self.read_arguments(), given.artifact_name(context)
        uri = artifact_uri(name)
        choice = Choice(topics=() if read.topic is None else (read.topic,), share=read.share, seed=name)
        request = ContentsRequest(choice=choice, may_have_gaps=read.allow_gaps, bytes_per_second=read.bytes_per_second)
        with session_of(context, read.rlmm_conn_id, CleanerLimits(), dry_run=True) as session:
            report = verify_contents(session, uri, name, request)
        self.log.info("%s", report.share_in_words)
        where = f"{uri}/{CONTENTS_DOCUMENT}"
        result = self.told(
            {
                "copied": report.copied.segments,
                "chosen": report.chosen.segments,
                "looked_at": report.looked_at.segments,
                **{outcome.lower(): amount.segments for outcome, amount in report.outcomes.items()},
                "report": where,
            }
        )
        judgement = Judgement()
        if read.fail_on_damage:
            judgement = judged(self.log, criticals_of(report), report.cluster_id)
        else:
            for problem in report.problems():
                self.log.warning("needs a person: %s", problem)
        facts = facts_of(context, read.rlmm_conn_id)
        unkept = keep_summary(lambda: contents_summary(facts, report, judgement))
        if judgement.failing:
            said = f"{report.what_to_type[0].upper()}{report.what_to_type[1:]}. {next(report.problems(), '')}"
            raise DamagedContentsError(
                f"{said}. {judgement.headline()} The report is {where}. {HOW_TO_ACKNOWLEDGE} {unkept}".rstrip()
            )
        if unkept:
            raise AirflowFailException(unkept)
        return result
