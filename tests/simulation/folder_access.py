# SPDX-License-Identifier: Apache-2.0
"""What opens a simulated cluster for the steps of a run: everything behind it is the package's own, the work folder too."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

from airflow_provider_rlmm.core.base import file_systems
from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
from airflow_provider_rlmm.core.runs import cleaner_session
from airflow_provider_rlmm.core.world.audit import DeletionRecord
from airflow_provider_rlmm.core.world.audit_columns import audit_table
from airflow_provider_rlmm.core.world.audit_log import AuditBatch, AuditLog
from tests.access import ClusterAccess, source_of
from tests.simulation.roots import CLUSTER_ID

if TYPE_CHECKING:
    from tests.simulation.folder_run import FolderRun
    from tests.simulation.folder_world import FolderWorld

Session = cleaner_session.CleanerSession
_audit_log = Session.audit_log


class WorldAccess(ClusterAccess):
    """
    :param world: the simulated cluster.
    :param run: for which it is opened.
    """

    def __init__(self, world: FolderWorld, run: FolderRun) -> None:
        source = source_of(
            lambda: world.settings,
            lambda: world.mount(world._hooks),
            read_stop=lambda: world.clerk.should_stop(run),
        )
        super().__init__(world, CLUSTER_ID, source, lambda: world._clock_of(run))
        self.run = run


class Witnessed:
    """
    An audit log that is written, and seen by the judge.

    :param log: what writes.
    :param run: who does.
    """

    def __init__(self, log: AuditLog, run: FolderRun) -> None:
        self._log, self._run = log, run

    def before(self, segments: Mapping[str, Any]) -> AuditBatch:
        # What cannot be written is not there.
        self._run.world.clerk.write_down(self._run, "audit before", audit_table(segments).to_pylist())
        batch = self._log.before(segments)
        self._run.note_audit(batch.rows.to_pylist(), ["begun"] * batch.rows.num_rows)
        return batch

    def deletions(self, segments: Collection[RemoteLogSegmentId], since_ms: int) -> DeletionRecord:
        return self._log.deletions(segments, since_ms)

    def after(self, batch: AuditBatch, outcomes: Mapping[str, Any]) -> None:
        self._log.after(batch, outcomes)
        self._run.note_audit(batch.rows.to_pylist(), outcomes["outcome"])
        self._run.world.clerk.write_down(self._run, "audit after", batch.rows.to_pylist())


def _witnessed_audit_log(session: Any, *of: Any) -> Any:
    log = _audit_log(session, *of)
    return Witnessed(log, session.access.run) if session.access.run.judges_audit else log


@contextmanager
def simulated(world: FolderWorld) -> Iterator[None]:
    """Let the steps of runs open a simulated cluster; nothing waits for a disk or for time to pass."""
    here: Sequence[AbstractContextManager[Any]] = [
        mock.patch.object(Session, "snapshots", property(lambda session: world.snapshots)),
        mock.patch.object(Session, "audit_log", _witnessed_audit_log),
        mock.patch.object(cleaner_session, "STOP_AGE_S", -1.0),
        mock.patch.object(cleaner_session, "floored", partial(cleaner_session.floored, sleep=lambda seconds: None)),
        mock.patch.object(floored_log, "CATCH_UP_S", 4.0),
        mock.patch.object(file_systems, "modified_ms", side_effect=lambda uri: world.now_ms),
        mock.patch.object(os, "fsync", return_value=None),
    ]
    with ExitStack() as stack:
        for patch in here:
            stack.enter_context(patch)
        yield
