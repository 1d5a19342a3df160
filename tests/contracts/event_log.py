# SPDX-License-Identifier: Apache-2.0
"""What every metadata event log promises; both logs run this suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import MetadataPartitionOutOfRangeError, OffsetOutOfRangeError
from airflow_provider_rlmm.core.log.protocol import Acked, MetadataEventLog
from dev.broker import await_condition

PARTITIONS = 3
LARGE_BATCH = 50_000
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class EventLogUnderTest:
    """
    A fresh, empty log with PARTITIONS partitions, and what a foreign writer can do to it.

    append(metadata_partition, value, key); truncate(metadata_partition, before_offset); set_policy(cleanup.policy);
    append_in_a_transaction(metadata_partition, value): the offset behind it holds the marker of the transaction.
    """

    log: MetadataEventLog
    append: Callable[[int, bytes | None, bytes | None], object]
    truncate: Callable[[int, int], object]
    set_policy: Callable[[str], object]
    append_in_a_transaction: Callable[[int, bytes], object]

    def rows(self, metadata_partition: int, start: int = 0, end: int | None = None) -> list[dict[str, object]]:
        stop = self.log.high_water_marks()[metadata_partition] if end is None else end
        return [row for batch in self.log.read(metadata_partition, start, stop) for row in batch.to_pylist()]

    def values(self, metadata_partition: int, start: int = 0, end: int | None = None) -> list[object]:
        return [row["value"] for row in self.rows(metadata_partition, start, end)]


class Following:
    """A subscription, and what it has delivered so far."""

    def __init__(self, log: MetadataEventLog, assignment: dict[int, int]) -> None:
        self.stream, self.handle = log.subscribe(assignment)
        self.batches: list[pa.RecordBatch] = []

    def await_values(self, positions: dict[int, int]) -> dict[int, list[object]]:
        """Poll until the subscription is where it should be; return all values by metadata partition."""
        await_condition(lambda: self._poll() == positions, f"positions {positions}", TIMEOUT_S, interval=0)
        values: dict[int, list[object]] = {}
        for batch in self.batches:
            (number,) = set(batch.column("metadata_partition").to_pylist())
            values.setdefault(number, []).extend(batch.column("value").to_pylist())
        return values

    def _poll(self) -> dict[int, int]:
        self.batches += self.stream.poll(0.1)
        return dict(self.handle.assigned())


@contextmanager
def subscribed(under_test: EventLogUnderTest, assignment: dict[int, int]) -> Iterator[Following]:
    following = Following(under_test.log, assignment)
    try:
        yield following
    finally:
        following.stream.close()


class MetadataEventLogContract:
    @pytest.fixture
    def under_test(self) -> EventLogUnderTest:
        raise NotImplementedError

    def test_a_fresh_log_is_empty(self, under_test):
        assert under_test.log.partition_count == PARTITIONS
        assert dict(under_test.log.beginning_offsets()) == {0: 0, 1: 0, 2: 0}
        assert dict(under_test.log.high_water_marks()) == {0: 0, 1: 0, 2: 0}
        assert under_test.rows(0) == []

    def test_it_tells_whether_it_is_compacted(self, under_test):
        assert under_test.log.cleanup_policy() == {"delete"}
        under_test.set_policy("compact,delete")
        assert under_test.log.cleanup_policy() == {"compact", "delete"}

    def test_each_record_has_its_own_outcome_in_order(self, under_test):
        records = [(2, b"a"), (0, b"b"), (2, b"c"), (1, b"d"), (2, b"e")]

        outcomes = under_test.log.publish(records)

        assert outcomes == [Acked(0), Acked(0), Acked(1), Acked(0), Acked(2)]
        assert [under_test.values(p) for p in range(PARTITIONS)] == [[b"b"], [b"d"], [b"a", b"c", b"e"]]

    def test_batches_follow_each_other(self, under_test):
        under_test.log.publish([(1, b"a"), (1, b"b")])

        assert under_test.log.publish([(1, b"c")]) == [Acked(2)]
        assert under_test.values(1) == [b"a", b"b", b"c"]

    def test_an_empty_batch_writes_nothing(self, under_test):
        assert under_test.log.publish([]) == []
        assert set(under_test.log.high_water_marks().values()) == {0}

    @pytest.mark.parametrize("metadata_partition", [-1, PARTITIONS])
    def test_a_partition_that_does_not_exist_stops_the_batch_before_anything_is_written(
        self, under_test, metadata_partition
    ):
        with pytest.raises(MetadataPartitionOutOfRangeError, match=str(metadata_partition)):
            under_test.log.publish([(0, b"a"), (metadata_partition, b"b"), (1, b"c")])

        assert set(under_test.log.high_water_marks().values()) == {0}

    @pytest.mark.parametrize("metadata_partition", [-1, PARTITIONS])
    def test_a_partition_that_does_not_exist_cannot_be_read(self, under_test, metadata_partition):
        with pytest.raises(MetadataPartitionOutOfRangeError):
            list(under_test.log.read(metadata_partition, 0, 0))

    def test_start_is_inclusive_and_end_exclusive(self, under_test):
        under_test.log.publish([(0, bytes([n])) for n in range(10)])

        rows = under_test.rows(0, 3, 7)

        assert [row["offset"] for row in rows] == [3, 4, 5, 6]
        assert [row["value"] for row in rows] == [b"\x03", b"\x04", b"\x05", b"\x06"]

    @pytest.mark.parametrize(("start", "end"), [(0, 0), (2, 2), (2, 1), (5, 3)])
    def test_an_empty_range_has_no_batches(self, under_test, start, end):
        under_test.log.publish([(0, b"x")] * 3)

        assert list(under_test.log.read(0, start, end)) == []

    def test_an_end_above_the_high_watermark_is_an_error(self, under_test):
        under_test.log.publish([(0, b"x")] * 3)

        with pytest.raises(OffsetOutOfRangeError, match=r"up to offset 4 and its high watermark is 3") as caught:
            list(under_test.log.read(0, 0, 4))
        assert (caught.value.metadata_partition, caught.value.offset) == (0, 4)

    def test_a_read_ends_where_it_was_told_although_the_log_goes_on(self, under_test):
        under_test.log.publish([(0, b"a")])
        reading = under_test.log.read(0, 0, 1)
        under_test.log.publish([(0, b"b")])

        assert [row["value"] for batch in reading for row in batch.to_pylist()] == [b"a"]

    def test_offsets_below_the_beginning_are_an_error_and_never_skipped(self, under_test):
        under_test.log.publish([(1, bytes([n])) for n in range(6)])

        under_test.truncate(1, 4)

        assert under_test.log.beginning_offsets()[1] == 4
        assert under_test.log.high_water_marks()[1] == 6
        assert [row["offset"] for row in under_test.rows(1, 4)] == [4, 5]
        for end in (4, 6):
            with pytest.raises(OffsetOutOfRangeError, match=r"from offset 0 and begins at 4") as caught:
                list(under_test.log.read(1, 0, end))
            assert (caught.value.metadata_partition, caught.value.offset) == (1, 0)
        assert list(under_test.log.read(1, 2, 2)) == []
        assert under_test.log.publish([(1, b"next")]) == [Acked(6)]

    def test_what_foreign_writers_write_is_read_as_it_is(self, under_test):
        under_test.append(0, b"value", b"key")
        under_test.append(0, None, b"key")
        under_test.append(0, None, None)
        under_test.append(0, b"", None)

        rows = under_test.rows(0)

        assert [(row["key"], row["value"]) for row in rows] == [
            (b"key", b"value"),
            (b"key", None),
            (None, None),
            (None, b""),
        ]

    def test_an_offset_may_hold_no_record(self, under_test):
        under_test.append(0, b"before", None)
        under_test.append_in_a_transaction(0, b"committed")
        under_test.append(0, b"after", None)

        assert under_test.log.high_water_marks()[0] == 4
        assert [(row["offset"], row["value"]) for row in under_test.rows(0)] == [
            (0, b"before"),
            (1, b"committed"),
            (3, b"after"),
        ]
        assert under_test.rows(0, 2, 3) == []

    def test_what_this_package_writes_has_no_key_and_a_timestamp(self, under_test):
        under_test.log.publish([(0, b"a"), (0, b"b")])

        rows = under_test.rows(0)

        assert [row["key"] for row in rows] == [None, None]
        assert all(isinstance(row["timestamp_ms"], int) and row["timestamp_ms"] > 1_600_000_000_000 for row in rows)

    def test_the_batches_have_one_schema(self, under_test):
        under_test.append(0, None, None)
        under_test.log.publish([(0, b"a")])

        batches = list(under_test.log.read(0, 0, 2))

        assert {batch.schema.to_string() for batch in batches} == {
            pa.schema(
                [
                    pa.field("offset", pa.int64(), nullable=False),
                    pa.field("timestamp_ms", pa.int64(), nullable=False),
                    ("key", pa.binary()),
                    ("value", pa.binary()),
                ]
            ).to_string()
        }

    def test_several_ranges_are_read_at_once_each_in_its_order(self, under_test):
        under_test.log.publish([(n % 2, b"%d" % n) for n in range(24_000)])
        under_test.log.publish([(2, b"z")])
        ranges = {0: (3, 11_000), 1: (11_990, 12_000), 2: (1, 1)}

        found: dict[int, list[tuple[int, bytes]]] = {}
        for metadata_partition, batch in under_test.log.read_many(ranges):
            rows = [(row["offset"], row["value"]) for row in batch.to_pylist()]
            assert rows
            found.setdefault(metadata_partition, []).extend(rows)

        assert found == {
            0: [(offset, b"%d" % (2 * offset)) for offset in range(3, 11_000)],
            1: [(offset, b"%d" % (2 * offset + 1)) for offset in range(11_990, 12_000)],
        }

    def test_many_reads_of_the_same_ranges_are_the_same(self, under_test):
        under_test.log.publish([(n % PARTITIONS, b"x") for n in range(3 * PARTITIONS)])
        ranges = dict.fromkeys(range(PARTITIONS), (0, 2))

        for _ in range(3):
            read = {p: batch.column("offset").to_pylist() for p, batch in under_test.log.read_many(ranges)}
            assert read == {number: [0, 1] for number in range(PARTITIONS)}

    def test_no_range_is_read_as_nothing(self, under_test):
        assert list(under_test.log.read_many({})) == []

    def test_one_range_that_cannot_be_read_stops_all_before_the_first_record(self, under_test):
        under_test.log.publish([(0, b"x"), (1, b"x")])

        with pytest.raises(OffsetOutOfRangeError, match=r"up to offset 2 and its high watermark is 1"):
            under_test.log.read_many({0: (0, 1), 1: (0, 2)})
        with pytest.raises(MetadataPartitionOutOfRangeError):
            under_test.log.read_many({0: (0, 1), PARTITIONS: (0, 0)})

    def test_two_reads_do_not_disturb_each_other(self, under_test):
        under_test.log.publish([(0, b"a"), (1, b"b")])

        first, second = under_test.log.read(0, 0, 1), under_test.log.read(1, 0, 1)

        assert next(first).column("value").to_pylist() == [b"a"]
        assert next(second).column("value").to_pylist() == [b"b"]
        assert list(first) == list(second) == []

    def test_a_read_that_is_dropped_midway_leaves_the_log_usable(self, under_test):
        under_test.log.publish([(0, b"a")] * 20_000)

        reading = under_test.log.read(0, 0, 20_000)
        assert next(reading).num_rows > 0
        reading.close()

        assert len(under_test.values(0)) == 20_000

    @pytest.mark.slow
    def test_a_large_batch_is_acked_whole_and_read_back_in_order(self, under_test):
        records = [(n % PARTITIONS, n.to_bytes(120, "big")) for n in range(LARGE_BATCH)]

        outcomes = under_test.log.publish(records)

        assert outcomes == [Acked(n // PARTITIONS) for n in range(LARGE_BATCH)]
        for partition in range(PARTITIONS):
            assert under_test.values(partition) == [value for p, value in records if p == partition]

    def test_a_subscription_delivers_what_was_there_and_what_comes_once_and_in_order(self, under_test):
        under_test.log.publish([(0, b"a"), (1, b"x"), (0, b"b")])

        with subscribed(under_test, {0: 0, 1: 0}) as following:
            assert following.await_values({0: 2, 1: 1}) == {0: [b"a", b"b"], 1: [b"x"]}
            under_test.log.publish([(1, b"y"), (0, b"c")])
            assert following.await_values({0: 3, 1: 2}) == {0: [b"a", b"b", b"c"], 1: [b"x", b"y"]}
            assert following.handle.assigned() == {0: 3, 1: 2}
            assert following.handle.end_offsets() == {0: 3, 1: 2}
            assert following.stream.poll(0) == []

    def test_batches_of_a_subscription_name_their_metadata_partition(self, under_test):
        under_test.append(2, b"value", b"key")
        under_test.append(2, None, None)

        with subscribed(under_test, {2: 0}) as following:
            following.await_values({2: 2})

        assert {batch.schema.to_string() for batch in following.batches} == {
            pa.schema(
                [
                    pa.field("metadata_partition", pa.int32(), nullable=False),
                    pa.field("offset", pa.int64(), nullable=False),
                    pa.field("timestamp_ms", pa.int64(), nullable=False),
                    ("key", pa.binary()),
                    ("value", pa.binary()),
                ]
            ).to_string()
        }
        rows = [row for batch in following.batches for row in batch.to_pylist()]
        assert [(r["metadata_partition"], r["offset"], r["key"], r["value"]) for r in rows] == [
            (2, 0, b"key", b"value"),
            (2, 1, None, None),
        ]

    def test_a_subscription_starts_where_it_was_told(self, under_test):
        under_test.log.publish([(0, bytes([n])) for n in range(5)])

        with subscribed(under_test, {0: 3}) as following:
            assert following.handle.assigned() == {0: 3}
            assert following.await_values({0: 5}) == {0: [b"\x03", b"\x04"]}

    def test_a_subscription_to_nothing_waits_for_an_assignment(self, under_test):
        under_test.log.publish([(0, b"a")])

        with subscribed(under_test, {}) as following:
            assert following.stream.poll(0) == []
            assert following.handle.assigned() == {}
            following.handle.add(0, 0)
            assert following.await_values({0: 1}) == {0: [b"a"]}

    def test_adding_a_partition_leaves_the_others_undisturbed(self, under_test):
        under_test.log.publish([(0, b"a"), (1, b"x")])

        with subscribed(under_test, {0: 0}) as following:
            following.await_values({0: 1})
            following.handle.add(1, 0)
            under_test.log.publish([(0, b"b")])

            assert following.await_values({0: 2, 1: 1}) == {0: [b"a", b"b"], 1: [b"x"]}

    def test_nothing_of_a_removed_partition_is_delivered(self, under_test):
        under_test.log.publish([(0, b"a"), (1, b"x")])

        with subscribed(under_test, {0: 0, 1: 0}) as following:
            following.handle.remove(1)
            under_test.log.publish([(1, b"y"), (0, b"b")])

            assert following.await_values({0: 2}) == {0: [b"a", b"b"]}
            assert following.handle.assigned() == {0: 2}
            assert following.handle.end_offsets() == {0: 2}

    def test_a_partition_that_is_added_again_starts_where_it_is_told(self, under_test):
        under_test.log.publish([(0, b"a"), (0, b"b")])

        with subscribed(under_test, {0: 0}) as following:
            following.await_values({0: 2})
            following.handle.remove(0)
            following.handle.add(0, 1)

            assert following.await_values({0: 2}) == {0: [b"a", b"b", b"b"]}

    def test_a_partition_is_not_assigned_twice(self, under_test):
        with subscribed(under_test, {0: 0}) as following, pytest.raises(ValueError, match="assigned already"):
            following.handle.add(0, 0)

    def test_removing_what_is_not_assigned_does_nothing(self, under_test):
        with subscribed(under_test, {}) as following:
            following.handle.remove(2)

            assert following.handle.assigned() == {}

    @pytest.mark.parametrize("metadata_partition", [-1, PARTITIONS])
    def test_a_subscription_to_a_partition_that_does_not_exist_is_an_error(self, under_test, metadata_partition):
        with pytest.raises(MetadataPartitionOutOfRangeError):
            under_test.log.subscribe({metadata_partition: 0})

        with subscribed(under_test, {}) as following, pytest.raises(MetadataPartitionOutOfRangeError):
            following.handle.add(metadata_partition, 0)

    @pytest.mark.parametrize("offset", [2, 9])
    def test_an_offset_that_the_log_does_not_have_is_a_typed_error_and_the_others_go_on(self, under_test, offset):
        under_test.log.publish([(0, b"x")] * 6 + [(1, b"a")])
        under_test.truncate(0, 4)

        with subscribed(under_test, {0: offset, 1: 0}) as following:
            with pytest.raises(OffsetOutOfRangeError, match=rf"{offset}.*4.*6") as raised:
                following.await_values({0: 6, 1: 1})
            assert (raised.value.metadata_partition, raised.value.offset) == (0, offset)
            assert following.await_values({1: 1})[1] == [b"a"]
            assert set(following.handle.assigned()) == {1}
            following.handle.add(0, 4)
            assert following.await_values({0: 6, 1: 1})[0] == [b"x", b"x"]

    def test_a_subscription_may_start_at_the_end(self, under_test):
        under_test.log.publish([(0, b"a")])

        with subscribed(under_test, {0: 1}) as following:
            under_test.log.publish([(0, b"b")])
            assert following.await_values({0: 2}) == {0: [b"b"]}

    def test_a_subscription_and_reads_do_not_disturb_each_other(self, under_test):
        under_test.log.publish([(0, b"a"), (0, b"b")])

        with subscribed(under_test, {0: 0}) as following:
            assert under_test.values(0) == [b"a", b"b"]
            assert following.await_values({0: 2}) == {0: [b"a", b"b"]}

    def test_a_subscription_can_be_closed_twice(self, under_test):
        stream, _ = under_test.log.subscribe({0: 0})

        stream.close()
        stream.close()
