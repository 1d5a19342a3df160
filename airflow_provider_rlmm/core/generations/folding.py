# SPDX-License-Identifier: Apache-2.0
"""The records of one metadata partition, folded: from the beginning, or from where an earlier generation has left off."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_rlmm.core.base.arrow_arrays import empty_table, equals, is_among, null_of
from airflow_provider_rlmm.core.base.errors import MetadataError, SnapshotRefusedError
from airflow_provider_rlmm.core.generations.files import HashedFile, new_file, opened
from airflow_provider_rlmm.core.generations.manifest import (
    GENERATION_FORMAT,
    MAX_ANCHORS,
    Anchor,
    GenerationFile,
    GenerationPart,
    with_gaps,
)
from airflow_provider_rlmm.core.records.columnar import ColumnarState, ErrorCode, decode
from airflow_provider_rlmm.core.records.decoding.decode import count_good
from airflow_provider_rlmm.core.records.era import keyed_offset
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, holes_of
from airflow_provider_rlmm.core.records.outcomes import DECODED_CODES
from airflow_provider_rlmm.core.records.read_tail import digests

QUARANTINE = pa.schema(
    [
        ("event_offset", pa.int64()),
        ("error", pa.string()),
        ("code", pa.int8()),
        ("cause", pa.string()),
        ("topic_id", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)
"""
Columns of the records that cannot be applied: where; why in words, by the number of an
:class:`~airflow_provider_rlmm.core.records.outcomes.ErrorCode`, and as the decoding says it; the user partition that they are
about, null where that is not certain.
"""

_FORMAT = {b"format": b"airflow-provider-rlmm generation", b"version": str(GENERATION_FORMAT).encode()}
_STATE = QUARANTINE.with_metadata(_FORMAT)
"""Of the head of a state file; the state itself lies behind it."""
_CHANGES = pa.schema(
    [("offset", pa.int64()), ("timestamp_ms", pa.int64()), ("key", pa.binary()), ("value", pa.binary())],
    metadata=_FORMAT,
)
"""Of the records behind a state, as the log has them: to apply them leads to the state behind them."""
_NO_PART = GenerationPart(0)

SHARE_OF_CHANGES = 1 / 4
"""Records behind a state may have this share of its bytes; where there are more, a state is written again."""


class Folding:
    """
    What is known of a metadata partition.

    :param number: which one.
    :param num_partitions: how many the topic has.
    :param before: what an earlier generation knew of it.
    :param folder: URI of the folder that the names of its files are below.
    :param begin: offset at which the metadata partition begins, inclusive.
    :raises SnapshotRefusedError: if a file of that generation is not the one that its manifest names.
    """

    def __init__(
        self, number: int, num_partitions: int, before: GenerationPart | None = None, folder: str = "", begin: int = 0
    ) -> None:
        self.number = number
        self.records = 0
        self.in_order = True
        self._num_partitions = num_partitions
        self._before = before or _NO_PART
        self._last_offset = -1
        self._known = deque(self._before.anchors)
        self._anchors = deque(self._before.anchors, maxlen=MAX_ANCHORS)
        self._next_offset = max(begin, self._before.next_offset)
        self.begin = begin if before is None else before.begin
        self.routed, self.keyed = self._before.routed, self._before.keyed
        self.holes, self.more_holes = self._before.holes, self._before.more_holes
        self.keyed_at = self._before.keyed_at
        self._changes = _Changes(0)
        if self._before.state is None:
            self.state, self._quarantined = ColumnarState.empty(keep_finished=True), [empty_table(QUARANTINE)]
        else:
            self.state, found = read_state(folder, self._before.state)
            self._quarantined = [found]
            self._changes = _Changes(round(SHARE_OF_CHANGES * self._before.state.bytes))
        if self._before.changes is not None:
            # What is good or keyed among them the part has counted already.
            for batch in read_changes(folder, self._before.changes):
                self._changes.add(batch)
                self._fold(batch)

    @property
    def quarantined(self) -> pa.Table:
        """All records that cannot be applied, by :data:`QUARANTINE`."""
        return pa.concat_tables(self._quarantined)

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        """The last records."""
        return tuple(self._anchors)

    def apply(self, records: pa.RecordBatch) -> None:
        """
        Apply records; those that were read before must be the same, and are not applied again.

        :param records: ``metadata_partition``, ``offset``, ``timestamp_ms``, ``key``, ``value``; at least one record.
        :raises SnapshotRefusedError: if the log does not hold the records that it was known by.
        """
        offsets = records["offset"].to_numpy()
        self.in_order &= bool((np.diff(offsets, prepend=self._last_offset) > 0).all())
        self._last_offset = int(offsets[-1])
        read_before = int(np.count_nonzero(offsets < self._before.next_offset))
        if read_before:
            self._recognise(records.slice(0, read_before))
            records = records.slice(read_before)
        if records.num_rows:
            self.require_known()
            self._apply_new(records)

    def digest(self) -> str:
        """Return a hash of all that is known: the same whichever way it was read."""
        found = sorted(map(repr, self.quarantined.to_pylist()))
        # A gap stands in two pieces where a reading has ended within it, and of many gaps the first are named.
        gaps = joined(self.holes) if not self.more_holes else ()
        said = (self.state.digest(), self.routed, self.keyed, self.keyed_at, gaps, found)
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def require_known(self) -> None:
        """
        Refuse a log that does not show all the records that it was known by; to be asked when no more come.

        :raises SnapshotRefusedError: naming the first that was not seen.
        """
        if self._known:
            raise self._misfit(self._known[0].offset)

    def _recognise(self, records: pa.RecordBatch) -> None:
        for anchor in _anchors_of(records):
            if not self._known or self._known.popleft() != anchor:
                raise self._misfit(anchor.offset)

    def _misfit(self, offset: int) -> SnapshotRefusedError:
        return SnapshotRefusedError(
            f"metadata partition {self.number} does not hold the record of offset {offset} that it held before: the log lost "
            "its end and has grown again, or it is another one"
        )

    def end(self, offset: int) -> None:
        """
        Note that no more records come.

        :param offset: at which the reading ends, exclusive.
        :raises SnapshotRefusedError: if the log did not show all the records that it was known by.
        """
        self.require_known()
        self._note_holes(offset, [])

    def _note_holes(self, end: int, batches: list[pa.RecordBatch]) -> None:
        """Note the offsets below an end that hold no record: why one is missing no client can see."""
        found = holes_of(self.number, self._next_offset, end, batches)
        self.holes, self.more_holes = with_gaps(self.holes, self.more_holes, found)
        self._next_offset = max(self._next_offset, end)

    def _apply_new(self, records: pa.RecordBatch) -> None:
        self.records += records.num_rows
        self._note_holes(records["offset"][-1].as_py() + 1, [records])
        if self.keyed_at is None:
            self.keyed_at = keyed_offset(records)
        self._anchors.extend(_anchors_of(records.slice(max(0, records.num_rows - MAX_ANCHORS))))
        columns = [records[field.name].cast(field.type) for field in _CHANGES]
        new = pa.RecordBatch.from_arrays(columns, schema=_CHANGES)
        self._changes.add(new)
        good, keyed = self._fold(new)
        self.routed += good
        self.keyed += keyed

    def _fold(self, records: pa.RecordBatch) -> tuple[int, int]:
        """Apply records by the columns of :data:`_CHANGES`; return how many are good, and how many have another key."""
        decoded = decode(
            records["value"],
            keys=records["key"],
            metadata_partition=self.number,
            offset=records["offset"],
            timestamp_ms=records["timestamp_ms"],
            num_partitions=self._num_partitions,
        )
        self.state, report = self.state.apply(decoded)
        # A record with a key is applied, as a broker applies it.
        found = report.quarantined.filter(pc.invert(equals(report.quarantined["error_code"], int(ErrorCode.KEYED))))
        if found.num_rows:
            self._quarantined.append(_quarantine_of(found))
        return count_good(decoded), report.quarantined.num_rows - found.num_rows

    def write(self, folder: str, name: str) -> tuple[GenerationFile, GenerationFile | None]:
        """
        Write what the next generation goes on from, which is the state, or, where an earlier one is known and little is new,
        the records since; return the state, and these.

        :param folder: URI of the folder that the names of files are below.
        :param name: of the files, but for what they hold.
        """
        before = self._before
        if before.state is None or self._changes.are_many:
            with new_file(folder, f"{name}.state") as file:
                self._write_state(file)
            return file.described(), None
        if not self.records:
            return before.state, before.changes
        with (
            new_file(folder, f"{name}.changes") as file,
            pa.ipc.new_stream(pa.PythonFile(file, "w"), _CHANGES) as writer,
        ):
            for batch in self._changes.batches:
                writer.write_batch(batch)
        return before.state, file.described()

    def _write_state(self, file: HashedFile) -> None:
        """Write two Arrow IPC streams: the records that cannot be applied, and the state."""
        sink = pa.PythonFile(file, "w")
        with pa.ipc.new_stream(sink, _STATE) as writer:
            writer.write_table(self.quarantined.replace_schema_metadata(_FORMAT))
        self.state.write_ipc(sink)


def joined(holes: Iterable[HistoryGap]) -> tuple[HistoryGap, ...]:
    """
    Return the gaps of a metadata partition, those that lie side by side as one.

    :param holes: its gaps, by offset.
    """
    found: list[HistoryGap] = []
    for hole in holes:
        if found and found[-1].end == hole.start:
            found[-1] = replace(found[-1], end=hole.end)
        else:
            found.append(hole)
    return tuple(found)


class _Changes:
    """
    Records behind a state, as long as they are few beside it.

    :param room: bytes that they may have.
    """

    def __init__(self, room: int) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._room = room

    @property
    def are_many(self) -> bool:
        """Whether there was no room for all of them."""
        return self._room < 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep some more, or none at all."""
        self._room -= batch.nbytes
        self.batches.append(batch)
        if self.are_many:
            self.batches.clear()


def read_changes(folder: str, file: GenerationFile) -> list[pa.RecordBatch]:
    """
    Return the records behind a state, by the columns of :data:`_CHANGES`, in the order of their offsets.

    :param folder: URI of the folder that the file's name is below.
    :param file: what its manifest says.
    :raises SnapshotRefusedError: if it is another one, or holds no records of this format.
    """
    with opened(folder, file) as stream:
        try:
            reader = pa.ipc.open_stream(stream)
            if reader.schema != _CHANGES or reader.schema.metadata != _FORMAT:
                raise SnapshotRefusedError(f"{folder}/{file.name} holds no records of format {GENERATION_FORMAT}")
            return list(reader)
        except (pa.ArrowException, ValueError, OSError) as e:
            raise SnapshotRefusedError(f"{folder}/{file.name} cannot be used ({e})") from e


def read_state(folder: str, file: GenerationFile) -> tuple[ColumnarState, pa.Table]:
    """
    Return a state, and the records that cannot be applied, by :data:`QUARANTINE`.

    The columns of the state come one after the other, so that nothing is in memory twice.

    :param folder: URI of the folder that the file's name is below.
    :param file: what its manifest says.
    :raises SnapshotRefusedError: if it is another one, or no state of this format.
    """
    with opened(folder, file) as stream:
        try:
            reader = pa.ipc.open_stream(stream)
            if reader.schema != _STATE or reader.schema.metadata != _FORMAT:
                raise SnapshotRefusedError(f"{folder}/{file.name} is no state of format {GENERATION_FORMAT}")
            found = reader.read_all().replace_schema_metadata(None)
            state = ColumnarState.from_ipc(stream)
        except (pa.ArrowException, MetadataError, ValueError, IndexError, OSError, StopIteration) as e:
            raise SnapshotRefusedError(f"{folder}/{file.name} cannot be used ({e})") from e
    return state, found


def ipc_of(table: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _anchors_of(records: pa.RecordBatch) -> list[Anchor]:
    return [Anchor(offset, sha256.hex()) for offset, sha256 in digests(records)]


def _quarantine_of(found: pa.Table) -> pa.Table:
    """Return records that cannot be applied by :data:`QUARANTINE`: only what was decoded whole says whom it is about."""
    codes = found["error_code"]
    whole = is_among(codes, list(DECODED_CODES))
    about = [
        pc.if_else(whole, found[name], null_of(found[name].type)).cast(QUARANTINE.field(name).type)
        for name in QUARANTINE.names[4:]
    ]
    return pa.table(
        [found["offset"], found["reason"], codes.cast(pa.int8()), found["error"], *about], schema=QUARANTINE
    )
