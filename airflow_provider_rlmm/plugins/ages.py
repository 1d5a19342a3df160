# SPDX-License-Identifier: Apache-2.0
"""Bytes by the age of the newest record, as the pages show it: of a cluster, or of one of its topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.retention.record_ages import RANGES, AgeRange, Ages, RecordAges, count_of
from airflow_provider_rlmm.overview.record_ages import record_ages_of
from airflow_provider_rlmm.plugins.charts import Column, columns
from airflow_provider_rlmm.plugins.overview import Chart
from airflow_provider_rlmm.settings import work_uri

NAME: Final = "Bytes by age of the newest record"
_NOBODY: Final = (
    "How old the segments of this cluster are is not written down yet: each run of remote_log_retention does it."
)
_LABELS: Final = {
    AgeRange.BELOW_1: "< 1 d",
    AgeRange.FROM_1: "1–7 d",
    AgeRange.FROM_7: "7–30 d",
    AgeRange.FROM_30: "30–90 d",
    AgeRange.FROM_90: "90–365 d",
    AgeRange.FROM_365: "> 365 d",
    AgeRange.UNKNOWN: "unknown",
}


@dataclass(frozen=True, slots=True)
class AgesView:
    """What a page shows of ages."""

    chart: Chart | None = None  # ``None`` where there is nothing to draw
    told_at_ms: int | None = None  # when that was told, ms since the epoch
    why_not: str = ""  # why there is no chart


def ages_of_cluster(folder: str) -> AgesView:
    """
    Return what the page of a cluster shows.

    :param folder: of the cluster.
    """
    found = _read(folder)
    return found if isinstance(found, AgesView) else AgesView(_chart(found.ages), found.told_at_ms)


def ages_of_topic(folder: str, topic_id: str) -> AgesView:
    """
    Return what the page of a topic shows.

    :param folder: of the cluster.
    :param topic_id: in Kafka's text form.
    """
    found = _read(folder)
    if isinstance(found, AgesView):
        return found
    if (ages := found.of_topic(topic_id)) is not None:
        return AgesView(_chart(ages), found.told_at_ms)
    listed = (
        f"the {number_of(len(found.listed_topics), 'largest topic')} of {found.topics:,} are listed, and this is "
        "none of them"
    )
    why = "it had no remote segment then" if found.lists_all else listed
    return AgesView(told_at_ms=found.told_at_ms, why_not=f"How old its segments are was not told: {why}.")


def _read(folder: str) -> RecordAges | AgesView:
    try:
        found = record_ages_of(work_uri(), folder)
    except DocumentError as e:
        return AgesView(why_not=f"How old the remote segments are cannot be shown: {e}.")
    return AgesView(why_not=_NOBODY) if found is None else found


def _chart(ages: Ages) -> Chart:
    total = Count.sum(ages.values())
    shown = [
        Column(
            _LABELS[one],
            count.bytes,
            f"{_LABELS[one]}: {human_bytes(count.bytes)}, {number_of(count.segments, 'segment')}",
        )
        for one in RANGES
        for count in [count_of(ages, one)]
    ]
    return Chart(NAME, human_bytes(total.bytes), columns(shown, lambda value: human_bytes(round(value))))
