# SPDX-License-Identifier: Apache-2.0
"""
How documents were read when each had a table of readers beside its data class: copied once, never changed.

The readers that are derived from the data classes are compared with these. Where the form of a document changes on purpose,
its table goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import reader_of
from airflow_provider_rlmm.core.generations.manifest import Anchor, Generation, GenerationFile, GenerationPart
from airflow_provider_rlmm.core.plans.approval import APPROVE, REJECT, Approval, ApprovalRequest
from airflow_provider_rlmm.core.plans.certainty import LeadersTold
from airflow_provider_rlmm.core.plans.counts import Count, Unsized
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanFile, PlanSummary, Reason
from airflow_provider_rlmm.core.plans.plan_archive import ArchivedUserPartition, PlanArchive
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.folded import Folded
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.records.read_tail import ReadTail
from airflow_provider_rlmm.core.records.records import parse_kafka_uuid
from airflow_provider_rlmm.core.records.told_era import EraName, ToldEra
from airflow_provider_rlmm.core.runs.run_decision import RunDecision
from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.core.segments.proof.findings import DamageKind
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic, ToldLeader
from airflow_provider_rlmm.features.archiving.archive_manifest import (
    ArchivedFile,
    ArchivedRecords,
    ArchivedSegment,
    ArchiveManifest,
)
from airflow_provider_rlmm.features.archiving.archive_run import ArchiveRun, NamedManifest, NamedPartition, NamedSegment
from airflow_provider_rlmm.features.cleanup.cleaning_progress import CleaningProgress, Left, ProgressState
from airflow_provider_rlmm.features.contents.foretold import Foretold
from airflow_provider_rlmm.features.contents.report_document import (
    ContentsAmount,
    ContentsFinding,
    ContentsReport,
    ContentsSegment,
    ContentsTopic,
)
from airflow_provider_rlmm.features.contents.rules import Outcome
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import (
    Amount,
    ForgottenPrefix,
    ScrubSummary,
    Told,
    TopicAmount,
    UnnamedTopic,
)
from airflow_provider_rlmm.features.survey.inventory import Inventory, InventoryFile, Totals
from airflow_provider_rlmm.overview.dead_man import Watch
from airflow_provider_rlmm.overview.run_summary import Deleted, Done, RunKind, RunOutcome, RunSummary, TouchedTopic

Reader = strict.Reader[Any]
Readers = Mapping[str, Reader]

MAX_PROGRESS_REFUSALS = 20
_PATH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


def _each(read: Reader, *names: str) -> Readers:
    return dict.fromkeys(names, read)


def _record(kind: type, readers: Readers, defaults: Mapping[str, Any] = MappingProxyType({})) -> Reader:
    """Return the reader of an object; of several faults the first by the order of the fields is named."""
    in_order = {field.name: readers[field.name] for field in fields(kind)}
    assert in_order.keys() == readers.keys()
    return strict.record(kind, in_order, defaults)


def _file_name(value: object, what: str) -> str:
    name = strict.string(value, what)
    if not _PATH.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
        raise ValueError(f"{what} is {strict.shown(name)}, no path below a folder")
    return name


def _id(value: object, what: str) -> str:
    text = strict.string(value, what)
    try:
        parse_kafka_uuid(text)
    except ValueError:
        raise ValueError(f"{what} is {strict.shown(text)}, no id in Kafka's form") from None
    return text


def _by_reason(value: object, what: str) -> dict[str, Count]:
    found = strict.by_name(_COUNT)(value, what)
    return {strict.one_of(Reason)(name, what).value: count for name, count in found.items()}


def _classes(value: object, what: str) -> dict[str, Amount]:
    found = strict.by_name(_AMOUNT)(value, what)
    return {strict.one_of(ScrubClass)(name, what).value: amount for name, amount in found.items()}


def _outcomes(value: object, what: str) -> dict[str, ContentsAmount]:
    found = strict.by_name(_CONTENTS_AMOUNT)(value, what)
    return {strict.one_of(Outcome)(name, what).value: amount for name, amount in found.items()}


def _gap(value: object, what: str) -> tuple[int, int]:
    first, last = strict.array(strict.integer)(value, what)
    return first, last


def _timestamp(value: object, what: str) -> int:
    return -1 if type(value) is int and value == -1 else strict.integer(value, what)


def _sum(value: object, what: str) -> int:
    if type(value) is not int or abs(value) > strict.MAX_INTEGER:
        raise ValueError(f"{what} is {strict.shown(value)}, not an integer of 64 bits")
    return value


def _topic_id(value: object, what: str) -> UUID:
    return parse_kafka_uuid(strict.string(value, what))


def _integer(value: object, what: str) -> int:
    if type(value) is not int:
        raise ValueError(f"{what} is {strict.shown(value)}, not an integer")
    return value


def _decision(value: object, what: str) -> str:
    if value not in (APPROVE, REJECT):
        raise ValueError(f"{what} is {strict.shown(value)}, not {APPROVE} or {REJECT}")
    return str(value)


def _first_refusals(value: object, what: str) -> tuple[Left, ...]:
    refused = strict.array(_record(Left, _each(strict.string, "what", "why", "what_to_do")))(value, what)
    if len(refused) > MAX_PROGRESS_REFUSALS:
        raise ValueError(f"{what} has {len(refused)} entries")
    return refused


_COUNT = _record(Count, _each(strict.integer, "segments", "bytes"))
_PLAN_FILE = _record(PlanFile, {**_each(strict.string, "name", "sha256"), **_each(strict.integer, "rows", "bytes")})
_BLAST_RADIUS = _record(BlastRadius, {**_each(strict.integer, "max_segments", "max_bytes"), "max_share": strict.share})
_TAIL = _record(ReadTail, {**_each(strict.integer, "begin", "end"), "sha256": strict.string})
_REFUSAL = _record(
    Refusal,
    {
        **_each(strict.string, "what", "why", "what_to_do"),
        "kind": strict.one_of(RefusalKind),
        **_each(strict.optional(strict.integer), "metadata_partition", "offset"),
        "topic": strict.optional(strict.string),
        "count": strict.integer,
    },
    {"count": 1},
)
_PROGRESS: Readers = {
    "artifact": strict.string,
    "dry_run": strict.boolean,
    **_each(strict.integer, "metadata_partition", "began_at_ms", "updated_at_ms", "segments_total", "segments_done"),
    **_each(strict.integer, "bytes_total", "bytes_done", "partitions_total", "partitions_done"),
    "objects_per_second": strict.number,
    "refused": _first_refusals,
    "state": strict.one_of(ProgressState),
}
_ERA = _record(ToldEra, {"name": strict.one_of(EraName), "why": strict.string})
_GAP = _record(HistoryGap, _each(strict.integer, "metadata_partition", "start", "end"))
_FOLDED = _record(Folded, _each(strict.integer, "generation", "created_at_ms", "folded_at_ms", "offsets"))
_STORAGE_CLASS = _record(
    StorageClass,
    {
        "name": strict.string,
        "min_days": strict.optional(strict.integer),
        "min_object_bytes": strict.integer,
        "micros_per_1000_requests": strict.optional(strict.integer),
    },
)
_PRICE = _record(
    StoragePrice, {"micros_per_gb_month": strict.integer, "storage_class": strict.optional(_STORAGE_CLASS)}
)
_EARLY = _record(EarlyDeletion, _each(strict.integer, "count", "bytes", "micros", "unknown", "unknown_bytes"))
_COST: Readers = {
    "price": strict.optional(_PRICE),
    "early": strict.optional(_EARLY),
    "dry_run": strict.optional(strict.boolean),
}
_PLAN: Readers = {
    **_COST,
    "era": strict.optional(_ERA),
    "leaders": strict.optional(reader_of(LeadersTold)),
    "folded": strict.optional(_FOLDED),
    **_each(strict.string, "plan_id", "cluster_id", "clock"),
    **_each(strict.integer, "created_at_ms", "expires_at_ms", "unresolved"),
    **_each(strict.by_partition(strict.integer), "read_until", "quarantined"),
    **_each(_COUNT, "known", "waiting"),
    "by_reason": _by_reason,
    **_each(strict.by_partition(_COUNT), "by_metadata_partition", "left"),
    "refusals": strict.array(_REFUSAL),
    "files": strict.by_partition(_PLAN_FILE),
    "blast_radius": strict.optional(_BLAST_RADIUS),
    "within_blast_radius": strict.boolean,
    **_each(strict.by_name(strict.any_json), "root", "job"),
    **_each(strict.array(strict.string), "hold", "only"),
    "tails": strict.by_partition(_TAIL),
}
_ARCHIVED_PARTITION = _record(
    ArchivedUserPartition,
    {
        **_each(
            strict.string, "topic", "topic_id", "folder", "manifest", "manifest_sha256", "records_sha256", "document"
        ),
        **_each(strict.integer, "metadata_partition", "partition", "segments", "not_whole", "bytes", "records"),
        "as_is": strict.optional(strict.integer),
    },
    {"as_is": None},
)
_PLAN_ARCHIVE: Readers = {
    **_each(strict.string, "name", "plan_id", "plan_sha256", "cluster_id", "archive_uri"),
    "created_at_ms": strict.integer,
    "partitions": strict.array(_ARCHIVED_PARTITION),
    "refused": strict.by_name(_REFUSAL),
}
_ASKED: Readers = {**_each(strict.string, "plan_id", "plan_sha256"), "asked_at_ms": strict.integer}
_ANSWERED: Readers = {
    **_ASKED,
    "decision": _decision,
    "decided_by": strict.optional(strict.string),
    "decided_at_ms": strict.integer,
}
_DECIDED: Readers = {
    **_each(strict.string, "dag_id", "run_id", "connection", "run_type", "triggered_by"),
    **_each(strict.boolean, "dry_run", "by_connection"),
    "source_plan": strict.optional(strict.string),
}
_FAILURE: Readers = {
    **_each(strict.string, "dag_id", "run_id", "task_id", "error"),
    "map_index": strict.optional(strict.integer),
    "failed_at_ms": strict.integer,
}
_LISTED_TOPIC = _record(
    ListedTopic,
    {
        "topic_id": _topic_id,
        "name": strict.string,
        **_each(_integer, "retention_ms", "retention_bytes"),
        "log_start_offsets": strict.by_partition(_integer),
        # These came after the tables by hand.
        "tiered": strict.optional(strict.boolean),
        "leaders": strict.by_partition(reader_of(ToldLeader)),
        "untold": strict.by_partition(strict.text),
    },
    {"tiered": None, "leaders": {}, "untold": {}},
)
_LISTING: Readers = {
    "cluster_id": strict.string,
    "observed_at_ms": _integer,
    "topics": strict.array(_LISTED_TOPIC),
    "explained_gaps": strict.array(_GAP),
    "passed_ms": strict.optional(strict.integer),
}
_INVENTORY: Readers = {
    "price": strict.optional(_PRICE),
    "folded": strict.optional(_FOLDED),
    **_each(strict.string, "cluster_id", "connection", "artifact", "generation"),
    "created_at_ms": strict.integer,
    "files": strict.by_name(
        _record(InventoryFile, {**_each(strict.integer, "rows", "bytes"), "sha256": strict.string})
    ),
    "totals": _record(
        Totals,
        {
            **_each(_COUNT, "stored", "orphaned", "waiting", "eligible", "deleting", "unseen"),
            **_each(strict.optional(strict.integer), "next_eligible_ms", "oldest_orphan_ms"),
            **_each(strict.integer, "topics", "orphaned_topics", "unseen_topics", "quarantined_records"),
            "metadata_partitions_out_of_service": strict.array(strict.integer),
            "unsized": strict.optional(_record(Unsized, _each(strict.integer, "orphaned", "unseen", "living"))),
        },
        {"unsized": None},
    ),
}
_AMOUNTS = _each(strict.integer, "objects", "bytes")
_AMOUNT = _record(Amount, _AMOUNTS)
_TOLD = strict.array(_record(Told, _each(strict.string, "what", "why")))
_SCRUB: Readers = {
    "storage_class": strict.optional(_STORAGE_CLASS),
    "era": strict.optional(_ERA),
    **_each(strict.string, "scrub_id", "cluster_id", "metadata_topic_id", "clock"),
    **_each(strict.integer, "began_at_ms", "listed_segments", "topics_left_out", "unnamed_left_out"),
    **_each(strict.integer, "incomplete_left_out", "forgotten_left_out", "foreign_folders", "unseen_folders"),
    "time_is_proven": strict.boolean,
    "read_until": strict.by_partition(strict.integer),
    "root": strict.by_name(strict.any_json),
    "listed": _AMOUNT,
    "classes": _classes,
    "topics": strict.array(
        _record(
            TopicAmount,
            {
                "kind": strict.one_of(ScrubClass),
                **_each(strict.string, "topic", "topic_id"),
                **_AMOUNTS,
                "oldest_ms": strict.optional(strict.integer),
            },
        )
    ),
    "unnamed": strict.array(
        _record(
            UnnamedTopic,
            {
                **_each(strict.string, "topic", "topic_id", "why"),
                "bars": strict.boolean,
                **_AMOUNTS,
                "keys": strict.array(strict.string),
            },
        )
    ),
    "forgotten": strict.array(_record(ForgottenPrefix, {**_each(strict.string, "prefix", "why"), **_AMOUNTS})),
    "incomplete": _TOLD,
    "unseen": _TOLD,
    **_each(strict.by_partition(strict.string), "doubtful", "lost"),
    "price_micros": strict.optional(strict.integer),
    "file": _PLAN_FILE,
}
_SCRUB_PLAN: Readers = {
    **_COST,
    "era": strict.optional(_ERA),
    **_each(strict.string, "plan_id", "scrub_sha256", "cluster_id", "metadata_topic_id", "clock"),
    **_each(strict.integer, "created_at_ms", "expires_at_ms", "min_unreferenced_ms"),
    **_each(strict.boolean, "sole_owner", "within_blast_radius"),
    "classes": strict.by_name(_AMOUNT),
    **_each(_COUNT, "planned", "known"),
    **_each(_AMOUNT, "waiting", "barred", "held", "elsewhere", "left_for_later"),
    **_each(strict.array(strict.string), "hold", "only"),
    "root": strict.by_name(strict.any_json),
    "blast_radius": _BLAST_RADIUS,
    "file": _PLAN_FILE,
}
_FILE = _record(ArchivedFile, {"name": _file_name, "bytes": strict.integer, "sha256": strict.string})
_SEGMENT = _record(
    ArchivedSegment,
    {
        "metadata": strict.string,
        **_each(strict.boolean, "whole", "transactional"),
        "files": strict.by_name(_FILE),
        "missing": strict.array(strict.string),
        "keys": strict.optional(strict.by_name(strict.string)),
    },
    {"keys": None},
)
_RECORDS = _record(
    ArchivedRecords,
    {
        **_each(strict.integer, "count", "committed"),
        "gaps": strict.array(_gap),
        **_each(strict.optional(strict.integer), "first_offset", "last_offset"),
        **_each(strict.optional(_timestamp), "min_timestamp_ms", "max_timestamp_ms"),
        **_each(strict.string, "sha256", "committed_sha256"),
        "files": strict.array(_FILE),
    },
)
_MANIFEST: Readers = {
    **_each(strict.string, "name", "try_id", "cluster_id", "topic", "topic_id"),
    **_each(strict.integer, "partition", "created_at_ms"),
    **_each(strict.optional(strict.string), "plan_id", "plan_sha256"),
    "segments": strict.array(_SEGMENT),
    "records": _RECORDS,
}
_NAMED_SEGMENT = _record(NamedSegment, {"segment_id": _id, **_each(strict.integer, "start_offset", "end_offset")})
_NAMED_MANIFEST = _record(
    NamedManifest,
    {
        **_each(strict.integer, "partition", "segments"),
        "name": _file_name,
        "sha256": strict.string,
        **_each(strict.optional(strict.integer), "first_offset", "last_offset"),
    },
)
_ARCHIVE_RUN: Readers = {
    **_each(strict.string, "name", "cluster_id", "topic"),
    "topic_id": _id,
    "created_at_ms": strict.integer,
    **_each(strict.optional(strict.string), "plan_id", "plan_sha256"),
    "manifests": strict.array(_NAMED_MANIFEST),
    "partitions": strict.array(
        _record(NamedPartition, {"partition": strict.integer, "segments": strict.array(_NAMED_SEGMENT)})
    ),
    "found": strict.array(_file_name),
}
_GENERATION_FILE = strict.optional(
    _record(GenerationFile, {**_each(strict.string, "name", "sha256"), "bytes": strict.integer})
)
_PART = _record(
    GenerationPart,
    {
        **_each(strict.integer, "next_offset", "segments", "unresolved", "quarantined"),
        "bytes": _sum,
        "anchors": strict.array(_record(Anchor, {"offset": strict.integer, "sha256": strict.string})),
        **_each(_GENERATION_FILE, "rows", "state", "changes"),
        "holes": strict.array(_GAP),
        "more_holes": strict.integer,
        "keyed_at": strict.optional(strict.integer),
        **_each(strict.integer, "keyed", "routed", "begin"),
    },
)
_GENERATION: Readers = {
    **_each(strict.integer, "number", "fold_version", "created_at_ms", "folded_at_ms"),
    **_each(strict.string, "cluster_id", "topic_id"),
    "parts": strict.by_partition(_PART),
    "era": _ERA,
}
_TASK_REPORT: Readers = {
    "part": _PART,
    **_each(strict.integer, "metadata_partition", "records", "user_partitions", "largest_user_partition"),
    "in_order": strict.boolean,
    "milliseconds": strict.by_name(strict.integer),
    "versions": strict.by_name(strict.string),
    **_each(strict.optional(strict.string), "refused", "differs"),
}
_TOUCHED = _record(
    TouchedTopic,
    {
        **_each(strict.string, "topic", "topic_id"),
        "done": strict.one_of(Done),
        **_each(strict.integer, "segments", "bytes"),
    },
)
_RUN: Readers = {
    **_each(strict.string, "cluster_id", "connection", "dag_id", "run_id", "artifact", "headline"),
    **_each(strict.integer, "began_at_ms", "ended_at_ms", "needs_person", "refusals"),
    **_each(strict.optional(strict.integer), "oldest_orphan_ms", "critical", "out_of_service", "quarantined"),
    **_each(strict.optional(strict.integer), "unsized"),
    **_each(strict.optional(_COUNT), "stored", "orphaned", "unseen", "waiting", "deleting"),
    "kind": strict.one_of(RunKind),
    "dry_run": strict.boolean,
    "outcome": strict.one_of(RunOutcome),
    "deleted": _record(Deleted, _each(strict.integer, "segments", "objects", "bytes")),
    "planned": _COUNT,
    "steps": strict.by_name(strict.number),
    "documents": strict.by_name(strict.string),
    "topics": strict.optional(strict.array(_TOUCHED)),
    "more_topics": strict.optional(strict.integer),
    **_each(strict.optional(strict.string), "approved", "approved_by"),
    "only": strict.optional(strict.array(strict.string)),
}
_RUN_DEFAULTS = {
    "unseen": None, "unsized": None, "topics": None, "more_topics": None, "approved": None, "approved_by": None, "only": None,
}  # fmt: skip
_CONTENTS_AMOUNT = _record(ContentsAmount, _each(strict.integer, "segments", "bytes"))
_CONTENTS: Readers = {
    **_each(strict.string, "cluster_id", "artifact", "clock", "layout", "seed"),
    **_each(strict.array(strict.string), "asked_for", "not_found"),
    **_each(strict.integer, "began_at_ms", "requests", "fetched_bytes"),
    **_each(strict.integer, "topics_left_out", "segments_left_out", "findings_left_out"),
    "share": strict.share,
    "may_have_gaps": strict.boolean,
    **_each(_CONTENTS_AMOUNT, "copied", "chosen"),
    "outcomes": _outcomes,
    "foretold": _record(
        Foretold,
        {**_each(strict.integer, "segments", "requests", "bytes"), "micros": strict.optional(strict.integer)},
    ),
    "not_compared": strict.by_name(strict.integer),
    "log_in_doubt": strict.text,
    "topics": strict.array(
        _record(
            ContentsTopic,
            {
                **_each(strict.string, "topic", "topic_id"),
                **_each(_CONTENTS_AMOUNT, "copied", "chosen", "looked_at"),
                "needs_person": strict.integer,
            },
        )
    ),
    "segments": strict.array(
        _record(
            ContentsSegment,
            {
                **_each(strict.string, "topic", "topic_id", "segment_id"),
                **_each(strict.integer, "partition", "start_offset", "end_offset", "findings"),
                "outcome": strict.one_of(Outcome),
                "why": strict.text,
            },
        )
    ),
    "findings": strict.array(
        _record(
            ContentsFinding,
            {
                **_each(strict.string, "segment_id", "part"),
                "kind": strict.one_of(DamageKind),
                **_each(strict.optional(strict.integer), "position", "offset"),
                **_each(strict.text, "expected", "seen", "why"),
            },
        )
    ),
}
_WATCH: Readers = {**_each(strict.string, "cluster_id", "connection"), "since_ms": strict.integer}

OLD_READERS: Final[Mapping[type, Reader]] = {
    CleaningProgress: _record(CleaningProgress, _PROGRESS),
    PlanSummary: _record(
        PlanSummary,
        _PLAN,
        {
            "left": {},
            "leaders": None,
            "folded": None,
            "era": None,
            "price": None,
            "early": None,
            "only": [],
            "dry_run": None,
        },
    ),
    PlanArchive: _record(PlanArchive, _PLAN_ARCHIVE),
    ApprovalRequest: _record(ApprovalRequest, _ASKED),
    Approval: _record(Approval, _ANSWERED),
    RunDecision: _record(RunDecision, _DECIDED),
    TaskFailure: _record(TaskFailure, _FAILURE),
    ClusterState: _record(ClusterState, _LISTING, {"explained_gaps": [], "passed_ms": None}),
    Inventory: _record(Inventory, _INVENTORY, {"folded": None, "price": None}),
    ScrubSummary: _record(ScrubSummary, _SCRUB, {"era": None, "storage_class": None}),
    ScrubPlan: _record(
        ScrubPlan, _SCRUB_PLAN, {"era": None, "price": None, "early": None, "only": [], "dry_run": None}
    ),
    ArchiveManifest: _record(ArchiveManifest, _MANIFEST),
    ArchiveRun: _record(ArchiveRun, _ARCHIVE_RUN),
    Generation: _record(Generation, _GENERATION),
    TaskReport: _record(TaskReport, _TASK_REPORT),
    RunSummary: _record(RunSummary, _RUN, _RUN_DEFAULTS),
    Watch: _record(Watch, _WATCH),
    ContentsReport: _record(ContentsReport, _CONTENTS),
}
"""Kind of document → what read its fields."""
