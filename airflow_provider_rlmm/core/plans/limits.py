# SPDX-License-Identifier: Apache-2.0
"""
Limits of destructive work, declared: what each is called and means, its bounds and its default.

The value objects that hold them, and what they are together, are in :mod:`~airflow_provider_rlmm.core.plans.guards`.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_rlmm.core.base.declarations import Declared, Share, Whole

# --- the most that one run may delete ---------------------------------------------------------------------------------

MAX_SEGMENTS: Final = Declared(
    name="max_segments",
    kind=Whole(),
    default=100_000,
    title="Most segments",
    sentence="The most that one run may delete",
)
MAX_BYTES: Final = Declared(
    name="max_bytes",
    kind=Whole(unit="bytes"),
    default=10 * 2**40,
    title="Most bytes",
    sentence="The most bytes that one run may delete",
)
MAX_SHARE: Final = Declared(
    name="max_share",
    kind=Share(),
    default=0.5,
    title="Largest share",
    sentence="Of all known segments, the most that one run may delete",
)
BLAST_RADIUS: Final[tuple[Declared[Any], ...]] = (MAX_SEGMENTS, MAX_BYTES, MAX_SHARE)

MAX_SEGMENTS_THIS_RUN: Final[Declared[int | None]] = Declared(
    name="max_segments_this_run",
    kind=Whole(minimum=1),
    default=None,
    title="Segments this run",
    sentence="Take no more segments than these, a canary; empty: all",
)
"""A canary: what is beyond it is left for the next run, and nothing is refused."""
