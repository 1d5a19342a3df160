# SPDX-License-Identifier: Apache-2.0
"""
Deletes the objects that a scrub's plan names, and writes no event: the log calls their segments finished, or never knew them.

Follow :meth:`ScrubCleaner.clean`: per batch one look at the cluster, watermarks, a listing of the very objects, one more read
of the log, another look for the topic ids of what no record names, and the rules of the scrub once more. Only what is still
what the plan calls it goes. Before anything that no record names, all of storage is compared with the log again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby, islice, pairwise
from typing import Any
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.arrow_ids import IdSet
from airflow_provider_rlmm.core.base.clock import Clock, monotonic_clock
from airflow_provider_rlmm.core.base.errors import PlanError, StorageRootError
from airflow_provider_rlmm.core.base.file_systems import read_file
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.log.protocol import ClusterTopics, MetadataLogReader
from airflow_provider_rlmm.core.plans.guards import ScrubLimits
from airflow_provider_rlmm.core.plans.limits import MAX_COPY
from airflow_provider_rlmm.core.plans.log_refusals import refusal_of_lost
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.core.runs.listed_objects import ListedObjects
from airflow_provider_rlmm.core.storage.deletion import parent_of
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager, StoredObject
from airflow_provider_rlmm.core.storage.root import RootCheck
from airflow_provider_rlmm.core.world.cluster_look import ClusterLook, look
from airflow_provider_rlmm.core.world.diskless import DISKLESS_ADVICE, why_diskless
from airflow_provider_rlmm.core.world.gate import Gate
from airflow_provider_rlmm.core.world.hold import HoldSource
from airflow_provider_rlmm.core.world.kill_switch import STOPPED_ADVICE, StopSource, never_stopped
from airflow_provider_rlmm.features.scrub.log_view import LogIndex
from airflow_provider_rlmm.features.scrub.questions import SCRUB
from airflow_provider_rlmm.features.scrub.rules import ScrubClass, classify_objects
from airflow_provider_rlmm.features.scrub.scrub_effects import ScrubEffects
from airflow_provider_rlmm.features.scrub.scrub_reading import ScrubReading
from airflow_provider_rlmm.features.scrub.scrub_summary import MAX_LISTED, UNNAMED_ADVICE, Amount
from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable
from airflow_provider_rlmm.features.scrub.scrub_trail import Doomed
from airflow_provider_rlmm.features.scrub.stored_segments import StoredSegments
from airflow_provider_rlmm.features.scrub.unnamed import UNNAMED
from airflow_provider_rlmm.features.scrub.unnamed_guard import UnnamedGuard

logger = logging.getLogger(__name__)

DELETION_DOCUMENT = "scrub-deletion.json"
_MAX_BYTES = 32 * 2**20

Row = Mapping[str, Any]


@dataclass(slots=True)
class ScrubDeletion:
    """What became of a plan's objects."""

    dry_run: bool  # whether nothing was deleted
    deleted: dict[str, Amount] = field(default_factory=dict)  # per class; in a dry run: what would have been
    gone_before: int = 0  # objects that were not there any more
    held: int = 0  # objects of topics that a hold names by now
    barred: int = 0  # objects that no record names and that stay, as others lie under a topic id that lives or may live
    left: list[Refusal] = field(default_factory=list)  # the first objects that are still there, and why
    left_objects: int = 0  # all of them
    folders_removed: int = 0  # folders of deleted topics that had become empty
    duration_ms: int = 0  # ms
    plan_sha256: str = ""  # of the plan; empty where this try did not come to it, or an earlier release has written it

    def note_deleted(self, kind: str, size: int) -> None:
        """
        Count an object as deleted.

        :param kind: its class.
        :param size: bytes.
        """
        self._add_deleted(kind, 1, size)

    def _add_deleted(self, kind: str, objects: int, size: int) -> None:
        before = self.deleted.get(kind, Amount(0, 0))
        self.deleted[kind] = Amount(before.objects + objects, before.bytes + size)

    def note_left(self, row: Row, why: str) -> None:
        """
        Count an object as left to the next run.

        :param row: of the plan.
        :param why: the reason.
        """
        self._note(Doomed.of(row), why, "nothing: scrub again", RefusalKind.NEXT_RUN)

    def note_kept(self, doomed: Doomed, why: str) -> None:
        """
        Count an object as left that storage did not let go.

        :param doomed: the object.
        :param why: the reason.
        """
        self._note(doomed, why, "look at the rights on the bucket, then scrub again", RefusalKind.STORAGE)

    def _note(self, doomed: Doomed, why: str, what_to_do: str, kind: RefusalKind) -> None:
        self.left_objects += 1
        what = f"object {doomed.key}"
        refusal = Refusal(what, why, what_to_do, kind, doomed.metadata_partition, topic=doomed.topic)
        logger.warning("left: %s: %s", refusal.what, why)
        if len(self.left) < MAX_LISTED:
            self.left.append(refusal)

    def note_stopped(self, objects: int, why: str) -> None:
        """
        Count all the rest as left.

        :param objects: that were not begun with.
        :param why: nothing more is begun.
        """
        self.left_objects += objects
        logger.warning("left: %s: %s", number_of(objects, "object"), why)
        # One for all of them, beside any other: it is why the run needs a person.
        self.note_problem(
            Refusal(f"{number_of(objects, 'object')} of the plan", why, STOPPED_ADVICE, RefusalKind.STOPPED)
        )

    def note_barred(self, objects: int, why: str) -> None:
        """
        Count objects that no record names as left.

        :param objects: how many.
        :param why: what bars the whole class.
        """
        if not self.barred:
            what = "storage holds what the log does not name"
            self.note_problem(Refusal(what, why, UNNAMED_ADVICE, RefusalKind.UNNAMED_OBJECTS))
        self.barred += objects
        self.left_objects += objects
        logger.warning("left: %s that no record names: %s", number_of(objects, "object"), why)

    def note_diskless(self, objects: int, name: str, why: str) -> None:
        """
        Count objects of a topic without disks as left.

        :param objects: how many.
        :param name: of the topic.
        :param why: what shows it.
        """
        self.left_objects += objects
        logger.warning("left: %s of topic %r: %s", number_of(objects, "object"), name, why)
        what = f"objects of topic {in_quotes(name)}"
        refusal = Refusal(what, why, DISKLESS_ADVICE, RefusalKind.DISKLESS, topic=name)
        # Each batch may meet it: it is one problem.
        if refusal not in self.left:
            self.left.append(refusal)

    def note_problem(self, refusal: Refusal | None) -> None:
        """
        Keep what a person has to know of the run, however much else is listed.

        :param refusal: ``None`` for nothing.
        """
        if refusal is not None:
            self.left.append(refusal)

    def add_earlier_try(self, earlier: ScrubDeletion) -> None:
        """
        Add what an earlier try of the same run has deleted; what is left is as of this one.

        :param earlier: the earlier try's report, of the same plan.
        """
        for kind, amount in earlier.deleted.items():
            self._add_deleted(kind, amount.objects, amount.bytes)
        # What that one has deleted was gone for this one.
        self.gone_before = max(0, self.gone_before - sum(amount.objects for amount in earlier.deleted.values()))
        self.folders_removed += earlier.folders_removed
        self.duration_ms += earlier.duration_ms
        # That the report of a still earlier try is lost, or the audit log lacks something of it, stays true.
        self.left += [
            r for r in earlier.left if r.kind in (RefusalKind.REPORT, RefusalKind.AUDIT) and r not in self.left
        ]

    def counts(self) -> dict[str, Any]:
        """Return how much was deleted and left, for logs and XComs."""
        deleted = {kind: asdict(amount) for kind, amount in sorted(self.deleted.items())}
        others = {"gone_before": self.gone_before, "held": self.held, "left": self.left_objects, "barred": self.barred}
        others["folders_removed"] = self.folders_removed
        return {"would_delete" if self.dry_run else "deleted": deleted, **others, "dry_run": self.dry_run}

    def problems(self) -> Iterator[Attention]:
        """Yield what needs a person: what storage did not let go."""
        for refusal in self.left:
            if refusal.kind.needs_person:
                yield Attention.of_refusal(refusal)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON types."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def deletion_of(uri: str, *, dry_run: bool = True) -> ScrubDeletion:
    """
    Read what a run has deleted; nothing where it did not come to that.

    :param uri: of the run's folder.
    :param dry_run: whether the run was a dry run, for where it did not.
    :raises PlanError: if it cannot be understood.
    """
    try:
        plain = json.loads(bytes(read_file(f"{uri}/{DELETION_DOCUMENT}", _MAX_BYTES)))
        deleted = {kind: Amount(**amount) for kind, amount in plain.pop("deleted").items()}
        left = [Refusal(**{**entry, "kind": RefusalKind(entry["kind"])}) for entry in plain.pop("left")]
        return ScrubDeletion(**plain, deleted=deleted, left=left)
    except FileNotFoundError:
        return ScrubDeletion(dry_run)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as e:
        raise PlanError(
            f"{uri}/{DELETION_DOCUMENT} cannot be read ({e}); look at the log of the task that deleted"
        ) from e


def require_places(planned: ScrubTable, check: RootCheck) -> None:
    """
    Refuse to delete at a place that is not shown to be the cluster's now.

    :param planned: a plan's table.
    :param check: what was found out about the storage root.
    :raises StorageRootError: naming the places.
    """
    import pyarrow.compute as pc

    places = {place for rows in planned.tables() for place in pc.unique(rows.column("place")).to_pylist()}
    if unproven := sorted(places - check.verified_places):
        raise StorageRootError(
            f"places {', '.join(unproven)} of the plan are not shown to be this cluster's now: {check.reason}; nothing is "
            "deleted, scrub again"
        )


@dataclass(frozen=True, slots=True)
class ScrubCleaner:
    """
    Deletes what a scrub's plan names.

    :param log: the log, read only.
    :param topics: the cluster.
    :param storage: remote storage; its root was proved before.
    :param limits: how much at once.
    :param clock: time.
    :param hold: what is never touched, asked before every batch.
    :param effects: everything that changes the world: a dry run's only say it.
    :param should_stop: why no batch may be begun, asked before every one; a dry run goes on and says it.
    :param sole_owner: whether topic ids that the log never named may go, too.
    """

    log: MetadataLogReader
    topics: ClusterTopics
    storage: RemoteStorageManager
    limits: ScrubLimits
    clock: Clock
    hold: HoldSource
    effects: ScrubEffects
    should_stop: StopSource = never_stopped
    sole_owner: bool = False

    def clean(self, planned: ScrubTable, report: ScrubDeletion) -> None:
        """
        Delete.

        :param planned: a plan's table.
        :param report: gets what becomes of each object, also where an error ends the work.
        :raises ClusterMismatchError: if the topics are those of another cluster than the log.
        :raises WritesNotAllowedError: if nothing may be deleted.
        :raises StorageError: if storage cannot be listed, or is not the one that was proved.
        :raises EventLogError: if the log or the cluster cannot be read.
        :raises AuditError: if what is about to be deleted cannot be written down.
        """
        for refusal in dict.fromkeys(refusal_of_lost(lost) for lost in self.log.losses.values() if lost.is_open):
            report.note_problem(refusal)
        segment_ids = IdSet()
        for table in planned.tables():
            segment_ids.add(table.column("segment_id"))
        reading = ScrubReading(self.log, self.topics, self.clock, segment_ids)
        guard = UnnamedGuard(self.log, self.topics, self.storage, self.clock, self.limits.min_absence_ms)
        guard.begin(planned)
        try:
            is_whole = self._clean_batches(planned, reading, report, guard)
        except BaseException:
            # What is gone is written down, even if the time of the task is over.
            self._confirm(report)
            raise
        self._confirm(report)
        if is_whole and report.deleted:
            report.folders_removed = len(self.effects.remove_empty_folders(lambda: self._of_absent_topics(planned)))

    def _clean_batches(
        self, planned: ScrubTable, reading: ScrubReading, report: ScrubDeletion, guard: UnnamedGuard
    ) -> bool:
        """Go through all batches; tell whether no switch has stopped that."""
        begun = 0
        batches = _batches(planned, self.limits.batch_segments)
        for batch, following in pairwise(chain(batches, [None])):
            if batch is None:
                break
            if (why := self._gate.why_stopped()) is not None:
                report.note_stopped(planned.rows - begun, why)
                return False
            self._clean_batch(batch, reading, report, guard)
            begun += len(batch)
            folder_ends = following is None or _folder_of(following[0]) != _folder_of(batch[-1])
            if self.effects.is_to_be_confirmed(folder_ends=folder_ends):
                self._confirm(report)
        return True

    def _confirm(self, report: ScrubDeletion) -> None:
        for doomed, why in self.effects.confirm(report.note_problem):
            if why is None:
                report.note_deleted(doomed.kind, doomed.bytes)
            else:
                report.note_kept(doomed, why)

    @property
    def _gate(self) -> Gate:
        return Gate(
            SCRUB,
            is_dry=self.effects.is_dry,
            clock=self.clock,
            stop_source=self.should_stop,
            hold_source=self.hold,
            limits=self.limits.of_the_cleaner,
        )

    def _of_absent_topics(self, planned: ScrubTable) -> Sequence[str]:
        """Return an object of each folder of topics that are gone: into a living one's folder a broker may write now."""
        folders: dict[tuple[bytes, str, str], str] = {}
        for table in planned.tables():
            columns = (table.column(name).to_pylist() for name in ("topic_id", "topic", "key"))
            for topic_id, topic, key in zip(*columns, strict=True):
                folders.setdefault((topic_id, topic, key.rpartition("/")[0]), key)
        names = {UUID(bytes=topic_id): frozenset({topic}) for topic_id, topic, _ in folders}
        absent = look(self.topics, self.log, names).proof.absent
        return [key for (topic_id, _, _), key in folders.items() if UUID(bytes=topic_id) in absent]

    def _clean_batch(
        self, rows: Sequence[Row], reading: ScrubReading, report: ScrubDeletion, guard: UnnamedGuard
    ) -> None:
        began = monotonic_clock()
        if (why := self._gate.why_closed()) is not None:
            for row in rows:
                report.note_left(row, why)
            return
        seen = look(self.topics, self.log, {})
        hold = self._gate.hold()
        free = [row for row in rows if hold.refusal_of(_tip(row), ()) is None]
        report.held += len(rows) - len(free)
        free = self._without_diskless(free, seen, report)
        going = {row["key"]: row for row in self._still_as_planned(free, reading, report, guard)}
        if not going:
            return
        self.effects.delete(going)
        self.effects.rest(self._gate.rest_s(len(going), (monotonic_clock() - began) / 1000))

    def _without_diskless(self, rows: Sequence[Row], seen: ClusterLook, report: ScrubDeletion) -> list[Row]:
        """Leave out what lies under the name of a topic without disks, living or gone, and say so."""
        names = seen.living.keys() & {row["topic"] for row in rows}
        diskless = self.topics.diskless_topics(names) if names else {}
        for name, shown_by in sorted(diskless.items()):
            report.note_diskless(sum(row["topic"] == name for row in rows), name, why_diskless(name, shown_by))
        return [row for row in rows if row["topic"] not in diskless]

    def _still_as_planned(
        self, rows: Sequence[Row], reading: ScrubReading, report: ScrubDeletion, guard: UnnamedGuard
    ) -> Iterator[Row]:
        """Yield what is there as the scrub has seen it, and what the log, read after that, still calls the same."""
        before = dict(self.log.high_water_marks())
        stored = self.storage.stored_objects([row["key"] for row in rows])
        there = []
        for row in rows:
            found = stored.get(row["key"])
            if found is None:
                report.gone_before += 1
            elif found != StoredObject(row["key"], row["bytes"], row["last_modified_ms"]):
                report.note_left(row, "it was written again after the scrub")
            else:
                there.append(row)
        reading.read(self.log.high_water_marks())
        judged = self._judged([stored[row["key"]] for row in there], before, reading, guard)
        barred = 0
        for row in there:
            kind = judged[row["key"]]["class"]
            if kind != row["class"] or not self._may_go(kind):
                report.note_left(row, f"it was {row['class']} at the scrub and is {kind} now")
            elif kind in UNNAMED and guard.barred is not None:
                barred += 1
            elif (kept := guard.why_kept(judged[row["key"]])) is not None:
                report.note_left(row, kept.value)
            else:
                yield row
        if barred and guard.barred is not None:
            report.note_barred(barred, guard.barred)

    def _may_go(self, kind: str) -> bool:
        if kind == ScrubClass.UNKNOWN_TOPIC_ID.value:
            return self.sole_owner
        return kind in (ScrubClass.FINISHED.value, ScrubClass.UNREFERENCED.value)

    def _judged(
        self, objects: Sequence[StoredObject], before: Mapping[int, int], reading: ScrubReading, guard: UnnamedGuard
    ) -> Mapping[str, Row]:
        """Return what objects are now, by key."""
        listed = ListedObjects(self.storage.layout, self.log.partition_count)
        for found in objects:
            listed.add(found)
        listed.end()
        table, view = listed.table(reading.names()), reading.view_of_listed(before, self.clock() - MAX_COPY.default)
        index, stored = LogIndex(view), StoredSegments(view, self.storage.layout)
        segments = index.rows_of(table)
        stored.note(table, segments)
        rows = classify_objects(table, view, index.said_of(table, segments), stored.are_wrong(segments))
        return {row["key"]: row for row in guard.judge(rows, reading).to_pylist()}


def _batches(planned: ScrubTable, segments: int) -> Iterator[list[Row]]:
    """
    Yield the objects of some segments at a time, from the end of each folder on: what comes behind is gone then, so that
    listings stay short.
    """
    rows = (row for table in planned.tables(backwards=True) for row in reversed(table.to_pylist()))
    by_segment = (list(objects) for _, objects in groupby(rows, key=_segment_of))
    while batch := list(islice(by_segment, segments)):
        yield list(chain.from_iterable(batch))


def _segment_of(row: Row) -> tuple[Any, ...]:
    return row["topic_id"], row["partition"], row["segment_id"]


def _folder_of(row: Row) -> str:
    return parent_of(row["key"])


def _tip(row: Row) -> TopicIdPartition:
    return TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"])
