# SPDX-License-Identifier: Apache-2.0
"""
What earlier runs knew of the segments that lie in storage: their metadata, and which of them are deleted.

The newest snapshot of a metadata topic tells the metadata. That a segment was deleted any snapshot or audit log may say: a
snapshot forgets segments whose deletion has ended, and a later one tells of these by what it lacks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.arrow_ids import IdSet, RowsOfIds, folded
from airflow_provider_rlmm.core.base.errors import ConfigurationError, SnapshotRefusedError
from airflow_provider_rlmm.core.base.file_systems import read_file
from airflow_provider_rlmm.core.plans.catalogue_document import EarlierSource, SourceKind
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow, ProvedBy, RowKind
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState, RemotePartitionDeleteState
from airflow_provider_rlmm.features.recovery.earlier_documents import Told
from airflow_provider_rlmm.features.recovery.earlier_sources import EarlierSources
from airflow_provider_rlmm.features.recovery.rules import by_key_alone

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.snapshot import Snapshot, TopicIdentity
    from airflow_provider_rlmm.core.records.lost_records import HistoryGap
    from airflow_provider_rlmm.core.world.audit import SegmentKey

_COMPARED: Final = (
    "topic", "start_offset", "end_offset", "segment_leader_epochs", "segment_size_in_bytes", "max_timestamp_ms",
    "txn_idx_empty",
)  # fmt: skip
_TAKEN: Final = (*_COMPARED, "event_timestamp_ms", "broker_id", "custom_metadata")
_KEY: Final = ("topic_id", "partition", "segment_id")
_COLUMNS: Final = (*_KEY, "state", *_TAKEN)
_WHO: Final = {
    ProvedBy.SNAPSHOT: "a snapshot of the metadata topic",
    ProvedBy.INVENTORY: "an inventory of the metadata topic",
}
_PIECE: Final = 1 << 16
_COPIED: Final = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
_DELETING: Final = int(RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


class Earlier:
    """
    What is known of segments from elsewhere than storage.

    :param sources: what was asked, for the document.
    :param deleted: segment → who says that it was deleted.
    :param gone: topic id and user partition → who says that the topic was deleted.
    :param known: what sources have as copied, the one that counts first.
    """

    def __init__(
        self,
        sources: Sequence[EarlierSource] = (),
        deleted: Mapping[SegmentKey, str] | None = None,
        gone: Mapping[tuple[bytes, int], str] | None = None,
        known: Sequence[Known] = (),
    ) -> None:
        self.sources = tuple(sources)
        self._deleted = deleted or {}
        self._gone = gone or {}
        self._known = tuple(known)

    def applied(self, rows: Sequence[CatalogueRow]) -> list[CatalogueRow]:
        """
        Return rows with what is known of their segments.

        :param rows: as the storage alone tells them.
        """
        found = dict[int, tuple[Mapping[str, Any], ProvedBy]]()
        for known in self._known:
            found = {at: (one, known.source) for at, one in known.of(rows).items()} | found
        return [self._told(row, *found.get(at, (None, ProvedBy.KEY))) for at, row in enumerate(rows)]

    def _told(self, row: CatalogueRow, known: Mapping[str, Any] | None, source: ProvedBy) -> CatalogueRow:
        if (key := _key_of(row)) is None:
            return row
        if (who := self._deleted.get(key) or self._gone.get(key[:2])) is not None:
            return replace(row, kind=RowKind.DELETED, why=who)
        return row if known is None else with_known(row, known, source)


class Known:
    """
    What a source has as copied.

    :param copied: segments, each once; with what they are found by, and some of the columns of a snapshot.
    :param source: of which source a row is proved that is taken from it.
    """

    def __init__(self, copied: pa.Table, source: ProvedBy) -> None:
        self._copied = copied
        self.source = source
        """Of which source a row is proved that is taken from it."""
        self._rows = RowsOfIds(folded(copied.column("segment_id"))) if copied.num_rows else None

    def of(self, rows: Sequence[CatalogueRow]) -> Mapping[int, Mapping[str, Any]]:
        """
        Return number of a row → what is known of its segment.

        :param rows: as the storage alone tells them.
        """
        import pyarrow as pa

        if self._rows is None:
            return {}
        named = [(at, row.segment_id.bytes) for at, row in enumerate(rows) if row.segment_id is not None]
        ids = array_of([segment_id for _, segment_id in named], pa.binary())
        places, found = self._rows.candidates(ids)
        told = {}
        for place, one in zip(places.tolist(), self._copied.take(array_of(found)).to_pylist(), strict=True):
            at = named[place][0]
            if _key_of(rows[at]) == (one["topic_id"], one["partition"], one["segment_id"]):
                told[at] = one
        return told


def with_known(row: CatalogueRow, known: Mapping[str, Any], source: ProvedBy = ProvedBy.SNAPSHOT) -> CatalogueRow:
    """
    Return a row with what a snapshot or an inventory has of its segment.

    :param row: as the storage alone tells it.
    :param known: the segment, copied, as a table of segments has it.
    :param source: of which source it is.
    """
    who = _WHO[source]
    values = {name: known[name] for name in _TAKEN if name in known}
    values["segment_leader_epochs"] = _epochs(known["segment_leader_epochs"])
    for name in filter(values.__contains__, _COMPARED):
        said, had = getattr(row, name), values[name]
        # The same where it is exact; a bound may be lower.
        if said is not None and (said > had if name in row.bounds else said != had):
            why = f"its objects say that {name} is {said}, and {who} says {had}"
            return by_key_alone(row, RowKind.DAMAGED, why)
    taken = replace(row, proved_by=source, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED.name, bounds=(), **values)
    if row.kind is RowKind.UNFINISHED:
        return replace(taken, kind=RowKind.DAMAGED, why=f"{row.why}, and {who} has it as copied")
    return taken


def _goes_on(before: _Read, after: _Read) -> bool:
    """Tell whether a snapshot knows all that another one of the same topic had read, and more."""
    # What was lost at the beginning of the log, or within it, may be what the later one lacks.
    if (after.identity, after.lost) != (before.identity, before.lost):
        return False
    return all(after.next_offsets.get(number, -1) >= offset for number, offset in before.next_offsets.items())


def _epochs(found: Iterable[Mapping[str, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((entry["leader_epoch"], entry["start_offset"]) for entry in found))


def _key_of(row: CatalogueRow) -> SegmentKey | None:
    if row.topic_id is None or row.partition is None or row.segment_id is None:
        return None
    return row.topic_id.bytes, row.partition, row.segment_id.bytes


def read_earlier(sources: EarlierSources, ids: IdSet, documents: Iterable[Told] = ()) -> Earlier:
    """
    Read what earlier runs knew of some segments.

    A source that cannot be read is told with the reason: what it calls deleted is not known then.

    :param sources: what is asked.
    :param ids: ids of the segments that lie in storage; of others nothing is kept.
    :param documents: what documents of other features tell, read after these.
    """
    import pyarrow as pa

    reading = _Reading(ids)
    for uri in sources.snapshots:
        reading.snapshot(uri)
    reading.compare()
    for uri in sources.audits:
        reading.audit(uri)
    for document in documents:
        reading.document(document)
    told = reading.earlier()
    # What whole snapshots took would stay with this process, beside all that comes.
    pa.default_memory_pool().release_unused()
    return told


@dataclass(slots=True, eq=False)
class _Read:
    """What was kept of a snapshot."""

    source: EarlierSource
    identity: TopicIdentity
    lost: tuple[tuple[HistoryGap, ...], tuple[HistoryGap, ...]]  # at the beginning of the log, and within it
    next_offsets: Mapping[int, int]
    copied: Any  # the segments in storage that it has as copied
    known: Any  # ids of the segments in storage that it knows in any state


class _Reading:
    """
    Reads one source after the other.

    :param ids: of the segments that lie in storage.
    """

    def __init__(self, ids: IdSet) -> None:
        self._ids = ids
        self._read: list[_Read] = []
        self._unread: list[EarlierSource] = []
        self._others: list[EarlierSource] = []
        self._surveyed: list[Known] = []
        self._deleted: dict[SegmentKey, str] = {}
        self._gone: dict[tuple[bytes, int], str] = {}

    def snapshot(self, uri: str) -> None:
        from airflow_provider_rlmm.core.log.snapshot_file import decode_snapshot

        try:
            data = read_file(uri)
            found = decode_snapshot(data)
        except (OSError, ConfigurationError, SnapshotRefusedError) as e:
            self._unread.append(EarlierSource(kind=SourceKind.SNAPSHOT, uri=uri, why=str(e)))
            return
        sha256 = hashlib.sha256(data).hexdigest()
        if any(read.source.sha256 == sha256 for read in self._read):
            return
        self._read.append(self._kept(uri, sha256, found))
        newest = list(self._newest().values())
        for read in self._read:
            if read not in newest:
                # Of what is not the newest only this is asked, however many there are.
                read.copied = read.copied.select(_KEY)

    def _kept(self, uri: str, sha256: str, found: Snapshot) -> _Read:
        import pyarrow as pa
        import pyarrow.compute as pc

        living, pieces, copied = found.state.living(), list[pa.Table](), 0
        # Of what is not the newest only ids are asked, so that nothing else of it is taken to memory.
        columns = _COLUMNS if self._is_newest(found) else (*_KEY, "state")
        for first in range(0, living.size, _PIECE):
            some = slice(first, first + _PIECE)
            copied += int((living.numbers("state", some) == _COPIED).sum())
            rows = living.table(some, columns)
            pieces.append(rows.filter(array_of(self._ids.holds(rows.column("segment_id")), pa.bool_())))
        unresolved = found.state.unresolved
        here = pa.concat_tables([living.table(slice(0, 0), columns), *pieces]).combine_chunks()
        name = f"snapshot {uri}"
        for row in here.filter(pc.equal(here.column("state"), _DELETING)).to_pylist():
            key = row["topic_id"], row["partition"], row["segment_id"]
            self._deleted.setdefault(key, f"{name} has it as DELETE_SEGMENT_STARTED")
        for row in found.state.partition_deletes.to_pylist():
            state = RemotePartitionDeleteState(row["state"]).name
            self._gone.setdefault((row["topic_id"], row["partition"]), f"{name} has its user partition as {state}")
        doubted = pc.is_in(here.column("segment_id"), value_set=unresolved.column("segment_id").combine_chunks())
        is_mine = pc.and_(pc.equal(here.column("state"), _COPIED), pc.invert(doubted))
        # Mostly all of it: then its ids are in memory once.
        mine = here if pc.all(is_mine).as_py() else here.filter(is_mine)
        source = EarlierSource(
            kind=SourceKind.SNAPSHOT, uri=uri, sha256=sha256, made_at_ms=found.created_at_ms,
            cluster_id=found.identity.cluster_id, copied=copied, found=mine.num_rows,
        )  # fmt: skip
        lost = found.gaps, found.holes
        return _Read(source, found.identity, lost, found.next_offsets, mine, here.column("segment_id"))

    def _is_newest(self, found: Snapshot) -> bool:
        """Tell whether no snapshot of the same topic that was read is as new."""
        known = self._newest().get((found.identity.cluster_id, found.identity.topic_id))
        return known is None or (known.source.made_at_ms or 0) <= found.created_at_ms

    def _newest(self) -> dict[tuple[str, UUID], _Read]:
        """Return the newest snapshot of each topic, the newest of all last."""
        newest: dict[tuple[str, UUID], _Read] = {}
        for read in sorted(self._read, key=lambda read: read.source.made_at_ms or 0):
            topic = read.identity.cluster_id, read.identity.topic_id
            newest.pop(topic, None)
            newest[topic] = read
        return newest

    def compare(self) -> None:
        """Tell of segments that were copied in one snapshot and are in no later one of the same topic: they were deleted."""
        import pyarrow.compute as pc

        self._read.sort(key=lambda read: read.source.made_at_ms or 0)
        for at, before in enumerate(self._read):
            for after in self._read[at + 1 :]:
                if not _goes_on(before, after):
                    continue
                kept = pc.is_in(before.copied.column("segment_id"), value_set=after.known.combine_chunks())
                for row in before.copied.filter(pc.invert(kept)).to_pylist():
                    key = row["topic_id"], row["partition"], row["segment_id"]
                    why = f"it was copied in snapshot {before.source.uri} and is in the later one {after.source.uri} no more"
                    self._deleted.setdefault(key, why)

    def audit(self, uri: str) -> None:
        from airflow_provider_rlmm.core.world.audit_files import deleted_among

        found, unread = deleted_among(uri, self._ids)
        for key in found:
            self._deleted.setdefault(key, f"audit log {uri}: a run of this package has deleted it")
        why = "; ".join(unread[:3]) + (f"; and {len(unread) - 3} more" if len(unread) > 3 else "") if unread else None
        self._others.append(EarlierSource(kind=SourceKind.AUDIT, uri=uri, found=len(found), why=why))

    def document(self, told: Told) -> None:
        self._others.append(told.source)
        # Who said it first is named.
        self._deleted = {**told.deleted, **self._deleted}
        self._gone = {**told.gone, **self._gone}
        if told.copied is not None:
            self._surveyed.append(Known(told.copied, ProvedBy.INVENTORY))

    def earlier(self) -> Earlier:
        """Return what was read, with the metadata of the newest snapshot of each topic."""
        import pyarrow as pa
        import pyarrow.compute as pc

        copied: pa.Table | None = None
        for read in reversed(self._newest().values()):
            rows = read.copied
            if copied is None:
                copied = rows
                continue
            known = pc.is_in(rows.column("segment_id"), value_set=copied.column("segment_id").combine_chunks())
            copied = pa.concat_tables([copied, rows.filter(pc.invert(known))]).combine_chunks()
        sources = [*(read.source for read in reversed(self._read)), *self._unread, *self._others]
        known = [] if copied is None else [Known(copied, ProvedBy.SNAPSHOT)]
        return Earlier(sources, self._deleted, self._gone, [*known, *self._surveyed])
