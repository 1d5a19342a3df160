# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.errors import ClusterMismatchError, ConfigurationError
from airflow_provider_rlmm.core.records.lost_records import HistoryGap
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic

LONG = st.integers(-(2**63), 2**63 - 1)
TOPIC = st.builds(
    ListedTopic,
    topic_id=st.uuids(),
    name=st.text(min_size=1),
    retention_ms=LONG,
    retention_bytes=LONG,
    log_start_offsets=st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=4),
)
CLUSTER = st.builds(
    ClusterState,
    cluster_id=st.text(min_size=1),
    observed_at_ms=st.integers(0, 2**53),
    topics=st.lists(TOPIC, max_size=4, unique_by=lambda t: t.topic_id).map(tuple),
)

ORDERS = ListedTopic(UUID(int=7), "orders", 1000, -1, {0: 5, 11: 0})
DOCUMENT: dict[str, Any] = json.loads(ClusterState("cluster", 17, (ORDERS,)).to_json())


@given(CLUSTER)
def test_json_round_trip(state: ClusterState) -> None:
    assert ClusterState.from_json(state.to_json()) == state


def test_topic_ids_are_written_as_kafka_prints_them() -> None:
    assert DOCUMENT["topics"][0]["topic_id"] == "AAAAAAAAAAAAAAAAAAAABw"
    assert DOCUMENT["topics"][0]["log_start_offsets"] == {"0": 5, "11": 0}


def _document(**changes: Any) -> str:
    return json.dumps({**DOCUMENT, **changes})


def _topic(**changes: Any) -> str:
    return _document(topics=[{**DOCUMENT["topics"][0], **changes}])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        _document(cluster_id=""),
        _document(cluster_id=7),
        _document(observed_at_ms="17"),
        _document(observed_at_ms=True),
        _document(topics={}),
        _document(topics=None),
        _document(topics=["orders"]),
        _topic(name=None),
        _topic(topic_id="short"),
        _topic(topic_id=None),
        _topic(retention_ms=1.5),
        _topic(retention_bytes="1"),
        _topic(log_start_offsets=[]),
        _topic(log_start_offsets={"zero": 1}),
        _topic(log_start_offsets={"0": None}),
        _document(topics=DOCUMENT["topics"] * 2),
    ],
)
def test_bad_documents_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="list the cluster again"):
        ClusterState.from_json(text)


def test_what_people_said_of_gaps_goes_with_it_and_earlier_documents_have_none() -> None:
    state = ClusterState("cluster", 17, (ORDERS,), (HistoryGap(3, 17, 19),))
    assert ClusterState.from_json(state.to_json()) == state
    document = json.loads(state.to_json())
    del document["explained_gaps"]
    assert ClusterState.from_json(json.dumps(document)).explained_gaps == ()


def test_listing_without_a_topic_that_exists_is_refused() -> None:
    state = ClusterState("cluster", 17, (ORDERS,))
    state.require_topic("orders", ORDERS.topic_id)
    with pytest.raises(ConfigurationError, match=r"1 topic but not '__remote_log_metadata'.*not complete"):
        state.require_topic("__remote_log_metadata", UUID(int=1))


def test_listing_of_another_cluster_is_refused() -> None:
    with pytest.raises(
        ClusterMismatchError, match=r"'orders' with id AAAAAAAAAAAAAAAAAAAABw, .*AAAAAAAAAAAAAAAAAAAACA"
    ):
        ClusterState("cluster", 17, (ORDERS,)).require_topic("orders", UUID(int=8))
