# SPDX-License-Identifier: Apache-2.0
"""Opens a metadata topic beside what earlier runs of the work folder have read of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import FloorError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.floored_log import NOTHING_CONFIRMED, Confirmation, FlooredLog
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.log.protocol import MetadataLogReader
from airflow_provider_rlmm.core.records.lost_records import HistoryGap, LostRecords
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.runs.metadata_topic import NO_STAMPS, StampedTopics, why_replaced

logger = logging.getLogger(__name__)


@contextmanager
def floored(
    log: MetadataLogReader,
    cluster_uri: str,
    *,
    dry_run: bool,
    confirmation: Confirmation = NOTHING_CONFIRMED,
    clock: Clock,
    stamps: StampedTopics = NO_STAMPS,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[FlooredLog]:
    """
    Return a log that knows what it has lost; at the end of the block what was read of it is remembered.

    :param log: the log.
    :param cluster_uri: the folder of what runs remember of the cluster.
    :param dry_run: whether nothing will be changed.
    :param confirmation: what a person has confirmed to be lost.
    :param clock: time.
    :param stamps: what the storage remembers of the metadata topic.
    :param sleep: waits for seconds, while the log may be catching up.
    :raises FloorError: if what earlier runs have read is not known, or cannot be remembered, and the run is for real.
    :raises LogBehindError: if the log ends below what was read of it, and is growing.
    :raises LostRecordsError: if the confirmation names what is not lost.
    :raises MetadataTopicReplacedError: if the metadata topic is another one than earlier runs have worked with, the run is
        for real and that is not confirmed; or if the confirmation names another id than it has.
    :raises StorageError: if the stamps cannot be read, or not be written once it is confirmed, and the run is for real.
    :raises EventLogError: if the log cannot be read.
    """
    store = FloorFiles(cluster_uri)
    replaced = why_replaced(log.topic_id, store, stamps, confirmation, clock, dry_run=dry_run)
    opened = FlooredLog.open(log, store, dry_run=dry_run, confirmation=confirmation, clock=clock, sleep=sleep)
    if replaced is not None:
        opened.losses = {number: LostRecords(number, 0, 0, replaced=replaced) for number in range(log.partition_count)}
    try:
        yield opened
    except BaseException:
        # Even where the floor fails, this error is the one to be raised.
        _keep(opened, dry_run=True)
        raise
    _keep(opened, dry_run=dry_run)


@contextmanager
def reading(access: RemoteLogAccess, work_uri: str) -> Iterator[FlooredLog]:
    """
    Open a metadata topic that is only read; errors of the cluster name where the login comes from.

    :param access: what opens the cluster.
    :param work_uri: the folder of what runs remember.
    :raises LogBehindError: if the topic ends below what was read of it, and is growing.
    :raises ClusterMismatchError: if the settings do not lead to one cluster, the expected one.
    :raises EventLogError: if the topic cannot be read.
    """
    folder = f"{work_uri}/{cluster_folder(access.check_cluster())}"
    with (
        access.naming_connection(),
        access.get_event_log() as log,
        floored(log, folder, dry_run=True, clock=system_clock) as known,
    ):
        yield known


def explained_gaps(work_uri: str, cluster_id: str, topic_id: UUID) -> tuple[HistoryGap, ...]:
    """
    Return the offsets of the metadata topic that hold no record and of which a person has said why; none where that cannot be
    read, and it says so.

    :param work_uri: the folder of what runs remember.
    :param cluster_id: of the cluster.
    :param topic_id: of its metadata topic.
    """
    try:
        return tuple(FloorFiles(f"{work_uri}/{cluster_folder(cluster_id)}").explained(topic_id))
    except FloorError as e:
        logger.warning("what people have said of offsets without a record is not known: %s", e)
        return ()


def _keep(log: FlooredLog, *, dry_run: bool) -> None:
    try:
        log.keep(all_of_it=True)
    except FloorError as e:
        if not dry_run:
            raise
        logger.warning("what was read of the metadata topic is not remembered: %s", e)
