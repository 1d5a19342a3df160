# SPDX-License-Identifier: Apache-2.0
"""
What a run says in numbers to a collector of metrics: their names, units and meaning, and how they come from its summary.

Names, units and labels are a contract with dashboards and alert rules of others: ``docs/metrics.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.metric import Description, Metric, MetricType
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.survey.inventory import Inventory
from airflow_provider_rlmm.overview.run_summary import RunOutcome, RunSummary

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.retention.leader_document import ReportedLeaders

_CLUSTER = ("connection",)
_RUN = ("connection", "kind")
_STEP = ("connection", "kind", "step")


def _sizes(name: str, labels: tuple[str, ...], what: str) -> dict[str, Description]:
    return {
        f"{name}_{unit}": Description(MetricType.GAUGE, labels, f"{unit.capitalize()} {what}")
        for unit in ("bytes", "segments")
    }


def _gauge(labels: tuple[str, ...], meaning: str) -> Description:
    return Description(MetricType.GAUGE, labels, meaning)


def _counter(meaning: str) -> Description:
    return Description(MetricType.COUNTER, _RUN, meaning)


METRICS: Mapping[str, Description] = {
    **_sizes("stored", _CLUSTER, "that are in remote storage by the log: all segments that are not finished"),
    **_sizes("orphaned", _CLUSTER, "of topic ids that the cluster lacks"),
    **_sizes("waiting", _CLUSTER, "of these that were marked and wait for `min_absence`"),
    **_sizes("deleting", _CLUSTER, "of user partitions whose deletion was started and has not finished"),
    **_sizes("unseen", _CLUSTER, "of which it cannot be told whether they are orphaned: no part of those that are"),
    "unsized_segments": _gauge(
        _CLUSTER, "Segments of any topic of which the log tells no size: no other number has them or their bytes"
    ),
    "oldest_orphan_age_seconds": _gauge(
        _CLUSTER,
        "Age of the newest record of the oldest orphaned segment, in seconds; 0 where all was seen and none is orphaned",
    ),
    "metadata_partitions_out_of_service": _gauge(
        _CLUSTER, "Metadata partitions in which a record or a gap keeps brokers or this package from working"
    ),
    "quarantined_records": _gauge(_CLUSTER, "Records that cannot be applied: poison pills and others"),
    "doctor_critical": _gauge(_CLUSTER, "Findings of the doctor that need a person, acknowledged ones among them"),
    **_sizes("due", _CLUSTER, "of living topics that their leaders delete in their next pass, as far as that is told"),
    **_sizes("overdue", _CLUSTER, "of living topics that their leaders should have deleted hours ago"),
    **_sizes(
        "leaked", _CLUSTER, "of living topics that no leader ever finds: Kafka lists them for none of their epochs"
    ),
    "hanging_partitions": _gauge(_CLUSTER, "User partitions of living topics whose leaders have stopped copying"),
    "unresolved_partitions": _gauge(
        _CLUSTER, "User partitions of living topics of which it cannot be told what their leaders delete"
    ),
    "not_judged_partitions": _gauge(
        _CLUSTER, "User partitions of living topics of which it cannot be told whether anything is overdue or hangs"
    ),
    "leaders_asked_timestamp_seconds": _gauge(
        _CLUSTER, "When leaders were last asked what they delete next, in seconds since the epoch"
    ),
    **_sizes("planned", _RUN, "that the last run planned to delete"),
    **_sizes("deleted", _RUN, "that the last run has deleted; 0 for a dry run"),
    "deleted_objects": _gauge(_RUN, "Objects that the last run has deleted; 0 for a dry run"),
    "refusals": _gauge(_RUN, "Things that the last run refused or left, waits not among them"),
    "needs_person": _gauge(_RUN, "Things that need a person and made the last run red"),
    "run_seconds": _gauge(_RUN, "How long the last run took, in seconds"),
    "run_succeeded": _gauge(_RUN, "1 where the last run ended green, 0 where it ended red"),
    "run_dry": _gauge(_RUN, "1 where the last run was a dry run, 0 where it was not"),
    "run_ended_timestamp_seconds": _gauge(_RUN, "When the last run ended, in seconds since the epoch"),
    "last_success_timestamp_seconds": _gauge(
        _RUN,
        "When a run last ended green, dry or not, in seconds since the epoch; a red run, and one for some topics only, "
        "leave it as it was",
    ),
    "last_real_success_timestamp_seconds": _gauge(
        _RUN,
        "When a run that was no dry run last ended green, in seconds since the epoch; one for some topics only is none",
    ),
    "step_seconds": _gauge(_STEP, "How long a step of the last run took, in seconds"),
    "step_segments_per_second": _gauge(
        _STEP,
        "Segments that a step of the last run went through per second: those stored, of `clean` and `delete` those deleted",
    ),
    "runs_succeeded_total": _counter("Runs that ended green"),
    "runs_failed_total": _counter("Runs that ended red"),
    "deleted_bytes_total": _counter("Bytes deleted, by runs that were no dry run"),
    "deleted_segments_total": _counter("Segments deleted, by runs that were no dry run"),
    "deleted_objects_total": _counter("Objects deleted, by runs that were no dry run"),
}
"""Name, without :data:`PREFIX` → what it means; in the order of ``docs/metrics.md``."""

_SIZES = ("stored", "orphaned", "unseen", "waiting", "deleting")
_DELETES = frozenset({"clean", "delete"})
_READS_ALL = frozenset({"mark", "plan", "survey", "doctor", "evaluate"})


def metrics_of(summary: RunSummary) -> tuple[Metric, ...]:
    """Return what a run says in numbers; what it does not know is left out, never 0."""
    cluster = {"connection": summary.connection}
    run = cluster | {"kind": summary.kind.value}
    found = [Metric(name, value, cluster) for name, value in _of_the_cluster(summary)]
    found += [Metric(name, value, run) for name, value in _of_the_run(summary)]
    for step, seconds in summary.steps.items():
        found += [Metric(name, value, run | {"step": step}) for name, value in _of_the_step(summary, step, seconds)]
    return tuple(found)


def survey_metrics(inventory: Inventory) -> tuple[Metric, ...]:
    """
    Return what a survey says of its cluster in numbers, as a part of any run.

    :param inventory: what it has written.
    """
    totals, cluster = inventory.totals, {"connection": inventory.connection}
    sizes = {name: getattr(totals, name) for name in _SIZES}
    found = [
        *_of_sizes(sizes, totals.oldest_orphan_ms, inventory.created_at_ms),
        *([("unsized_segments", totals.unsized.segments)] if totals.unsized else ()),
        ("metadata_partitions_out_of_service", len(totals.metadata_partitions_out_of_service)),
        ("quarantined_records", totals.quarantined_records),
    ]
    return tuple(Metric(name, value, cluster) for name, value in found)


def leader_metrics(report: ReportedLeaders) -> tuple[Metric, ...]:
    """
    Return what leaders delete next in numbers; what could not be told is left out, never 0.

    :param report: what was told.
    """
    cluster = {"connection": report.connection}
    sizes = {"due": report.goes, "leaked": report.leaked}
    if report.judged:
        sizes["overdue"] = report.overdue
    hanging = report.hanging_partitions if report.judged else None
    found: list[tuple[str, float]] = [
        (f"{name}_{unit}", getattr(count, unit)) for name, count in sizes.items() for unit in ("bytes", "segments")
    ]
    found += [
        *([] if hanging is None else [("hanging_partitions", hanging)]),
        ("unresolved_partitions", report.unresolved),
        ("not_judged_partitions", report.not_judged),
        ("leaders_asked_timestamp_seconds", report.asked_at_ms / 1000),
    ]
    return tuple(Metric(name, value, cluster) for name, value in found)


def _of_the_cluster(summary: RunSummary) -> Iterator[tuple[str, float]]:
    sizes = {name: getattr(summary, name) for name in _SIZES}
    yield from _of_sizes(sizes, summary.oldest_orphan_ms, summary.ended_at_ms)
    for name, value in {
        "unsized_segments": summary.unsized,
        "metadata_partitions_out_of_service": summary.out_of_service,
        "quarantined_records": summary.quarantined,
        "doctor_critical": summary.critical,
    }.items():
        if value is not None:
            yield name, value


def _of_sizes(
    sizes: Mapping[str, Count | None], oldest_orphan_ms: int | None, now_ms: int
) -> Iterator[tuple[str, float]]:
    for name, count in sizes.items():
        if count is not None:
            yield f"{name}_bytes", count.bytes
            yield f"{name}_segments", count.segments
    orphaned = sizes["orphaned"]
    if oldest_orphan_ms is not None:
        # A broker's clock may be ahead of ours, and a record's time is its producer's.
        yield "oldest_orphan_age_seconds", max(0, now_ms - oldest_orphan_ms) / 1000
    elif orphaned is not None and not orphaned.segments and not (sizes["unseen"] and sizes["unseen"].segments):
        yield "oldest_orphan_age_seconds", 0


def _of_the_run(summary: RunSummary) -> Iterator[tuple[str, float]]:
    green, ended = summary.outcome is RunOutcome.SUCCESS, summary.ended_at_ms / 1000
    yield "planned_bytes", summary.planned.bytes
    yield "planned_segments", summary.planned.segments
    deleted = {
        name: 0 if summary.dry_run else getattr(summary.deleted, name) for name in ("bytes", "segments", "objects")
    }
    for name, value in deleted.items():
        yield f"deleted_{name}", value
        yield f"deleted_{name}_total", value
    yield "refusals", summary.refusals
    yield "needs_person", summary.needs_person
    yield "run_seconds", max(0, summary.ended_at_ms - summary.began_at_ms) / 1000
    yield "run_succeeded", int(green)
    yield "run_dry", int(summary.dry_run)
    yield "run_ended_timestamp_seconds", ended
    if green and not summary.only:
        yield "last_success_timestamp_seconds", ended
        if not summary.dry_run:
            yield "last_real_success_timestamp_seconds", ended
    yield ("runs_succeeded_total" if green else "runs_failed_total"), 1


def _of_the_step(summary: RunSummary, step: str, seconds: float) -> Iterator[tuple[str, float]]:
    yield "step_seconds", seconds
    segments: int | None = None
    if step in _DELETES and not summary.dry_run:
        segments = summary.deleted.segments
    elif step in _READS_ALL and summary.stored is not None:
        segments = summary.stored.segments
    if segments is not None and seconds > 0:
        yield "step_segments_per_second", segments / seconds
