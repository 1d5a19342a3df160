# SPDX-License-Identifier: Apache-2.0
"""
What a run did, what it refused and why: value objects that become the report document (JSON).

``docs/reports.md`` says what each field means. Whoever reads a document checks its form first (:func:`check_report`): every
field is there, none besides, each of exactly its kind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_rlmm.core.base import strict_json
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.plan_archive import PlanArchive
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import Attention, Judgement


class PartitionOutcome(StrEnum):
    """How the cleaning of one user partition ended."""

    FINISHED = "FINISHED"
    """DELETE_PARTITION_FINISHED is durable (in a dry run: would have been written)."""

    INCOMPLETE = "INCOMPLETE"
    """Started, and something is left: see the refusals; the next run goes on."""

    REFUSED = "REFUSED"
    """Nothing was done."""

    WAITING = "WAITING"
    """Nothing was done: its time has not come yet."""


@dataclass(frozen=True, slots=True)
class UserPartitionReport:
    """One user partition of a cleaning run."""

    topic: str  # topic name
    topic_id: str  # Kafka's base64 form
    partition: int  # user partition
    outcome: PartitionOutcome  # how it ended
    segments_deleted: int  # segments that reached DELETE_SEGMENT_FINISHED
    segments_left: int  # segments that are not finished
    objects_deleted: int  # objects confirmed gone
    bytes_deleted: int  # their sizes, summed
    refusals: tuple[Refusal, ...] = ()  # what was refused or left, and why

    @classmethod
    def refused(cls, tip: TopicIdPartition, segments_left: int, refusal: Refusal) -> UserPartitionReport:
        """
        Report a partition that was not touched.

        :param tip: the user partition.
        :param segments_left: its segments that are not finished.
        :param refusal: why.
        """
        waiting = refusal.kind is RefusalKind.WAITING
        outcome = PartitionOutcome.WAITING if waiting else PartitionOutcome.REFUSED
        return cls(tip.topic, kafka_uuid_str(tip.topic_id), tip.partition, outcome, 0, segments_left, 0, 0, (refusal,))


@dataclass(frozen=True, slots=True)
class MetadataPartitionReport:
    """One metadata partition of a cleaning run."""

    metadata_partition: int  # which one
    dry_run: bool  # whether nothing was written or deleted
    partitions: tuple[UserPartitionReport, ...]  # its user partitions that had work
    refusals: tuple[Refusal, ...]  # what concerns the metadata partition as a whole
    events: Mapping[str, int]  # events written, by state name
    would_write: tuple[str, ...]  # in a dry run, every event that would have been written, in order, in words
    committed_offset: int | None  # the offset committed at the end, ``None`` where none was
    duration_ms: int  # ms

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
    # That the report of a still earlier try is lost, or the audit log lacks something of it, stays true.
    lost = [r for r in earlier["refusals"] if r["kind"] in (RefusalKind.REPORT.value, RefusalKind.AUDIT.value)]
    return {
        **report,
        "partitions": partitions,
        "refusals": [*report["refusals"], *lost],
        "events": dict(events),
        "duration_ms": duration_ms,
    }


REPORT_FORMAT = 1
"""Version of the report's form; one of another version is not read."""

DONE = ("segments_deleted", "objects_deleted", "bytes_deleted")
TOTALS = (*DONE, "segments_left")

IN_A_DRY_RUN = {
    "segments_deleted": "would_delete_segments",
    "objects_deleted": "would_delete_objects",
    "bytes_deleted": "would_delete_bytes",
    "segments_left": "would_leave_segments",
    "partitions_finished": "would_finish_partitions",
    "partitions_incomplete": "would_leave_partitions_incomplete",
    "partitions_marked": "would_mark_partitions",
}
"""What a count is called where nothing was done; the others say what is, in a dry run too."""


def totals(reports: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """
    Sum what the metadata partitions' reports count.

    :param reports: documents of :meth:`MetadataPartitionReport.to_dict`.
    :return: the sums, and the number of ``partitions`` per outcome in lower case, and ``refusals``, without waits. What
        waits is not left, and what was refused twice counts once.
    """
    partitions = [p for r in reports for p in r["partitions"]]
    counted = {name: sum(p[name] for p in partitions) for name in DONE}
    counted["segments_left"] = sum(
        p["segments_left"] for p in partitions if p["outcome"] != PartitionOutcome.WAITING.value
    )
    for outcome in PartitionOutcome:
        counted[f"partitions_{outcome.value.lower()}"] = sum(p["outcome"] == outcome.value for p in partitions)
    counted["refusals"] = count_refused(met_in(reports))
    return counted


Met = tuple[int | None, Refusal]
"""A refusal, and the metadata partition where it was met; ``None`` where it says that itself, or concerns none."""


def met_in(reports: Iterable[Mapping[str, Any]]) -> Iterator[Met]:
    """
    Yield every refusal of metadata partitions' reports.

    :param reports: documents of :meth:`MetadataPartitionReport.to_dict`.
    """
    for report in reports:
        yield from ((report["metadata_partition"], refusal_of_dict(r)) for r in refusals_of([report]))


def count_refused(met: Iterable[Met]) -> int:
    """
    Count what was refused or left, waits not among it: marker, planner and cleaner may each refuse the same thing.

    :param met: every refusal of a run, of whatever task.
    """
    first: dict[object, int] = {}
    for metadata_partition, refusal in met:
        if refusal.kind is not RefusalKind.WAITING:
            first.setdefault(Attention.of_refusal(refusal, metadata_partition).key, refusal.count)
    return sum(first.values())


def refusals_of(reports: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """
    Yield every refusal, those of a metadata partition before those of its user partitions.

    :param reports: documents of :meth:`MetadataPartitionReport.to_dict`.
    """
    for report in reports:
        yield from report["refusals"]
        for partition in report["partitions"]:
            yield from partition["refusals"]


def named(counts: Mapping[str, int], dry_run: bool) -> dict[str, int]:
    """
    Return counts under the names that are true: in a dry run nothing was deleted, it only would have been.

    :param counts: such as :func:`totals` returns.
    :param dry_run: whether nothing was written or deleted.
    """
    return {IN_A_DRY_RUN.get(name, name) if dry_run else name: count for name, count in counts.items()}


def cleanup_document(
    *,
    report_id: str,
    plan_id: str | None,
    cluster_id: str | None,
    created_at_ms: int,
    reports: Sequence[Mapping[str, Any]],
    dry_run: bool = False,
    judgement: Judgement | None = None,
    stopped: Mapping[str, Any] | None = None,
    waiting: Count | None = None,
    left: int = 0,
    not_marked: Sequence[Refusal] = (),
    not_planned: Sequence[Refusal] = (),
    partitions_marked: int = 0,
    deletion: str | None = None,
    archive: PlanArchive | None = None,
) -> dict[str, Any]:
    """
    Put what the tasks of a run left into one document, in the form that ``check_report`` asks for.

    :param report_id: names the report.
    :param plan_id: the plan that was applied, ``None`` where there was none.
    :param cluster_id: the cluster, ``None`` where it is not known.
    :param created_at_ms: ms since the epoch.
    :param reports: documents of :meth:`MetadataPartitionReport.to_dict`.
    :param dry_run: whether nothing was written or deleted.
    :param judgement: what needs a person, and what a person has seen; ``None`` for nothing.
    :param stopped: why the run stopped before it cleaned anything, what to do, and what is ``left`` (segments, bytes).
    :param left: segments that are left in metadata partitions without a report of their own.
    :param waiting: what will be eligible by itself, as of the plan; ``None`` for nothing.
    :param not_marked: refusals of the marker.
    :param not_planned: refusals of the planner; waits among them and in the reports count apart.
    :param partitions_marked: how many partitions were marked.
    :param deletion: whether deletion frees space, in words; ``None`` where nobody has asked.
    :param archive: what was archived before anything was deleted, ``None`` where nothing was.
    """
    judgement, waiting = judgement or Judgement(), waiting or Count(0, 0)
    counted = totals(reports)
    counted["segments_left"] += left
    counted["partitions_marked"] = partitions_marked
    earlier = ((None, refusal) for refusal in (*not_planned, *not_marked))
    counted["refusals"] = count_refused((*earlier, *met_in(reports)))
    entries = {
        name: [j.to_dict(cluster_id or "", created_at_ms) for j in judged]
        for name, judged in (("needs_person", judgement.failing), ("acknowledged", judgement.acknowledged))
    }
    planned_or_met = (*map(asdict, not_planned), *refusals_of(reports))
    waits = {r["what"]: r for r in reversed(planned_or_met) if r["kind"] == RefusalKind.WAITING}
    document = {
        "format_version": REPORT_FORMAT,
        "report_id": report_id,
        "plan_id": plan_id,
        "cluster_id": cluster_id,
        "created_at_ms": created_at_ms,
        "dry_run": dry_run,
        "stopped": stopped,
        "deletion": deletion,
        "archive": None if archive is None else archive.to_report(),
        **entries,
        "waiting": {**asdict(waiting), "refusals": [waits[what] for what in sorted(waits)]},
        "totals": {
            **named(counted, dry_run),
            "waiting_segments": waiting.segments,
            "waiting_bytes": waiting.bytes,
            "needs_person": judgement.things,
            "acknowledged": len(judgement.acknowledged),
        },
        "not_marked": [asdict(r) for r in not_marked if _is_left(r.kind)],
        "not_planned": [asdict(r) for r in not_planned if _is_left(r.kind)],
        "metadata_partitions": list(reports),
    }
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def _is_left(kind: RefusalKind) -> bool:
    """Tell whether something was left that neither waits for its time nor needs a person: those have lists of their own."""
    return kind is not RefusalKind.WAITING and not kind.needs_person


def refusal_of_dict(plain: Mapping[str, Any]) -> Refusal:
    """
    Return a refusal as it was before it became part of a document.

    :param plain: its fields, checked.
    """
    return Refusal(**{**plain, "kind": RefusalKind(plain["kind"])})


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
    # Documents of earlier releases say nothing of what stands for several.
    return strict_json.record(dict, readers, {"count": 1} if "count" in readers else {})


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
    "count": strict_json.integer,
}
_refusals = strict_json.array(_fields(kind=strict_json.one_of(RefusalKind), **_PLACE))

_entries = strict_json.array(
    _fields(
        kind=_text,
        acknowledgement=strict_json.optional(_fields(by=_text, why=_text, until=_text, expired=strict_json.boolean)),
        acknowledge_with=strict_json.optional(strict_json.by_name(strict_json.any_json)),
        **_PLACE,
    )
)

_user_partition = _fields(
    topic=_text,
    topic_id=_text,
    partition=strict_json.integer,
    outcome=strict_json.one_of(PartitionOutcome),
    **dict.fromkeys(TOTALS, strict_json.integer),
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

_archive = _fields(
    name=_text,
    uri=_text,
    counts=strict_json.by_name(strict_json.integer),
    partitions=strict_json.array(
        _fields(
            **dict.fromkeys(("topic", "topic_id", "manifest", "manifest_sha256", "records_sha256"), _text),
            **dict.fromkeys(("partition", "segments", "not_whole", "bytes", "records"), strict_json.integer),
        )
    ),
)

_report = _fields(
    format_version=_version,
    report_id=_text,
    plan_id=_maybe_text,
    cluster_id=_maybe_text,
    created_at_ms=strict_json.integer,
    dry_run=strict_json.boolean,
    stopped=strict_json.optional(_fields(why=_text, what_to_do=_text, left=_count)),
    deletion=_maybe_text,
    archive=strict_json.optional(_archive),
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
    # Reports of earlier releases know of no archive.
    _report({"archive": None, **document}, "report")


def check_part(document: Mapping[str, Any]) -> None:
    """Check the form of one metadata partition's report as :func:`check_report` does."""
    _part(document, "part")


def check_mark(document: Mapping[str, Any]) -> None:
    """Check the form of what the marker left as :func:`check_report` does."""
    _mark(document, "mark")
