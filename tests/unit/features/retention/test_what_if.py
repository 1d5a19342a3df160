# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.executor.what_if import count_what_goes
from airflow_provider_rlmm.features.retention.spark.what_if import AS_LISTED, Scenario
from tests.spark.events import Topic
from tests.spark.plain_evaluation import COPIED, DELETING
from tests.unit.features.retention.test_metadata_partition import (
    ENDS,
    EVALUATION,
    PARTITIONS,
    SIZED,
    batches_of,
    segment,
    told,
    without_keys,
)

ORDERS, CLICKS = (ListedTopic(UUID(int=n), name, 5, 6, {}) for n, name in ((1, "orders"), (2, "clicks")))
STATE = ClusterState("cluster", 1, (ORDERS, CLICKS))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("retention.ms=1", [(1, 6), (1, 6)]),
        ("retention.bytes=2, retention.ms=-1", [(-1, 2), (-1, 2)]),
        ("ord*:retention.bytes=9", [(5, 9), (5, 6)]),
    ],
)
def test_settings_are_those_of_the_topics_that_are_named(text: str, limits: list[tuple[int, int]]) -> None:
    topics = Scenario.parse(text).applied(STATE).topics
    assert [(topic.retention_ms, topic.retention_bytes) for topic in topics] == limits
    assert AS_LISTED.applied(STATE) == STATE


def test_settings_of_no_topic_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"none of the 2 topics of the listing is called 'order'; in a pattern \*"
    ):
        Scenario.parse("order:retention.ms=1").applied(STATE)


@pytest.mark.parametrize(
    "text",
    ["", "retention.ms", "retention.ms=", "retention.ms=1d", "retention=1", "retention.ms=1,retention.ms=2", "a:b"],
)
def test_settings_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--what-if .* is not understood: give \[TOPICS:\]retention.ms=N"):
        Scenario.parse(text)


def test_a_segment_that_is_not_certain_never_goes(tmp_path: Path) -> None:
    topic = Topic(PARTITIONS)
    first, second, third = (
        segment(number, SIZED, start_offset=10 * number, end_offset=10 * number + 9, size=4_000) for number in range(3)
    )
    for s in (first, second, third):
        topic.put_home(s, s.add(1), s.update(2, COPIED))
    topic.put_home(second, second.add(3, state=DELETING))
    (report,) = told(batches_of(without_keys(topic)), GenerationOrder(str(tmp_path), 1, ENDS))
    (counted,) = count_what_goes(str(tmp_path), (report.metadata_partition, report.part), [EVALUATION])
    assert counted.to_pylist() == [
        {"scenario": 0, "topic": "sized", "reason": "RETENTION_BYTES", "segments": 1, "bytes": 4_000}
    ]
