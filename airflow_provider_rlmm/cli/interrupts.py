# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, remembered: a client written in another language may lose the exception, or make another one of it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Timer, current_thread, get_ident, main_thread
from types import FrameType
from typing import Any, Final

_MOMENT_S: Final = 0.01
_seen = Event()


@contextmanager
def remembering_interrupts(signal_number: int = signal.SIGINT) -> Iterator[None]:
    """
    Remember a Ctrl-C while the block works; it raises KeyboardInterrupt all the same.

    :param signal_number: another signal that is to mean the same.
    """
    _seen.clear()
    if current_thread() is not main_thread():
        yield
        return
    before, hook = signal.signal(signal_number, _remember), sys.unraisablehook
    sys.unraisablehook = partial(_raise_anew, hook, signal_number)
    try:
        yield
    finally:
        signal.signal(signal_number, before)
        sys.unraisablehook = hook


def was_interrupted() -> bool:
    """Tell whether there was a Ctrl-C, also where its exception was lost."""
    return _seen.is_set()


def _raise_anew(hook: Callable[[Any], object], signal_number: int, lost: Any) -> None:
    """Raise an interrupt again that fell into a place that can raise nothing, such as the end of an object."""
    if lost.exc_type is not KeyboardInterrupt:
        hook(lost)
        return
    again = Timer(_MOMENT_S, signal.pthread_kill, (get_ident(), signal_number))
    again.daemon = True
    again.start()


def _remember(signal_number: int, frame: FrameType | None) -> None:
    _seen.set()
    signal.default_int_handler(signal_number, frame)
