# SPDX-License-Identifier: Apache-2.0
"""A plan as files to take along: its own Parquet files, and all its rows as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS, PlanFile, PlanSummary, Reason
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.overview.documents import opened

_CHUNK: Final = 2**20
_IDS: Final = ("topic_id", "segment_id")
_STATES: Final = {state.value: state.name for state in RemoteLogSegmentState}


def parquet_chunks(work_uri: str, plan: str, file: PlanFile) -> Iterator[bytes]:
    """
    Yield the bytes of a plan's file.

    :param work_uri: the work folder.
    :param plan: name of the plan.
    :param file: as its summary knows it.
    :raises FileNotFoundError: if there is none.
    :raises DocumentError: if it is no regular file below the work folder, or unreadable.
    """
    with opened(work_uri, plan, file.name) as source:
        while chunk := source.read(_CHUNK):
            yield bytes(chunk)


def csv_chunks(work_uri: str, plan: str, summary: PlanSummary) -> Iterator[bytes]:
    """
    Yield the rows of a plan as CSV, the names of the columns first; ids are in Kafka's text form. The last column says
    whether the row is an estimate of what the leader of a living topic deletes: it could not be told.

    A text that a spreadsheet would calculate has an apostrophe before it: any program that can write to the metadata topic
    chooses the names of topics.

    :param work_uri: the work folder.
    :param plan: name of the plan.
    :param summary: its summary.
    :raises FileNotFoundError: if a file of it is gone.
    :raises DocumentError: if a file is not the one that the summary names.
    """
    from airflow_provider_rlmm.core.plans.plan_files import plan_schema
    from airflow_provider_rlmm.overview.csv_lines import csv_lines
    from airflow_provider_rlmm.overview.tables import Expected, parquet

    names = [name for name, _ in PLAN_COLUMNS]
    yield f"{','.join([*names, 'estimated'])}\r\n".encode()
    for number in sorted(summary.files):
        file = summary.files[number]
        expected = Expected(file.rows, file.bytes, file.sha256)
        with parquet(work_uri, plan, file.name, schema=plan_schema(), expected=expected) as source:
            for rows in source.slices(range(len(source.groups)), names):
                told = rows.append_column("estimated", _estimated(rows))
                yield csv_lines(told, ids=_IDS, names={"state": _STATES})


def _estimated(rows: Any) -> Any:
    """Return of each row whether it is not known if a leader does that; each different reason is asked once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = [
        pa.array([Reason(text).is_of_leaders for text in chunk.dictionary.to_pylist()], pa.bool_()).take(chunk.indices)
        for chunk in rows.column("reason").chunks
    ]
    return pc.and_not(pa.chunked_array(chunks, pa.bool_()), rows.column("exact"))
