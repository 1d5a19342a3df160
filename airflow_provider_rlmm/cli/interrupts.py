# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, remembered: a client written in another language may lose the exception, or make another one of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from types import FrameType

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
    before = signal.signal(signal_number, _remember)
    try:
        yield
    finally:
        signal.signal(signal_number, before)


def was_interrupted() -> bool:
    """Tell whether there was a Ctrl-C, also where its exception was lost."""
    return _seen.is_set()


def _remember(signal_number: int, frame: FrameType | None) -> None:
    _seen.set()
    signal.default_int_handler(signal_number, frame)
