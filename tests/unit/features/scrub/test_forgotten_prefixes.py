# SPDX-License-Identifier: Apache-2.0
"""Key prefixes that the log knows and the connection does not: what a scrub says of what lies there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import StorageError
from airflow_provider_rlmm.core.records.records import TopicIdPartition
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.storage import walk
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, TemplateLayout
from airflow_provider_rlmm.core.world import named_prefixes
from airflow_provider_rlmm.core.world.topic_view import TopicReplay
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import ForgottenPrefix
from tests.builders import Cluster, SnapshotInMemory, add, tip, update
from tests.unit.features.scrub.test_scrub_plan import Scrubs

TOPIC = tip("orders", 0, 7)


def custom(prefix: str) -> bytes:
    """Custom metadata of Aiven's plugin: the prefix alone."""
    raw = prefix.encode()
    return bytes([1, 1, len(raw) + 1, len(raw) + 1]) + raw


def leaked(
    cluster: Cluster, prefix: str, number: int, topic: TopicIdPartition = TOPIC, *, finish: bool = True
) -> set[str]:
    """A segment that a broker copied below a prefix, and deleted after that was changed."""
    cluster.foreign(add(topic, number))
    cluster.foreign(update(topic, number, S.COPY_SEGMENT_FINISHED, custom_metadata=custom(prefix)))
    for state in (S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED) if finish else ():
        cluster.foreign(update(topic, number, state))
    keys = set(AivenLayout(prefix).required_keys(add(topic, number)))
    for key in keys:
        cluster.storage.put_object(key, b"x" * 10)
    return keys


@pytest.fixture(params=["now/", "", "now-"])
def scrubs(request: pytest.FixtureRequest, tmp_path: Path) -> Scrubs:
    return Scrubs(tmp_path, Cluster(2, layout=AivenLayout(request.param)))


@pytest.mark.slow
@pytest.mark.parametrize("former", ["one/", "one-", "deep/er/one/"])
def test_what_lies_below_a_forgotten_prefix_is_counted_and_needs_a_person(scrubs: Scrubs, former: str) -> None:
    keys = set().union(*(leaked(scrubs.cluster, former, number) for number in range(20)))
    summary, rows = scrubs.scrub()
    assert summary.forgotten == (ForgottenPrefix(former, 60, 600, ""),)
    assert sorted(row["key"] for row in rows.to_pylist()) == sorted(keys)
    assert {(row["class"], row["topic"]) for row in rows.to_pylist()} == {(ScrubClass.UNKNOWN, "orders")}
    assert (summary.foreign_folders, summary.classes[ScrubClass.UNKNOWN.value].bytes) == (0, 600)
    (problem,) = scrubs.problems()
    assert (problem.kind, problem.what) == ("FORGOTTEN_PREFIX", f"key prefix '{former}' with 60 objects")
    assert "60 objects, 600 B lie there" in problem.why
    assert "former_key_prefixes" in problem.what_to_do
    assert scrubs.plan()[1] == []
    scrubs.cluster.layout = scrubs.cluster.storage._layout = AivenLayout(*_prefixes(scrubs, former))
    summary, _ = scrubs.scrub()
    assert (summary.forgotten, summary.classes[ScrubClass.FINISHED.value].objects) == ((), 60)


def _prefixes(scrubs: Scrubs, former: str) -> tuple[str, list[str]]:
    layout = scrubs.cluster.layout
    assert isinstance(layout, AivenLayout)
    return next(iter(layout._prefixes.values())), [former]


def test_an_empty_forgotten_prefix_is_a_line(scrubs: Scrubs) -> None:
    for key in leaked(scrubs.cluster, "one/", 1):
        del scrubs.cluster.storage._objects[key]
    summary, _ = scrubs.scrub()
    assert summary.forgotten == (ForgottenPrefix("one/", 0, 0, ""),)
    assert scrubs.problems() == []


def test_a_forgotten_prefix_that_cannot_be_listed_needs_a_person(scrubs: Scrubs) -> None:
    leaked(scrubs.cluster, "one/", 1)

    def refuse(effect: str, key: str) -> None:
        if effect == "list" and key.startswith("one/"):
            raise StorageError("access denied")

    scrubs.cluster.storage.on_effect = refuse
    summary, _ = scrubs.scrub()
    (found,) = summary.forgotten
    assert (found.objects, found.why) == (0, "access denied")
    (problem,) = scrubs.problems()
    assert (problem.kind, problem.acknowledgeable) == ("FORGOTTEN_PREFIX", True)
    assert "it cannot be told what else lies there: access denied" in problem.why


@pytest.mark.parametrize("prefix", ["a//b", "../other/", "/abs"])
def test_a_forgotten_prefix_that_no_store_can_address_is_listed_nowhere(scrubs: Scrubs, prefix: str) -> None:
    scrubs.cluster.foreign(add(TOPIC, 1))
    for state in (S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED, S.DELETE_SEGMENT_FINISHED):
        scrubs.cluster.foreign(update(TOPIC, 1, state, custom_metadata=custom(prefix)))
    (found,) = scrubs.scrub()[0].forgotten
    assert found.objects == 0
    assert "is refused" in found.why


def test_a_prefix_of_unfinished_segments_is_told_segment_by_segment(scrubs: Scrubs) -> None:
    leaked(scrubs.cluster, "one/", 1)
    leaked(scrubs.cluster, "one/", 2, finish=False)
    summary, _ = scrubs.scrub()
    assert summary.forgotten == ()
    assert [problem.kind for problem in scrubs.problems()] == ["SCRUB_UNKNOWN"]


UUIDS = TemplateLayout("t", "{topic}/{topic_id:uuid}/{partition}/{segment_id:uuid}", {"/log": True})


@pytest.mark.parametrize("former", [AivenLayout("one/"), AivenLayout("one-"), UUIDS], ids=["in", "before", "uuid"])
def test_a_folder_of_a_topic_that_the_log_knows_is_never_of_no_topic(tmp_path: Path, former: Layout) -> None:
    """Custom metadata say nothing here: the plugin keeps them only where it is told to."""
    scrubs = Scrubs(tmp_path, Cluster(2, layout=AivenLayout("now-")))
    finished = scrubs.cluster.segment(TOPIC, 1, S.DELETE_SEGMENT_FINISHED, objects=False)
    keys = set(former.required_keys(finished))
    for key in keys:
        scrubs.cluster.storage.put_object(key, b"x" * 10)
    scrubs.cluster.storage.put_object("backup/old.tar", b"x")
    summary, rows = scrubs.scrub(known=[TOPIC])
    unknown = [row for row in rows.to_pylist() if row["class"] == ScrubClass.UNKNOWN]
    assert {row["key"] for row in unknown} == keys
    assert {(row["topic"], row["bytes"]) for row in unknown} == {("orders", 10)}
    assert summary.foreign_folders == 1
    (problem,) = scrubs.problems()
    assert problem.kind == "SCRUB_UNKNOWN"
    assert "former_key_prefixes" in problem.what_to_do


def test_more_prefixes_than_are_looked_for_are_counted_and_need_a_person(
    scrubs: Scrubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_prefixes, "MAX_PREFIXES", 2)
    for number, prefix in enumerate(("one/", "two/", "one/", "three/", "four/", "three/")):
        for key in leaked(scrubs.cluster, prefix, number):
            del scrubs.cluster.storage._objects[key]
    summary, _ = scrubs.scrub()
    assert ([p.prefix for p in summary.forgotten], summary.forgotten_left_out) == (["one/", "two/"], 3)
    (problem,) = scrubs.problems()
    assert (problem.kind, problem.what) == ("FORGOTTEN_PREFIX", "3 records that name further key prefixes")
    assert "former_key_prefixes" in problem.what_to_do


def folders_of_others(scrubs: Scrubs) -> None:
    for number in range(5):
        scrubs.cluster.storage.put_object(f"others-{number}/deep/down.tar", b"x")


def test_more_folders_of_others_than_are_looked_into_are_counted_and_need_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MAX_PEEKS", 3)
    scrubs = Scrubs(tmp_path, Cluster(2, layout=AivenLayout("")))
    folders_of_others(scrubs)
    summary, _ = scrubs.scrub(known=[TOPIC])
    assert (summary.foreign_folders, summary.unseen_folders) == (5, 2)
    (problem,) = scrubs.problems()
    assert (problem.kind, problem.what) == ("UNSEEN_FOLDERS", "2 folders of no topic")
    assert "others-3/" in problem.why
    assert problem.acknowledgeable


def test_a_folder_of_others_that_may_not_be_listed_is_not_taken_for_empty(tmp_path: Path) -> None:
    scrubs = Scrubs(tmp_path, Cluster(2, layout=AivenLayout("")))
    folders_of_others(scrubs)

    def refuse(effect: str, key: str) -> None:
        if effect == "list" and key.startswith("others-2/"):
            raise StorageError("access denied")

    scrubs.cluster.storage.on_effect = refuse
    summary, _ = scrubs.scrub(known=[TOPIC])
    assert (summary.foreign_folders, summary.unseen_folders) == (5, 1)
    (problem,) = scrubs.problems()
    assert (problem.kind, "'others-2/' (access denied)" in problem.why) == ("UNSEEN_FOLDERS", True)


def lose_beginning(cluster: Cluster, number: int) -> None:
    cluster.log.truncate(number, cluster.log.high_water_marks()[number])


def lose_end(cluster: Cluster, number: int) -> None:
    cluster.log.cut_off(number, 1)


@pytest.mark.parametrize("lose", [lose_beginning, lose_end])
@pytest.mark.parametrize("later", ["now/", "two/"])
def test_a_snapshot_knows_the_prefixes_that_the_log_has_lost(later: str, lose: Callable[[Cluster, int], None]) -> None:
    """Those of the connection among them: the next one may not name them any more."""
    cluster = Cluster(2, layout=AivenLayout("now/"))
    cluster.snapshots = SnapshotInMemory()
    for number, prefix in enumerate(("one/", "now/", "one/")):
        leaked(cluster, prefix, number)
    topic = TopicReplay(cluster.log, cluster.topics, cluster.clock, cluster.snapshots, layout=cluster.layout)
    topic.advance()
    assert topic.key_prefixes == {"one/", "now/"}
    topic.keep()
    lose(cluster, cluster.metadata_partition_of(TOPIC))
    resumed = TopicReplay(cluster.log, cluster.topics, cluster.clock, cluster.snapshots, layout=cluster.layout)
    assert resumed.key_prefixes == {"one/", "now/"}
    cluster.layout = cluster.storage._layout = AivenLayout(later)
    found = scrub(
        cluster.log, cluster.topics, cluster.storage, known=[], known_prefixes=resumed.key_prefixes, clock=cluster.clock
    )
    # The living topic lies below the prefix of the connection.
    expected = {"one/": 6} | ({"now/": 6} if later == "two/" else {})
    assert {p.prefix: p.objects for p in found.forgotten} == expected
