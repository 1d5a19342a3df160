# SPDX-License-Identifier: Apache-2.0
"""What every log hands out: the shape of its batches, the events in them that count, the records that cannot be applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of, at_least, equals, is_among, numpy_of, scalar_of
from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.errors import OffsetOutOfRangeError
from airflow_provider_rlmm.core.records.located import LocatedRecord, located_records
from airflow_provider_rlmm.core.records.outcomes import DECODED_CODES, QUARANTINED_CODES, ErrorCode
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.serde import PARTITION_DELETE_API_KEY

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Numbers = Sequence[int] | NDArray[np.int64]

BATCH_ROWS = 10_000
"""Most rows of one batch: large enough that the cost per batch does not count, a few MiB at most."""

KEYED_KEPT = 1_000
"""Records whose key contradicts their value that are kept, of any topic, the first ones; all are counted."""


@cache
def event_schema() -> pa.Schema:
    """Return the schema of a batch: ``offset`` and ``timestamp_ms`` int64, ``key`` and ``value`` nullable binary."""
    import pyarrow as pa

    numbers = [pa.field(name, pa.int64(), nullable=False) for name in ("offset", "timestamp_ms")]
    return pa.schema([*numbers, pa.field("key", pa.binary()), pa.field("value", pa.binary())])


def event_batch(
    offsets: Numbers, timestamps_ms: Numbers, keys: Sequence[bytes | None], values: Sequence[bytes | None]
) -> pa.RecordBatch:
    """
    Build one batch from columns of equal length.

    :param offsets: offsets, ascending.
    :param timestamps_ms: ms since the epoch.
    :param keys: null for every record that Kafka or this package wrote.
    :param values: null for a tombstone.
    """
    import pyarrow as pa

    schema = event_schema()
    columns = zip((offsets, timestamps_ms, keys, values), schema, strict=True)
    return pa.RecordBatch.from_arrays([array_of(column, field.type) for column, field in columns], schema=schema)


def subscription_batch(metadata_partition: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    Put the metadata partition in front of a batch: ``metadata_partition`` int32.

    :param metadata_partition: where all of its records lie.
    :param batch: what :func:`event_batch` made.
    """
    import pyarrow as pa

    partitions = pa.repeat(scalar_of(metadata_partition, pa.int32()), batch.num_rows)
    return batch.add_column(0, pa.field("metadata_partition", pa.int32(), nullable=False), partitions)


def require_range(metadata_partition: int, wanted: tuple[int, int], held: tuple[int, int]) -> None:
    """
    Refuse to read a range that the log no longer has whole.

    Both ends of a range were held once: who reads it was told of them. Skipping what is gone would look like a shorter
    history.

    :param metadata_partition: which partition.
    :param wanted: first offset, inclusive, and last offset, exclusive.
    :param held: beginning offset and high watermark as of now.
    :raises OffsetOutOfRangeError: naming the partition and the offsets, and what happened.
    """
    (start, end), (begin, high) = wanted, held
    if start < min(begin, end):
        raise OffsetOutOfRangeError(
            f"metadata partition {metadata_partition} is to be read from offset {start} and begins at {begin}: the records "
            "before that were deleted; nothing more is done on this metadata partition in this run",
            metadata_partition,
            start,
        )
    if end > high:
        raise OffsetOutOfRangeError(
            f"metadata partition {metadata_partition} is to be read up to offset {end} and its high watermark is {high}: "
            "the log has lost records (an unclean election does that); nothing more is done on this metadata partition in "
            "this run",
            metadata_partition,
            end,
        )


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """
    A record that cannot be applied.

    :param metadata_partition: where it lies.
    :param offset: its offset.
    :param code: name of its :class:`~airflow_provider_rlmm.core.records.columnar.ErrorCode`.
    :param reason: in words.
    :param topic_id_partition: the user partition that it is about, ``None`` where it cannot be decoded so far.
    :param alike: how many more of its code and user partition lie before it, which are counted here and not kept.
    """

    metadata_partition: int
    offset: int
    code: str
    reason: str
    topic_id_partition: TopicIdPartition | None = None
    alike: int = 0

    @property
    def place(self) -> tuple[int, TopicIdPartition | None]:
        """Where it lies and whom it is about."""
        return self.metadata_partition, self.topic_id_partition

    def __str__(self) -> str:
        return f"metadata partition {self.metadata_partition} offset {self.offset}: {self.code} ({self.reason})"


class Quarantine:
    """
    Records that cannot be applied: all of them, but of ``KEYED`` ones a sample.

    A program that writes keys of its own writes them with every record, and such a record is about its own user partition
    only. So the first :data:`KEYED_KEPT` are kept, and besides of each user partition the first and the last one: whether one
    lies at or behind some offset the last one tells. The others are counted by the one behind them
    (:attr:`QuarantinedRecord.alike`).

    :param records: what is there to begin with, by offset within a metadata partition.
    """

    def __init__(self, records: Iterable[QuarantinedRecord] = ()) -> None:
        self._kept: list[QuarantinedRecord] = []
        self._last: dict[tuple[int, TopicIdPartition | None], QuarantinedRecord] = {}
        self._seen: set[tuple[int, TopicIdPartition | None]] = set()
        self._keyed = 0
        self._sorted: list[QuarantinedRecord] | None = None
        self.take(records)

    def take(self, records: Iterable[QuarantinedRecord]) -> None:
        """
        Take more records, which lie behind those that are there.

        :param records: by offset within a metadata partition.
        """
        for record in records:
            self._sorted = None
            if record.code != ErrorCode.KEYED.name:
                self._kept.append(record)
            elif self._keyed < KEYED_KEPT or record.place not in self._seen:
                self._keyed += 1
                self._seen.add(record.place)
                self._kept.append(record)
            else:
                before = self._last.get(record.place)
                more = 0 if before is None else before.alike + 1
                self._last[record.place] = replace(record, alike=record.alike + more)

    def records(self) -> list[QuarantinedRecord]:
        """Return what is kept, by metadata partition and offset."""
        if self._sorted is None:
            by_place = attrgetter("metadata_partition", "offset")
            self._sorted = sorted([*self._kept, *self._last.values()], key=by_place)
        return self._sorted


def counted(records: Iterable[QuarantinedRecord]) -> int:
    """
    Return how many records there are, kept or not.

    :param records: those that are kept.
    """
    return sum(1 + record.alike for record in records)


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """What a batch of one metadata partition says."""

    # by offset: the events of the wanted topics, keyed ones too, as brokers look at no key; of any topic what is to be
    # forgotten
    records: list[LocatedRecord]
    quarantined: list[QuarantinedRecord]  # the records that are not good, of any topic; of keyed ones a sample
    routed: int  # number of records that prove our partitioner


def decode_records(records: pa.RecordBatch | pa.Table, metadata_partition: int | pa.Array, num_partitions: int) -> Any:
    """
    Return records as columns, see :func:`~airflow_provider_rlmm.core.records.columnar.decode`; bad records never raise.

    :param records: as :meth:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader.read` yields them.
    :param metadata_partition: where all of them lie, or each of them.
    :param num_partitions: number of metadata partitions.
    """
    from airflow_provider_rlmm.core.records import columnar

    return columnar.decode(
        records.column("value"),
        keys=records.column("key"),
        metadata_partition=metadata_partition,
        offset=records.column("offset"),
        timestamp_ms=records.column("timestamp_ms"),
        num_partitions=num_partitions,
    )


def written_by_brokers(decoded: Any) -> Any:
    """
    Tell of each record whether a broker wrote it, as far as it says: an event of a segment that has a broker's id.

    Brokers write no partition-delete events, not even those with a broker's id.

    :param decoded: what :func:`decode_records` returned.
    :return: one boolean per row, null where the record is none that can be read.
    """
    import pyarrow.compute as pc

    of_a_segment = pc.invert(equals(decoded.column("api_key"), PARTITION_DELETE_API_KEY))
    return pc.and_(of_a_segment, at_least(decoded.column("broker_id"), 0))


def quarantined_records(decoded: Any) -> list[QuarantinedRecord]:
    """
    Return the records that are not believed, by offset; of ``KEYED`` ones what a :class:`Quarantine` needs.

    :param decoded: what :func:`decode_records` returned.
    """
    bad, alike = _sampled(decoded.filter(is_among(decoded.column("error_code"), list(QUARANTINED_CODES))))
    records = []
    columns = ["metadata_partition", "offset", "error_code", "error", "topic_id", "topic", "partition"]
    for row, more in zip(bad.select(columns).to_pylist(), alike, strict=True):
        code = ErrorCode(row["error_code"])
        # Only what was decoded whole says for certain whom it is about.
        whole = code in DECODED_CODES
        tip = TopicIdPartition(UUID(bytes=row["topic_id"]), row["topic"], row["partition"]) if whole else None
        place = row["metadata_partition"], row["offset"]
        records.append(QuarantinedRecord(*place, code.name, row["error"] or code.name, tip, more))
    return records


def _sampled(bad: Any) -> tuple[Any, list[int]]:
    """Leave ``KEYED`` rows out, but the first ones and of each user partition the first and the last; count them there."""
    import numpy as np
    import pyarrow as pa

    is_keyed = numpy_of(equals(bad.column("error_code"), int(ErrorCode.KEYED)))
    keyed = np.flatnonzero(is_keyed)
    if keyed.size <= KEYED_KEPT:
        return bad, [0] * bad.num_rows
    names = ["metadata_partition", "topic_id", "topic", "partition"]
    groups = groups_of(pa.Table.from_batches([bad.select(names).take(array_of(keyed))]), names)
    first, last = keyed.take(groups.first), keyed.take(groups.last())
    kept = ~is_keyed
    kept[np.concatenate([keyed[:KEYED_KEPT], first, last])] = True
    alike = np.zeros(bad.num_rows, np.int64)
    alike[last] = np.bincount(groups.of_row[~kept[keyed]], minlength=last.size)
    return bad.filter(array_of(kept)), alike[kept].tolist()


def decode_batch(
    batch: pa.RecordBatch, metadata_partition: int, num_partitions: int, topic_ids: Collection[UUID]
) -> DecodedBatch:
    """
    Decode a batch; bad records never raise.

    :param batch: as :meth:`~airflow_provider_rlmm.core.log.protocol.MetadataLogReader.read` yields it.
    :param metadata_partition: where all of it lies.
    :param num_partitions: number of metadata partitions.
    :param topic_ids: whose events are wanted.
    """
    return events_of(decode_records(batch, metadata_partition, num_partitions), topic_ids)


def events_of(decoded: Any, topic_ids: Collection[UUID]) -> DecodedBatch:
    """
    Return what the records of one metadata partition say.

    :param decoded: what :func:`decode_records` returned.
    :param topic_ids: whose events are wanted.
    """
    from airflow_provider_rlmm.core.records.decoding.decode import count_good

    wanted = is_among(decoded.column("topic_id"), [topic_id.bytes for topic_id in topic_ids])
    return DecodedBatch(located_records(decoded, wanted), quarantined_records(decoded), count_good(decoded))
