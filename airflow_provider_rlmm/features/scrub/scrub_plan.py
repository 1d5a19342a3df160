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

from airflow_provider_rlmm.core.base.documents import Text, reader_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.deletion_plan import DeletionPlan, PlanForm
from airflow_provider_rlmm.core.plans.guards import BlastRadius, ScrubLimits
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.plan_files import MAX_DOCUMENT_BYTES
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import SCRUB_AGAIN, Amount
from airflow_provider_rlmm.features.scrub.unnamed import UNNAMED, Kept, that_bar, why_kept

if TYPE_CHECKING:
    import pyarrow as pa

SCRUB_PLAN_FORM = PlanForm(
    version=2,
    name="the plan of a scrub",
    top="plan",
    max_bytes=MAX_DOCUMENT_BYTES,
    what_goes="objects of ",
    again=SCRUB_AGAIN,
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
    :param sole_owner: whether the connection says that nobody else keeps objects in this storage.
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

    rows: pa.Table  # rows of the table
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
    """

    limits: ScrubLimits
    hold: Hold
    scrubbed_at_ms: int | None = None
    listed_whole: bool = True
    places: Collection[str] = ()
    sole_owner: bool = False
    max_segments: int | None = None

    def of(self, rows: pa.Table) -> Chosen:
        """
        Choose what may go.

        All objects of a segment that no record names stay where one of them does.

        :param rows: the table of a scrub.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        classes = [
            ScrubClass.FINISHED,
            ScrubClass.UNREFERENCED,
            *([ScrubClass.UNKNOWN_TOPIC_ID] if self.sole_owner else []),
        ]
        # One of them under a topic id that lives, wherever it lies and whoever holds it, says that the log has lost records.
        all_barred = that_bar(rows).num_rows > 0 or not self.listed_whole
        rows = rows.filter(pc.is_in(rows["class"], value_set=pa.array([kind.value for kind in classes])))
        rows, elsewhere = _split(rows, pc.is_in(rows["place"], value_set=pa.array(sorted(self.places), pa.string())))
        rows, held = _split(
            rows, pa.array([not self._is_held(row) for row in rows.select(_TIP).to_pylist()], pa.bool_())
        )
        rows, barred = self._without(rows, lambda row: all_barred or self._kept(row) in (Kept.NOT_ABSENT, Kept.YOUNGER))
        rows, waiting = self._without(rows, lambda row: self._kept(row) is not None or not self._is_over(row))
        rows, later = self._first(rows.sort_by([("key", "ascending")]))
        return Chosen(rows, waiting, barred, held, elsewhere, later)

    def _without(self, rows: pa.Table, stays: Callable[[Mapping[str, Any]], bool]) -> tuple[pa.Table, Amount]:
        """Return the rows of segments of which no object stays, and how much the others are; what is finished never stays."""
        import pyarrow as pa

        plain = rows.to_pylist()
        staying = {_segment(row) for row in plain if row["class"] in UNNAMED and stays(row)}
        return _split(rows, pa.array([_segment(row) not in staying for row in plain], pa.bool_()))

    def _kept(self, row: Mapping[str, Any]) -> Kept | None:
        return why_kept(
            row["class"],
            presence=row["presence"],
            marked_ms=row["marked_ms"],
            last_modified_ms=row["last_modified_ms"],
            now_ms=self.scrubbed_at_ms,
            min_absence_ms=self.limits.min_absence_ms,
        )

    def _is_held(self, row: Mapping[str, Any]) -> bool:
        tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
        return self.hold.refusal_of(tip, ()) is not None

    def _is_over(self, row: Mapping[str, Any]) -> bool:
        """Tell whether the wait of an object between two scrubs is over."""
        if row["first_seen_ms"] is None or self.scrubbed_at_ms is None:
            return False
        # Between two scrubs, not since the first one: somebody may have named it since.
        since_ms: int = max(row["first_seen_ms"], row["last_modified_ms"])
        return since_ms <= self.scrubbed_at_ms - self.limits.min_unreferenced_ms

    def _first(self, rows: pa.Table) -> tuple[pa.Table, Amount]:
        import pyarrow as pa

        if self.max_segments is None:
            return rows, Amount(0, 0)
        seen: dict[tuple[Any, ...], int] = {}
        numbers = [seen.setdefault(_segment(row), len(seen)) for row in rows.select(_SEGMENT).to_pylist()]
        return _split(rows, pa.array([number < self.max_segments for number in numbers], pa.bool_()))


_TIP = ["topic_id", "topic", "partition"]
_SEGMENT = ["topic_id", "partition", "segment_id"]


def _segment(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SEGMENT)


def _split(rows: pa.Table, mask: Any) -> tuple[pa.Table, Amount]:
    """Return the rows of a mask, and how much the others are."""
    import pyarrow.compute as pc

    mask = pc.fill_null(mask, False)
    others = rows.filter(pc.invert(mask))
    return rows.filter(mask), Amount(others.num_rows, pc.sum(others["bytes"]).as_py() or 0)
