# SPDX-License-Identifier: Apache-2.0
"""Waiting for something that a look proves: in the task, or in the triggerer between two looks."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, conf
from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.bases.sensor import PokeReturnValue
from airflow.triggers.base import BaseTrigger

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.operators.checked import CheckedOperator, Read


class Look(Protocol):
    """What a look has shown."""

    @property
    def why_not(self) -> Sequence[str]:
        """Why nothing is proved, a line each; empty if it is."""

    @property
    def proof(self) -> Mapping[str, Any]:
        """What is proved, as the task returns it."""


L = TypeVar("L", bound=Look)


class ProvingSensor(CheckedOperator[Read], BaseSensorOperator, Generic[Read, L]):
    """
    A sensor whose looks prove what it waits for, or say why they do not.

    :param deferrable: wait in the triggerer; ``None`` takes ``[operators] default_deferrable``.
    :param kwargs: what :class:`BaseSensorOperator` takes: ``timeout``, ``soft_fail`` and so on.
    """

    not_yet: ClassVar[str]
    """How a line begins that says why nothing is proved."""

    ui_color = "#d5e8d4"

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    @abstractmethod
    def look(self, context: Context, read: Read) -> L:
        """
        Look once.

        :param context: of the task.
        :param read: the arguments, as :meth:`read_arguments` returns them.
        :raises RlmmError: if nothing can be told; a retriable one is waited for.
        """

    @abstractmethod
    def next_look(self, found: L | None, left_s: float) -> tuple[BaseTrigger, float]:
        """
        Return what wakes the task for its next look, and how many seconds after that time the deferral gives up.

        :param found: what the last look has shown, ``None`` where nothing could be told.
        :param left_s: how long may still be waited, in seconds: the trigger ends by then, for a last look that says why.
        """

    def poke(self, context: Context) -> PokeReturnValue:
        found = self._look(context)
        is_proved = found is not None and not found.why_not
        return PokeReturnValue(is_proved, found.proof if found and is_proved else None)

    def execute(self, context: Context) -> Any:
        """Wait: in this task, or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        return self.look_again(context, None, time.time() + self.timeout)

    def look_again(self, context: Context, event: Any, until_s: float) -> Any:
        """
        Look, and wait on in the triggerer if nothing is proved; Airflow calls it when the trigger has fired.

        :param context: of the task.
        :param event: why the trigger fired, ``None`` for the first look.
        :param until_s: when the wait is over, seconds since the epoch.
        """
        self.log.info("a look, as %s", event or "the task begins")
        found = self._look(context)
        if found is not None and not found.why_not:
            return found.proof
        left_s = until_s - time.time()
        if left_s <= 0:
            why = "; ".join(found.why_not) if found else "cluster or storage did not answer"
            raise AirflowSensorTimeout(f"{self.not_yet} after {self.timeout:.0f} s: {why}")
        trigger, spare_s = self.next_look(found, left_s)
        self.defer(
            trigger=trigger,
            method_name="look_again",
            kwargs={"until_s": until_s},
            timeout=timedelta(seconds=left_s + spare_s),
        )
        raise AssertionError("a deferral ends the task")

    def _look(self, context: Context) -> L | None:
        read = self.read_arguments()
        try:
            found = self.look(context, read)
        except RlmmError as e:
            if not e.retriable:
                raise AirflowFailException(str(e)) from e
            self.log.warning("nothing can be told as yet: %s", e)
            return None
        for why in found.why_not:
            self.log.info("%s: %s", self.not_yet, why)
        if not found.why_not:
            self.log.info("proved: %s", found.proof)
        return found
