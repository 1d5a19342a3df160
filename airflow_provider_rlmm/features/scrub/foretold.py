# SPDX-License-Identifier: Apache-2.0
"""
How much memory and disk a scrub is going to take, from the segments that the log names and from what the last scrub listed.

It is said before anything is listed, and a scrub that this machine has no room for ends there, with the figures.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RoomError
from airflow_provider_rlmm.core.base.machine_room import free_disk, free_memory, temporary_folder
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.base.spool import KEPT_FREE

logger = logging.getLogger(__name__)

MEMORY_BYTES: Final = 100 * 2**20
"""What a scrub takes beside what its process has at its beginning, however little there is."""

BYTES_OF_SEGMENT: Final = 350
"""Memory of each segment that the log names as not finished, twice that of its row in the state of the log."""

_IN_MEMORY: Final = 2**20

BYTES_OF_OBJECT: Final = 80
"""Disk of each object that is listed: its row, packed, and again where it is not in use."""


@dataclass(frozen=True, slots=True)
class Foretold:
    """What a scrub is going to take."""

    segments: int  # that are not finished
    objects: int  # that will be listed, as far as that is known
    memory: int  # bytes, beside what the process has
    disk: int  # bytes of temporary files


def foretell(segments: int, objects_of_segment: int, listed_before: int | None) -> Foretold:
    """
    Return what a scrub is going to take.

    :param segments: that the log names as not finished.
    :param objects_of_segment: that the layout has for each at least.
    :param listed_before: objects that the last scrub listed, ``None`` where none counts: what no record names is not known.
    """
    objects = max(segments * objects_of_segment, listed_before or 0)
    return Foretold(segments, objects, MEMORY_BYTES + segments * BYTES_OF_SEGMENT, 2 * objects * BYTES_OF_OBJECT)


def require_room(foretold: Foretold) -> None:
    """
    Refuse a scrub that this machine has no room for.

    :param foretold: what it is going to take.
    :raises RoomError: naming what it takes, what there is, and what to do.
    """
    folder, memory = temporary_folder(), free_memory()
    disk = free_disk(folder)
    about = f"about {number_of(foretold.objects, 'object')} and {number_of(foretold.segments, 'segment')}"
    logger.info(
        "scrub: %s will take some %s of memory, of %s, and %s of the disk of %s, of %s",
        about, human_bytes(foretold.memory), "unknown" if memory is None else human_bytes(memory),
        human_bytes(foretold.disk), folder, human_bytes(disk),
    )  # fmt: skip
    if memory is not None and memory < foretold.memory:
        raise RoomError(
            f"a scrub of {about} takes some {human_bytes(foretold.memory)} of memory, and this machine has "
            f"{human_bytes(memory)} left: run it where there is more, or give the worker more"
        )
    # A small scrub writes no file at all.
    if foretold.disk > _IN_MEMORY and disk < foretold.disk + KEPT_FREE:
        raise RoomError(
            f"a scrub of {about} takes some {human_bytes(foretold.disk)} of temporary files, and the disk of {folder} has "
            f"{human_bytes(disk)} left: make room there, or set TMPDIR to a folder on a larger disk, then run again"
        )
