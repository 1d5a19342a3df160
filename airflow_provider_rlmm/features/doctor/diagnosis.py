# SPDX-License-Identifier: Apache-2.0
"""
The document of a diagnosis: what the doctor found, with the words that explain it.

It has no version. Later releases may add fields, so unknown ones are left out; everything else is strict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.clock import since
from airflow_provider_rlmm.core.base.documents import AbsentAs, Text, reader_of
from airflow_provider_rlmm.features.doctor.findings import EXPLANATIONS, Diagnosis, Finding, Recovery, Severity
from airflow_provider_rlmm.features.doctor.preflight import CompactionPreflight


def _of_bits(bits: int) -> strict.Reader[int]:
    """Return a reader of a signed integer, as a record holds it: what a record says may be less than nothing."""

    def read(value: object, what: str) -> int:
        if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(f"{what} is {strict.shown(value)}, not an integer of {bits} bits")
        return value

    return read


Int32 = Annotated[int, _of_bits(32)]
Int64 = Annotated[int, _of_bits(64)]


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A :class:`~airflow_provider_rlmm.features.doctor.findings.Finding`, and its time in words."""

    kind: Text
    severity: Severity
    metadata_partition: int | None
    offset: int | None
    topic_id: Text | None
    topic: Text | None
    partition: Int32 | None
    segment_id: Text | None
    since_ms: Int64 | None
    detail: Text
    since: Text

    @classmethod
    def of(cls, finding: Finding) -> ReportedFinding:
        """
        Report a finding.

        :param finding: what was found.
        """
        return cls(
            finding.kind.value,
            finding.severity,
            finding.metadata_partition,
            finding.offset,
            finding.topic_id,
            finding.topic,
            finding.partition,
            finding.segment_id,
            finding.since_ms,
            finding.detail,
            since(finding.since_ms),
        )


@dataclass(frozen=True, slots=True)
class ReportedRecovery:
    """A :class:`~airflow_provider_rlmm.features.doctor.findings.Recovery`, and the same in words."""

    metadata_partition: int
    delete_before_offset: int
    records: int
    segments: int
    bytes: Int64
    user_partitions: int
    refused: tuple[Text, ...]
    usable: int
    text: Text

    @classmethod
    def of(cls, recovery: Recovery) -> ReportedRecovery:
        """
        Report what a recovery costs.

        :param recovery: of a metadata partition.
        """
        return cls(
            recovery.metadata_partition,
            recovery.delete_before_offset,
            recovery.records,
            recovery.segments,
            recovery.bytes,
            recovery.user_partitions,
            recovery.refused,
            recovery.usable,
            str(recovery),
        )


@dataclass(frozen=True, slots=True)
class ReportedPreflight:
    """A :class:`~airflow_provider_rlmm.features.doctor.preflight.CompactionPreflight`, and the same in words."""

    keyless_records: int
    newest_ms: Int64 | None
    ours: int
    newest_of_ours_ms: Int64 | None
    longest_topic: Text | None
    longest_retention_ms: Int64 | None
    text: Text

    @classmethod
    def of(cls, preflight: CompactionPreflight) -> ReportedPreflight:
        """
        Report what is lost if the topic is ever compacted.

        :param preflight: of the metadata topic.
        """
        keyless, longest = preflight.keyless, preflight.longest
        return cls(
            keyless.count,
            keyless.newest_ms,
            keyless.ours,
            keyless.newest_of_ours_ms,
            longest.topic if longest else None,
            longest.retention_ms if longest else None,
            str(preflight),
        )


@dataclass(frozen=True, slots=True)
class ReportedExplanation:
    """What a kind of finding means, and what an operator can do."""

    meaning: Text
    what_to_do: Text


@dataclass(frozen=True, slots=True)
class ReportedDiagnosis:
    """
    What the doctor says of a metadata topic, as people read it.

    :param cluster_id: the cluster.
    :param examined_at_ms: ms since the epoch.
    :param read_until: metadata partition → offset, exclusive, up to which was read.
    :param records: records read.
    :param segments: segments that are not finished.
    :param critical: number of findings that need a person, whether they are listed or not.
    :param counts: kind of finding → how many there are.
    :param findings: the first ones of each kind.
    :param recoveries: one per metadata partition with a record that ends brokers' consumers.
    :param explanations: kind of finding → what it means.
    :param preflight: what is lost if the topic is ever compacted; earlier releases did not say it.
    :param era: the era of the log, and what shows it; earlier releases did not say it.
    """

    cluster_id: Text
    examined_at_ms: int
    read_until: Mapping[int, int]
    records: int
    segments: int
    critical: int
    counts: Mapping[Text, int]
    findings: tuple[Annotated[ReportedFinding, reader_of(ReportedFinding, further=True)], ...]
    recoveries: tuple[Annotated[ReportedRecovery, reader_of(ReportedRecovery, further=True)], ...]
    explanations: Mapping[Text, Annotated[ReportedExplanation, reader_of(ReportedExplanation, further=True)]]
    preflight: Annotated[
        Annotated[ReportedPreflight, reader_of(ReportedPreflight, further=True)] | None, AbsentAs(None)
    ] = None
    era: Annotated[Text | None, AbsentAs(None)] = None

    @classmethod
    def of(cls, diagnosis: Diagnosis) -> ReportedDiagnosis:
        """
        Report a diagnosis.

        :param diagnosis: what the doctor says.
        """
        return cls(
            cluster_id=diagnosis.cluster_id,
            examined_at_ms=diagnosis.examined_at_ms,
            read_until=diagnosis.read_until,
            records=diagnosis.records,
            segments=diagnosis.segments,
            critical=diagnosis.critical,
            counts={kind.value: count for kind, count in diagnosis.counts.items()},
            findings=tuple(map(ReportedFinding.of, diagnosis.findings)),
            recoveries=tuple(map(ReportedRecovery.of, diagnosis.recoveries)),
            explanations={
                kind.value: ReportedExplanation(EXPLANATIONS[kind].meaning, EXPLANATIONS[kind].what_to_do)
                for kind in diagnosis.counts
            },
            preflight=ReportedPreflight.of(diagnosis.preflight),
            era=str(diagnosis.era),
        )


def read_diagnosis(document: Mapping[str, Any]) -> ReportedDiagnosis:
    """
    Read the document of a diagnosis.

    :param document: as it was written.
    :raises ValueError: naming the first field that is wrong, or a kind of finding that is not counted or not explained.
    """
    read = _READ(document, "diagnosis")
    if uncounted := sorted(read.explanations.keys() - read.counts.keys()):
        raise ValueError(f"diagnosis.explanations has {strict.shown(uncounted)}, which diagnosis.counts lacks")
    # Its page lists findings by what explains them: one without an explanation would not be seen.
    if unexplained := sorted({finding.kind for finding in read.findings} - read.explanations.keys()):
        raise ValueError(f"diagnosis.findings has {strict.shown(unexplained)}, which diagnosis.explanations lacks")
    return read


_READ = reader_of(ReportedDiagnosis, further=True)
