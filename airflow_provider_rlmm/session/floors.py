# SPDX-License-Identifier: Apache-2.0
"""Opens a metadata topic beside what earlier runs of the work folder have read of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_rlmm.clock import Clock
from airflow_provider_rlmm.errors import FloorError
from airflow_provider_rlmm.event_log.floored_log import NOTHING_CONFIRMED, Confirmation, FlooredLog
from airflow_provider_rlmm.event_log.floors import FloorFiles
from airflow_provider_rlmm.event_log.protocol import MetadataLogReader

logger = logging.getLogger(__name__)


@contextmanager
def floored(
    log: MetadataLogReader,
    cluster_uri: str,
    *,
    dry_run: bool,
    confirmation: Confirmation = NOTHING_CONFIRMED,
    clock: Clock,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[FlooredLog]:
    """
    Return a log that knows what it has lost; at the end of the block what was read of it is remembered.

    :param log: the log.
    :param cluster_uri: the folder of what runs remember of the cluster.
    :param dry_run: whether nothing will be changed.
    :param confirmation: what a person has confirmed to be lost.
    :param clock: time.
    :param sleep: waits for seconds, while the log may be catching up.
    :raises FloorError: if what earlier runs have read is not known, or cannot be remembered, and the run is for real.
    :raises LogBehindError: if the log ends below what was read of it, and is growing.
    :raises LostRecordsError: if the confirmation names what is not lost.
    :raises EventLogError: if the log cannot be read.
    """
    store = FloorFiles(cluster_uri)
    opened = FlooredLog.open(log, store, dry_run=dry_run, confirmation=confirmation, clock=clock, sleep=sleep)
    try:
        yield opened
    except BaseException:
        # Whatever becomes of the floor, this error is the one to be raised.
        _keep(opened, dry_run=True)
        raise
    _keep(opened, dry_run=dry_run)


def _keep(log: FlooredLog, *, dry_run: bool) -> None:
    try:
        log.keep(all_of_it=True)
    except FloorError as e:
        if not dry_run:
            raise
        logger.warning("what was read of the metadata topic is not remembered: %s", e)
