# SPDX-License-Identifier: Apache-2.0
"""Looks at many segments, some at once: a damage counts if a second look finds one, too."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from airflow_provider_rlmm.core.base.ahead import done_ahead
from airflow_provider_rlmm.core.base.errors import (
    ArchivedObjectError,
    DamagedObjectError,
    EncryptedSegmentError,
    RecordsTooLargeError,
    RemoteObjectNotFoundError,
    RlmmError,
    StorageError,
    StorageRootError,
    UnsafeObjectKeyError,
    UnsupportedMessageFormatError,
)
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentMetadata
from airflow_provider_rlmm.core.segments.indexes.producer_snapshot import ProducerSnapshot
from airflow_provider_rlmm.core.segments.pacing import FailuresInARow
from airflow_provider_rlmm.core.segments.proof.fields import SegmentFields, Surroundings
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind, Finding
from airflow_provider_rlmm.core.segments.proof.proving import SegmentProof, prove_segment
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.features.contents.chosen import CopiedSegment
from airflow_provider_rlmm.features.contents.manifests import compare_manifest
from airflow_provider_rlmm.features.contents.rules import AT_ONCE, Outcome
from airflow_provider_rlmm.features.contents.storage_source import PacedStorage, StoredSegment

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """
    What a look at one segment has said.

    :param metadata: the segment.
    :param outcome: in one word; what is damaged or missing is judged again once the log was read on.
    :param why: the reason, where its contents could not be judged.
    :param findings: the first things that are wrong.
    :param found: how many there are.
    :param log_bytes: bytes of its log that were read.
    :param not_compared: indexes that could not be looked at, as it is not known where they lie.
    """

    metadata: RemoteLogSegmentMetadata
    outcome: Outcome
    why: str = ""
    findings: tuple[Finding, ...] = ()
    found: int = 0
    log_bytes: int = 0
    not_compared: tuple[IndexType, ...] = field(default=())


class Looking:
    """
    Looks at segments.

    :param storage: has them.
    :param may_have_gaps: whether offsets may be missing: topics that were compacted once.
    :param at_once: how many are looked at at once; with 1 everything is done by the thread of the caller.
    """

    def __init__(self, storage: PacedStorage, *, may_have_gaps: bool = False, at_once: int = AT_ONCE) -> None:
        self._storage = storage
        self._may_have_gaps = may_have_gaps
        self._at_once = at_once
        self._failures = FailuresInARow()

    def of(self, segments: Iterable[CopiedSegment]) -> Iterator[Look]:
        """
        Yield a look at each segment, in their order.

        :param segments: only as many are asked for ahead as are looked at at once.
        :raises StorageRootError: if the storage root is gone.
        :raises StorageError: if the storage hands out nothing many times in a row.
        """
        for _, future in done_ahead(segments, self._look, self._at_once, "rlmm-contents"):
            yield self._counted(*future.result())

    def _counted(self, look: Look, error: StorageError | None) -> Look:
        if error is None:
            self._failures.ended()
        else:
            self._failures.met(error)
        return look

    def _look(self, one: CopiedSegment) -> tuple[Look, StorageError | None]:
        metadata = one.metadata
        try:
            return self._judged(one), None
        except RemoteObjectNotFoundError as e:
            return Look(metadata, Outcome.MISSING, str(e)), None
        except ArchivedObjectError as e:
            return Look(metadata, Outcome.ARCHIVED, str(e)), None
        except EncryptedSegmentError as e:
            return Look(metadata, Outcome.ENCRYPTED, str(e)), None
        except (UnsupportedMessageFormatError, RecordsTooLargeError) as e:
            return Look(metadata, Outcome.OTHER_FORMAT, str(e)), None
        except (StorageRootError, UnsafeObjectKeyError):
            raise
        except StorageError as e:
            return Look(metadata, Outcome.UNREAD, str(e)), e

    def _judged(self, one: CopiedSegment) -> Look:
        look = self._proved(one)
        if look.outcome is Outcome.DAMAGED:
            # What was damaged on its way is right the second time.
            logger.info("%s: %s; it is looked at once more", one.metadata.remote_log_segment_id, look.findings[0].why)
            look = self._proved(one)
        return look

    def _proved(self, one: CopiedSegment) -> Look:
        around = Surroundings(
            lineage=one.lineage, producers_before=self._producers_before(one), may_have_gaps=self._may_have_gaps
        )
        try:
            proof = prove_segment(SegmentFields.of(one.metadata), StoredSegment(self._storage, one.metadata), around)
            compare_manifest(self._storage, one.metadata, proof.findings)
        except DamagedObjectError as e:
            finding = Finding(kind=DamageKind.PACKING, position=e.position, why=str(e))
            return Look(one.metadata, Outcome.DAMAGED, findings=(finding,), found=1)
        return _look_of(one.metadata, proof)

    def _producers_before(self, one: CopiedSegment) -> ProducerSnapshot | None:
        """Return the producers where the segment begins; where they cannot be read less can be told, nothing else."""
        if one.before is None:
            return None
        try:
            data = StoredSegment(self._storage, one.before).index(IndexType.PRODUCER_SNAPSHOT)
            return None if data is None else ProducerSnapshot.parse(data, location="the snapshot of the segment before")
        except RlmmError as e:
            logger.info("%s: the producers before it are not known: %s", one.metadata.remote_log_segment_id, e)
            return None


def _look_of(metadata: RemoteLogSegmentMetadata, proof: SegmentProof) -> Look:
    only_missing = proof.findings.counts and set(proof.findings.counts) == {DamageKind.MISSING}
    outcome = Outcome.MISSING if only_missing else Outcome.RIGHT if proof.is_right else Outcome.DAMAGED
    return Look(
        metadata,
        outcome,
        "; ".join(finding.why for finding in proof.findings.kept) if only_missing else "",
        tuple(proof.findings.kept),
        proof.findings.counts.total(),
        proof.log_bytes,
        tuple(proof.not_compared),
    )
