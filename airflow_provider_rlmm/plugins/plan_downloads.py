# SPDX-License-Identifier: Apache-2.0
"""A plan as files to take along: its own Parquet files, and all its rows as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final
from uuid import UUID

from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from airflow_provider_rlmm.page_data.documents import opened
from airflow_provider_rlmm.policy.plan import PLAN_COLUMNS, PlanFile, PlanSummary, Reason

_CHUNK: Final = 2**20
_IDS: Final = ("topic_id", "segment_id")
_BEGINS_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


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


def csv_chunks(work_uri: str, plan: str, summary: PlanSummary) -> Iterator[str]:
    """
    Yield the rows of a plan as CSV, the names of the columns first; ids are in Kafka's text form. The last column says
    whether the row is an estimate of what the leader of a living topic deletes.

    A text that a spreadsheet would calculate has an apostrophe before it: whoever can write to the metadata topic chooses the
    names of topics.

    :param work_uri: the work folder.
    :param plan: name of the plan.
    :param summary: its summary.
    :raises FileNotFoundError: if a file of it is gone.
    :raises DocumentError: if a file is not the one that the summary names.
    """
    from airflow_provider_rlmm.lifecycle.plan_files import plan_schema
    from airflow_provider_rlmm.page_data.tables import Expected, parquet, plain, read_groups

    names = [name for name, _ in PLAN_COLUMNS]
    yield _lines([[*names, "estimated"]])
    for number in sorted(summary.files):
        file = summary.files[number]
        expected = Expected(file.rows, file.bytes, file.sha256)
        with parquet(work_uri, plan, file.name, schema=plan_schema(), expected=expected) as source:
            for group in range(source.metadata.num_row_groups):
                rows = plain(read_groups(source, [group], names))
                yield _lines([[*(_cell(name, row[name]) for name in names), _estimated(row)] for row in rows])


def _estimated(row: Mapping[str, Any]) -> str:
    return "true" if Reason(row["reason"]).is_estimated else "false"


def _cell(name: str, value: Any) -> Any:
    if name in _IDS:
        return kafka_uuid_str(UUID(bytes=value))
    if name == "state":
        return RemoteLogSegmentState(value).name
    if isinstance(value, str) and value.startswith(_BEGINS_A_FORMULA):
        return f"'{value}"
    return value


def _lines(rows: list[list[Any]]) -> str:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
