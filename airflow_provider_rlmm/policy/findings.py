# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of the metadata topic, as value objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_provider_rlmm.policy.finding_kinds import EXPLANATIONS as EXPLANATIONS
from airflow_provider_rlmm.policy.finding_kinds import FindingKind as FindingKind
from airflow_provider_rlmm.policy.finding_kinds import Severity as Severity

NAMED = 20
"""User partitions that a text names; all are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that is wrong.

    :param kind: what.
    :param severity: how bad.
    :param metadata_partition: where, ``None`` where it is about a topic as a whole.
    :param offset: of the record; for incomplete history, and where nothing else is under proof, the first offset that is
        still there; ``None`` where it is about a topic as a whole.
    :param topic_id: Kafka's base64 form, ``None`` where the record names none.
    :param topic: its name, in quotes where Kafka would not allow it.
    :param partition: user partition.
    :param segment_id: Kafka's base64 form.
    :param since_ms: since when, ms since the epoch: the event's timestamp where one can be read, else the record's.
    :param detail: what this one is, in words.
    """

    kind: FindingKind
    severity: Severity
    metadata_partition: int | None
    offset: int | None
    topic_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    segment_id: str | None = None
    since_ms: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        where = (
            f" in metadata partition {self.metadata_partition} at offset {self.offset}, since {since(self.since_ms)}"
        )
        return f"{self.severity} {self.kind}{self._of()}{where if self.offset is not None else ''}: {self.detail}"

    def _of(self) -> str:
        if not self.topic_id:
            return ""
        return f" of {self.topic_id}:{self.topic}" + (f"-{self.partition}" if self.partition is not None else "")


@dataclass(frozen=True, slots=True)
class Recovery:
    """
    What it costs to get brokers past the last poison pill of a metadata partition, and what can be used afterwards.

    :param metadata_partition: which one.
    :param delete_before_offset: DeleteRecords up to here, exclusive: the offset after the pill.
    :param records: records that are lost.
    :param segments: unfinished segments whose first event is among them: brokers know nothing of these afterwards.
    :param bytes: bytes of these segments.
    :param user_partitions: user partitions of these segments: nothing deletes their objects afterwards.
    :param refused: the first :data:`NAMED` of these, as ``topic id:topic-partition``.
    :param usable: user partitions with unfinished segments that lose none of them.
    """

    metadata_partition: int
    delete_before_offset: int
    records: int
    segments: int
    bytes: int
    user_partitions: int
    refused: tuple[str, ...]
    usable: int

    def __str__(self) -> str:
        return " ".join([self._before(), self._cost(), self._after()])

    def _before(self) -> str:
        return (
            f"Metadata partition {self.metadata_partition}: first keep a copy of its records "
            "(ReadRemoteLogMetadataOperator) and let the remote log cleaner finish what it can: it goes on with every "
            "user partition that log and storage show to be whole. Then DeleteRecords before offset "
            f"{self.delete_before_offset} and a restart of the brokers that read it."
        )

    def _cost(self) -> str:
        return (
            f"This loses {self.records} records, and with them {self.segments} unfinished segments ({self.bytes} bytes) of "
            f"{self.user_partitions} user partitions: no broker can read these any more, and their objects stay in storage."
        )

    def _after(self) -> str:
        usable = (
            f"Afterwards {self.usable} user partitions with unfinished segments are whole as before: they are copied, "
            "read and, once their topics are deleted, cleaned, though the metadata partition no longer begins at 0."
        )
        if not self.user_partitions:
            return usable
        more = self.user_partitions - len(self.refused)
        names = ", ".join(self.refused) + (f" and {more} more" if more else "")
        return (
            f"{usable} Never touched from then on, and refused by name where the log still names them, because storage "
            f"shows segments that the log does not: {names}. "
            "Where such a topic is deleted, delete by hand what storage shows of its topic id, with the copy of the "
            "records beside it; where it lives, its lost segments can be deleted by hand once nobody misses them."
        )


class FindingLog:
    """
    Findings up to a limit per kind, and how many there were.

    :param limit_per_kind: findings of one kind that are kept, the first ones.
    """

    def __init__(self, limit_per_kind: int) -> None:
        self._limit = limit_per_kind
        self._kept: dict[FindingKind, list[Finding]] = {}
        self.counts: dict[FindingKind, int] = {}
        self.critical = 0

    def room(self, kind: FindingKind) -> int:
        """
        Return how many more findings of a kind are kept.

        :param kind: which one.
        """
        return max(0, self._limit - len(self._kept.get(kind, ())))

    def add(self, findings: Sequence[Finding], kind: FindingKind, severity: Severity, count: int) -> None:
        """
        Keep what there is room for, and count all.

        :param findings: of one kind and severity, in the order of the topic; those beyond the room may be missing.
        :param kind: of all of them.
        :param severity: of all of them.
        :param count: how many there are.
        """
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self._kept.setdefault(kind, []).extend(findings[: self.room(kind)])
            self.critical += count if severity is Severity.CRITICAL else 0

    def findings(self) -> tuple[Finding, ...]:
        """Return what was kept: the worst first, by kind, in the order of the topic."""
        kept = [finding for kind in FindingKind for finding in self._kept.get(kind, ())]
        return tuple(sorted(kept, key=lambda f: list(Severity).index(f.severity)))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    What the doctor says of a metadata topic.

    :param cluster_id: the cluster.
    :param examined_at_ms: ms since the epoch.
    :param read_until: metadata partition → offset, exclusive, up to which was read.
    :param records: records read.
    :param segments: segments that are not finished.
    :param counts: exact number of findings per kind.
    :param critical: exact number of those that need a person.
    :param findings: the first ones of each kind.
    :param recoveries: one per metadata partition with a poison pill.
    """

    cluster_id: str
    examined_at_ms: int
    read_until: Mapping[int, int]
    records: int
    segments: int
    counts: Mapping[FindingKind, int]
    critical: int = 0
    findings: tuple[Finding, ...] = ()
    recoveries: tuple[Recovery, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report's document as plain JSON types."""
        return {
            "cluster_id": self.cluster_id,
            "examined_at_ms": self.examined_at_ms,
            "read_until": {str(p): offset for p, offset in self.read_until.items()},
            "records": self.records,
            "segments": self.segments,
            "critical": self.critical,
            "counts": {kind.value: count for kind, count in self.counts.items()},
            "findings": [
                asdict(f) | {"kind": f.kind.value, "severity": f.severity.value, "since": since(f.since_ms)}
                for f in self.findings
            ],
            "recoveries": [asdict(r) | {"refused": list(r.refused), "text": str(r)} for r in self.recoveries],
            "explanations": {
                kind.value: {"meaning": EXPLANATIONS[kind].meaning, "what_to_do": EXPLANATIONS[kind].what_to_do}
                for kind in self.counts
            },
        }


def since(timestamp_ms: int | None) -> str:
    """
    Return a time for people; what comes from the log may be no time at all.

    :param timestamp_ms: ms since the epoch.
    """
    if timestamp_ms is None:
        return "an unknown time"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
