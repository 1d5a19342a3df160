# SPDX-License-Identifier: Apache-2.0
"""What is refused because the log that a generation was read from may lack records."""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_rlmm.core.generations.manifest import Generation, unexplained
from airflow_provider_rlmm.core.plans.log_refusals import refusals_of_era, refusals_of_holes
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.records.era import Era, LogEra
from airflow_provider_rlmm.core.records.lost_records import HistoryGap


def refusals_of_log(generation: Generation, explained: Collection[HistoryGap]) -> list[Refusal]:
    """
    Return what is refused because the log may lack records above its beginning.

    :param generation: what was read, by this run and those before.
    :param explained: offsets that hold no record and of which a person has said why.
    """
    era = LogEra.of(generation.era)
    refused = refusals_of_era(era)
    if era.era is Era.COMPACTED:
        # There every offset may be missing: that is said of the whole log.
        return refused
    for number, part in sorted(generation.parts.items()):
        unsaid = unexplained(number, part.holes, explained)
        if part.more_holes and not unsaid:
            # Which offsets those are is not known any more, so no person's word covers them.
            unsaid = list(part.holes[-1:])
        refused += refusals_of_holes(unsaid, part.more_holes)
    return refused
