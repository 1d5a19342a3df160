# SPDX-License-Identifier: Apache-2.0
"""
Writes the audit log: a batch is written down before its objects are deleted, and what became of it afterwards.

What a run deletes is in it whatever ends the run: where the first file cannot be written nothing of the batch is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from airflow_provider_rlmm.clock import Clock, monotonic_clock
from airflow_provider_rlmm.errors import AuditError, ConfigurationError
from airflow_provider_rlmm.file_systems import create_file
from airflow_provider_rlmm.policy.audit import AUDIT_COLUMNS, AUDIT_FOLDER, AuditName, AuditPhase, batch_name, day_of
from airflow_provider_rlmm.policy.run_identity import RunIdentity

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Any]
"""Name of a column → its values, one per segment, or one value for all."""


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

        :param segments: columns of :data:`~airflow_provider_rlmm.policy.audit.AUDIT_COLUMNS`, from ``metadata_partition`` to
            ``started_offset``.
        :raises AuditError: if it cannot be written: nothing of it may be deleted.
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
    :param source: the metadata partition, or :data:`~airflow_provider_rlmm.policy.audit.SCRUB`.
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
        self._write(batch, AuditPhase.BEFORE, batch.rows)
        return batch

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


def audit_schema() -> pa.Schema:
    """Return the Arrow schema of every file."""
    import pyarrow as pa

    types = {"binary": pa.binary(), "string": pa.string()}
    return pa.schema([(name, types.get(kind) or pa.type_for_alias(kind)) for name, kind in AUDIT_COLUMNS])


def audit_table(columns: Columns) -> pa.Table:
    """
    Return rows of the audit log; a column that is not given is null.

    :param columns: at least one of them with a value per row.
    """
    import pyarrow as pa

    rows = next(len(values) for values in columns.values() if _is_column(values))
    empty = pa.table({name: pa.nulls(rows, kind) for name, kind in _types().items()}, schema=audit_schema())
    return with_columns(empty, columns)


def with_columns(table: pa.Table, columns: Columns) -> pa.Table:
    """
    Return rows of the audit log with other values.

    :param table: the rows.
    :param columns: these.
    """
    import pyarrow as pa

    types = _types()
    for name, values in columns.items():
        if _is_column(values):
            array = pa.array(values, types[name])
        else:
            array = pa.repeat(pa.scalar(values, types[name]), table.num_rows)
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), array)
    return table


def _types() -> dict[str, pa.DataType]:
    return {column.name: column.type for column in audit_schema()}


def _is_column(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def audit_bytes(rows: pa.Table) -> memoryview:
    """
    Return rows as the bytes of a Parquet file.

    :param rows: with the schema of the audit log.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return memoryview(sink.getvalue())
