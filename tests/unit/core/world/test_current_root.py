# SPDX-License-Identifier: Apache-2.0
"""The root that brokers write to, or a copy of it that is current to this day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import EventLogUnavailableError, StorageRootError
from airflow_provider_rlmm.core.log.copy_lag import CopyLag
from airflow_provider_rlmm.core.records.records import COPIER_BROKER_ID
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.world.root_ledger import WorkFolderLedger
from airflow_provider_rlmm.core.world.root_proof import ProvenRoot, prove_root, require_brokers_root, samples_of
from tests.builders import CLUSTER_ID, HOUR_MS, START_MS, Cluster, add, tip, update

HERE = "memory://kafka-tiered-storage"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def proven(cluster: Cluster, folder: str, expected: str | None = None, **more: object) -> ProvenRoot:
    return prove_root(
        cluster.topic(),
        cluster.storage,
        cluster_id=CLUSTER_ID,
        expectation=RootExpectation(expected_root=expected),
        overrides={"unproven_root", "missing_living_segments"},
        ledger=WorkFolderLedger(folder, CLUSTER_ID, cluster.clock),
        dry_run=True,
        **more,  # type: ignore[arg-type]
    )


def test_what_was_copied_before_proves_nothing_and_what_is_copied_after_does(folder: str) -> None:
    cluster = Cluster()
    for _ in range(2):
        why = proven(cluster, folder).not_current
        assert why is not None
        for part in (f"lies at {HERE}", f"set expected_root = {HERE} in the rlmm connection", "rsm.config.*"):
            assert part in str(why)
    cluster.segment(cluster.alive, 1)
    found = proven(cluster, folder)
    assert found.not_current is None
    assert f"expected_root = {HERE} (compare it with rsm.config.*" in ". ".join(found.sentences)


def test_topics_that_are_copied_late_are_named_where_no_newer_copy_tells(folder: str) -> None:
    cluster = Cluster()
    why = proven(cluster, folder).not_current
    assert "proves nothing" not in str(why)
    cluster.topics.lags = {cluster.alive.topic: CopyLag(86_400_000, -1)}
    why = proven(cluster, folder).not_current
    assert why is not None
    assert f"'{cluster.alive.topic}' (copied late: remote.copy.lag.ms=86400000, remote.copy.lag.bytes=-1)" in why.why
    assert "a topic with a copy lag may have no newer copy yet" in why.why
    cluster.topics.on_effect = refused("copy_lags")
    assert "whether living topics are copied late is not known: no answer" in str(proven(cluster, folder).not_current)
    cluster.segment(cluster.alive, 1)
    cluster.topics.on_effect = refused("copy_lags", AssertionError("what was copied tells"))
    assert proven(cluster, folder).not_current is None


def test_topics_that_are_copied_late_are_named_where_no_living_topic_has_a_copy(folder: str) -> None:
    cluster = Cluster(living_topic=False)
    cluster.topics.create("young")
    cluster.topics.lags = {"young": CopyLag(-1, -1)}
    with pytest.raises(StorageRootError, match=r"'young' \(copied only when local retention is reached") as refusal:
        prove_root(cluster.topic(), cluster.storage, cluster_id=CLUSTER_ID, expectation=RootExpectation(), overrides=())
    assert "no living topic has a copied segment" in str(refusal.value)


def refused(wanted: str, error: Exception | None = None) -> Callable[[str, object], None]:
    """A cluster that does not answer one question."""

    def answer(effect: str, _: object) -> None:
        if effect == wanted:
            raise error or EventLogUnavailableError("no answer")

    return answer


def test_a_copy_that_had_begun_before_proves_nothing_whatever_its_time_says(folder: str) -> None:
    """Its objects may lie in the copy of the root, too; and a broker's clock may be ahead."""
    cluster = Cluster()
    cluster.segment(cluster.alive, 1, S.COPY_SEGMENT_STARTED)
    proven(cluster, folder)
    late = replace(update(cluster.alive, 1, S.COPY_SEGMENT_FINISHED), event_timestamp_ms=START_MS + HOUR_MS)
    cluster.foreign(late)
    assert proven(cluster, folder).not_current is not None


def test_a_copy_that_is_not_there_proves_nothing(folder: str) -> None:
    cluster = Cluster()
    proven(cluster, folder)
    other = replace(cluster.alive, topic="other", topic_id=type(cluster.alive.topic_id)(int=55))
    cluster.topics.create("other", other.topic_id)
    cluster.segment(other, 1, objects=False)
    assert proven(cluster, folder).not_current is not None


def test_our_own_copier_proves_nothing(folder: str) -> None:
    """It writes where the connection says."""
    cluster = Cluster()
    proven(cluster, folder)
    cluster.foreign(add(cluster.alive, 1, broker_id=COPIER_BROKER_ID))
    cluster.foreign(update(cluster.alive, 1, S.COPY_SEGMENT_FINISHED, broker_id=COPIER_BROKER_ID))
    for key in cluster.layout.required_keys(add(cluster.alive, 1)):
        cluster.storage.put_object(key, b"x")
    assert proven(cluster, folder).not_current is not None


def test_another_location_has_to_be_proved_anew(folder: str) -> None:
    cluster = Cluster(layout=AivenLayout("one/"))
    proven(cluster, folder)
    cluster.segment(cluster.alive, 1)
    assert proven(cluster, folder).not_current is None
    moved = InMemoryRemoteStorageManager(AivenLayout("two/one/"), clock=cluster.clock)
    for key, stored in cluster.storage._objects.items():
        moved.put_object(f"two/{key}", stored[0])
    there, cluster.storage = cluster.storage, moved
    renamed = InMemoryRemoteStorageManager(AivenLayout("two/one/"), clock=cluster.clock)
    assert renamed.layout.places[0].name != there.layout.places[0].name, (
        "it is another place, with a history of its own"
    )
    assert "first recorded that it lies at memory://two/one" in str(proven(cluster, folder).not_current)
    cluster.storage = there
    assert proven(cluster, folder).not_current is None


def test_a_person_may_name_every_place(folder: str) -> None:
    cluster = Cluster()
    assert proven(cluster, folder, HERE).not_current is None
    assert proven(cluster, folder).not_current is not None, "a name proves nothing to the next run"


def test_where_nothing_lives_other_rules_hold(folder: str) -> None:
    cluster = Cluster(living_topic=False)
    assert proven(cluster, folder).not_current is None


def test_a_plan_keeps_what_tells(folder: str) -> None:
    cluster = Cluster()
    proven(cluster, folder)
    cluster.segment(cluster.alive, 1)
    samples = samples_of(proven(cluster, folder).to_dict())
    assert samples is not None
    assert proven(cluster, folder, samples=samples).not_current is None


def test_a_real_run_below_a_current_copy_is_refused_and_a_dry_one_says_so(folder: str) -> None:
    """All objects of the cluster lie in the copy that is mounted; what is deleted there stays in the true root."""
    cluster, gone = Cluster(), tip("gone", 0, 7)
    cluster.segments(gone, 5)
    cluster.mark_and_wait()
    cluster.ledger = WorkFolderLedger(folder, CLUSTER_ID, cluster.clock)
    before, events = set(cluster.storage.keys), cluster.ours()
    assert cluster.clean(dry_run=True).partitions
    with pytest.raises(
        StorageRootError, match=r"nothing is deleted: no broker has copied .* set expected_root = memory:"
    ):
        cluster.clean()
    assert (set(cluster.storage.keys), cluster.ours()) == (before, events)
    cluster.segment(cluster.alive, 1)
    assert [p.outcome.value for p in cluster.clean().partitions] == ["FINISHED"]


def test_nothing_is_copied_into_a_current_copy(folder: str) -> None:
    cluster = Cluster()
    ledger = WorkFolderLedger(folder, CLUSTER_ID, cluster.clock)

    def ask(expected: str | None = None) -> None:
        expectation = RootExpectation(expected_root=expected)
        require_brokers_root(
            cluster.topic(),
            cluster.storage,
            cluster_id=CLUSTER_ID,
            expectation=expectation,
            overrides=(),
            ledger=ledger,
        )

    with pytest.raises(StorageRootError, match="nothing is copied: no broker has copied"):
        ask()
    ask(HERE)
    cluster.segment(cluster.alive, 1)
    ask()
