# SPDX-License-Identifier: Apache-2.0
"""
Which of the objects that a scrub has found may go, and the plan that names them.

Only objects of segments that the log calls finished, and those that no record names at two scrubs that lie far enough
apart, under topic ids that are absent by the full rule (:mod:`airflow_provider_rlmm.features.scrub.unnamed`); never those
of a segment that is not finished. A topic id that the log never named is another cluster's for all we know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, filled, is_among
from airflow_provider_rlmm.core.base.arrow_ids import IdSet
from airflow_provider_rlmm.core.base.documents import Text, reader_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.base.spool import OrderedSpool
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan, PlanForm
from airflow_provider_rlmm.core.plans.guards import BlastRadius, ScrubLimits
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.plan_files import MAX_DOCUMENT_BYTES
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, Only
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import SCRUB_AGAIN, Amount
from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable, scrub_schema
from airflow_provider_rlmm.features.scrub.unnamed import BARRING, UNNAMED, Kept, that_bar, why_kept

if TYPE_CHECKING:
    import pyarrow as pa

SCRUB_PLAN_FORM = PlanForm(
    version=2,
    name="the plan of a scrub",
    top="plan",
    max_bytes=MAX_DOCUMENT_BYTES,
    what_goes="objects of ",
    again=SCRUB_AGAIN,
    goes_early="object",
)
SCRUB_PLAN_DOCUMENT = "scrub-plan.json"
SCRUB_PLAN_TABLE = "scrub-plan.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubPlan(DeletionPlan):
    """
    The small JSON document beside the table of a scrub's plan. What it knows are the segments and bytes that the scrub has
    listed, and of the storage root what the scrub saw; it was always judged.

    :param scrub_sha256: of the table that it was made from.
    :param metadata_topic_id: of the log that the scrub has read, Kafka's base64 form.
    :param min_unreferenced_ms: the wait that unreferenced objects have behind them, ms.
    :param sole_owner: whether the connection says that no other program keeps objects in this storage.
    :param classes: planned objects per :class:`~airflow_provider_rlmm.features.scrub.rules.ScrubClass`.
    :param planned: segments and bytes of all classes together.
    :param waiting: objects whose wait is not over.
    :param barred: objects that no record names and that must stay, however long they wait.
    :param held: objects of topics that a hold names.
    :param elsewhere: objects at places that are not shown to be this cluster's.
    :param left_for_later: objects beyond what this run may take.
    :param file: the table.
    """

    scrub_sha256: Text
    metadata_topic_id: Text
    min_unreferenced_ms: int
    sole_owner: bool
    classes: Mapping[Text, Amount]
    planned: Count
    waiting: Amount
    barred: Amount
    held: Amount
    elsewhere: Amount
    left_for_later: Amount
    blast_radius: BlastRadius
    file: PlanFile

    FORM: ClassVar[PlanForm] = SCRUB_PLAN_FORM

    def check_valid(self, cluster_id: str, metadata_topic_id: str, now_ms: int) -> None:
        """
        Refuse a plan that may no longer be applied, or not here.

        :param cluster_id: id of the connected cluster.
        :param metadata_topic_id: of the log that is read now, Kafka's base64 form.
        :param now_ms: ms since the epoch.
        :raises PlanError: naming the plan and what to do.
        """
        if (cluster_id, metadata_topic_id) != (self.cluster_id, self.metadata_topic_id):
            raise PlanError(
                f"plan {self.plan_id} was made for cluster {self.cluster_id!r} and metadata topic {self.metadata_topic_id}, "
                f"this is {cluster_id!r} and {metadata_topic_id}; scrub again"
            )
        self.check_expiry(now_ms)

    def check_numbers(self) -> None:
        """See :class:`~airflow_provider_rlmm.core.plans.deletion_plan.DeletionPlan`."""
        if self.file.rows != sum(amount.objects for amount in self.classes.values()):
            raise ValueError("the table has other rows than the classes add up to")

    @classmethod
    def from_json(cls, text: str) -> ScrubPlan:
        """See :class:`~airflow_provider_rlmm.core.plans.deletion_plan.DeletionPlan`."""
        return SCRUB_PLAN_FORM.read(text, _READ)


_READ = reader_of(ScrubPlan)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What may go of a scrub's table, and what may not yet or not at all."""

    rows: OrderedSpool  # rows of the table, in the order of their keys
    waiting: Amount  # objects whose wait is not over
    barred: Amount  # objects that no record names and that must stay, however long they wait
    held: Amount  # objects of topics that a hold names
    elsewhere: Amount  # objects at places that are not shown to be this cluster's
    left_for_later: Amount  # objects beyond what this run may take


@dataclass(frozen=True, slots=True)
class Choice:
    """
    By what rules objects are chosen.

    :param limits: the wait.
    :param hold: what is never touched.
    :param scrubbed_at_ms: proven time of the scrub, ms since the epoch; ``None`` where nothing proves it.
    :param listed_whole: whether every folder was listed whole: in the others there may be anything.
    :param places: names of the places that are shown to be this cluster's.
    :param sole_owner: whether topic ids that the log never named may go, too.
    :param max_segments: no more segments than these, ``None`` for all.
    :param only: the topics that the run is for: rows of others are not chosen, and bar and count as ever.
    """

    limits: ScrubLimits
    hold: Hold
    scrubbed_at_ms: int | None = None
    listed_whole: bool = True
    places: Collection[str] = ()
    sole_owner: bool = False
    max_segments: int | None = None
    only: Only = ALL_TOPICS

    def of(self, rows: ScrubTable) -> Chosen:
        """
        Choose what may go.

        All objects of a segment that no record names stay where one of them does.

        :param rows: the table of a scrub.
        :raises PlanError: if it cannot be read.
        :raises RoomError: if the local disk has no room for what is chosen.
        """
        sorting, kinds, all_barred = _Sorting(self), self._kinds(), self._all_barred(rows)
        for kind in kinds & set(UNNAMED):
            for table in rows.of_class(kind):
                sorting.note_staying(table, all_barred=all_barred)
        for kind in sorted(kinds):
            for table in rows.of_class(kind):
                sorting.sort(table)
        return sorting.chosen()

    def _kinds(self) -> set[str]:
        found = {ScrubClass.FINISHED.value, ScrubClass.UNREFERENCED.value}
        return found | ({ScrubClass.UNKNOWN_TOPIC_ID.value} if self.sole_owner else set())

    def _all_barred(self, rows: ScrubTable) -> bool:
        """Tell whether nothing goes that no record names."""
        # One of them under a topic id that lives, wherever it lies and held or not, says that the log has lost records.
        return not self.listed_whole or any(
            that_bar(table).num_rows for kind in BARRING for table in rows.of_class(kind)
        )

    def kept(self, row: Mapping[str, Any]) -> Kept | None:
        """
        Return why an object that no record names stays, ``None`` where its topic is absent by the full rule.

        :param row: of the table.
        """
        return why_kept(
            row["class"],
            presence=row["presence"],
            marked_ms=row["marked_ms"],
            last_modified_ms=row["last_modified_ms"],
            now_ms=self.scrubbed_at_ms,
            min_absence_ms=self.limits.min_absence_ms,
        )

    def is_over(self, row: Mapping[str, Any]) -> bool:
        """
        Tell whether the wait of an object between two scrubs is over.

        :param row: of the table.
        """
        if row["first_seen_ms"] is None or self.scrubbed_at_ms is None:
            return False
        # Between two scrubs, not since the first one: a record may have named it since.
        since_ms: int = max(row["first_seen_ms"], row["last_modified_ms"])
        return since_ms <= self.scrubbed_at_ms - self.limits.min_unreferenced_ms


class _Sorting:
    """Rows of a scrub's table, put where they belong: into what may go, or into one of the sums of what may not."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._barring, self._waiting_for = IdSet(), IdSet()
        self._free_tips: dict[tuple[Any, ...], bool] = {}
        self._chosen_tips: dict[tuple[Any, ...], bool] = {}
        self._rows = OrderedSpool(scrub_schema(), "key")
        self._elsewhere = self._held = self._barred = self._waiting = Amount(0, 0)

    def note_staying(self, rows: pa.Table, *, all_barred: bool) -> None:
        """Note the segments of which an object stays: all of their objects do."""
        import pyarrow as pa

        rows = rows.filter(self._are_at_places(rows))
        rows = rows.filter(self._are_free(rows))
        barring, waiting = [], []
        for row in rows.select(_JUDGED_BY).to_pylist():
            kept = self._choice.kept(row)
            if all_barred or kept in (Kept.NOT_ABSENT, Kept.YOUNGER):
                barring.append(row["segment_id"])
            elif kept is not None or not self._choice.is_over(row):
                waiting.append(row["segment_id"])
        self._barring.add(array_of(barring, pa.binary()))
        self._waiting_for.add(array_of(waiting, pa.binary()))

    def sort(self, rows: pa.Table) -> None:
        """Put rows where they belong, once all that stay are noted."""
        rows, others = _split(rows, self._are_at_places(rows))
        self._elsewhere += others
        rows, others = _split(rows, self._are_free(rows))
        self._held += others
        rows, others = _split(rows, array_of(~self._barring.holds(rows.column("segment_id"))))
        self._barred += others
        rows, others = _split(rows, array_of(~self._waiting_for.holds(rows.column("segment_id"))))
        self._waiting += others
        self._rows.append(rows if self._choice.only.is_all else rows.filter(self._are_wanted(rows)))

    def chosen(self) -> Chosen:
        """Return what was sorted, and leave for later what is beyond what this run may take."""
        import pyarrow as pa

        rows, later = self._rows, Amount(0, 0)
        if (most := self._choice.max_segments) is not None:
            rows, seen = OrderedSpool(scrub_schema(), "key"), set[tuple[Any, ...]]()
            for every in self._rows.tables():
                taken = []
                for segment in map(tuple, zip(*(every.column(name).to_pylist() for name in _SEGMENT), strict=True)):
                    if len(seen) < most:
                        seen.add(segment)
                    taken.append(segment in seen)
                first, others = _split(every, array_of(taken, pa.bool_()))
                later += others
                rows.append(first)
        return Chosen(rows, self._waiting, self._barred, self._held, self._elsewhere, later)

    def _are_at_places(self, rows: pa.Table) -> Any:
        return filled(is_among(rows.column("place"), sorted(self._choice.places)), False)

    def _are_free(self, rows: pa.Table) -> Any:
        return _mask(rows, self._free_tips, lambda tip: self._choice.hold.refusal_of(tip, ()) is None)

    def _are_wanted(self, rows: pa.Table) -> Any:
        return _mask(rows, self._chosen_tips, self._choice.only.chooses)


_TIP = ["topic_id", "topic", "partition"]
_SEGMENT = ["topic_id", "partition", "segment_id"]
_JUDGED_BY = ["class", "presence", "marked_ms", "last_modified_ms", "first_seen_ms", "segment_id"]


def _mask(rows: pa.Table, known: dict[tuple[Any, ...], bool], judge: Callable[[TopicIdPartition], bool]) -> Any:
    """Return which rows are of user partitions of which a judge says yes; it is asked once about each."""
    import pyarrow as pa

    tips = list(zip(*(rows.column(name).to_pylist() for name in _TIP), strict=True))
    for tip in set(tips) - known.keys():
        topic_id, topic, partition = tip
        known[tip] = judge(TopicIdPartition(UUID(bytes=topic_id), topic, partition))
    return array_of([known[tip] for tip in tips], pa.bool_())


def _split(rows: pa.Table, mask: Any) -> tuple[pa.Table, Amount]:
    """Return the rows of a mask, and how much the others are."""
    import pyarrow.compute as pc

    return rows.filter(mask), Amount.of(rows.filter(pc.invert(mask)))
