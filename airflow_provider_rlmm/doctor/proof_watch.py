# SPDX-License-Identifier: Apache-2.0
"""Which metadata partitions put their user partitions under proof, since when, and how much that concerns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.doctor.finding_rows import among, concerned_in_text
from airflow_provider_rlmm.policy.finding_kinds import Severity


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
    Counts what cannot be read, and knows where records are gone.

    :param beginnings: metadata partition → first offset that is there.
    """

    def __init__(self, beginnings: Mapping[int, int]) -> None:
        self._beginnings = {p: offset for p, offset in beginnings.items() if offset > 0}
        self._unreadable: dict[int, _Unreadable] = {}
        self._first_times_ms: dict[int, int] = {}

    def note(self, decoded: Any, quarantined: Any) -> None:
        """
        Take a chunk.

        :param decoded: what ``decode`` returned.
        :param quarantined: rows of it that are not good.
        """
        import pyarrow.compute as pc

        from airflow_provider_rlmm.metadata.columnar import ErrorCode

        bad = quarantined.filter(pc.invert(among(quarantined, "error_code", (ErrorCode.KEYED, ErrorCode.MISROUTED))))
        places = (bad.column(name).to_pylist() for name in ("metadata_partition", "offset", "timestamp_ms"))
        for metadata_partition, offset, timestamp_ms in zip(*places, strict=True):
            first = self._unreadable.setdefault(metadata_partition, _Unreadable(offset, timestamp_ms))
            first.records += 1
        for metadata_partition in self._beginnings.keys() - self._first_times_ms.keys():
            here = pc.index(decoded.column("metadata_partition"), metadata_partition).as_py()
            if here >= 0:
                self._first_times_ms[metadata_partition] = decoded.column("timestamp_ms")[here].as_py()

    def found(self, segments: Any, unresolved: Any, readers: Mapping[int, str]) -> Iterator[UnderProof]:
        """
        Yield the metadata partitions that are under proof.

        :param segments: the state's after all that was noted.
        :param unresolved: the state's, too.
        :param readers: metadata partition → which living user partitions map to it, in words.
        """
        import pyarrow.compute as pc

        # Where the log still has its beginning, nothing was lost of it.
        lost = pc.and_(unresolved.column("without_add"), among(unresolved, "metadata_partition", self._beginnings))
        unresolved = unresolved.filter(lost)
        for number in sorted(self._beginnings.keys() | self._unreadable.keys()):
            mine = segments.filter(pc.equal(segments.column("metadata_partition"), number))
            lacking = unresolved.filter(pc.equal(unresolved.column("metadata_partition"), number))
            reasons = [concerned_in_text(mine)]
            if number in self._beginnings:
                reasons.insert(0, f"it begins at offset {self._beginnings[number]}")
            if (bad := self._unreadable.get(number)) is not None:
                reasons.insert(0, f"{bad.records} records cannot be read, the first at offset {bad.offset}")
            if lacking.num_rows:
                partitions = lacking.group_by(["topic_id", "topic", "partition"]).aggregate([]).num_rows
                reasons.append(f"{lacking.num_rows} segments of {partitions} user partitions lack their first event")
            yield UnderProof(
                number,
                bad.offset if bad else self._beginnings[number],
                bad.timestamp_ms if bad else self._first_times_ms.get(number),
                Severity.CRITICAL if lacking.num_rows else Severity.WARNING,
                "; ".join([*reasons, readers[number]]),
            )
