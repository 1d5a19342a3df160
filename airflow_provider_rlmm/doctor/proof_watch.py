# SPDX-License-Identifier: Apache-2.0
"""Which metadata partitions put their user partitions under proof, since when, and how much that concerns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.doctor.finding_rows import among, concerned_in_text
from airflow_provider_rlmm.metadata.states import RemoteLogSegmentState
from airflow_provider_rlmm.policy.finding_kinds import Severity

_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
_SEGMENT = ["metadata_partition", "topic_id", "topic", "partition", "segment_id"]

SegmentKey = tuple[int, bytes, str, int, bytes]
"""Metadata partition, topic id, topic, partition, segment id."""


@dataclass(slots=True)
class _Unreadable:
    offset: int
    timestamp_ms: int
    records: int = 0


@dataclass(frozen=True, slots=True)
class UnderProof:
    """
    A metadata partition whose records do not tell everything.

    :param metadata_partition: which one.
    :param offset: of the first record that cannot be read; where all can, the first offset that is still there.
    :param timestamp_ms: time of the record there, ms since the epoch; ``None`` where no record is left.
    :param severity: critical where user partitions are known to lack something.
    :param detail: what is known, in words.
    """

    metadata_partition: int
    offset: int
    timestamp_ms: int | None
    severity: Severity
    detail: str


class ProofWatch:
    """
    Follows what cannot be read, and segments without their first event where that may be gone.

    :param beginnings: metadata partition → first offset that is there.
    """

    def __init__(self, beginnings: Mapping[int, int]) -> None:
        self._beginnings = {p: offset for p, offset in beginnings.items() if offset > 0}
        self._unreadable: dict[int, _Unreadable] = {}
        self._first_times_ms: dict[int, int] = {}
        self._without_add: set[SegmentKey] = set()

    def note(self, decoded: Any, unknown: Any) -> None:
        """
        Take a chunk.

        :param decoded: what ``decode`` returned.
        :param unknown: rows of it about segments that are not known.
        """
        import pyarrow.compute as pc

        from airflow_provider_rlmm.metadata.columnar import ErrorCode

        decodable = (ErrorCode.GOOD, ErrorCode.KEYED, ErrorCode.MISROUTED)
        bad = decoded.filter(pc.invert(among(decoded, "error_code", decodable)))
        places = (bad.column(name).to_pylist() for name in ("metadata_partition", "offset", "timestamp_ms"))
        for metadata_partition, offset, timestamp_ms in zip(*places, strict=True):
            first = self._unreadable.setdefault(metadata_partition, _Unreadable(offset, timestamp_ms))
            first.records += 1
        if not self._beginnings:
            return
        for metadata_partition in self._beginnings.keys() - self._first_times_ms.keys():
            here = pc.index(decoded.column("metadata_partition"), metadata_partition).as_py()
            if here >= 0:
                self._first_times_ms[metadata_partition] = decoded.column("timestamp_ms")[here].as_py()
        rows = unknown.filter(among(unknown, "metadata_partition", self._beginnings))
        keys = zip(*(rows.column(name).to_pylist() for name in _SEGMENT), strict=True)
        for key, state in zip(keys, rows.column("state").to_pylist(), strict=True):
            # Whatever it was, once it is deleted nothing is left to resolve.
            (self._without_add.discard if state == _FINISHED else self._without_add.add)(key)

    def found(self, segments: Any, readers: Mapping[int, str]) -> Iterator[UnderProof]:
        """
        Yield the metadata partitions that are under proof.

        :param segments: the state's table after all that was noted.
        :param readers: metadata partition → which living user partitions map to it, in words.
        """
        import pyarrow.compute as pc

        for number in sorted(self._beginnings.keys() | self._unreadable.keys()):
            lacking = {key for key in self._without_add if key[0] == number}
            mine = segments.filter(pc.equal(segments.column("metadata_partition"), number))
            reasons = [concerned_in_text(mine)]
            if number in self._beginnings:
                reasons.insert(0, f"it begins at offset {self._beginnings[number]}")
            if (bad := self._unreadable.get(number)) is not None:
                reasons.insert(0, f"{bad.records} records cannot be read, the first at offset {bad.offset}")
            if lacking:
                partitions = len({key[1:4] for key in lacking})
                reasons.append(f"{len(lacking)} segments of {partitions} user partitions lack their first event")
            yield UnderProof(
                number,
                bad.offset if bad else self._beginnings[number],
                bad.timestamp_ms if bad else self._first_times_ms.get(number),
                Severity.CRITICAL if lacking else Severity.WARNING,
                "; ".join([*reasons, readers[number]]),
            )
