# SPDX-License-Identifier: Apache-2.0
"""What a scrub of contents will ask of the storage, said before it does: requests, bytes, and what they cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.prices import ReadPrice, money

CHUNK_BYTES: Final = 8 << 20
"""Bytes of a log that one request brings."""

_BESIDE_LOG: Final = 6
"""Reads of a segment beside those of its log: five indexes, and who had written at the end of the segment before."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """
    What is going to be asked.

    :param segments: that are looked at.
    :param requests: reads, where nothing has to be asked twice.
    :param bytes: sizes of the logs as they lay on the brokers' disks, summed: at most, where the plugin compresses, and
        without indexes.
    :param micros: what that costs, in millionths of a unit of money; ``None`` where it is not set what reads cost.
    """

    segments: int
    requests: int
    bytes: int
    micros: int | None

    @property
    def in_words(self) -> str:
        """It, as a sentence."""
        cost = "" if self.micros is None else f", which costs {money(self.micros)}"
        return (
            f"{number_of(self.segments, 'segment is', 'segments are')} looked at by about "
            f"{number_of(self.requests, 'read')} of {human_bytes(self.bytes)} at most, indexes besides{cost}"
        )


def foretell(sizes: list[int], *, manifests: bool, price: ReadPrice | None) -> Foretold:
    """
    Say what looking at segments takes.

    :param sizes: of their logs, bytes.
    :param manifests: whether each has one, which is read twice.
    :param price: what reads cost, ``None`` where it is not set.
    """
    requests = sum(-(-size // CHUNK_BYTES) or 1 for size in sizes) + len(sizes) * (_BESIDE_LOG + 2 * manifests)
    total = sum(sizes)
    return Foretold(len(sizes), requests, total, None if price is None else price.of(requests, total))
