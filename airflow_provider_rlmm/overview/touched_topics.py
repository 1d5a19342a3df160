# SPDX-License-Identifier: Apache-2.0
"""What a cleanup has done about which topics, put together from its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_rlmm.core.base.quoting import MAX_NAME, printable
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.features.cleanup.report_document import CleanupReport
from airflow_provider_rlmm.features.cleanup.reports import PartitionOutcome
from airflow_provider_rlmm.overview.run_summary import Done, TouchedTopic

_Key = tuple[str, str]
"""Name and id of a topic."""


def touched_topics(report: CleanupReport) -> list[TouchedTopic]:
    """
    Return what a run has done about topics: what it deleted first, then what it refused, then what it marked, the largest of
    each first. Of a topic of which it deleted something and left the rest, it is said that it was deleted.

    :param report: of the run.
    """
    deleted: dict[_Key, Count] = {}
    refused: dict[_Key, Count] = {}
    for part in report.metadata_partitions:
        for one in part.partitions:
            key = (one.topic, one.topic_id)
            if one.segments_deleted:
                _add(deleted, key, Count(one.segments_deleted, one.bytes_deleted))
            if one.outcome is PartitionOutcome.REFUSED:
                _add(refused, key, Count(one.segments_left, 0))
    marked = {
        (m.topic, m.topic_id): Count(m.segments, m.bytes) for m in (report.marked.topics if report.marked else ())
    }
    left = {key: count for key, count in refused.items() if key not in deleted}
    return [*_sorted(Done.DELETED, deleted), *_sorted(Done.REFUSED, left), *_sorted(Done.MARKED, marked)]


def _add(found: dict[_Key, Count], key: _Key, count: Count) -> None:
    found[key] = Count.sum([found.get(key, Count(0, 0)), count])


def _sorted(done: Done, found: Mapping[_Key, Count]) -> Iterator[TouchedTopic]:
    for (topic, topic_id), count in sorted(found.items(), key=lambda one: (-one[1].bytes, -one[1].segments, one[0])):
        yield TouchedTopic(printable(topic, MAX_NAME), printable(topic_id, MAX_NAME), done, count.segments, count.bytes)
