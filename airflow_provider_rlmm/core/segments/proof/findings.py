# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the contents of a segment, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from airflow_provider_rlmm.core.storage.index_type import IndexType

MAX_FINDINGS: Final = 20
"""Findings of one segment that are kept; all are counted."""


class DamageKind(StrEnum):
    """What is wrong."""

    MISSING = "MISSING"
    """It is not there."""

    SIZE = "SIZE"
    """It has another size than it must have."""

    PACKING = "PACKING"
    """What the plugin has packed cannot be unpacked, or its manifest cannot be what the plugin wrote."""

    BATCH = "BATCH"
    """No record batch begins where one must, or its header says what cannot be."""

    CHECKSUM = "CHECKSUM"
    """The checksum of a record batch, or of an index that has one, is not that of its bytes."""

    OFFSETS = "OFFSETS"
    """The offsets of a record batch do not follow those before it, or are not of the segment."""

    LEADER_EPOCH = "LEADER_EPOCH"
    """A record batch, or the leader epoch checkpoint, has another leader epoch than the segment has there."""

    INDEX = "INDEX"
    """An index says something else than the log, or what no broker writes."""

    METADATA = "METADATA"
    """The metadata, or the manifest, say something else than the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that is wrong.

    :param kind: what.
    :param part: which index is concerned; ``None`` for the log itself.
    :param position: first byte in doubt, within that part as it lay on the broker's disk; ``None`` where there is none.
    :param offset: of the first record in doubt; ``None`` where it is not known.
    :param expected: what must be there, in a few words; empty where the reason says all.
    :param seen: what is there.
    :param why: the reason, as it follows the name of the part and the position.
    """

    kind: DamageKind
    why: str
    part: IndexType | None = None
    position: int | None = None
    offset: int | None = None
    expected: str = ""
    seen: str = ""


Report = Callable[[Finding], None]
"""Takes a finding; where the first one ends the work, it raises."""


@dataclass(slots=True)
class Findings:
    """
    Findings of one segment, of which the first are kept.

    :param kept: the first of them.
    :param counts: all, by kind.
    """

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[DamageKind] = field(default_factory=Counter)

    def __call__(self, finding: Finding) -> None:
        """
        Take another one.

        :param finding: what is wrong.
        """
        self.counts[finding.kind] += 1
        if len(self.kept) < MAX_FINDINGS:
            self.kept.append(finding)
