# SPDX-License-Identifier: Apache-2.0
"""
What is left of a run when its own folder is gone: one small document, never changed, that lists and charts are made of.

It is for people. Nothing that deletes reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import AbsentAs, Number, Text, reader_of, sealed_text
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.approval import APPROVE
from airflow_provider_rlmm.core.plans.counts import Count

RUN_SUMMARY_FORMAT = 1
"""Version of the document; one of another version is not read."""

RUNS_FOLDER = "runs"
MAX_RUN_SUMMARY_BYTES = 256 * 2**10
MAX_HEADLINE = 1_000

_NAME = re.compile(r"([0-9]{15})\.([A-Za-z0-9][A-Za-z0-9._-]{0,127})\.json")


class RunKind(StrEnum):
    """What a run was for."""

    CLEANER = "cleaner"
    RETENTION = "retention"
    SCRUB = "scrub"
    DOCTOR = "doctor"
    CONTENTS = "contents"


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCESS = "success"
    FAILED = "failed"  # it needs a person


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a run has deleted; in a dry run, what it would have."""

    segments: int
    objects: int
    bytes: int


class Done(StrEnum):
    """What a run has done about a topic; in a dry run, what it would have done."""

    DELETED = "deleted"  # segments of it
    REFUSED = "refused"  # nothing: something stands against it
    MARKED = "marked"  # it is known to be gone since then


@dataclass(frozen=True, slots=True)
class TouchedTopic:
    """A topic, and what a run has done about it; in a dry run, what it would have done."""

    topic: Text  # its name, cut where it is longer than any that Kafka allows
    topic_id: Text  # in Kafka's form
    done: Done
    segments: int  # that were deleted, marked, or are left
    bytes: int  # their sizes, summed; 0 where the run does not know


MAX_TOUCHED = 20
"""Topics that a summary names, at most: its report names all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """
    The document of a run.

    :param cluster_id: the cluster.
    :param connection: by which it was reached: an Airflow connection id, or what the command was told.
    :param dag_id: of the run; of the command, ``rlmm``.
    :param run_id: of the run.
    :param artifact: name of the folder of the run below the work folder.
    :param kind: what it was for.
    :param began_at_ms: ms since the epoch.
    :param ended_at_ms: ms since the epoch.
    :param dry_run: whether it was to change nothing.
    :param outcome: how it ended.
    :param headline: what came of it, in one sentence.
    :param needs_person: how many things need a person.
    :param deleted: what it deleted.
    :param planned: what it planned to delete.
    :param refusals: how many things it refused or left, waits not among them.
    :param stored: all segments that are not finished, ``None`` where the run does not know.
    :param orphaned: those of topic ids that the cluster lacks, ``None`` where the run does not know.
    :param unseen: those of which it cannot be told whether they are orphaned, ``None`` where the run does not know.
    :param waiting: those that wait for ``min_absence``, ``None`` where the run does not know.
    :param deleting: those of user partitions whose deletion was started, ``None`` where the run does not know.
    :param oldest_orphan_ms: time of the oldest orphaned segment's newest record, ms since the epoch.
    :param critical: findings of the doctor that need a person, ``None`` where no doctor was asked.
    :param out_of_service: metadata partitions that are out of service, ``None`` where the run does not know.
    :param quarantined: records that cannot be applied, ``None`` where the run does not know.
    :param unsized: segments of which the log tells no size, ``None`` where the run does not know.
    :param steps: name of a step → seconds that it took.
    :param documents: page → name of the artifact that it shows.
    :param topics: what it has done about which topics, :data:`MAX_TOUCHED` at most: what it deleted first, then what it
        refused, then what it marked, the largest of each first; ``None`` where the run does not say it.
    :param more_topics: how many topics besides are known, ``None`` likewise.
    :param approved: ``Approve`` or ``Reject``, where a person was asked; else ``None``. Earlier releases did not
        say it.
    :param approved_by: who has answered, ``None`` where no answer came in time.
    :param only: the topics that it was for, as a person wrote them; empty where it was for all, ``None`` where the run
        does not say it: it was for all, or is of an earlier release.
    """

    cluster_id: Text
    connection: Text
    dag_id: Text
    run_id: Text
    artifact: Text
    kind: RunKind
    began_at_ms: int
    ended_at_ms: int
    dry_run: bool
    outcome: RunOutcome
    headline: Text
    needs_person: int = 0
    deleted: Deleted = Deleted(0, 0, 0)
    planned: Count = field(default=Count(0, 0))
    refusals: int = 0
    stored: Count | None = None
    orphaned: Count | None = None
    unseen: Annotated[Count | None, AbsentAs(None)] = None
    waiting: Count | None = None
    deleting: Count | None = None
    oldest_orphan_ms: int | None = None
    critical: int | None = None
    out_of_service: int | None = None
    quarantined: int | None = None
    unsized: Annotated[int | None, AbsentAs(None)] = None
    steps: Mapping[Text, Number] = field(default_factory=dict)
    documents: Mapping[Text, Text] = field(default_factory=dict)
    topics: Annotated[tuple[TouchedTopic, ...] | None, AbsentAs(None)] = None
    more_topics: Annotated[int | None, AbsentAs(None)] = None
    approved: Annotated[Text | None, AbsentAs(None)] = None
    approved_by: Annotated[Text | None, AbsentAs(None)] = None
    only: Annotated[tuple[Text, ...] | None, AbsentAs(None)] = None

    @property
    def has_deleted(self) -> bool:
        """Whether it has deleted anything: no dry run has."""
        return not self.dry_run and (self.deleted.segments > 0 or self.deleted.objects > 0)

    @property
    def approval_in_words(self) -> str:
        """Who has approved it, or who has not; empty where no person was asked."""
        if self.approved is None:
            return ""
        if self.approved_by is None:
            return "no answer in time"
        return f"{'approved' if self.approved == APPROVE else 'rejected'} by {in_quotes(self.approved_by)}"

    @property
    def file_name(self) -> str:
        """Name of the document in the folder of runs: names sort by the time at which the runs ended."""
        return f"{self.ended_at_ms:015}.{self.artifact}.json"

    def to_json(self) -> str:
        """
        Return the document.

        :raises DocumentError: if it contradicts itself: it could not be read.
        """
        return sealed_text(
            self, RUN_SUMMARY_FORMAT, self.from_json, DocumentError, f"the summary of run {self.artifact}"
        )

    @classmethod
    def from_json(cls, text: str) -> RunSummary:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not, to the letter.
        """
        try:
            document = strict.unsealed(text, RUN_SUMMARY_FORMAT)
            summary = _READ(document, "run")
            if not _NAME.fullmatch(summary.file_name):
                raise ValueError(f"run.artifact is {strict.shown(summary.artifact)}, which names no run")
        except ValueError as e:
            raise DocumentError(f"the summary of a run cannot be read ({e})") from e
        return summary


def run_of_file(name: str) -> tuple[int, str] | None:
    """Return when the run of a document ended (ms since the epoch), and its artifact; ``None`` where it is of no run."""
    found = _NAME.fullmatch(name)
    return (int(found[1]), found[2]) if found else None


_READ = reader_of(RunSummary)
