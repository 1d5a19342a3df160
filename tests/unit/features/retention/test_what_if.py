# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError, DocumentError
from airflow_provider_rlmm.core.generations.manifest import Generation, GenerationPart
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.records.era import PLAIN_ERA
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic
from airflow_provider_rlmm.features.retention.spark.executor.metadata_partition import GenerationOrder
from airflow_provider_rlmm.features.retention.spark.executor.what_if import count_what_goes
from airflow_provider_rlmm.features.retention.spark.what_if import AS_LISTED, PATTERN, Scenario, WhatWouldGo
from airflow_provider_rlmm.features.retention.spark.what_if_document import MAX_LISTED, WhatIfDocument
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
    assert re.search(PATTERN, text)
    topics = Scenario.parse(text).applied(STATE).topics
    assert [(topic.retention_ms, topic.retention_bytes) for topic in topics] == limits
    assert AS_LISTED.applied(STATE) == STATE


def test_the_form_refuses_what_is_of_another_form() -> None:
    for text in ("", "retention.ms", "retention.ms=1d", "retention=1", "a:b", "retention.ms=-2", "retention.ms=1,"):
        assert not re.search(PATTERN, text)


def test_settings_of_no_topic_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match=r"none of the 2 topics of the listing is called 'order'; in a pattern \*"
    ):
        Scenario.parse("order:retention.ms=1").applied(STATE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "retention.ms",
        "retention.ms=",
        "retention.ms=1d",
        "retention=1",
        "retention.ms=1,retention.ms=2",
        "a:b",
        "retention.ms=--1",
        "retention.ms=-2",
        "retention.ms=9223372036854775808",
        "retention.ms=1,",
        "retention.ms=\u0661",
    ],
)
def test_settings_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"settings .* must be of the form \[TOPICS:\]retention.ms=N"):
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


def settings(text: str, **by_topic: int) -> WhatWouldGo:
    """What settings come to: GiB of each topic, one segment each."""
    counts = {name: Count(size, size * 2**30) for name, size in by_topic.items()}
    return WhatWouldGo(
        Scenario.parse(text) if text else AS_LISTED, {"RETENTION_MS": Count.sum(counts.values())}, counts
    )


GENERATION = Generation(7, "cluster", "id", 1, 50, 50, {0: GenerationPart(9, unresolved=2)}, PLAIN_ERA.told())


def test_the_document_says_what_differs_first_by_bytes_and_what_is_saved() -> None:
    found = [settings("", same=4, less=3, more=1), settings("retention.ms=1", same=4, less=1, more=2, new=5)]
    doubt = Refusal("a hole", "it has no record", "look", RefusalKind.INCOMPLETE_HISTORY)
    document = WhatIfDocument.of(GENERATION, found, evaluated_at_ms=60, refusals=[doubt], price_micros=23_000)
    assert WhatIfDocument.from_json(document.to_json()) == document
    assert (document.generation, document.uncertain_segments) == (7, 2)
    assert document.doubts == ("a hole: it has no record; look",)
    as_it_is, tried = document.tried
    assert (as_it_is.settings, as_it_is.topics, as_it_is.saved_micros) == (AS_LISTED.text, 0, 0)
    rows = [(one.topic, one.then.segments - one.now.segments, one.saved_micros) for one in tried.listed_topics]
    assert rows == [("new", 5, 115_000), ("less", -2, -46_000), ("more", 1, 23_000)]
    assert (tried.topics, tried.more_segments, tried.more_bytes, tried.saved_micros) == (3, 4, 4 * 2**30, 92_000)
    assert document.in_short()["tried"][1] == {
        "settings": "retention.ms=1", "segments": 12, "bytes": 12 * 2**30, "more_segments": 4, "more_bytes": 4 * 2**30,
        "topics": 3, "saved_micros": 92_000,
    }  # fmt: skip
    free = WhatIfDocument.of(GENERATION, found, evaluated_at_ms=60)
    assert free.in_short()["tried"][1]["saved_micros"] is None


def test_the_document_lists_a_bounded_number_of_topics_and_counts_all() -> None:
    many = {f"topic-{number}": 1 + number for number in range(MAX_LISTED + 5)}
    document = WhatIfDocument.of(GENERATION, [settings(""), settings("retention.ms=1", **many)], evaluated_at_ms=60)
    tried = document.tried[1]
    assert (tried.topics, len(tried.listed_topics)) == (MAX_LISTED + 5, MAX_LISTED)
    assert tried.listed_topics[0].topic == f"topic-{MAX_LISTED + 4}"
    assert tried.goes.segments == sum(many.values())
    assert WhatIfDocument.from_json(document.to_json()) == document


def test_a_document_whose_bytes_have_changed_is_refused() -> None:
    text = WhatIfDocument.of(GENERATION, [settings("", a=1)], evaluated_at_ms=60).to_json()
    with pytest.raises(DocumentError, match="sha256 differs"):
        WhatIfDocument.from_json(text.replace('"generation": 7', '"generation": 8'))
