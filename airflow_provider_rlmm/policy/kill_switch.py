# SPDX-License-Identifier: Apache-2.0
"""The kill switch: while it is on nothing is written or deleted, and a run that is under way ends after its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider_rlmm.quoting import in_quotes

StopSource = Callable[[], str | None]
"""Returns why nothing may be begun now, ``None`` where it may: asked before every batch, as it may change in mid-run."""

MEANS_OFF: Final = frozenset({"", "false", "off", "0", "no"})
"""Values of a variable that let runs go on, in any case; any other text stops them and is the reason."""

STOPPED_ADVICE: Final = (
    "ask whoever has set it; when deletion may go on, put it back where the reason says (empty or delete the variable, "
    "remove the file) and run again: the next run goes on from here"
)
_MAX_SHOWN = 200


def never_stopped() -> str | None:
    """Return ``None``: nobody has a switch."""
    return None


def reason_of(where: str, value: str | None) -> str | None:
    """
    Return why a variable stops runs, ``None`` where it lets them go on.

    :param where: which variable, in words.
    :param value: its text, ``None`` where it is not set.
    """
    if value is None or value.strip().lower() in MEANS_OFF:
        return None
    return switched_on(where, value)


def switched_on(where: str, text: str) -> str:
    """
    Say that the switch is on.

    :param where: it was set, in words.
    :param text: what whoever has set it says.
    """
    says = f"it says {in_quotes(text.strip(), _MAX_SHOWN)}" if text.strip() else "it says nothing more"
    return f"the kill switch is on: {where} is set, {says}"


def cannot_be_told(where: str, why: str) -> str:
    """
    Say that nobody can tell whether the switch is on, which stops as well.

    :param where: it would be set, in words.
    :param why: the reason.
    """
    return f"whether the kill switch is on cannot be told, which stops as if it were: {where}: {why}"
