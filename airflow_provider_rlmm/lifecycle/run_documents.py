# SPDX-License-Identifier: Apache-2.0
"""
What the tasks of a run leave in its folder, read back: the plan, the marker's document, one per cleaned metadata partition.

What is missing or cannot be read is noted and never an error: whoever reads them writes the report of a run that may have
gone wrong anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.lifecycle.marker import MarkReport
from airflow_provider_rlmm.lifecycle.plan_files import read_document, read_plan
from airflow_provider_rlmm.lifecycle.report_form import check_mark, check_part
from airflow_provider_rlmm.lifecycle.reports import refusal_of_dict
from airflow_provider_rlmm.policy import strict_json
from airflow_provider_rlmm.policy.attention import Attention, RunProblem
from airflow_provider_rlmm.policy.plan import Count, PlanSummary
from airflow_provider_rlmm.policy.refusals import Refusal

CHECK_DOCUMENT = "check.json"
MARK_DOCUMENT = "mark.json"
DOCTOR_DOCUMENT = "doctor.json"
REPORT_DOCUMENT = "report.json"
NO_REPORT = "its cleaning task left no report"


def part_name(metadata_partition: int) -> str:
    """
    Return the name of the document that the cleaning of a metadata partition leaves.

    :param metadata_partition: which one.
    """
    return f"clean-{metadata_partition}.json"


def mark_document(report: MarkReport, cluster_id: str) -> dict[str, Any]:
    """
    Return what the marker leaves for the report of its run.

    :param report: what it did.
    :param cluster_id: the cluster.
    """
    return {
        "cluster_id": cluster_id,
        "dry_run": report.dry_run,
        "marked": len(report.marked),
        "already_marked": report.already_marked,
        "refusals": [asdict(r) for r in report.refusals],
    }


@dataclass(slots=True)
class RunDocuments:
    """
    What the tasks of a run left.

    :param uri: of the folder of the run.
    :param plan: its plan, ``None`` where there is none that can be read; ``no_plan`` says why.
    :param mark: the marker's document.
    :param doctor: the doctor's, where the run has one.
    :param parts: metadata partition → its report.
    :param absent: metadata partition that was planned → why it has no report.
    :param unreadable: what is there and cannot be read, or ought to be there.
    """

    uri: str
    plan: PlanSummary | None = None
    no_plan: str = ""
    mark: dict[str, Any] | None = None
    doctor: dict[str, Any] | None = None
    parts: dict[int, dict[str, Any]] = field(default_factory=dict)
    absent: dict[int, str] = field(default_factory=dict)
    unreadable: list[Attention] = field(default_factory=list)

    @classmethod
    def read(cls, uri: str, *, marked: bool, check_doctor: Callable[[Mapping[str, Any]], None]) -> RunDocuments:
        """
        Read them.

        :param uri: of the folder of the run.
        :param marked: whether the run has a marker: it leaves a document if it gets to its end.
        :param check_doctor: raises ``ValueError`` for what is no diagnosis.
        """
        run = cls(uri)
        try:
            run.plan = read_plan(uri)
        except PlanError as e:
            run.no_plan = str(e)
        run.mark = run._document(MARK_DOCUMENT, check_mark, missing=marked and run.plan is not None)
        run.doctor = run._document(DOCTOR_DOCUMENT, check_doctor)
        for metadata_partition in sorted(run.plan.by_metadata_partition if run.plan else ()):
            run._read_part(metadata_partition)
        return run

    @property
    def cluster_id(self) -> str | None:
        """The cluster, ``None`` where no document tells."""
        if self.plan is not None:
            return self.plan.cluster_id
        return self.mark["cluster_id"] if self.mark else None

    @property
    def stopped(self) -> bool:
        """Whether the plan is larger than the limit that it was judged by."""
        return self.plan is not None and self.plan.blast_radius is not None and not self.plan.within_blast_radius

    @property
    def not_planned(self) -> tuple[Refusal, ...]:
        """The planner's refusals."""
        return self.plan.refusals if self.plan else ()

    @property
    def not_marked(self) -> tuple[Refusal, ...]:
        """The marker's refusals."""
        return tuple(refusal_of_dict(r) for r in self.mark["refusals"]) if self.mark else ()

    @property
    def dry_runs(self) -> frozenset[bool]:
        """What the tasks say that they were."""
        documents = (*self.parts.values(), *([self.mark] if self.mark else []))
        return frozenset(d["dry_run"] for d in documents)

    def planned(self, metadata_partition: int) -> Count:
        """
        Return what was planned.

        :param metadata_partition: where.
        """
        nothing = Count(0, 0)
        return self.plan.by_metadata_partition.get(metadata_partition, nothing) if self.plan else nothing

    def _read_part(self, metadata_partition: int) -> None:
        def check(document: Mapping[str, Any]) -> None:
            check_part(document)
            if document["metadata_partition"] != metadata_partition:
                raise ValueError(f"it is that of metadata partition {document['metadata_partition']}")

        name, known = part_name(metadata_partition), len(self.unreadable)
        part = self._document(name, check, metadata_partition)
        if part is not None:
            self.parts[metadata_partition] = part
        elif len(self.unreadable) > known:
            self.absent[metadata_partition] = f"the report of its cleaning task, {name}, cannot be read"
        elif self.stopped:
            self.absent[metadata_partition] = "it was not cleaned: the run was stopped by its blast radius"
        else:
            self.absent[metadata_partition] = NO_REPORT

    def _document(
        self,
        name: str,
        check: Callable[[Mapping[str, Any]], None],
        metadata_partition: int | None = None,
        missing: bool = False,
    ) -> dict[str, Any] | None:
        """Return a document, ``None`` where there is none; one that cannot be read, or is ``missing``, is noted."""
        try:
            found = read_checked(self.uri, name, check)
        except PlanError as e:
            self.unreadable.append(_unreadable(name, str(e), metadata_partition))
            return None
        if found is None and missing:
            self.unreadable.append(_unreadable(name, "it is not there, though its task ran", metadata_partition))
        return found


def read_checked(uri: str, name: str, check: Callable[[Mapping[str, Any]], None]) -> dict[str, Any] | None:
    """
    Read a document of a run, ``None`` where there is none.

    :param uri: of the folder of the run.
    :param name: file name.
    :param check: raises ``ValueError`` where it does not have its form.
    :raises PlanError: if it is there and cannot be read, or does not have its form.
    """
    try:
        document = strict_json.parse_object(read_document(uri, name))
        check(document)
    except PlanError as e:
        if isinstance(e.__cause__, FileNotFoundError):
            return None
        raise
    except ValueError as e:
        raise PlanError(f"{uri}/{name} does not have the expected form: {e}") from e
    return document


def _unreadable(name: str, why: str, metadata_partition: int | None) -> Attention:
    todo = "find out what happened to it: what it was to say is not in this report"
    return Attention(
        RunProblem.UNREADABLE.value, name, why, todo, metadata_partition=metadata_partition, acknowledgeable=False
    )
