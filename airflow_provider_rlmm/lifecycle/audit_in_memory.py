# SPDX-License-Identifier: Apache-2.0
"""An audit log in memory, for tests and simulations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_rlmm.lifecycle.audit import AuditBatch, Columns, audit_table, with_columns
from airflow_provider_rlmm.policy.audit import AuditPhase


def _nothing(name: str, detail: Any) -> None:
    """Let it happen."""


class InMemoryAuditLog:
    """
    Keeps the rows of every batch.

    :param on_effect: called before a batch's rows are kept, with ``audit`` and the phase's name, and the rows; it may raise.
    """

    def __init__(self, on_effect: Callable[[str, Any], object] = _nothing) -> None:
        self.rows: list[dict[str, Any]] = []
        self._on_effect = on_effect
        self._batches = 0

    def before(self, segments: Columns) -> AuditBatch:
        """See :class:`~airflow_provider_rlmm.lifecycle.audit.AuditLog`."""
        self._batches += 1
        name = f"batch-{self._batches}"
        rows = audit_table({"batch": name, "phase": AuditPhase.BEFORE.value, **segments})
        self._keep("audit before", rows.to_pylist())
        return AuditBatch(name, "memory", 0, 0, rows)

    def after(self, batch: AuditBatch, outcomes: Columns) -> None:
        """See :class:`~airflow_provider_rlmm.lifecycle.audit.AuditLog`."""
        rows = with_columns(batch.rows, {"phase": AuditPhase.AFTER.value, **outcomes})
        self._keep("audit after", rows.to_pylist())

    def _keep(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._on_effect(name, rows)
        self.rows += rows
