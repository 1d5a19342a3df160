# SPDX-License-Identifier: Apache-2.0
"""What could not be seen, in words, with its size."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_rlmm.core.base.agreement import agreeing, number_of
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.counts import Count, Unsized

UNSEEN_ADVICE = (
    "What to do: give the principal DESCRIBE on every topic, and have the doctor look at metadata partitions that are out of "
    "service (rlmm doctor); until then a count says nothing of what is not seen"
)

UNSIZED_ADVICE = (
    "What to do: have the doctor name the events without a first one (rlmm doctor), and look in storage for what is left of "
    "their topics; until then a sum of bytes says nothing of these segments"
)

_LISTED = 10


def why_not_all_seen(unseen: Count, topics: int, out_of_service: Sequence[int]) -> str:
    """
    Say what could not be seen; empty where all was.

    :param unseen: segments of which it cannot be told whether they are orphaned.
    :param topics: how many topic ids have these.
    :param out_of_service: metadata partitions that are out of service.
    """
    found = []
    if topics:
        found.append(
            f"it cannot be told whether {number_of(topics, 'topic')} with {number_of(unseen.segments, 'segment')}, "
            f"{human_bytes(unseen.bytes)} {agreeing(topics, 'is', 'are')} orphaned"
        )
    if out_of_service:
        listed = ", ".join(map(str, out_of_service[:_LISTED])) + (", …" if len(out_of_service) > _LISTED else "")
        found.append(f"metadata partition {listed} out of service, so not all that it says can be read")
    return "; ".join(found)


def why_not_all_sized(unsized: Unsized) -> str:
    """
    Say of which segments the log tells no size, so that no sum of bytes has them; empty where there are none.

    :param unsized: how many these are.
    """
    if not unsized.segments:
        return ""
    whose = {
        "of deleted topics": unsized.orphaned,
        "of topics that may be deleted or living": unsized.unseen,
        "of living topics": unsized.living,
    }
    parts = ", ".join(f"{count:,} {of}" for of, count in whose.items() if count)
    return f"no sum of bytes is all: the log tells no size of {number_of(unsized.segments, 'segment')}, {parts}"
