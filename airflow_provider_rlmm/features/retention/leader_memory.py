# SPDX-License-Identifier: Apache-2.0
"""
What runs remember of the leaders of a cluster, in its folder: the lineages that they have confirmed, since when segments are
due or wait to be copied, and what was told last.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, RlmmError
from airflow_provider_rlmm.core.base.file_systems import list_files, read_file, remove_file, replace_file
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.features.retention.hanging_copies import HangingCopies
from airflow_provider_rlmm.features.retention.kept_lineages import MAX_BYTES, KeptLineages
from airflow_provider_rlmm.features.retention.leader_document import LEADER_RETENTION_DOCUMENT, ReportedLeaders
from airflow_provider_rlmm.features.retention.leader_pass import PartitionPass, PassTimes
from airflow_provider_rlmm.features.retention.overdue import DueSegments, Overdue, hanging_of, overdue_of, remembered

logger = logging.getLogger(__name__)

DUE_FOLDER: Final = "retention"
"""Below the folder of the cluster: since when segments are due, a document for each topic of which any is."""

LINEAGES_DOCUMENT: Final = "leader-lineages.json"
"""In the folder of the cluster."""

_NO_TIME: Final = "no clock but this machine's was read, and no record says which time has passed"
_MAX_DUE_BYTES: Final = 64 * 2**20
_FILES_AT_ONCE: Final = 16


def read_lineages(cluster_uri: str, cluster_id: str) -> KeptLineages:
    """
    Return the lineages that earlier runs have kept; where they cannot be read, more is asked.

    :param cluster_uri: the folder of the cluster.
    :param cluster_id: its id.
    """
    nothing = KeptLineages(cluster_id)
    try:
        text = read_file(f"{cluster_uri}/{LINEAGES_DOCUMENT}", MAX_BYTES).to_pybytes().decode()
        kept = KeptLineages.from_json(text)
    except FileNotFoundError:
        return nothing
    except (OSError, ValueError, RlmmError) as e:
        logger.warning("the lineages of leaders are asked for anew: %s", e)
        return nothing
    return kept if kept.cluster_id == cluster_id else nothing


def keep_lineages(cluster_uri: str, lineages: KeptLineages) -> None:
    """
    Keep lineages for the next run; where that cannot be done it asks more, nothing worse.

    :param cluster_uri: the folder of the cluster.
    :param lineages: all that are known.
    """
    try:
        replace_file(f"{cluster_uri}/{LINEAGES_DOCUMENT}", [lineages.to_json().encode()])
    except (OSError, RlmmError) as e:
        logger.warning("the lineages of leaders cannot be kept, the next run asks for them anew: %s", e)


def keep_report(cluster_uri: str, report: ReportedLeaders) -> None:
    """
    Keep what was told of a whole cluster, for the pages and the doctor; where that cannot be done the log says so.

    :param cluster_uri: the folder of the cluster.
    :param report: what was told.
    """
    try:
        replace_file(f"{cluster_uri}/{LEADER_RETENTION_DOCUMENT}", [report.to_json().encode()])
    except (OSError, RlmmError) as e:
        logger.warning("what leaders delete next is not kept, pages and doctor show an older answer or none: %s", e)


@dataclass(frozen=True, slots=True)
class Judged:
    """What leaders should have done long ago."""

    overdue: Mapping[TopicIdPartition, Overdue]  # what they should have deleted
    hanging: Mapping[TopicIdPartition, HangingCopies]  # what they should have copied
    why_not: Mapping[str, str]  # by topic why that cannot be told


Late = tuple[dict[TopicIdPartition, Overdue], dict[TopicIdPartition, HangingCopies]]
"""Of one topic what its leaders should have deleted, and copied."""

T = TypeVar("T")


def _told(found: Mapping[TopicIdPartition, T | None]) -> dict[TopicIdPartition, T]:
    return {tip: one for tip, one in found.items() if one is not None}


class DueFiles:
    """
    Since when segments are due or wait to be copied: a document for each topic of which any does.

    :param cluster_uri: the folder of the cluster.
    :raises ConfigurationError: if that is not understood.
    :raises OSError: if it cannot be listed.
    """

    def __init__(self, cluster_uri: str) -> None:
        self._uri = f"{cluster_uri}/{DUE_FOLDER}"
        self._names = frozenset(list_files(self._uri))

    def judge(self, found: Iterable[PartitionPass], times: PassTimes, interval_ms: int) -> Judged:
        """
        Remember what is due, and what waits to be copied; tell what should have been done long ago.

        Hours count that have passed for certain: a clock of this machine that runs ahead makes nothing overdue.

        :param found: what leaders delete now.
        :param times: what time it is.
        :param interval_ms: between two passes of a leader, ms.
        """
        by_topic: dict[tuple[str, UUID], list[PartitionPass]] = {}
        for one in found:
            tip = one.topic_id_partition
            by_topic.setdefault((tip.topic, tip.topic_id), []).append(one)

        def judge(topic: tuple[str, UUID]) -> Late | str:
            try:
                return self._judge(kafka_uuid_str(topic[1]), by_topic[topic], times, interval_ms)
            except (PlanError, ConfigurationError, OSError) as e:
                logger.warning("whether anything of topic %s is overdue cannot be told: %s", topic[0], e)
                return str(e)

        with ThreadPoolExecutor(_FILES_AT_ONCE, "rlmm-due") as pool:
            judged = list(zip(by_topic, pool.map(judge, by_topic), strict=True))
        if times.passed_ms is None:
            logger.warning("whether anything is overdue cannot be told: %s", _NO_TIME)
            return Judged({}, {}, dict.fromkeys((topic for topic, _ in by_topic), _NO_TIME))
        late = [result for _, result in judged if not isinstance(result, str)]
        return Judged(
            {tip: one for overdue, _ in late for tip, one in overdue.items()},
            {tip: one for _, hanging in late for tip, one in hanging.items()},
            {topic: result for (topic, _), result in judged if isinstance(result, str)},
        )

    def _judge(self, topic_id: str, found: Iterable[PartitionPass], times: PassTimes, interval_ms: int) -> Late:
        before = self._read(topic_id)
        known = {one.topic_id_partition.partition: one for one in found}
        now = {p: remembered(one, before.partitions.get(p), times.now_ms) for p, one in known.items()}
        due = {**before.partitions, **{p: partition for p, partition in now.items() if partition is not None}}
        self._write(DueSegments(topic_id, {p: one for p, one in due.items() if one.since_ms or one.waiting}), before)
        if (passed_ms := times.passed_ms) is None:
            return {}, {}
        late = {one.topic_id_partition: overdue_of(one, due.get(p), passed_ms, interval_ms) for p, one in known.items()}
        hang = {one.topic_id_partition: hanging_of(one, due.get(p), passed_ms) for p, one in known.items()}
        return _told(late), _told(hang)

    def _read(self, topic_id: str) -> DueSegments:
        name = f"{topic_id}.json"
        if name not in self._names:
            return DueSegments(topic_id)
        try:
            text = read_file(f"{self._uri}/{name}", _MAX_DUE_BYTES).to_pybytes().decode()
        except FileNotFoundError:
            return DueSegments(topic_id)
        found = DueSegments.from_json(text)
        if found.topic_id != topic_id:
            raise PlanError(f"{self._uri}/{name} is of topic {found.topic_id}; remove the file")
        return found

    def _write(self, due: DueSegments, before: DueSegments) -> None:
        uri = f"{self._uri}/{due.topic_id}.json"
        if due == before:
            return
        if due.partitions:
            replace_file(uri, [due.to_json().encode()])
        else:
            remove_file(uri)

    def forget_all_but(self, living: Iterable[UUID]) -> None:
        """
        Remove what is remembered of topics that are gone.

        :param living: all that there are.
        """
        stay = {f"{kafka_uuid_str(topic_id)}.json" for topic_id in living}
        for name in self._names - stay:
            with suppress(OSError):
                remove_file(f"{self._uri}/{name}")
