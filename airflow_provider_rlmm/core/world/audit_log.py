# SPDX-License-Identifier: Apache-2.0
"""
Writes the audit log: a batch is written down before its objects are deleted, and what became of it afterwards.

What a run deletes is in it however the run ends: where the first file cannot be written nothing of the batch is deleted.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from airflow_provider_rlmm.core.base.clock import Clock, monotonic_clock
from airflow_provider_rlmm.core.base.errors import AuditError, ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import create_file
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
from airflow_provider_rlmm.core.world.audit import (
    AUDIT_FOLDER,
    AuditName,
    AuditPhase,
    DeletionRecord,
    batch_name,
    day_of,
)
from airflow_provider_rlmm.core.world.audit_columns import Columns, audit_bytes, audit_table, with_columns
from airflow_provider_rlmm.core.world.audit_files import deletion_record
from airflow_provider_rlmm.core.world.run_identity import RunIdentity

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AuditBatch", "AuditFiles", "AuditLog"]


NOT_BEGUN: Final = "it could not be written down before, so nothing of it was deleted"


@dataclass(frozen=True, slots=True)
class AuditBatch:
    """A batch that is written down."""

    name: str  # of the batch within its run
    uri: str  # of the folder of its files
    began_ms: int  # proven time of its first file, ms since the epoch
    monotonic_ms: int  # the same moment by a clock that nothing sets
    rows: pa.Table  # what was written


class AuditLog(Protocol):
    """Where deletions are written down."""

    def before(self, segments: Columns) -> AuditBatch:
        """
        Write down what is about to be deleted.

        :param segments: columns of :data:`~airflow_provider_rlmm.core.world.audit.AUDIT_COLUMNS`, from
            ``metadata_partition`` to ``started_offset``.
        :raises AuditError: if it cannot be written: nothing of it may be deleted.
        """

    def deletions(self, segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
        """
        Tell what runs have written down about some segments, all runs together.

        :param segments: the segments.
        :param since_ms: none of them was deleted before this time, ms since the epoch.
        """

    def after(self, batch: AuditBatch, outcomes: Columns) -> None:
        """
        Write down what became of it.

        :param batch: what :meth:`before` returned.
        :param outcomes: the other columns, in the order of the batch.
        :raises AuditError: if it cannot be written: a person has to know.
        """


@dataclass(slots=True)
class AuditFiles:
    """
    An audit log in the work folder; one object for each try of a task.

    :param cluster_uri: folder of the cluster.
    :param cluster_id: the cluster.
    :param run: who deletes, and by which plan.
    :param source: the metadata partition, or :data:`~airflow_provider_rlmm.core.world.audit.SCRUB`.
    :param clock: proven time.
    """

    cluster_uri: str
    cluster_id: str
    run: RunIdentity
    source: int | str
    clock: Clock
    _began_at_ms: int = field(init=False)
    _token: str = field(init=False)
    _batches: int = 0

    def __post_init__(self) -> None:
        self._began_at_ms, self._token = self.clock(), uuid4().hex[:8]

    def before(self, segments: Columns) -> AuditBatch:
        """See :class:`AuditLog`."""
        now_ms, name = self.clock(), batch_name(self.source, self._began_at_ms, self._token, self._batches)
        self._batches += 1
        run = self.run
        constants = {
            "dag_id": run.dag_id, "run_id": run.run_id, "artifact": run.artifact, "triggered_by": run.triggered_by,
            "approved_by": run.approved_by, "plan_id": run.plan_id, "plan_sha256": run.plan_sha256,
            "cluster_id": self.cluster_id, "batch": name, "time_ms": now_ms, "phase": AuditPhase.BEFORE.value,
        }  # fmt: skip
        uri = f"{self.cluster_uri}/{AUDIT_FOLDER}/{day_of(now_ms)}"
        batch = AuditBatch(name, uri, now_ms, monotonic_clock(), audit_table({**constants, **segments}))
        try:
            self._write(batch, AuditPhase.BEFORE, batch.rows)
        except AuditError as e:
            # It may be there all the same, where only the answer was lost. Nothing of it is deleted, and it must not look
            # like the batch of a killed run. A file that was there before is another program's.
            if not isinstance(e.__cause__, FileExistsError):
                with suppress(AuditError):
                    self.after(batch, {"outcome": "UNKNOWN", "why": NOT_BEGUN})
            raise
        return batch

    def deletions(self, segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
        """See :class:`AuditLog`."""
        return deletion_record(self.cluster_uri, self.cluster_id, segments, since_ms)

    def after(self, batch: AuditBatch, outcomes: Columns) -> None:
        """See :class:`AuditLog`."""
        time_ms = batch.began_ms + monotonic_clock() - batch.monotonic_ms
        changed = {"time_ms": time_ms, "phase": AuditPhase.AFTER.value, **outcomes}
        self._write(batch, AuditPhase.AFTER, with_columns(batch.rows, changed))

    def _write(self, batch: AuditBatch, phase: AuditPhase, rows: pa.Table) -> None:
        name = str(AuditName(self.run.artifact, batch.name, phase))
        try:
            create_file(f"{batch.uri}/{name}", [audit_bytes(rows)])
        except (OSError, ConfigurationError) as e:
            raise AuditError(
                f"the audit log cannot be written ({batch.uri}/{name}: {e}); see that the work folder has room and may be "
                "written"
            ) from e
