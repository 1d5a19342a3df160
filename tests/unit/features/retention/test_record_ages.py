# SPDX-License-Identifier: Apache-2.0
"""How old segments are by their newest records: what tasks tell of it, and the document that it comes to."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.features.retention.record_ages import (
    MAX_LISTED,
    RANGES,
    AgeRange,
    RecordAges,
    ToldAge,
    count_of,
)
from airflow_provider_rlmm.features.retention.spark.executor import ages
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder, evaluate_batches
from airflow_provider_rlmm.features.retention.spark.task_report import TaskReport
from tests.spark.events import Topic, random_topic
from tests.spark.plain_evaluation import COPIED, replay
from tests.unit.features.retention.test_metadata_partition import (
    CLUSTER,
    DEAD,
    ENDS,
    EVALUATION,
    MIN_AGE,
    NOW,
    PARTITIONS,
    SIZED,
    batches_of,
    segment,
    without_keys,
)

DAY_MS = 86_400_000
OLDEST = [
    (-5, AgeRange.BELOW_1), (DAY_MS - 1, AgeRange.BELOW_1), (DAY_MS, AgeRange.FROM_1), (7 * DAY_MS, AgeRange.FROM_7),
    (30 * DAY_MS - 1, AgeRange.FROM_7), (30 * DAY_MS, AgeRange.FROM_30), (90 * DAY_MS, AgeRange.FROM_90),
    (365 * DAY_MS - 1, AgeRange.FROM_90), (365 * DAY_MS, AgeRange.FROM_365), (NOW + 1, AgeRange.UNKNOWN),
]  # fmt: skip
"""Age of the newest record, ms, and its range; a record of -1 ms says no time."""


def told_ages(topic: Topic, folder: Path) -> tuple[list[ToldAge], Count]:
    """What tasks tell of ages, and the count of all segments that they know."""
    order = GenerationOrder(str(folder), 1, ENDS)
    batches = evaluate_batches(iter(batches_of(without_keys(topic))), EVALUATION, order, "attempt")
    rows = [row for batch in batches for row in batch.to_pylist()]
    told = [ToldAge(**one) for row in rows for one in pa.ipc.open_stream(row["ages"]).read_all().to_pylist()]
    parts = [TaskReport.from_json(row["told"]).part for row in rows]
    return told, Count.sum(Count(part.segments, part.bytes) for part in parts)


@pytest.mark.parametrize("at_once", [1, 4, 65_536])
def test_each_segment_is_in_the_range_of_its_newest_record(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ages, "_COUNTED_AT_ONCE", at_once)
    topic = Topic(PARTITIONS)
    for number, (age_ms, _) in enumerate(OLDEST):
        start = 10 * number
        made = segment(
            number, SIZED, start_offset=start, end_offset=start + 9, size=2**number, max_timestamp_ms=NOW - age_ms
        )
        topic.put_home(made, made.add(1), made.update(2, COPIED))
    told, _ = told_ages(topic, tmp_path)
    document = RecordAges.of(told, cluster_id="c", told_at_ms=NOW)
    for one in RANGES:
        sizes = [2**number for number, (_, expected) in enumerate(OLDEST) if expected is one]
        assert count_of(document.ages, one) == Count(len(sizes), sum(sizes)), one


def test_all_segments_are_counted_topic_by_topic(tmp_path: Path) -> None:
    names = [(topic.topic_id.bytes, topic.name) for topic in CLUSTER.topics]
    topic = random_topic(4, [*names, DEAD], NOW, MIN_AGE, 500, PARTITIONS)
    told, known = told_ages(topic, tmp_path)
    document = RecordAges.of(told, cluster_id="c", told_at_ms=NOW)
    assert Count.sum(document.ages.values()) == known
    living = replay(topic.records, PARTITIONS).segments.values()
    expected = {row["topic_id"] for row in living}
    assert {one.topic_id for one in document.listed_topics} == {kafka_uuid_str(UUID(bytes=one)) for one in expected}
    for one in document.listed_topics:
        mine = [row for row in living if kafka_uuid_str(UUID(bytes=row["topic_id"])) == one.topic_id]
        assert one.stored == Count(len(mine), sum(row["segment_size_in_bytes"] for row in mine))


def test_the_document_lists_the_largest_topics_and_counts_all() -> None:
    many = [ToldAge(UUID(int=n).bytes, f"topic-{n}", 2, 1, n) for n in range(1, MAX_LISTED + 6)]
    document = RecordAges.of([*many, *many], cluster_id="c", told_at_ms=5)
    assert RecordAges.from_json(document.to_json()) == document
    assert (document.topics, len(document.listed_topics), document.lists_all) == (MAX_LISTED + 5, MAX_LISTED, False)
    assert document.ages == {AgeRange.FROM_7: Count(2 * len(many), 2 * sum(one.bytes for one in many))}
    assert document.of_topic(kafka_uuid_str(UUID(int=1))) is None, "the smallest ones are left out"
    assert document.of_topic(kafka_uuid_str(UUID(int=900))) == {AgeRange.FROM_7: Count(2, 1_800)}


def test_a_document_whose_bytes_have_changed_is_refused() -> None:
    text = RecordAges.of([], cluster_id="c", told_at_ms=5).to_json()
    with pytest.raises(DocumentError, match="sha256 differs"):
        RecordAges.from_json(text.replace('"told_at_ms": 5', '"told_at_ms": 6'))
