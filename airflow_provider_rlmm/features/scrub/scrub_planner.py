# SPDX-License-Identifier: Apache-2.0
"""The plan that is made from a scrub: which objects may go, written down before anything is deleted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, equals
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.arrow_ids import IdSet, folded_together
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion, early_deletion
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.plan_files import PlannedTopic, read_document
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.table_pairs import write_pair
from airflow_provider_rlmm.features.scrub.scrub_files import open_scrub
from airflow_provider_rlmm.features.scrub.scrub_plan import (
    SCRUB_PLAN_DOCUMENT,
    SCRUB_PLAN_FORM,
    SCRUB_PLAN_TABLE,
    Choice,
    Chosen,
    ScrubPlan,
)
from airflow_provider_rlmm.features.scrub.scrub_summary import Amount, ScrubSummary
from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable, open_table, scrub_schema

if TYPE_CHECKING:
    import pyarrow as pa


def plan_scrub(
    uri: str,
    choice: Choice,
    *,
    cluster_id: str,
    now_ms: int,
    expires_in_ms: int,
    blast_radius: BlastRadius,
    clock: str,
    dry_run: bool | None = None,
) -> ScrubPlan:
    """
    Make a plan from the scrub of the same run, and write it beside it.

    :param uri: of the run's folder.
    :param choice: by what rules; time and places are those of the scrub.
    :param cluster_id: the connected cluster.
    :param now_ms: ms since the epoch.
    :param expires_in_ms: for how long it may be applied, ms.
    :param blast_radius: the limit that it is judged by.
    :param clock: which clock was used and how it was proven, in words.
    :param dry_run: whether the run only says what it would do, ``None`` where nothing says so.
    :raises PlanError: if there is no scrub, or one of another cluster.
    :raises OSError: if the plan cannot be written.
    """
    with open_scrub(uri) as (summary, rows):
        if summary.cluster_id != cluster_id:
            raise PlanError(
                f"scrub {summary.scrub_id} is of cluster {summary.cluster_id!r}, this is {cluster_id!r}; scrub again"
            )
        scrubbed_at_ms = summary.began_at_ms if summary.time_is_proven else None
        listed_whole = not summary.incomplete
        chosen = replace(
            choice, places=verified_places(summary), scrubbed_at_ms=scrubbed_at_ms, listed_whole=listed_whole
        ).of(rows)
    tally = _PlanTally()

    def document(file: PlanFile) -> ScrubPlan:
        return ScrubPlan(
            plan_id=summary.scrub_id,
            scrub_sha256=summary.file.sha256,
            cluster_id=cluster_id,
            metadata_topic_id=summary.metadata_topic_id,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + expires_in_ms,
            clock=clock,
            min_unreferenced_ms=choice.limits.min_unreferenced_ms,
            sole_owner=choice.sole_owner,
            classes=tally.classes,
            planned=tally.planned,
            known=Count(summary.listed_segments, summary.listed.bytes),
            waiting=chosen.waiting,
            barred=chosen.barred,
            held=chosen.held,
            elsewhere=chosen.elsewhere,
            left_for_later=chosen.left_for_later,
            hold=choice.hold.entries,
            only=choice.only.narrowed_to,
            root=summary.root,
            era=summary.era,
            price=summary.price,
            early=_early(summary, chosen, now_ms),
            dry_run=dry_run,
            blast_radius=blast_radius,
            file=file,
        ).judged_by(blast_radius)

    written: ScrubPlan = write_pair(
        uri,
        (SCRUB_PLAN_TABLE, scrub_schema()),
        map(tally.noted, chosen.rows.tables()),
        (SCRUB_PLAN_DOCUMENT, document),
    )
    return written


class _PlanTally:
    """How much a plan names, summed up while its rows are written or read."""

    def __init__(self) -> None:
        self.classes: dict[str, Amount] = {}
        self._segments = IdSet()

    @property
    def planned(self) -> Count:
        return Count(len(self._segments), sum(amount.bytes for amount in self.classes.values()))

    def noted(self, rows: pa.Table) -> pa.Table:
        """Count rows, and return them."""
        import pyarrow.compute as pc

        for kind in pc.unique(rows.column("class")).to_pylist():
            mine = Amount.of(rows.filter(equals(rows.column("class"), kind)))
            self.classes[kind] = self.classes.get(kind, Amount(0, 0)) + mine
        ids = [rows.column(name) for name in ("topic_id", "segment_id")]
        self._segments.add_folded(folded_together(ids, rows.column("partition")))
        return rows


def read_scrub_plan(uri: str) -> ScrubPlan:
    """
    Read the document of a plan that was made from a scrub.

    :param uri: of the run's folder.
    :raises PlanError: if there is none, or it is not as it was written.
    """
    return ScrubPlan.from_json(read_document(uri, SCRUB_PLAN_DOCUMENT, SCRUB_PLAN_FORM.max_bytes))


@contextmanager
def open_scrub_plan(uri: str) -> Iterator[tuple[ScrubPlan, ScrubTable]]:
    """
    Open a plan that was made from a scrub.

    :param uri: of the run's folder.
    :raises PlanError: if there is none, or it is not as it was written.
    """
    plan = read_scrub_plan(uri)
    with open_table(uri, plan.file) as rows:
        tally = _PlanTally()
        for table in rows.tables():
            tally.noted(table)
        if tally.planned != plan.planned:
            raise PlanError(f"plan {plan.plan_id} says other segments and bytes than its table has; scrub again")
        yield plan, rows


def topics_of(rows: ScrubTable) -> list[PlannedTopic]:
    """
    Return the topics whose objects a plan names, the largest first.

    :param rows: its table.
    :raises PlanError: if it cannot be read.
    """
    names = ["topic", "topic_id"]
    segments: defaultdict[tuple[str, bytes], IdSet] = defaultdict(IdSet)
    sizes: Counter[tuple[str, bytes]] = Counter()
    oldest: dict[tuple[str, bytes], int] = {}
    for table in rows.tables():
        groups = groups_of(table, names)
        keys = groups.keys(names)
        columns = (
            *(keys.column(name).to_pylist() for name in names),
            groups.total("bytes").tolist(),
            groups.least("last_modified_ms").tolist(),
        )
        for number, (topic, topic_id, size, oldest_ms) in enumerate(zip(*columns, strict=True)):
            key = topic, topic_id
            mine = table.filter(array_of(groups.of_row == number))
            segments[key].add_folded(folded_together([mine.column("segment_id")], mine.column("partition")))
            sizes[key] += size
            oldest[key] = min(oldest.get(key, oldest_ms), oldest_ms)
    topics = [
        PlannedTopic(
            topic, kafka_uuid_str(UUID(bytes=topic_id)), len(ids), sizes[topic, topic_id], oldest[topic, topic_id]
        )
        for (topic, topic_id), ids in segments.items()
    ]
    return sorted(topics, key=lambda topic: (-topic.bytes, topic.topic, topic.topic_id))


def verified_places(summary: ScrubSummary) -> frozenset[str]:
    """
    Return the names of the places that a scrub has seen to be the cluster's.

    :param summary: of the scrub.
    """
    return frozenset(place["place"] for place in summary.root.get("places", ()) if place["verified"])


def _early(summary: ScrubSummary, chosen: Chosen, now_ms: int) -> EarlyDeletion | None:
    """Reckon what goes early, by the store's own time of each object."""
    columns = ((table[name].to_pylist() for name in ("bytes", "last_modified_ms")) for table in chosen.rows.tables())
    return early_deletion(summary.price, (pair for two in columns for pair in zip(*two, strict=True)), now_ms)
