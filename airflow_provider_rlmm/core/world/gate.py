# SPDX-License-Identifier: Apache-2.0
"""
The gate before each batch: switch, hold, time of day, pace and the time of the run, as they are at that moment.

A writer makes its own from its declaration, and from whether its effects are those of a dry run. The other questions have
one function each already: see :class:`~airflow_provider_rlmm.core.world.questions.Question`.
"""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass, field

from airflow_provider_rlmm.core.base.clock import Clock
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.world.hold import Hold, HoldSource, nothing_held
from airflow_provider_rlmm.core.world.kill_switch import StopSource, never_stopped
from airflow_provider_rlmm.core.world.questions import Question, Writer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gate:
    """
    What a writer asks again before each batch.

    A question that the writer has not declared is an error of ours, and ends the run: the table of docs/proofs.md is true.

    :param writer: who asks.
    :param is_dry: whether nothing is changed: then the gate is open, and only says what would close it.
    :param clock: time, proven.
    :param stop_source: the kill switch.
    :param hold_source: what is never touched.
    :param limits: with the time of day, the pace, and for how long a run begins batches.
    :param began_ms: when the run began to delete, ms since the epoch; ``None`` where it has all the time.
    :param at_once: how many tasks of the run delete at the same time; they share the pace.
    """

    writer: Writer
    _: KW_ONLY
    is_dry: bool
    clock: Clock
    stop_source: StopSource = never_stopped
    hold_source: HoldSource = nothing_held
    limits: CleanerLimits = field(default_factory=CleanerLimits)
    began_ms: int | None = None
    at_once: int = 1

    def why_stopped(self) -> str | None:
        """Return why no batch may be begun, ``None`` where one may; what is only said goes on, and says this, too."""
        self._require_declared(Question.SWITCH)
        why = self.stop_source()
        if why is not None and self.is_dry:
            logger.warning("dry run: %s; a real run would end here", why)
            return None
        return why

    def why_closed(self) -> str | None:
        """Return why nothing may be deleted at this time of day, ``None`` where it may; what is only said always may."""
        self._require_declared(Question.TIME_OF_DAY)
        return None if self.is_dry else self.limits.why_closed(self.clock())

    def why_over(self) -> str | None:
        """Return why the time of the run is over, ``None`` where it is not; what is only said has all the time."""
        self._require_declared(Question.PACE)
        if self.is_dry or self.began_ms is None:
            return None
        return self.limits.why_over(self.began_ms, self.clock())

    def hold(self) -> Hold:
        """Return what is never touched, as of now; a dry run leaves it out as well."""
        self._require_declared(Question.HOLD)
        return self.hold_source()

    def rest_s(self, objects: int, took_s: float) -> float:
        """
        Return how long to rest so that no more objects go in a second than may, seconds; a dry run has no need to.

        :param objects: of the batch.
        :param took_s: how long it took, seconds.
        """
        self._require_declared(Question.PACE)
        return 0.0 if self.is_dry else self.limits.rest_s(objects, took_s, self.at_once)

    def _require_declared(self, question: Question) -> None:
        if question not in self.writer.asks:
            raise LookupError(f"the {self.writer.name} does not declare that it asks for {question.value}")
