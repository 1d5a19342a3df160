# SPDX-License-Identifier: Apache-2.0
"""Which generation of the Spark job an answer began with."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import duration_in_words


@dataclass(frozen=True, slots=True)
class Folded:
    """The generation that an answer began with, for readers of the answer."""

    generation: int  # its number
    created_at_ms: int  # when it was written, ms since the epoch
    folded_at_ms: int  # when all of it was last read from the log's beginning, ms since the epoch
    offsets: int  # that it knew, the sum over all metadata partitions

    def said_at(self, now_ms: int) -> str:
        """
        Return it in words.

        :param now_ms: the time of the answer, ms since the epoch.
        """
        age, fold_age = (
            duration_in_words(max(0, now_ms - then_ms)) for then_ms in (self.created_at_ms, self.folded_at_ms)
        )
        return (
            f"{number_of(self.offsets, 'offset was', 'offsets were')} known from generation {self.generation} of the "
            f"Spark job, which is {age} old and was folded from the beginning of the log {fold_age} before"
        )
