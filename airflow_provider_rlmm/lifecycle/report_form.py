# SPDX-License-Identifier: Apache-2.0
"""
The form of a run's report and of its parts, ``docs/reports.md`` in code: whoever reads one checks it first.

Every field is there, none besides, each of exactly its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_rlmm.lifecycle.reports import REPORT_FORMAT, PartitionOutcome
from airflow_provider_rlmm.policy import strict_json
from airflow_provider_rlmm.policy.refusals import RefusalKind

_Reader = Callable[[object, str], Any]


def _text(value: object, what: str) -> str:
    """Read a text of any length: the document as a whole is bounded."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {strict_json.shown(value)}, not a text")
    return value


def _version(value: object, what: str) -> int:
    if type(value) is not int or value != REPORT_FORMAT:
        raise ValueError(f"{what} is {strict_json.shown(value)}, this package reads {REPORT_FORMAT}")
    return value


def _duration(value: object, what: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{what} is {strict_json.shown(value)}, not an integer")
    return value


def _fields(**readers: _Reader) -> Callable[[object, str], dict[str, Any]]:
    return strict_json.record(dict, readers)


_maybe_text = strict_json.optional(_text)
_maybe_integer = strict_json.optional(strict_json.integer)
_count: _Reader = _fields(segments=strict_json.integer, bytes=strict_json.integer)

_PLACE: Mapping[str, _Reader] = {
    "what": _text,
    "why": _text,
    "what_to_do": _text,
    "metadata_partition": _maybe_integer,
    "offset": _maybe_integer,
    "topic": _maybe_text,
}
_refusals = strict_json.array(_fields(kind=strict_json.one_of(RefusalKind), **_PLACE))

_entries = strict_json.array(
    _fields(
        kind=_text,
        acknowledgement=strict_json.optional(
            _fields(by=_text, why=_text, until=_text, expired=strict_json.boolean),
        ),
        acknowledge_with=strict_json.optional(strict_json.by_name(strict_json.any_json)),
        **_PLACE,
    )
)

_user_partition = _fields(
    topic=_text,
    topic_id=_text,
    partition=strict_json.integer,
    outcome=strict_json.one_of(PartitionOutcome),
    segments_deleted=strict_json.integer,
    segments_left=strict_json.integer,
    objects_deleted=strict_json.integer,
    bytes_deleted=strict_json.integer,
    refusals=_refusals,
)

_part = _fields(
    metadata_partition=strict_json.integer,
    dry_run=strict_json.boolean,
    partitions=strict_json.array(_user_partition),
    refusals=_refusals,
    events=strict_json.by_name(strict_json.integer),
    would_write=strict_json.array(_text),
    committed_offset=_maybe_integer,
    duration_ms=_duration,
)

_mark = _fields(
    cluster_id=_text,
    dry_run=strict_json.boolean,
    marked=strict_json.integer,
    already_marked=strict_json.integer,
    refusals=_refusals,
)

_report = _fields(
    format_version=_version,
    report_id=_text,
    plan_id=_maybe_text,
    cluster_id=_maybe_text,
    created_at_ms=strict_json.integer,
    dry_run=strict_json.boolean,
    stopped=strict_json.optional(_fields(why=_text, what_to_do=_text, left=_count)),
    needs_person=_entries,
    acknowledged=_entries,
    waiting=_fields(segments=strict_json.integer, bytes=strict_json.integer, refusals=_refusals),
    totals=strict_json.by_name(strict_json.integer),
    not_marked=_refusals,
    not_planned=_refusals,
    metadata_partitions=strict_json.array(_part),
)


def check_report(document: Mapping[str, Any]) -> None:
    """
    Check the form of a run's report.

    :param document: as it was read.
    :raises ValueError: naming the first field that is wrong.
    """
    _report(document, "report")


def check_part(document: Mapping[str, Any]) -> None:
    """
    Check the form of one metadata partition's report.

    :param document: as it was read.
    :raises ValueError: naming the first field that is wrong.
    """
    _part(document, "part")


def check_mark(document: Mapping[str, Any]) -> None:
    """
    Check the form of what the marker left.

    :param document: as it was read.
    :raises ValueError: naming the first field that is wrong.
    """
    _mark(document, "mark")
