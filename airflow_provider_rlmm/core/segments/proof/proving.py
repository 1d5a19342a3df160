# SPDX-License-Identifier: Apache-2.0
"""
The proof of one segment by its contents: every byte of its log is read once, chunk by chunk, beside its indexes and metadata.

It needs no metadata topic: what a catalogue knows of a segment is enough, and what that does not know the proof tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DamagedObjectError
from airflow_provider_rlmm.core.segments.proof.batches_check import with_right_checksums
from airflow_provider_rlmm.core.segments.proof.fields import SeenFields, SegmentFields, SegmentSource, Surroundings
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding, Findings
from airflow_provider_rlmm.core.segments.proof.log_walk import CHUNK_BYTES, LogWalk
from airflow_provider_rlmm.core.segments.proof.segment_checks import SegmentChecks
from airflow_provider_rlmm.core.storage.index_type import IndexType


@dataclass(frozen=True, slots=True)
class SegmentProof:
    """
    What the contents of a segment prove.

    :param findings: what is wrong, as :class:`~airflow_provider_rlmm.core.segments.proof.findings.Findings` keeps it.
    :param seen: what the log says.
    :param not_compared: indexes that could not be looked at → why.
    :param log_bytes: bytes of the log that were read.
    :param lost_bytes: bytes of them in which no batch was found.
    """

    findings: Findings
    seen: SeenFields
    not_compared: dict[IndexType, str]
    log_bytes: int
    lost_bytes: int

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings.counts


def prove_segment(
    fields: SegmentFields,
    source: SegmentSource,
    around: Surroundings | None = None,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> SegmentProof:
    """
    Read a segment and compare its parts.

    :param fields: what is said of it.
    :param source: hands out its bytes.
    :param around: what is known of the log around it.
    :param chunk_bytes: bytes of the log that are fetched at once.
    :return: what was found; a missing log is raised by the source.
    :raises UnsupportedMessageFormatError: if a batch is whole and older than message format v2, or all is encrypted.
    :raises RlmmError: if the source does not answer.
    """
    findings, not_compared = Findings(), dict[IndexType, str]()
    indexes = _indexes(source, findings, not_compared)
    checks = SegmentChecks(fields, around or Surroundings(), indexes, findings)
    walk = LogWalk(source, fields.size_in_bytes, checks.positions, findings, chunk_bytes)
    for data, headers in walk.batches():
        if headers is None:
            checks.lose()
            continue
        if not with_right_checksums(data, headers, findings):
            checks.lose()
        checks.take(data, headers)
    return SegmentProof(findings, checks.finish(), not_compared, walk.end or 0, walk.lost_bytes)


def _indexes(source: SegmentSource, findings: Findings, not_compared: dict[IndexType, str]) -> dict[IndexType, bytes]:
    """Return the indexes that are there; one that must be and is not is a finding."""
    found: dict[IndexType, bytes] = {}
    for index_type in IndexType:
        try:
            data = source.index(index_type)
        except DamagedObjectError as e:
            findings(Finding(kind=DamageKind.PACKING, part=index_type, position=e.position, why=str(e)))
        except ConfigurationError as e:
            not_compared[index_type] = str(e)
        else:
            if data is not None or index_type is IndexType.TRANSACTION:
                found[index_type] = data or b""
            else:
                findings(Finding(kind=DamageKind.MISSING, part=index_type, why=f"there is no {index_type.value} index"))
    return found
