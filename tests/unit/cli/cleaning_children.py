# SPDX-License-Identifier: Apache-2.0
"""What processes of a cleanup may do, good and bad: each function takes the place of ``cleaning_child.work``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from airflow_provider_rlmm.cli.cleaning_child import CleaningJob, Deleted, Ended, Said

BAD = 3
"""The metadata partition at which something happens."""

WAITING = "waits"


def numbers(pipe: Connection) -> Iterator[int]:
    try:
        while True:
            yield pipe.recv()
    except EOFError:
        return


def cleans(job: CleaningJob, pipe: Connection) -> None:
    """All goes well, and a Ctrl-C of the terminal does nothing."""
    for number in numbers(pipe):
        os.kill(os.getpid(), signal.SIGINT)
        pipe.send(Deleted(number, 5))
        pipe.send(Said(logging.WARNING, f"{number} by {os.getpid()}"))
        pipe.send(Ended(number, None))


def is_refused(job: CleaningJob, pipe: Connection) -> None:
    for number in numbers(pipe):
        pipe.send(Ended(number, "the root is gone" if number == BAD else None))


def is_killed(job: CleaningJob, pipe: Connection) -> None:
    for number in numbers(pipe):
        if number == BAD:
            os.kill(os.getpid(), signal.SIGKILL)
        pipe.send(Ended(number, None))


def leaves(job: CleaningJob, pipe: Connection) -> None:
    for number in numbers(pipe):
        if number == BAD:
            sys.exit(7)
        pipe.send(Ended(number, None))


def dies_at_once(job: CleaningJob, pipe: Connection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def waits(job: CleaningJob, pipe: Connection) -> None:
    for _ in numbers(pipe):
        pipe.send(Said(logging.WARNING, WAITING))
        signal.pause()


def hears_nothing(job: CleaningJob, pipe: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    waits(job, pipe)


def tells_what_others_see(job: CleaningJob, pipe: Connection) -> None:
    """Send what anybody on the machine may read of a process, and what was given to it."""
    for number in numbers(pipe):
        seen = [Path("/proc/self", name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")]
        pipe.send(Said(logging.WARNING, f"{seen} {job}"))
        pipe.send(Said(logging.WARNING, f"given {job.store_options['secret_access_key'][:6]}"))
        pipe.send(Ended(number, None))
