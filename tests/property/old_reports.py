# SPDX-License-Identifier: Apache-2.0
"""How the documents that people read were checked by tables written by hand: copied once, as in ``old_documents``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.runs.attention import ReportedProblem, ReportedWord
from airflow_provider_rlmm.features.cleanup.report_document import (
    CleanupReport,
    ReportedArchive,
    ReportedArchivePartition,
    Stopped,
    Waiting,
)
from airflow_provider_rlmm.features.cleanup.reports import (
    Marked,
    MarkedTopic,
    Marking,
    MetadataPartitionReport,
    PartitionOutcome,
    UserPartitionReport,
)
from tests.property.old_documents import _COST, _ERA, _FOLDED, Reader, Readers, _each, _record


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is {strict.shown(value)}, not a text")
    return value


def _duration(value: object, what: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{what} is {strict.shown(value)}, not an integer")
    return value


_COUNTED: Readers = _each(strict.integer, "segments", "bytes")
_PLACE: Readers = {
    **_each(_text, "what", "why", "what_to_do"),
    **_each(strict.optional(strict.integer), "metadata_partition", "offset"),
    "topic": strict.optional(_text),
    "count": strict.integer,
}
_REFUSALS = strict.array(_record(Refusal, {"kind": strict.one_of(RefusalKind), **_PLACE}, {"count": 1}))
_WORD = _record(ReportedWord, {**_each(_text, "by", "why", "until"), "expired": strict.boolean})
_ENTRIES = strict.array(
    _record(
        ReportedProblem,
        {
            "kind": _text,
            "acknowledgement": strict.optional(_WORD),
            "acknowledge_with": strict.optional(strict.by_name(strict.any_json)),
            **_PLACE,
        },
        {"count": 1},
    )
)
_USER_PARTITION = _record(
    UserPartitionReport,
    {
        **_each(_text, "topic", "topic_id"),
        "partition": strict.integer,
        "outcome": strict.one_of(PartitionOutcome),
        **_each(strict.integer, "segments_deleted", "segments_left", "objects_deleted", "bytes_deleted"),
        "refusals": _REFUSALS,
    },
)
_PART = _record(
    MetadataPartitionReport,
    {
        "metadata_partition": strict.integer,
        "dry_run": strict.boolean,
        "partitions": strict.array(_USER_PARTITION),
        "refusals": _REFUSALS,
        "events": strict.by_name(strict.integer),
        "would_write": strict.array(_text),
        "committed_offset": strict.optional(strict.integer),
        "duration_ms": _duration,
        "out_of_time": strict.optional(_text),
    },
    {"out_of_time": None},
)
_ARCHIVED = _record(
    ReportedArchivePartition,
    {
        **_each(_text, "topic", "topic_id", "manifest", "manifest_sha256", "records_sha256"),
        **_each(strict.integer, "partition", "segments", "not_whole", "bytes", "records"),
        "as_is": strict.optional(strict.integer),
    },
    {"as_is": None},
)
_ARCHIVE = _record(
    ReportedArchive,
    {**_each(_text, "name", "uri"), "counts": strict.by_name(strict.integer), "partitions": strict.array(_ARCHIVED)},
)
_MARKED_TOPIC = _record(
    MarkedTopic, {**_each(_text, "topic", "topic_id"), **_each(strict.integer, "partitions", "segments", "bytes")}
)
_MARKED = _record(
    Marked,
    {"topics": strict.array(_MARKED_TOPIC), "all": _record(Count, _COUNTED), "eligible_ms": strict.integer},
)
_REPORT: Readers = {
    **_COST,
    "marked": strict.optional(_MARKED),
    "out_of_time": strict.optional(_text),
    "era": strict.optional(_ERA),
    "report_id": _text,
    **_each(strict.optional(_text), "plan_id", "cluster_id", "deletion"),
    "created_at_ms": strict.integer,
    "dry_run": strict.boolean,
    "stopped": strict.optional(
        _record(Stopped, {**_each(_text, "why", "what_to_do"), "left": _record(Count, _COUNTED)})
    ),
    "archive": strict.optional(_ARCHIVE),
    **_each(_ENTRIES, "needs_person", "acknowledged"),
    "waiting": _record(Waiting, {**_COUNTED, "refusals": _REFUSALS}),
    "totals": strict.by_name(strict.integer),
    **_each(_REFUSALS, "not_marked", "not_planned"),
    "metadata_partitions": strict.array(_PART),
}
_MARKING: Readers = {
    "by_topic": strict.optional(_MARKED),
    "folded": strict.optional(_FOLDED),
    "era": strict.optional(_ERA),
    "cluster_id": _text,
    "dry_run": strict.boolean,
    **_each(strict.integer, "marked", "already_marked"),
    "refusals": _REFUSALS,
}

OLD_REPORT_READERS: Final[Mapping[type[Any], Reader]] = {
    # Reports of earlier releases know of no archive and of no era.
    CleanupReport: _record(
        CleanupReport,
        _REPORT,
        {"archive": None, "era": None, "price": None, "early": None, "marked": None, "out_of_time": None},
    ),
    MetadataPartitionReport: _PART,
    Marking: _record(Marking, _MARKING, {"era": None, "folded": None, "by_topic": None}),
}
"""Kind of document → what read its fields."""
