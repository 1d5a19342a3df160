# SPDX-License-Identifier: Apache-2.0
"""What of a diagnosis of the metadata topic needs a person."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.runs.attention import Attention, RunProblem
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis, ReportedFinding
from airflow_provider_rlmm.features.doctor.findings import FindingKind, Severity

_UNUSABLE = frozenset(
    {
        FindingKind.TOMBSTONE, FindingKind.MALFORMED, FindingKind.UNKNOWN_API_KEY, FindingKind.NEWER_VERSION,
        FindingKind.SNAPSHOT,
    }
)  # fmt: skip
"""What the doctor says of records that everybody else calls quarantined: one problem must not need two acknowledgements."""


def criticals_of(diagnosis: ReportedDiagnosis | None, *, unusable_are_counted: bool = False) -> Iterator[Attention]:
    """
    Yield the doctor's critical findings, and one for those that its document has no room for.

    :param diagnosis: the doctor's document, ``None`` where there is none.
    :param unusable_are_counted: whether another part counts the records that cannot be used: of those that the document has
        no room for none counts a second time then.
    """
    if diagnosis is None:
        return
    listed = [finding for finding in diagnosis.findings if finding.severity is Severity.CRITICAL]
    for finding in listed:
        where = f"metadata partition {finding.metadata_partition} offset {finding.offset}"
        explanation = diagnosis.explanations[finding.kind]
        yield Attention(
            RefusalKind.QUARANTINED.value if finding.kind in _UNUSABLE else finding.kind,
            _subject_of(finding) if finding.topic else where,
            f"{finding.kind}: {finding.detail}. {explanation.meaning}",
            explanation.what_to_do,
            finding.topic,
            finding.metadata_partition,
            finding.offset,
        )
    count = diagnosis.critical - len(listed)
    if unusable_are_counted:
        unusable = sum(diagnosis.counts.get(kind, 0) for kind in _UNUSABLE)
        count -= max(0, unusable - sum(finding.kind in _UNUSABLE for finding in listed))
    if count > 0:
        more = f"{number_of(count, 'more critical finding')} of the doctor"
        why = "its document lists the first ones of each kind"
        yield Attention(
            RunProblem.CRITICAL_NOT_LISTED.value,
            more,
            why,
            "have the doctor list more",
            acknowledgeable=False,
            count=count,
        )


def _subject_of(finding: ReportedFinding) -> str:
    partition = "" if finding.partition is None else f"-{finding.partition}"
    return f"{finding.topic_id}:{finding.topic}{partition}"
