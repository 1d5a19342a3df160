# SPDX-License-Identifier: Apache-2.0
"""Commands that look for what is wrong: check, doctor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, max_copy_option, option_of, with_cluster, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import open_session
from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.features.doctor.rules import LIMIT_PER_KIND, MIN_AGE

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.doctor.findings import Diagnosis


@command()
@with_storage
def check(invocation: Invocation) -> int:
    """Look at cluster, metadata topic, permissions and storage, and say what is missing; nothing is changed."""
    from airflow_provider_rlmm.core.runs.connection_check import ConnectionFinding
    from airflow_provider_rlmm.features.cleanup.whole_check import check_whole

    access, work_uri = invocation.access(), invocation.work_uri
    with working() as shown:
        findings = check_whole(access, lambda: open_session(invocation, CleanerLimits(), shown))
    findings = [*findings, ConnectionFinding(True, _work_folder(work_uri))]
    rows = [{"good": good, "finding": sentence} for good, sentence in findings]
    if invocation.output.as_json:
        invocation.output.document({"good": all(row["good"] for row in rows), "findings": rows})
    for row in rows:
        invocation.output.line(f"{'ok ' if row['good'] else 'BAD'}  {row['finding']}", red=not row["good"])
    return ExitCode.DONE if all(row["good"] for row in rows) else ExitCode.NEEDS_A_PERSON


@command()
@option_of(MIN_AGE, in_bounds=True, has_default=True)
@max_copy_option
@option_of(LIMIT_PER_KIND, in_bounds=True, has_default=True)
@with_cluster
def doctor(invocation: Invocation, min_age_ms: int, max_copy_ms: int, limit_per_kind: int) -> int:
    """Examine every record of the metadata topic: poison pills, wrong steps, unfinished work; nothing is changed."""
    from airflow_provider_rlmm.core.base.documents import plain_of
    from airflow_provider_rlmm.core.runs.floors import reading
    from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
    from airflow_provider_rlmm.features.doctor.examine import examine
    from airflow_provider_rlmm.overview.leaders import remembered_leaders

    access = invocation.access()
    with working() as shown, reading(access, invocation.work_uri) as known:
        diagnosis = examine(
            known,
            access.get_cluster_topics(),
            min_age_ms=min_age_ms,
            max_copy_ms=max_copy_ms,
            limit_per_kind=limit_per_kind,
            on_progress=shown.on_read,
            leaders=partial(remembered_leaders, invocation.work_uri),
        )
    if invocation.output.as_json:
        invocation.output.document(plain_of(ReportedDiagnosis.of(diagnosis)))
    else:
        _print(invocation, diagnosis)
    return ExitCode.NEEDS_A_PERSON if diagnosis.critical else ExitCode.DONE


def _work_folder(work_uri: str) -> str:
    from airflow_provider_rlmm.core.base.file_systems import folder_in_words

    return f"The work folder is {folder_in_words(work_uri)}."


def _print(invocation: Invocation, diagnosis: Diagnosis) -> None:
    from airflow_provider_rlmm.features.doctor.findings import EXPLANATIONS

    output = invocation.output
    output.line(_work_folder(invocation.work_uri))
    output.line(
        f"{number_of(diagnosis.records, 'record was', 'records were')} examined, "
        f"{number_of(diagnosis.segments, 'segment is', 'segments are')} not finished."
    )
    output.line(f"The metadata topic is {diagnosis.era}.")
    for finding in diagnosis.findings:
        output.line(str(finding), red=finding.severity == "CRITICAL")
    for kind, count in diagnosis.counts.items():
        explanation = EXPLANATIONS[kind]
        output.line(f"{kind} ({count:,}): {explanation.meaning} What to do: {explanation.what_to_do}")
    for recovery in diagnosis.recoveries:
        output.line(f"What recovery costs: {recovery}")
    output.line(str(diagnosis.preflight))
    output.line(
        "Nothing is wrong."
        if not diagnosis.counts
        else f"{number_of(diagnosis.critical, 'finding needs', 'findings need')} a person."
    )


COMMANDS = (check, doctor)
