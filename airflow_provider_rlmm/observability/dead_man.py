# SPDX-License-Identifier: Apache-2.0
"""What the dead-man alarm reads and writes in the folder of a cluster: it looks through the newest runs only."""

from __future__ import annotations

import hashlib
import logging

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.base.file_systems import create_file, read_file
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.overview.dead_man import MAX_WATCH_BYTES, Alarm, Watch, judge, last_success
from airflow_provider_rlmm.overview.run_summary import RunKind, RunSummary
from airflow_provider_rlmm.overview.runs import SEARCHED_RUNS, UnreadableRun, runs

logger = logging.getLogger(__name__)


def dead_man_alarm(work_uri: str, cluster_id: str, connection: str, *, real: bool, after_ms: int, now_ms: int) -> Alarm:
    """
    Tell whether runs of the cleaner are missing; the first look at a connection is written down.

    :param work_uri: the work folder.
    :param cluster_id: the cluster.
    :param connection: connection of type ``rlmm``.
    :param real: whether dry runs do not count.
    :param after_ms: for how long there may be no run that counts.
    :param now_ms: ms since the epoch.
    :raises DocumentError: if it cannot be told since when the connection is watched.
    :raises OSError: if the work folder cannot be read or written.
    """
    folder = cluster_folder(cluster_id)
    watch = _watch(f"{work_uri}/{folder}", Watch(cluster_id, connection, now_ms))
    found = runs(work_uri, folder, kind=RunKind.CLEANER, rows=SEARCHED_RUNS).rows
    for run in found:
        if isinstance(run, UnreadableRun):
            logger.warning("the summary of %s counts as no run: %s", run.artifact, run.why)
    last = last_success([run for run in found if isinstance(run, RunSummary)], watch, real=real, now_ms=now_ms)
    return judge(last, watch, real=real, after_ms=after_ms, now_ms=now_ms)


def _watch(cluster_uri: str, new: Watch) -> Watch:
    digest = hashlib.sha256(new.connection.encode()).hexdigest()[:16]
    uri = f"{cluster_uri}/watched-{digest}.json"
    try:
        raw = bytes(read_file(uri, MAX_WATCH_BYTES))
    except FileNotFoundError:
        try:
            create_file(uri, [new.to_json().encode()])
        except FileExistsError:
            # Another task has looked at the same moment.
            raw = bytes(read_file(uri, MAX_WATCH_BYTES))
        else:
            return new
    todo = f"remove {uri}: the connection is watched anew from then on"
    try:
        found = Watch.from_json(raw.decode())
    except (DocumentError, UnicodeDecodeError) as e:
        raise DocumentError(f"since when connection {new.connection} is watched cannot be told: {e}; {todo}") from e
    if (found.cluster_id, found.connection) != (new.cluster_id, new.connection):
        raise DocumentError(f"{uri} is of connection {found.connection!r:.80} of another cluster or name; {todo}")
    return found
