# SPDX-License-Identifier: Apache-2.0
"""The kill switch: while it is on nothing is written or deleted, and a run that is under way ends after its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider_rlmm.core.base.errors import StoppedError
from airflow_provider_rlmm.core.base.quoting import in_quotes

StopSource = Callable[[], str | None]
"""Returns why nothing may be begun now, ``None`` where it may: asked before every batch, as it may change in mid-run."""

STOPPED_ADVICE: Final = (
    "ask the person who set it; when deletion may go on, delete the variable or remove the file that the reason names (any "
    "value stops, an empty one too) and run again: the next run goes on from here"
)
_MAX_SHOWN = 200


def never_stopped() -> str | None:
    """Return ``None``: there is no switch."""
    return None


def require_not_stopped(why: str | None) -> None:
    """
    Refuse to begin anything while the switch is on.

    :param why: what a :data:`StopSource` has returned.
    :raises StoppedError: if it is on, or cannot be read.
    """
    if why is not None:
        raise StoppedError(f"{why}. What to do: {STOPPED_ADVICE}")


def reason_of(where: str, text: str | None) -> str | None:
    """
    Return why a switch stops runs, ``None`` where it is not set. Its text is the reason, ``no`` and an empty one too.

    A person who writes a reason must not have to know which words mean the opposite. This alone says whether a switch is on.

    :param where: which variable or file, in words.
    :param text: what it says, ``None`` where it is not there.
    """
    if text is None:
        return None
    says = f"it says {in_quotes(text.strip(), _MAX_SHOWN)}" if text.strip() else "it says nothing more"
    return f"the kill switch is on: {where} is set, {says}"


def cannot_be_told(where: str, why: str) -> str:
    """
    Say that it cannot be told whether the switch is on, which stops as well.

    :param where: it would be set, in words.
    :param why: the reason.
    """
    return f"it cannot be told whether the kill switch is on, which stops as if it were: {where}: {why}"
