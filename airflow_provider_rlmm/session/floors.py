# SPDX-License-Identifier: Apache-2.0
"""Opens a metadata topic beside what earlier runs of the work folder have read of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_rlmm.clock import Clock, system_clock
from airflow_provider_rlmm.errors import FloorError, MetadataTopicReplacedError
from airflow_provider_rlmm.event_log.floored_log import NOTHING_CONFIRMED, Confirmation, FlooredLog
from airflow_provider_rlmm.event_log.floors import FloorFiles
from airflow_provider_rlmm.event_log.protocol import MetadataLogReader
from airflow_provider_rlmm.metadata.lost_records import LostRecords
from airflow_provider_rlmm.metadata.records import kafka_uuid_str
from airflow_provider_rlmm.policy.work_folder import cluster_folder
from airflow_provider_rlmm.session.access import RemoteLogAccess

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
    :raises MetadataTopicReplacedError: if the metadata topic is another one than earlier runs have worked with, the run is
        for real and nobody has confirmed it; or if the confirmation names another id than it has.
    :raises EventLogError: if the log cannot be read.
    """
    store = FloorFiles(cluster_uri)
    replaced = _why_replaced(log, store, confirmation, clock, dry_run=dry_run)
    opened = FlooredLog.open(log, store, dry_run=dry_run, confirmation=confirmation, clock=clock, sleep=sleep)
    if replaced is not None:
        opened.losses = {number: LostRecords(number, 0, 0, replaced=replaced) for number in range(log.partition_count)}
    try:
        yield opened
    except BaseException:
        # Whatever becomes of the floor, this error is the one to be raised.
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


def _why_replaced(
    log: MetadataLogReader, store: FloorFiles, confirmation: Confirmation, clock: Clock, *, dry_run: bool
) -> tuple[str, str] | None:
    """Return why the metadata topic is another one and what to do, ``None`` where it is not or a person has confirmed it."""
    now, said = log.topic_id, confirmation.metadata_topic_id
    if said is not None and said != now:
        raise MetadataTopicReplacedError(
            f"the metadata topic has id {kafka_uuid_str(now)}, and {kafka_uuid_str(said)} was confirmed: nothing is done"
        )
    try:
        before = store.metadata_topic_id()
        if before is None or (said == now != before and not dry_run):
            store.record_metadata_topic(now, confirmation.by, clock())
            if before is not None:
                logger.warning("confirmed by %s: metadata topic %s in the place of %s", confirmation.by, now, before)
    except FloorError as e:
        if not dry_run:
            raise
        logger.warning("which metadata topic earlier runs have worked with is not known, nothing is compared: %s", e)
        return None
    if before in (None, now) or said == now:
        return None
    why = (
        f"the metadata topic has id {kafka_uuid_str(now)}, and earlier runs of this work folder have worked with "
        f"{kafka_uuid_str(before)}: it was deleted and made anew, and does not name what was copied before"
    )
    todo = (
        "find out who did that, and whether brokers use this topic; to go on say so once, by the parameter "
        f"confirm_metadata_topic_id {kafka_uuid_str(now)!r} of the cleaner's or the scrub's DAG or by 'rlmm clean --execute "
        f"--confirm-metadata-topic-id {kafka_uuid_str(now)}'; scrubs wait anew then"
    )
    if not dry_run:
        raise MetadataTopicReplacedError(f"{why}; nothing is done. What to do: {todo}")
    logger.error("%s. What to do: %s", why, todo)
    return why, todo


def _keep(log: FlooredLog, *, dry_run: bool) -> None:
    try:
        log.keep(all_of_it=True)
    except FloorError as e:
        if not dry_run:
            raise
        logger.warning("what was read of the metadata topic is not remembered: %s", e)
