# SPDX-License-Identifier: Apache-2.0
"""What a run did, what it refused and why: value objects that become the report document (JSON)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_rlmm.metadata.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.policy.plan import Refusal


class PartitionOutcome(StrEnum):
    """How the cleaning of one user partition ended."""

    FINISHED = "FINISHED"
    """DELETE_PARTITION_FINISHED is durable (in a dry run: would have been written)."""

    INCOMPLETE = "INCOMPLETE"
    """Started, and something is left: see the refusals; the next run goes on."""

    REFUSED = "REFUSED"
    """Nothing was done."""


@dataclass(frozen=True, slots=True)
class UserPartitionReport:
    """
    One user partition of a cleaning run.

    :param topic: topic name.
    :param topic_id: Kafka's base64 form.
    :param partition: user partition.
    :param outcome: how it ended.
    :param segments_deleted: segments that reached DELETE_SEGMENT_FINISHED.
    :param segments_left: segments that are not finished.
    :param objects_deleted: objects confirmed gone.
    :param bytes_deleted: their sizes, summed.
    :param refusals: what was refused or left, and why.
    """

    topic: str
    topic_id: str
    partition: int
    outcome: PartitionOutcome
    segments_deleted: int
    segments_left: int
    objects_deleted: int
    bytes_deleted: int
    refusals: tuple[Refusal, ...] = ()

    @classmethod
    def refused(cls, tip: TopicIdPartition, segments_left: int, refusal: Refusal) -> UserPartitionReport:
        """
        Report a partition that was not touched.

        :param tip: the user partition.
        :param segments_left: its segments that are not finished.
        :param refusal: why.
        """
        return cls(
            tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, PartitionOutcome.REFUSED, 0, segments_left, 0, 0,
            (refusal,),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class MetadataPartitionReport:
    """
    One metadata partition of a cleaning run.

    :param metadata_partition: which one.
    :param dry_run: whether nothing was written or deleted.
    :param partitions: its user partitions that had work.
    :param refusals: what concerns the metadata partition as a whole.
    :param events: events written, by state name.
    :param would_write: in a dry run, every event that would have been written, in order, in words.
    :param committed_offset: the offset committed at the end, ``None`` where none was.
    :param duration_ms: ms.
    """

    metadata_partition: int
    dry_run: bool
    partitions: tuple[UserPartitionReport, ...]
    refusals: tuple[Refusal, ...]
    events: Mapping[str, int]
    would_write: tuple[str, ...]
    committed_offset: int | None
    duration_ms: int

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def with_earlier_try(report: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """
    Add what an earlier try of the same run did to a report; what is left and refused is as of the later one.

    :param report: document of :meth:`MetadataPartitionReport.to_dict`.
    :param earlier: the earlier try's, of the same metadata partition.
    """
    before = {(p["topic_id"], p["partition"]): p for p in earlier["partitions"]}
    partitions = []
    for partition in report["partitions"]:
        done = before.pop((partition["topic_id"], partition["partition"]), None) or {}
        partitions.append({**partition, **{name: partition[name] + done.get(name, 0) for name in DONE}})
    # What the earlier try finished is no work any more; what a later one did not get to is as it was left.
    partitions += before.values()
    events = Counter(report["events"]) + Counter(earlier["events"])
    duration_ms = report["duration_ms"] + earlier["duration_ms"]
    return {**report, "partitions": partitions, "events": dict(events), "duration_ms": duration_ms}


DONE = ("segments_deleted", "objects_deleted", "bytes_deleted")
TOTALS = (*DONE, "segments_left")


def totals(reports: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """
    Sum what the metadata partitions' reports count.

    :param reports: documents of :meth:`MetadataPartitionReport.to_dict`.
    :return: the sums, and the number of ``partitions`` per outcome in lower case, and ``refusals``.
    """
    partitions = [p for r in reports for p in r["partitions"]]
    counted = {name: sum(p[name] for p in partitions) for name in TOTALS}
    for outcome in PartitionOutcome:
        counted[f"partitions_{outcome.value.lower()}"] = sum(p["outcome"] == outcome.value for p in partitions)
    counted["refusals"] = sum(len(r["refusals"]) for r in reports) + sum(len(p["refusals"]) for p in partitions)
    return counted


def cleanup_document(
    *,
    report_id: str,
    plan_id: str,
    cluster_id: str,
    created_at_ms: int,
    reports: Sequence[Mapping[str, Any]],
    not_planned: Sequence[Refusal] = (),
) -> dict[str, Any]:
    """
    Put the reports of all metadata partitions of a run into one document.

    :param report_id: names the report.
    :param plan_id: the plan that was applied.
    :param cluster_id: the cluster.
    :param created_at_ms: ms since the epoch.
    :param reports: documents of :meth:`MetadataPartitionReport.to_dict`.
    :param not_planned: what was marked and refused when the plan was made; they count as refusals.
    """
    counted = totals(reports)
    counted["refusals"] += len(not_planned)
    return {
        "report_id": report_id,
        "plan_id": plan_id,
        "cluster_id": cluster_id,
        "created_at_ms": created_at_ms,
        "totals": counted,
        "not_planned": [asdict(r) for r in not_planned],
        "metadata_partitions": list(reports),
    }
