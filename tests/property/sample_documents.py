# SPDX-License-Identifier: Apache-2.0
"""The fields of one document of each kind that fills them all, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_provider_rlmm.core.generations.manifest import Generation
from airflow_provider_rlmm.core.plans.approval import Approval, ApprovalRequest
from airflow_provider_rlmm.core.plans.plan import PlanSummary
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.runs.run_decision import RunDecision
from airflow_provider_rlmm.core.runs.task_failure import TaskFailure
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.archiving.archive_manifest import ArchiveManifest
from airflow_provider_rlmm.features.archiving.archive_run import ArchiveRun
from airflow_provider_rlmm.features.cleanup.cleaning_progress import CleaningProgress
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
from airflow_provider_rlmm.features.cleanup.reports import Marking, MetadataPartitionReport
from airflow_provider_rlmm.features.contents.report_document import ContentsReport
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_summary import ScrubSummary
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.overview.dead_man import Watch
from airflow_provider_rlmm.overview.run_summary import RunSummary

Plain = dict[str, Any]

_MARKED: Final = {
    "topics": [{"topic": "gone", "topic_id": "id", "partitions": 1, "segments": 2, "bytes": 5}],
    "all": {"segments": 3, "bytes": 7}, "eligible_ms": 9,
}  # fmt: skip
_ID: Final = "AAAAAAAAAAAAAAAAAAAABw"
_SHA: Final = "ab" * 32
_COUNT: Final[Plain] = {"segments": 2, "bytes": 200}
_AMOUNT: Final[Plain] = {"objects": 3, "bytes": 300}
_RADIUS: Final[Plain] = {"max_segments": 10, "max_bytes": 1000, "max_share": 0.5}
_PLAN_FILE: Final[Plain] = {"name": "metadata-partition-1.parquet", "rows": 2, "bytes": 99, "sha256": _SHA}
_REFUSAL: Final[Plain] = {
    "what": "gone-0", "why": "it is there", "what_to_do": "wait", "kind": "TOPIC_PRESENT", "metadata_partition": 1,
    "offset": 7, "topic": "gone", "count": 2,
}  # fmt: skip
_ERA: Final[Plain] = {"name": "keyed", "why": "a key names its record"}
_ROOT: Final[Plain] = {"marker": {"id": "x", "seen": [1, -2, None, True]}, "text": "root"}
_FILE: Final[Plain] = {"name": "segments/a.log", "bytes": 5, "sha256": _SHA}
_STORAGE_CLASS = {"name": "STANDARD_IA", "min_days": 30, "min_object_bytes": 131_072, "micros_per_1000_requests": None}
_COST = {
    "price": {"micros_per_gb_month": 12_500, "storage_class": _STORAGE_CLASS},
    "early": {"count": 1, "bytes": 5, "micros": 7, "unknown": 2, "unknown_bytes": 9},
}
_FOLDED: Final[Plain] = {"generation": 2, "created_at_ms": 3, "folded_at_ms": 1, "offsets": 9}
_PART: Final[Plain] = {
    "next_offset": 10, "segments": 1, "bytes": -5, "unresolved": 0, "quarantined": 0,
    "anchors": [{"offset": 8, "sha256": _SHA}, {"offset": 9, "sha256": _SHA}],
    "rows": {"name": "generation=2/metadata_partition=0/a.parquet", "bytes": 5, "sha256": _SHA},
    "state": {"name": "generation=1/metadata_partition=0/a.state", "bytes": 6, "sha256": _SHA},
    "changes": {"name": "generation=2/metadata_partition=0/a.changes", "bytes": 7, "sha256": _SHA},
    "holes": [{"metadata_partition": 0, "start": 3, "end": 5}], "more_holes": 0, "keyed_at": None,
    "keyed": 1, "routed": 4, "begin": 2,
}  # fmt: skip
_OF_CLUSTER: Final[Plain] = {"cluster_id": "cluster", "connection": "rlmm_default"}
_ASKED: Final[Plain] = {"plan_id": "p", "plan_sha256": _SHA, "asked_at_ms": 1}
_LEFT: Final[Plain] = {**_REFUSAL, "offset": None}
_PROBLEM: Final[Plain] = {
    **_REFUSAL, "acknowledgement": {"by": "me", "why": "known", "until": "2026-02-03T04:05:06+00:00", "expired": True},
    "acknowledge_with": {"cluster_id": "cluster", "kind": "TOPIC_PRESENT", "offset": 7, "until": "then", "by": "", "why": ""},
}  # fmt: skip
_CLEANED: Final[Plain] = {
    "metadata_partition": 1, "dry_run": True,
    "partitions": [
        {
            "topic": "gone", "topic_id": _ID, "partition": 0, "outcome": "INCOMPLETE", "segments_deleted": 1,
            "segments_left": 2, "objects_deleted": 5, "bytes_deleted": 10, "refusals": [_LEFT],
        }
    ],
    "refusals": [_REFUSAL], "events": {"DELETE_SEGMENT_STARTED": 1}, "would_write": ["started a", "finished a"],
    "committed_offset": 9, "duration_ms": -5, "out_of_time": "over",
}  # fmt: skip
_REPORTED_ARCHIVE: Final[Plain] = {
    "name": "run-1", "uri": "file:///archive", "counts": {"partitions": 1, "records": 5},
    "partitions": [
        {
            "topic": "gone", "topic_id": _ID, "partition": 0, "segments": 2, "not_whole": 1, "bytes": 10, "records": 5,
            "records_sha256": _SHA, "manifest": "file:///archive/gone/a.json", "manifest_sha256": _SHA, "as_is": 1,
        }
    ],
}  # fmt: skip

SAMPLES: Final[Mapping[type, Plain]] = {
    CleaningProgress: {
        "artifact": "dag.run", "metadata_partition": 1, "dry_run": False, "began_at_ms": 1, "updated_at_ms": 2,
        "segments_total": 3, "segments_done": 2, "bytes_total": 30, "bytes_done": 20, "objects_per_second": 0.5,
        "partitions_total": 1, "partitions_done": 0, "refused": [{"what": "a", "why": "b", "what_to_do": "c"}],
        "state": "running",
    },
    PlanSummary: {
        "folded": _FOLDED, **_COST, "dry_run": False,
        "leaders": {
            "all": 1, "at_least": 2, "unresolved": 1, "goes": {"segments": 0, "bytes": 0},
            "not_tiered": {"segments": 1, "bytes": 2}, "why": {"it hides": 1},
        },
        "era": _ERA,
        "plan_id": "p", "cluster_id": "cluster", "created_at_ms": 1, "expires_at_ms": 2, "read_until": {"0": 5, "1": 6},
        "known": _COUNT, "by_reason": {"ORPHANED": _COUNT, "DANGLING": {"segments": 0, "bytes": 0}},
        "by_metadata_partition": {"1": _COUNT}, "quarantined": {"1": 1}, "unresolved": 0, "refusals": [_REFUSAL],
        "waiting": _COUNT, "files": {"1": _PLAN_FILE}, "blast_radius": _RADIUS, "within_blast_radius": False,
        "root": _ROOT, "clock": "broker", "hold": ["topic-a", "b*"], "only": ["c*"], "job": {"tasks": {"count": 4}},
        "tails": {"1": {"begin": 1, "end": 3, "sha256": _SHA}}, "left": {"1": _COUNT},
    },
    PlanArchive: {
        "name": "run-1", "plan_id": "p", "plan_sha256": _SHA, "cluster_id": "cluster", "archive_uri": "file:///archive",
        "created_at_ms": 1, "refused": {_ID: _REFUSAL},
        "partitions": [
            {
                "metadata_partition": 1, "topic": "gone", "topic_id": _ID, "partition": 0, "folder": "file:///archive/gone",
                "manifest": "manifests/a.json", "manifest_sha256": _SHA, "segments": 2, "not_whole": 1, "bytes": 10,
                "records": 5, "records_sha256": _SHA, "document": "a.json", "as_is": 1,
            }
        ],
    },
    ApprovalRequest: _ASKED,
    Approval: {**_ASKED, "decision": "Approve", "decided_by": "somebody", "decided_at_ms": 2},
    RunDecision: {
        "dag_id": "dag", "run_id": "run", "connection": "rlmm_default", "run_type": "manual", "triggered_by": "somebody",
        "dry_run": True, "source_plan": "plan", "by_connection": False,
    },
    TaskFailure: {
        "dag_id": "dag", "run_id": "run", "task_id": "clean", "map_index": 0, "failed_at_ms": 1, "error": "it failed",
    },
    ClusterState: {
        "cluster_id": "cluster", "observed_at_ms": 1, "passed_ms": 1,
        "topics": [
            {
                "topic_id": _ID, "name": "lives", "retention_ms": -1, "retention_bytes": 100,
                "log_start_offsets": {"0": 5, "1": -1}, "tiered": True,
                "leaders": {
                    "0": {
                        "leader_epoch": 4, "log_start_offset": 5, "log_end_offset": 90, "lineage": [[2, 5], [3, 40]],
                        "known_up_to": [3, 80],
                    }
                },
                "untold": {"1": "it has no leader"},
            }
        ],
    },
    Inventory: {
        "folded": _FOLDED, "price": _COST["price"],
        **_OF_CLUSTER, "created_at_ms": 1, "artifact": "dag.run", "generation": "inventory-1",
        "files": {
            "topics.parquet": {"rows": 1, "bytes": 5, "sha256": _SHA},
            "partitions.parquet": {"rows": 1, "bytes": 5, "sha256": _SHA},
        },
        "totals": {
            **dict.fromkeys(("stored", "orphaned", "waiting", "eligible", "deleting", "unseen"), _COUNT),
            "next_eligible_ms": 1, "oldest_orphan_ms": None, "topics": 1, "orphaned_topics": 1, "unseen_topics": 0,
            "quarantined_records": 0, "metadata_partitions_out_of_service": [1, 2],
            "unsized": {"orphaned": 1, "unseen": 0, "living": 2},
        },
    },
    ScrubSummary: {
        "era": _ERA,
        "scrub_id": "s", "cluster_id": "cluster", "metadata_topic_id": _ID, "began_at_ms": 1, "clock": "broker",
        "time_is_proven": True, "read_until": {"0": 5}, "root": _ROOT, "listed": _AMOUNT, "listed_segments": 1,
        "classes": {"FINISHED": _AMOUNT, "UNREFERENCED": _AMOUNT},
        "topics": [{"kind": "FINISHED", "topic": "gone", "topic_id": _ID, **_AMOUNT, "oldest_ms": 1}],
        "topics_left_out": 0,
        "unnamed": [{"topic": "gone", "topic_id": _ID, "why": "it lives", "bars": True, **_AMOUNT, "keys": ["a", "b"]}],
        "unnamed_left_out": 0, "incomplete": [{"what": "folder", "why": "denied"}], "incomplete_left_out": 0,
        "doubtful": {"1": "why"}, "lost": {"1": "what to do"},
        "forgotten": [{"prefix": "old/", **_AMOUNT, "why": ""}], "forgotten_left_out": 0, "foreign_folders": 2,
        "unseen_folders": 1, "unseen": [{"what": "folder", "why": "denied"}], "price_micros": 23_000, "file": _PLAN_FILE,
        "storage_class": _STORAGE_CLASS,
    },
    ScrubPlan: {
        "era": _ERA, **_COST, "dry_run": True,
        "plan_id": "p", "scrub_sha256": _SHA, "cluster_id": "cluster", "metadata_topic_id": _ID, "created_at_ms": 1,
        "expires_at_ms": 2, "clock": "broker", "min_unreferenced_ms": 3, "sole_owner": False,
        "classes": {"FINISHED": {"objects": 2, "bytes": 5}}, "planned": {"segments": 1, "bytes": 5}, "known": _COUNT,
        **dict.fromkeys(("waiting", "barred", "held", "elsewhere", "left_for_later"), _AMOUNT), "hold": ["a"], "only": ["b"],
        "root": _ROOT, "blast_radius": _RADIUS, "within_blast_radius": True, "file": _PLAN_FILE,
    },
    ArchiveManifest: {
        "name": "run-1", "try_id": "t", "cluster_id": "cluster", "topic": "gone", "topic_id": _ID, "partition": 0,
        "created_at_ms": 1, "plan_id": "p", "plan_sha256": None,
        "segments": [
            {"metadata": "AAAA", "whole": True, "transactional": False, "files": {"log": _FILE}, "missing": ["OFFSET"],
             "keys": {".log": "tiered/a.log"}},
        ],
        "records": {
            "count": 5, "committed": 4, "gaps": [[1, 2], [5, 6]], "first_offset": 0, "last_offset": 9,
            "min_timestamp_ms": -1, "max_timestamp_ms": 5, "sha256": _SHA, "committed_sha256": _SHA, "files": [_FILE],
        },
    },
    ArchiveRun: {
        "name": "run-1", "cluster_id": "cluster", "topic": "gone", "topic_id": _ID, "created_at_ms": 1, "plan_id": None,
        "plan_sha256": _SHA, "found": ["run-0.json"],
        "manifests": [
            {
                "partition": 0, "name": "manifests/a.json", "sha256": _SHA, "segments": 1, "first_offset": 0,
                "last_offset": None,
            }
        ],
        "partitions": [{"partition": 0, "segments": [{"segment_id": _ID, "start_offset": 0, "end_offset": 9}]}],
    },
    Generation: {
        "number": 2, "cluster_id": "cluster", "topic_id": _ID, "fold_version": 3, "created_at_ms": 1, "folded_at_ms": 1,
        "parts": {"0": _PART},
        "era": _ERA,
    },
    TaskReport: {
        "metadata_partition": 0, "part": _PART, "records": 3, "in_order": True, "user_partitions": 1,
        "largest_user_partition": 2, "milliseconds": {"read": 5}, "versions": {"python": "3"}, "refused": None,
        "differs": None,
    },
    RunSummary: {
        **_OF_CLUSTER, "dag_id": "dag", "run_id": "run", "artifact": "dag.run", "kind": "cleaner", "began_at_ms": 1,
        "ended_at_ms": 2, "dry_run": False, "outcome": "success", "headline": "it is done", "needs_person": 0,
        "deleted": {"segments": 1, "objects": 2, "bytes": 3}, "planned": _COUNT, "refusals": 0,
        **dict.fromkeys(("stored", "orphaned", "unseen", "waiting", "deleting"), _COUNT), "oldest_orphan_ms": 1,
        "critical": None, "out_of_service": 0, "quarantined": 0, "unsized": 3, "steps": {"clean": 0.5, "plan": 3},
        "documents": {"report": "dag.run"},
        "topics": [{"topic": "gone", "topic_id": _ID, "done": "deleted", "segments": 1, "bytes": 3}], "more_topics": 2,
        "approved": "Approve", "approved_by": "ada", "only": ["orders*"],
    },
    Watch: {**_OF_CLUSTER, "since_ms": 1},
    ContentsReport: {
        "cluster_id": "cluster", "artifact": "dag.run", "began_at_ms": 1, "clock": "broker", "layout": "aiven",
        "asked_for": ["gone", "orders"], "not_found": ["gone"], "share": 0.5, "seed": "s", "may_have_gaps": True,
        "copied": _COUNT, "chosen": _COUNT, "outcomes": {"RIGHT": _COUNT, "DAMAGED": {"segments": 1, "bytes": 5}},
        "foretold": {"segments": 2, "requests": 9, "bytes": 200, "micros": 3}, "requests": 9, "fetched_bytes": 201,
        "not_compared": {"transaction": 1}, "log_in_doubt": "it has lost records",
        "topics": [
            {
                "topic": "orders", "topic_id": _ID, "copied": _COUNT, "chosen": _COUNT, "looked_at": _COUNT,
                "needs_person": 1,
            }
        ],
        "topics_left_out": 0,
        "segments": [
            {
                "topic": "orders", "topic_id": _ID, "partition": 0, "segment_id": _ID, "start_offset": 0, "end_offset": 9,
                "outcome": "DAMAGED", "why": "", "findings": 1,
            }
        ],
        "segments_left_out": 0,
        "findings": [
            {
                "segment_id": _ID, "kind": "CHECKSUM", "part": "log", "position": 5, "offset": None, "expected": "a",
                "seen": "b", "why": "they differ",
            }
        ],
        "findings_left_out": 2,
    },
    CleanupReport: {
        "era": _ERA,
        "report_id": "dag.run", "plan_id": "p", "cluster_id": "cluster", "created_at_ms": 1, "dry_run": True,
        "stopped": {"why": "too much", "what_to_do": "take less", "left": _COUNT}, "deletion": "it frees space",
        "archive": _REPORTED_ARCHIVE, "needs_person": [_PROBLEM],
        "acknowledged": [{**_PROBLEM, "acknowledgement": None, "acknowledge_with": None}],
        "waiting": {**_COUNT, "refusals": [{**_LEFT, "kind": "WAITING"}]},
        "totals": {"would_delete_segments": 1, "needs_person": 2}, "not_marked": [_LEFT], "not_planned": [_LEFT],
        "metadata_partitions": [_CLEANED], **_COST, "marked": _MARKED, "out_of_time": "over: 2 segments are left",
    },
    MetadataPartitionReport: _CLEANED,
    Marking: {
        "folded": _FOLDED,
        "cluster_id": "cluster", "dry_run": False, "marked": 2, "already_marked": 1, "refusals": [_LEFT, _REFUSAL],
        "era": _ERA, "by_topic": _MARKED,
    },
}  # fmt: skip
