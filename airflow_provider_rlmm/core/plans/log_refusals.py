# SPDX-License-Identifier: Apache-2.0
"""What is refused because of the metadata log itself: it has lost records, holds none at some offsets, or is not plain."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.era import WHAT_TO_DO, LogEra
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, LostRecords


def refusal_of_lost(lost: LostRecords) -> Refusal:
    """
    Return what is refused where the log does not hold what earlier runs have read of it: the same one for all metadata
    partitions of a topic that was made anew.

    :param lost: what was lost.
    """
    if lost.replaced is not None:
        return Refusal("the metadata topic", lost.why, lost.what_to_do, RefusalKind.LOST_RECORDS)
    what, number = f"metadata partition {lost.metadata_partition}", lost.metadata_partition
    return Refusal(what, lost.why, lost.what_to_do, RefusalKind.LOST_RECORDS, number, lost.end)


def refusals_of_holes(holes: Sequence[HistoryGap], more: int = 0) -> list[Refusal]:
    """
    Return what is refused where offsets of a metadata partition hold no record, and no person has said why: the first of
    them.

    :param holes: the offsets, of one metadata partition.
    :param more: how many more such gaps there are.
    """
    if not holes:
        return []
    hole, more = holes[0], len(holes) - 1 + more
    what, why = f"metadata partition {hole.metadata_partition}", hole.why
    why = f"{why}; {number_of(more, 'more such gap is', 'more such gaps are')} there" if more else why
    return [Refusal(what, why, hole.what_to_do, RefusalKind.LOST_RECORDS, hole.metadata_partition, hole.end)]


def refusals_of_era(era: LogEra) -> list[Refusal]:
    """
    Return what is refused where records of the metadata topic have keys, or it is compacted: everything.

    :param era: the era of the log.
    """
    why = era.why_not_written()
    return [] if why is None else [Refusal("the metadata topic", why, WHAT_TO_DO, RefusalKind.LOG_ERA)]
