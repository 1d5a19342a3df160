# SPDX-License-Identifier: Apache-2.0
"""What the Spark job is told of leaders before it reads, and of which of them it holds when they are asked again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.errors import ClockSkewError, ConfigurationError, EventLogUnavailableError
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.log.answers import CopyConfigs, NotTold
from airflow_provider_rlmm.core.plans.certainty import Certainty, LeadersTold
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.records.era import PLAIN_ERA, Era, LogEra
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.segments.lineage import LeaderEpochCheckpoint
from airflow_provider_rlmm.core.world.cluster_state import ClusterState, ListedTopic, ToldLeader
from airflow_provider_rlmm.features.retention.kept_lineages import KeptLineages
from airflow_provider_rlmm.features.retention.leader_lineage import KnownLineage
from airflow_provider_rlmm.features.retention.leader_memory import keep_lineages
from airflow_provider_rlmm.features.retention.spark import leaders_again
from airflow_provider_rlmm.features.retention.spark.cluster import SparkCluster
from airflow_provider_rlmm.features.retention.spark.columns import LEADER_COLUMNS, NOT_TIERED, arrow_schema
from airflow_provider_rlmm.features.retention.spark.leaders_again import (
    BEGINS_ELSEWHERE,
    COMPACTED,
    LEADS_ANEW,
    MADE_ANEW,
    NOT_AGAIN,
    SET_ANEW,
    changed_leaders,
    compare,
    read_offsets,
    told_partitions,
)
from airflow_provider_rlmm.features.retention.spark.plan import leaders_told
from airflow_provider_rlmm.features.retention.told_leaders import NOT_KEPT, observe_with_leaders, with_leaders
from tests.unit.core.world.test_observing import METADATA_TOPIC, TOPICS, Topics
from tests.unit.features.retention.in_process_leaders import InProcessLeaders

ORDERS, LOCAL = UUID(int=2), UUID(int=3)
CONFIGS = CopyConfigs(True, False, frozenset({"delete"}), retention_ms=5, retention_bytes=6)
STATE = ClusterState(
    "cluster-1",
    17,
    (ListedTopic(ORDERS, "orders", 5, 6, {0: 0, 1: 0}), ListedTopic(LOCAL, "local", -1, -1, {})),
)
WHOLE = KnownLineage(LeaderEpochCheckpoint(((1, 0), (4, 50))), UUID(int=9), 4, 80, 4)
SHORT = KnownLineage(LeaderEpochCheckpoint(((1, 0), (3, 50))), UUID(int=9), 3, 80, 4)
TOLD = ToldLeader(4, 60, 100, ((4, 60),), None)


def orders(partition: int = 0) -> TopicIdPartition:
    return TopicIdPartition(ORDERS, "orders", partition)


@pytest.fixture
def leaders() -> InProcessLeaders:
    found = InProcessLeaders()
    for partition in range(2):
        found.lead(orders(partition), CONFIGS, 60, 100, 4)
    found.lead(TopicIdPartition(LOCAL, "local", 0), replace(CONFIGS, remote_storage_enable=False), 0, 9, 1)
    return found


def told(leaders: InProcessLeaders, known: KnownLineage | None = WHOLE) -> ListedTopic:
    kept = KeptLineages("cluster-1").with_lineages({} if known is None else {orders(): known}, None)
    state = with_leaders(STATE, leaders, kept)
    assert state.topics[1].tiered is False
    assert not state.topics[1].leaders
    assert ClusterState.from_json(state.to_json()) == state
    return state.topics[0]


def test_a_leader_and_the_lineage_that_is_kept_of_it(leaders: InProcessLeaders) -> None:
    found = told(leaders)
    assert (found.tiered, found.leaders) == (True, {0: TOLD})
    assert found.untold == {1: NOT_KEPT}
    # One that ends before the leader's own epoch says up to where it is known; it is cut where the log begins.
    leaders.change(orders(), log_start_offset=20)
    expected = ToldLeader(4, 20, 100, ((1, 20), (3, 50)), (3, 80))
    assert told(leaders, SHORT).leaders == {0: expected}


@pytest.mark.parametrize("lineage", [[], [[4, 60], [3, 70]], [[4, 60], [5, 60]]])
def test_a_listing_whose_lineages_are_none_is_refused(leaders: InProcessLeaders, lineage: list[list[int]]) -> None:
    kept = KeptLineages("cluster-1").with_lineages({orders(): WHOLE}, None)
    document = json.loads(with_leaders(STATE, leaders, kept).to_json())
    document["topics"][0]["leaders"]["0"]["lineage"] = lineage
    with pytest.raises(ConfigurationError, match="list the cluster again"):
        ClusterState.from_json(json.dumps(document))


CHANGES: dict[str, tuple[Callable[[InProcessLeaders], None], str]] = {
    "another epoch": (lambda leaders: leaders.change(orders(), leader_epoch=5), NOT_KEPT),
    "no epoch": (lambda leaders: leaders.change(orders(), leader_epoch=None), NOT_KEPT),
    "no answer": (
        lambda leaders: leaders.looks.update({("orders", 0): NotTold("it has no leader")}),
        "it has no leader",
    ),
    "other settings": (
        lambda leaders: leaders.change(orders(), configs=replace(CONFIGS, retention_ms=9)),
        "its settings have changed while its leader was asked",
    ),
    "made anew": (
        lambda leaders: leaders.change(orders(), topic_id_partition=TopicIdPartition(UUID(int=5), "orders", 0)),
        "the topic was made anew",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_why_nothing_is_told_of_a_leader(leaders: InProcessLeaders, case: str) -> None:
    change, why = CHANGES[case]
    # What the topic itself is comes from the second partition then.
    asked = leaders.topics()
    leaders.topics = lambda _=None: asked  # type: ignore[method-assign]
    change(leaders)
    found = told(leaders)
    assert not found.leaders
    assert why in found.untold[0]


def test_of_a_topic_that_was_made_anew_or_hides_nothing_is_known(leaders: InProcessLeaders) -> None:
    for configs in (NotTold("TOPIC_AUTHORIZATION_FAILED"), None):
        if configs is None:
            for partition in range(2):
                leaders.lead(TopicIdPartition(UUID(int=8), "orders", partition), CONFIGS, 60, 100, 4)
            leaders.configs.clear()
        else:
            leaders.configs["orders"] = configs
        found = told(leaders)
        assert (found.tiered, found.leaders, found.untold) == (None, {}, {})


class Access:
    """What opens a cluster of one tiered topic, whose leaders answer."""

    def __init__(self, leaders: InProcessLeaders) -> None:
        self.leaders = leaders
        self.clock: Callable[[], int | None] = lambda: 77
        self.topics = Topics(TOPICS, cluster_id="cluster-1", metadata_topic_id=UUID(int=1))

    def check_cluster(self) -> str:
        return "cluster-1"

    def get_connection_settings(self) -> Any:
        return SimpleNamespace(metadata_topic=METADATA_TOPIC)

    def naming_connection(self) -> Any:
        return nullcontext()

    def get_cluster_topics(self) -> Topics:
        return self.topics

    def open_leaders(self, cluster_id: str, topic_id: UUID) -> Any:
        assert (cluster_id, topic_id) == ("cluster-1", UUID(int=1))
        return nullcontext(self.leaders)

    def get_event_log(self) -> Any:
        return nullcontext()

    def get_proven_clock(self, _: object, *, dry_run: bool) -> Any:
        assert dry_run
        return SimpleNamespace(not_before_ms=self.clock)


def test_a_listing_says_what_leaders_say_and_which_time_has_passed(leaders: InProcessLeaders, tmp_path: Path) -> None:
    access: Any = Access(leaders)
    kept = KeptLineages("cluster-1").with_lineages({orders(): WHOLE}, None)
    keep_lineages(f"{tmp_path}/{cluster_folder('cluster-1')}", kept)
    found = {topic.name: topic for topic in observe_with_leaders(access, str(tmp_path)).topics}
    assert found["orders"].leaders == {0: TOLD}
    assert found["orders"].untold == {1: NOT_KEPT}
    assert observe_with_leaders(access, str(tmp_path)).passed_ms == 77


def test_clocks_that_contradict_each_other_end_no_listing(leaders: InProcessLeaders, tmp_path: Path) -> None:
    access: Any = Access(leaders)

    def skewed() -> int:
        raise ClockSkewError("two clocks differ by a year")

    access.clock = skewed
    state = observe_with_leaders(access, str(tmp_path))
    assert (state.passed_ms, state.topics[-1].tiered) == (None, True)


def test_leaders_that_cannot_be_asked_end_no_listing(leaders: InProcessLeaders, tmp_path: Path) -> None:
    def silent(_: str) -> None:
        raise EventLogUnavailableError("no broker answers")

    leaders.before = silent
    access: Any = Access(leaders)
    state = observe_with_leaders(access, str(tmp_path))
    assert [topic.tiered for topic in state.topics] == [None] * 3


LISTED = replace(STATE.topics[0], tiered=True, leaders={0: TOLD, 1: TOLD})
SETTINGS = {"orders": {"retention.ms": "5", "retention.bytes": "6", "remote.storage.enable": "true"}}
OFFSETS: dict[tuple[str, int], tuple[int, int | None]] = {("orders", 0): (60, 4), ("orders", 1): (60, 4)}


def test_leaders_that_say_the_same_again_are_believed() -> None:
    assert compare([(LISTED, [0, 1])], {"orders"}, SETTINGS, OFFSETS) == {}


@pytest.mark.parametrize(
    ("same", "settings", "offsets", "why"),
    [
        (set(), {}, OFFSETS, MADE_ANEW),
        ({"orders"}, {"orders": {**SETTINGS["orders"], "retention.bytes": "7"}}, {}, SET_ANEW),
        ({"orders"}, {"orders": {**SETTINGS["orders"], "remote.storage.enable": "false"}}, {}, SET_ANEW),
        ({"orders"}, {}, {}, SET_ANEW),
        ({"orders"}, SETTINGS, {}, NOT_AGAIN),
        ({"orders"}, SETTINGS, {("orders", 0): (60, 5)}, LEADS_ANEW),
        ({"orders"}, SETTINGS, {("orders", 0): (60, None)}, LEADS_ANEW),
        ({"orders"}, SETTINGS, {("orders", 0): (61, 4)}, BEGINS_ELSEWHERE),
    ],
)
def test_leaders_that_say_something_else(
    same: set[str],
    settings: dict[str, dict[str, str]],
    offsets: dict[tuple[str, int], tuple[int, int | None]],
    why: str,
) -> None:
    others = {} if why in (MADE_ANEW, SET_ANEW) else {("orders", 1): (60, 4)}
    found = compare([(LISTED, [0, 1])], same, settings, {**offsets, **others})
    assert found == dict.fromkeys([(ORDERS.bytes, 0), (ORDERS.bytes, 1)][: 2 - len(others)], why)


def test_javas_words_for_offsets() -> None:
    text = (
        "{a.b-c_-1-0=ListOffsetsResultInfo(offset=7, timestamp=-1, leaderEpoch=Optional[3]), "
        "orders-12=ListOffsetsResultInfo(offset=0, timestamp=-1, leaderEpoch=Optional.empty), "
        "odd-1=ListOffsetsResultInfo(offset=0, epoch=3)}"
    )
    assert read_offsets(text) == {("a.b-c_-1", 0): (7, 3), ("orders", 12): (0, None)}


ROWS = pa.Table.from_pylist(
    [
        {
            "topic_id": ORDERS.bytes,
            "topic": "orders",
            "partition": number,
            "certainty": certainty,
            "why": "it hides" if certainty == Certainty.UNRESOLVED else None,
            "segments": 2,
            "bytes": 20,
        }
        for number, certainty in enumerate(
            [Certainty.ALL.value, Certainty.AT_LEAST.value, Certainty.UNRESOLVED.value, NOT_TIERED]
        )
    ],
    arrow_schema(LEADER_COLUMNS),
)


def test_what_a_plan_tells_of_leaders() -> None:
    planned = [
        {"reason": "RETENTION_MS", "exact": True, "segments": 3, "bytes": 30},
        {"reason": "RETENTION_MS", "exact": False, "segments": 9, "bytes": 90},
        {"reason": "ORPHANED", "exact": True, "segments": 5, "bytes": 50},
    ]
    expected = LeadersTold(1, 1, 1, Count(3, 30), Count(2, 20), {"it hides": 1})
    assert leaders_told(ROWS, planned, {}) == expected
    found = leaders_told(ROWS, planned, {(ORDERS.bytes, 1): LEADS_ANEW})
    assert found == replace(expected, at_least=0, unresolved=2, why={"it hides": 1, LEADS_ANEW: 1})
    assert told_partitions(replace(STATE, topics=(LISTED,)), ROWS) == [(LISTED, [0, 1])]


def test_of_a_compacted_log_nothing_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        leaders_again, "_ask", lambda *arguments: asked.append(arguments) or ({"orders"}, SETTINGS, OFFSETS)
    )
    state, cluster = replace(STATE, topics=(LISTED,)), SparkCluster("cluster-1", {})
    spark: Any = None

    def changed(era: LogEra) -> dict[tuple[bytes, int], str]:
        return changed_leaders(spark, cluster, "__remote_log_metadata", state, ROWS, era)

    assert changed(PLAIN_ERA) == {}
    assert changed(LogEra(Era.COMPACTED, "its cleanup.policy is compact")) == dict.fromkeys(
        [(ORDERS.bytes, 0), (ORDERS.bytes, 1)], COMPACTED
    )
    assert len(asked) == 1

    def silent(*_: object) -> None:
        raise EventLogUnavailableError("no broker answers")

    monkeypatch.setattr(leaders_again, "_ask", silent)
    assert set(changed(PLAIN_ERA).values()) == {NOT_AGAIN}
