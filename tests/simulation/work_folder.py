# SPDX-License-Identifier: Apache-2.0
"""
The work folder, as far as it holds the snapshot of the metadata topic: shared by all runs, and not to be trusted.

It may be full, lost, restored from a backup, or hold bytes that were never written like that.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.errors import SnapshotRefusedError
from airflow_provider_rlmm.core.log.snapshot import Snapshot
from airflow_provider_rlmm.core.log.snapshot_file import decode_snapshot, write_snapshot

if TYPE_CHECKING:
    from tests.simulation.world import World

Written = tuple[bytes, Mapping[int, frozenset[int]]]
"""The file, and per metadata partition where the log began for those who have read what is in it."""


class WorkFolder:
    """
    A :class:`~airflow_provider_rlmm.core.log.snapshot.SnapshotStore` that the adversary has in hand.

    :param world: where it lies.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._backups: list[Written] = []
        self._file: Written | None = None

    second: None = None  # no second place is named

    def copy_to_second(self) -> None:
        """Copy nothing: there is no second place."""

    def read(self) -> Snapshot:
        """Return the snapshot, and have the witness know what its reader knows by it."""
        import pyarrow as pa

        world = self._world
        if self._file is not None and world.trouble.fault_rate and world.adversary.random() < world.trouble.fault_rate:
            self._go_wrong()
        if self._file is None:
            raise SnapshotRefusedError("there is none yet")
        data, begins = self._file
        snapshot = decode_snapshot(pa.py_buffer(data))
        world.happened["snapshot read"] += 1
        process = world.processes[world.baton.current]
        for metadata_partition, known in begins.items():
            process.remembered[metadata_partition] |= known
        return snapshot

    def write(self, snapshot: Snapshot) -> None:
        """Replace the snapshot, unless the disk is full."""
        world = self._world
        if world.adversary.random() < world.trouble.fault_rate:
            world.happened["snapshot not written"] += 1
            raise OSError(errno.ENOSPC, "no space left")
        process = world.processes[world.baton.current]
        begins = {
            number: frozenset(process.begins[number] | process.remembered[number])
            for number in range(world.log.partition_count)
        }
        file = io.BytesIO()
        write_snapshot(snapshot, file)
        self._file = file.getvalue(), begins
        self._backups.append(self._file)

    def _go_wrong(self) -> None:
        world = self._world
        what = world.adversary.choice(["lost", "restored", "damaged"])
        world.happened[f"snapshot {what}"] += 1
        if what == "lost":
            self._file = None
        elif what == "restored":
            self._file = world.adversary.choice(self._backups)
        elif self._file is not None:
            data = bytearray(self._file[0])
            data[world.adversary.randrange(len(data))] ^= 1 << world.adversary.randrange(8)
            self._file = bytes(data), self._file[1]
