# SPDX-License-Identifier: Apache-2.0
"""
Plans in storage: ``<uri>/plan.parquet`` (one row per segment) and ``<uri>/summary.json``, written last.

A plan without its summary does not exist. URIs are those of :mod:`~airflow_provider_rlmm.file_systems`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_rlmm.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.file_systems import file_system
from airflow_provider_rlmm.policy.plan import PLAN_COLUMNS, PlanSummary, Reason

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs


def plan_schema() -> pa.Schema:
    """Return the Arrow schema of a plan."""
    import pyarrow as pa

    types = {"bool": pa.bool_(), "binary": pa.binary(), "string": pa.string()}
    return pa.schema(
        [pa.field(name, types.get(kind) or pa.type_for_alias(kind), nullable=False) for name, kind in PLAN_COLUMNS]
    )


def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    try:
        return file_system(uri)
    except ConfigurationError as e:
        raise PlanError(str(e)) from e


def write_document(uri: str, name: str, text: str) -> str:
    """
    Write a small text document.

    :param uri: of the directory; it is created.
    :param name: file name.
    :param text: content.
    :return: the document's URI.
    """
    opened, path = _opened(uri)
    opened.create_dir(path, recursive=True)
    with opened.open_output_stream(f"{path}/{name}") as out:
        out.write(text.encode())
    return f"{uri.rstrip('/')}/{name}"


def read_document(uri: str, name: str) -> str:
    """
    Read a small text document.

    :param uri: of the directory.
    :param name: file name.
    :raises PlanError: if there is none.
    """
    opened, path = _opened(uri)
    try:
        with opened.open_input_stream(f"{path}/{name}") as stream:
            return bytes(stream.read()).decode()
    except (OSError, UnicodeDecodeError) as e:
        raise PlanError(f"{uri}/{name} cannot be read ({e}); make a new plan") from e


def write_plan(uri: str, rows: pa.Table, summary: PlanSummary) -> None:
    """
    Write a plan.

    :param uri: of the plan's directory.
    :param rows: with the columns of :data:`~airflow_provider_rlmm.policy.plan.PLAN_COLUMNS`.
    :param summary: its summary.
    """
    import pyarrow.parquet as pq

    opened, path = _opened(uri)
    opened.create_dir(f"{path}/plan.parquet", recursive=True)
    pq.write_table(rows, f"{path}/plan.parquet/part-0.parquet", filesystem=opened)
    write_document(uri, "summary.json", summary.to_json())


def read_summary(uri: str) -> PlanSummary:
    """
    Read a plan's summary.

    :param uri: of the plan's directory.
    :raises PlanError: if there is none, or it cannot be understood.
    """
    return PlanSummary.from_json(read_document(uri, "summary.json"))


def _read_rows(uri: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.dataset as ds

    opened, path = _opened(uri)
    try:
        rows = ds.dataset(f"{path}/plan.parquet", filesystem=opened, format="parquet").to_table()
        return rows.select([name for name, _ in PLAN_COLUMNS])
    except (OSError, KeyError, pa.ArrowInvalid) as e:
        raise PlanError(f"the rows of plan {uri} cannot be read ({e}); make a new plan") from e


def _id(uri: str, raw: bytes) -> UUID:
    try:
        return UUID(bytes=raw)
    except (TypeError, ValueError) as e:
        raise PlanError(f"plan {uri} holds {raw!r} where an id of 16 bytes belongs; make a new plan") from e


def planned_segments(uri: str, metadata_partition: int) -> dict[tuple[UUID, int], frozenset[UUID]]:
    """
    Return the segments that a plan allows to delete in one metadata partition.

    :param uri: of the plan's directory.
    :param metadata_partition: which one.
    :return: (topic id, user partition) → segment ids; orphaned segments only, the others are the brokers' to delete.
    :raises PlanError: if the plan cannot be read.
    """
    found: dict[tuple[UUID, int], set[UUID]] = {}
    for row in _read_rows(uri).to_pylist():
        if row["metadata_partition"] == metadata_partition and row["reason"] == Reason.ORPHANED:
            key = (_id(uri, row["topic_id"]), row["partition"])
            found.setdefault(key, set()).add(_id(uri, row["segment_id"]))
    return {key: frozenset(ids) for key, ids in found.items()}


def orphaned_partitions(uri: str) -> frozenset[tuple[UUID, int]]:
    """
    Return the (topic id, user partition) that a plan calls orphaned, as work for marker and planner.

    :param uri: of the plan's directory.
    :raises PlanError: if the plan cannot be read.
    """
    return frozenset(
        (_id(uri, row["topic_id"]), row["partition"])
        for row in _read_rows(uri).select(["topic_id", "partition", "reason"]).to_pylist()
        if row["reason"] == Reason.ORPHANED
    )
