# SPDX-License-Identifier: Apache-2.0
"""An audit log in memory, for tests and simulations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import Any

from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
from airflow_provider_rlmm.core.world.audit import AuditPhase, AuditRow, DeletionRecord, deleted_segments, segment_key
from airflow_provider_rlmm.core.world.audit_columns import Columns, audit_table, with_columns
from airflow_provider_rlmm.core.world.audit_log import AuditBatch

__all__ = ["InMemoryAuditLog"]


def _nothing(name: str, detail: Any) -> None:
    """Let it happen."""


class InMemoryAuditLog:
    """
    Keeps the rows of every batch.

    :param on_effect: called before a batch's rows are kept, with ``audit`` and the phase's name, and the rows; it may raise.
    :param beside: the audit log of another task of the same work folder: each reads what the other one writes.
    """

    def __init__(
        self, on_effect: Callable[[str, Any], object] = _nothing, beside: InMemoryAuditLog | None = None
    ) -> None:
        self.rows: list[dict[str, Any]] = [] if beside is None else beside.rows
        self._numbers: Iterator[int] = count(1) if beside is None else beside._numbers
        self._on_effect = on_effect

    def before(self, segments: Columns) -> AuditBatch:
        """See :class:`~airflow_provider_rlmm.core.world.audit_log.AuditLog`."""
        name = f"batch-{next(self._numbers)}"
        rows = audit_table({"batch": name, "phase": AuditPhase.BEFORE.value, **segments})
        self._keep("audit before", rows.to_pylist())
        return AuditBatch(name, "memory", 0, 0, rows)

    def after(self, batch: AuditBatch, outcomes: Columns) -> None:
        """See :class:`~airflow_provider_rlmm.core.world.audit_log.AuditLog`."""
        rows = with_columns(batch.rows, {"phase": AuditPhase.AFTER.value, **outcomes})
        self._keep("audit after", rows.to_pylist())

    def deletions(self, segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
        """See :class:`~airflow_provider_rlmm.core.world.audit_log.AuditLog`."""
        found = deleted_segments(AuditRow(**{name: row[name] for name in AuditRow._fields}) for row in self.rows)
        return DeletionRecord(frozenset(segment for segment in segments if segment_key(segment) in found))

    def _keep(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._on_effect(name, rows)
        self.rows += rows
