# SPDX-License-Identifier: Apache-2.0
"""``rlmm copy``, as somebody types it who has a cluster and the disk of a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.cli.exit_codes import ExitCode
from dev.broker import LocalKafka, await_condition
from dev.roots import expected_root_of


@dataclass(frozen=True)
class CopyCommand:
    """
    The command for one topic.

    :param kafka: the cluster.
    :param home: folder of the user.
    :param disk: one of a stopped broker's ``log.dirs``, or a snapshot of one.
    :param topic: what is copied.
    :param options: further ones, for each run.
    """

    kafka: LocalKafka
    home: Path
    disk: Path
    topic: str
    options: tuple[str, ...] = ()
    storage: Mapping[str, str] = field(default_factory=dict)
    """What its environment says of the storage, where that is not the broker's own folder."""

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start it, with further options."""
        program = str(Path(sys.executable).with_name("rlmm"))
        folder = self.kafka.remote_dir
        own = {"RLMM_STORAGE_URI": folder.as_uri(), "RLMM_EXPECTED_ROOT": expected_root_of(folder)}
        return subprocess.Popen(
            [program, "copy", str(self.disk), self.topic, *self.options, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "RLMM_BOOTSTRAP_SERVER": self.kafka.bootstrap_servers,
                **(self.storage or own),
            },
        )

    def start_copying(self) -> subprocess.Popen[str]:
        """Start it with the permission to write."""
        return self.start("--execute", "--cluster-id", self.kafka.cluster_id, "--json")

    def copy_after_the_lease(self) -> None:
        """Copy all that is left, once the last killed process has lost its lease."""

        def ended() -> bool:
            with self.start_copying() as process:
                said = process.communicate(timeout=300)
            assert process.returncode in (ExitCode.DONE, ExitCode.UNAVAILABLE), said
            return process.returncode == ExitCode.DONE

        await_condition(ended, "a run goes to its end", 120)

    def plan(self, ends: ExitCode = ExitCode.DONE) -> Any:
        """Return what it says that it would copy, and see it end so."""
        return _document(self.start("--json"), ends)

    def copy(self, ends: ExitCode = ExitCode.DONE) -> Any:
        """Copy to the end, and return what it says; see it end so."""
        return _document(self.start_copying(), ends)


def _document(process: subprocess.Popen[str], ends: ExitCode) -> Any:
    said, errors = process.communicate(timeout=300)
    assert process.returncode == ends, f"{process.returncode}\n{said}\n{errors}"
    return json.loads(said)
