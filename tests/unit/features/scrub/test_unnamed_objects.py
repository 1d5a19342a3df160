# SPDX-License-Identifier: Apache-2.0
"""
Objects that no record names: a broker names a segment before it uploads it, so they prove a log that has lost records, or a
second writer. They go under topic ids that are absent by the full rule, and none goes while one lies under an id that lives.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.clock import HOUR_MS
from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageError
from airflow_provider_rlmm.core.plans.guards import ScrubLimits
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.lost_records import LostRecords
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState as P
from airflow_provider_rlmm.core.world.absence import Presence
from airflow_provider_rlmm.features.scrub.rules import DOUBTFUL, ScrubClass
from airflow_provider_rlmm.features.scrub.unnamed import Kept, why_kept
from tests.builders import DAY_MS, add, deletion, tip, update
from tests.unit.features.scrub.test_scrub_plan import OTHER, TOPIC, WAIT_MS, Scrubs, waited

THIRD = tip("third", 0, 60)


@pytest.fixture
def scrubs(tmp_path: Path) -> Scrubs:
    """One living, healthy topic, and one that is deleted, with a segment that is not finished."""
    found = Scrubs(tmp_path)
    found.cluster.segment(TOPIC, 0)
    return found


# --- the class --------------------------------------------------------------------------------------------------------


def living(scrubs: Scrubs) -> set[str]:
    """The log has lost records, or a clone of the cluster writes here."""
    return scrubs.put(5, scrubs.cluster.alive)


def hidden(scrubs: Scrubs) -> set[str]:
    """For all that anybody can tell the topic lives."""
    scrubs.cluster.topics.denied.add(TOPIC.topic)
    return scrubs.put(5)


def unheard_of(scrubs: Scrubs) -> set[str]:
    """The topic lives, and the log has no record of it at all."""
    scrubs.cluster.topics.create(OTHER.topic, OTHER.topic_id)
    return scrubs.put(5, OTHER)


def unheard_of_and_hidden(scrubs: Scrubs) -> set[str]:
    """Nobody can tell whether a topic of which the log has no record lives."""
    scrubs.cluster.topics.denied.add(OTHER.topic)
    return scrubs.put(5, OTHER)


def two_names(scrubs: Scrubs) -> set[str]:
    """The log knows one topic id under two names."""
    scrubs.cluster.segment(tip("a", 0, 40), 3)
    scrubs.cluster.segment(tip("b", 0, 40), 4)
    return scrubs.put(5, tip("a", 0, 40))


def living_in_doubt(scrubs: Scrubs) -> set[str]:
    """The topic lives, and a record of its metadata partition cannot be applied: it may be the one that names them."""
    scrubs.cluster.log.append(scrubs.cluster.metadata_partition_of(scrubs.cluster.alive), b"junk")
    return scrubs.put(5, scrubs.cluster.alive)


def living_and_lost(scrubs: Scrubs) -> set[str]:
    """The topic lives, and its metadata partition has lost what an earlier run had read of it: a clone writes, or not."""
    number = scrubs.cluster.metadata_partition_of(scrubs.cluster.alive)
    scrubs.cluster.log.losses = {number: LostRecords(number, 99, 50)}
    return scrubs.put(5, scrubs.cluster.alive)


def living_under_another_name(scrubs: Scrubs) -> set[str]:
    """The topic lives, and the log does not know it under the name of the folder."""
    return scrubs.put(5, tip("renamed", 0, 1))


BARRING = [
    living,
    hidden,
    unheard_of,
    unheard_of_and_hidden,
    two_names,
    living_in_doubt,
    living_and_lost,
    living_under_another_name,
]


@pytest.mark.slow
@pytest.mark.parametrize("put", BARRING)
@pytest.mark.parametrize("sole_owner", [False, True])
def test_one_object_under_a_topic_id_that_may_live_keeps_all_that_no_record_names(
    scrubs: Scrubs, put: Callable[[Scrubs], set[str]], sole_owner: bool
) -> None:
    stray = scrubs.put(1, tip("stray", 0, 50))
    finished = scrubs.finished(2)
    found = put(scrubs)
    kept = waited(scrubs) | stray | found
    scrubs.scrub()
    plan, planned = scrubs.plan(sole_owner=sole_owner)
    assert set(planned) == finished
    assert plan.waiting.objects == 0
    scrubs.delete(sole_owner=sole_owner)
    assert kept <= scrubs.cluster.storage.keys
    assert finished.isdisjoint(scrubs.cluster.storage.keys)
    problems = scrubs.problems()
    others = {"LOST_RECORDS"} if scrubs.cluster.log.losses else set()
    assert {p.kind for p in problems} == {"UNNAMED_OBJECTS"} | others
    assert any(min(found) in p.why and "no object that no record names is deleted" in p.why for p in problems)
    assert all(p.acknowledgeable for p in problems if p.kind == "UNNAMED_OBJECTS")


def test_a_finding_lists_the_first_keys_and_counts_all(scrubs: Scrubs) -> None:
    for number in range(5, 25):
        scrubs.put(number, scrubs.cluster.alive)
    summary, _ = scrubs.scrub()
    (unnamed,) = summary.unnamed
    assert (unnamed.objects, unnamed.bytes, len(unnamed.keys), unnamed.bars) == (60, 600, 20, True)
    (problem,) = scrubs.problems()
    assert problem.what == f"storage holds what the log does not name: 60 objects of topic id {unnamed.topic_id}"
    assert "exists in the cluster as 'alive'" in problem.why
    assert problem.topic == "alive"
    # Who has seen these has not seen those that come after them.
    scrubs.put(25, scrubs.cluster.alive)
    (later,) = scrubs.scrub_and_tell()
    assert later.key != problem.key


def test_a_hidden_topic_names_the_right_that_is_missing(scrubs: Scrubs) -> None:
    hidden(scrubs)
    (problem,) = scrubs.scrub_and_tell()
    assert "the principal may not describe topic 'orders'" in problem.why
    assert "it needs DESCRIBE on every topic" in problem.why


def test_a_folder_that_cannot_be_listed_whole_keeps_all_that_no_record_names(scrubs: Scrubs) -> None:
    """What could not be seen may hold objects of living topics that no record names."""
    scrubs.cluster.segment(THIRD, 7)
    waited(scrubs)

    def refuse(effect: str, key: str) -> None:
        if effect == "list" and "third" in key:
            raise StorageError("access denied")

    scrubs.cluster.storage.on_effect = refuse
    scrubs.scrub()
    assert scrubs.plan()[0].barred.objects == 3


@pytest.mark.slow
@pytest.mark.parametrize("in_doubt", [b"junk", None])
def test_what_a_record_names_bars_nothing_though_its_metadata_partition_is_not_whole(
    scrubs: Scrubs, in_doubt: bytes | None
) -> None:
    """Of a living topic whose metadata partition is in doubt, or has lost records, all that is left there is named."""
    alive = scrubs.cluster.alive
    number = scrubs.cluster.metadata_partition_of(alive)
    scrubs.cluster.segment(alive, 5)
    scrubs.cluster.segment(alive, 6, S.DELETE_SEGMENT_FINISHED)
    if in_doubt is None:
        scrubs.cluster.log.losses = {number: LostRecords(number, 99, 50)}
    else:
        scrubs.cluster.log.append(number, in_doubt)
        # A record names it, and cannot be applied: nobody knows whether it is finished.
        scrubs.put(7, alive)
        scrubs.cluster.foreign(update(alive, 7, S.DELETE_SEGMENT_FINISHED))
    keys = waited(scrubs)
    scrubs.scrub()
    assert keys <= set(scrubs.plan()[1])
    scrubs.delete()
    assert keys.isdisjoint(scrubs.cluster.storage.keys)


@pytest.mark.slow
def test_what_lies_under_an_absent_topic_in_doubt_bars_nothing_and_stays(scrubs: Scrubs) -> None:
    number = scrubs.cluster.metadata_partition_of(OTHER)
    scrubs.cluster.segment(OTHER, 20)
    scrubs.cluster.log.append(number, b"junk")
    kept, keys = scrubs.put(21, OTHER), waited(scrubs)
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == keys
    (problem,) = scrubs.problems()
    assert (problem.kind, problem.topic) == ("SCRUB_UNKNOWN", "other")
    assert problem.why == "of some of its objects nothing can be told: " + DOUBTFUL
    scrubs.delete()
    assert keys.isdisjoint(scrubs.cluster.storage.keys)
    assert kept <= scrubs.cluster.storage.keys


def test_a_file_of_an_unknown_suffix_bars_nothing(scrubs: Scrubs) -> None:
    note = min(scrubs.cluster.layout.required_keys(add(scrubs.cluster.alive, 5))).rpartition(".")[0] + ".note"
    scrubs.cluster.storage.put_object(note, b"x")
    keys = waited(scrubs)
    _, rows = scrubs.scrub()
    (row,) = [row for row in rows.to_pylist() if row["key"] == note]
    assert row["class"] == ScrubClass.NOT_OF_THIS_LAYOUT
    assert set(scrubs.plan()[1]) == keys
    assert scrubs.problems() == []


# --- one topic --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_no_marker_calls_absent_stays(scrubs: Scrubs) -> None:
    keys = scrubs.put(1)
    scrubs.scrub()
    scrubs.wait()
    scrubs.scrub()
    assert scrubs.plan()[0].waiting.objects == 3
    scrubs.cluster.mark()
    scrubs.wait(DAY_MS - 1)
    scrubs.scrub()
    assert scrubs.plan()[0].waiting.objects == 3
    scrubs.wait(1)
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == keys


@pytest.mark.parametrize("ended", [False, True])
def test_what_no_marker_will_ever_come_for_needs_a_person(scrubs: Scrubs, ended: bool) -> None:
    """The log names no unfinished segment of the user partition, so the cleaner has nothing to do there."""
    other = tip("settled", 0, 60)
    scrubs.cluster.segment(other, 30, S.DELETE_SEGMENT_FINISHED, objects=False)
    if ended:
        for state in (P.DELETE_PARTITION_MARKED, P.DELETE_PARTITION_STARTED, P.DELETE_PARTITION_FINISHED):
            scrubs.cluster.foreign(deletion(other, state))
    keys = scrubs.put(31, other)
    assert not any("settled" in line for line in scrubs.cluster.mark().marked)
    scrubs.scrub()
    (problem,) = scrubs.problems()
    assert (problem.kind, problem.topic, problem.acknowledgeable) == ("UNNAMED_OBJECTS", "settled", True)
    assert "no marker will come" in problem.why
    assert min(keys) in problem.why
    assert "by the store's own means" in problem.what_to_do
    scrubs.wait()
    scrubs.scrub()
    assert scrubs.plan()[1] == []


def test_an_event_after_the_marker_makes_it_void(scrubs: Scrubs) -> None:
    waited(scrubs)
    scrubs.cluster.foreign(update(TOPIC, 0, S.DELETE_SEGMENT_STARTED))
    scrubs.scrub()
    assert scrubs.plan()[0].waiting.objects == 3


def test_an_object_that_is_younger_than_the_marker_stays_and_needs_a_person(scrubs: Scrubs) -> None:
    scrubs.cluster.mark()
    scrubs.wait(1)
    keys = scrubs.put(1)
    scrubs.scrub()
    scrubs.wait()
    scrubs.scrub()
    plan, planned = scrubs.plan()
    assert (planned, plan.barred.objects) == ([], 3)
    (problem,) = scrubs.problems()
    assert problem.kind == "UNNAMED_OBJECTS"
    assert "younger than the marker" in problem.why
    assert keys <= scrubs.cluster.storage.keys


def test_the_wait_for_absence_is_a_limit_with_a_floor() -> None:
    assert ScrubLimits().min_absence_ms == DAY_MS
    with pytest.raises(ConfigurationError, match="short_min_absence"):
        ScrubLimits(min_absence_ms=DAY_MS - 1)
    assert ScrubLimits(min_absence_ms=0, overrides=frozenset({"short_min_absence"})).of_the_cleaner.min_absence_ms == 0


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, None),
        ({"presence": None}, Kept.NOT_ABSENT),
        ({"presence": Presence.PRESENT.value}, Kept.NOT_ABSENT),
        ({"presence": Presence.DENIED.value}, Kept.NOT_ABSENT),
        ({"presence": Presence.AMBIGUOUS.value, "kind": ScrubClass.UNKNOWN_TOPIC_ID.value}, Kept.NOT_ABSENT),
        ({"kind": ScrubClass.UNKNOWN_TOPIC_ID.value, "marked_ms": None, "now_ms": None}, None),
        ({"marked_ms": None}, Kept.UNMARKED),
        ({"last_modified_ms": 1_001}, Kept.YOUNGER),
        ({"now_ms": 1_099}, Kept.MIN_ABSENCE),
        ({"now_ms": None}, Kept.MIN_ABSENCE),
    ],
)
def test_why_an_object_that_no_record_names_stays(changes: dict[str, object], kept: Kept | None) -> None:
    given: dict[str, object] = {
        "kind": ScrubClass.UNREFERENCED.value, "presence": Presence.ABSENT.value, "marked_ms": 1_000,
        "last_modified_ms": 1_000, "now_ms": 1_100, "min_absence_ms": 100,
    }  # fmt: skip
    given |= changes
    assert why_kept(str(given.pop("kind")), **given) is kept  # type: ignore[arg-type]


# --- right before it goes -----------------------------------------------------------------------------------------------


def planned(scrubs: Scrubs) -> tuple[set[str], set[str]]:
    """A plan of a finished segment and of two that no record names, of which the finished one goes last."""
    finished, unnamed = scrubs.finished(1), scrubs.put(2) | scrubs.put(3)
    scrubs.cluster.mark()
    scrubs.scrub()
    scrubs.wait()
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == finished | unnamed
    return finished, unnamed


@pytest.mark.slow
@pytest.mark.parametrize("put", [living, hidden, unheard_of, living_in_doubt, living_and_lost])
def test_what_shows_up_under_a_living_topic_after_the_plan_stops_the_class(
    scrubs: Scrubs, put: Callable[[Scrubs], set[str]]
) -> None:
    finished, unnamed = planned(scrubs)
    put(scrubs)
    report = scrubs.delete()
    assert unnamed <= scrubs.cluster.storage.keys
    assert finished.isdisjoint(scrubs.cluster.storage.keys)
    assert (report.barred, report.left_objects, report.counts()["deleted"].keys()) == (6, 6, {"FINISHED"})
    (problem,) = [p for p in report.problems() if p.kind != RefusalKind.LOST_RECORDS.value]
    assert (problem.kind, problem.acknowledgeable) == (RefusalKind.UNNAMED_OBJECTS.value, False)
    assert "objects are there" in problem.why


@pytest.mark.slow
def test_a_topic_that_hides_between_two_batches_stops_the_class(scrubs: Scrubs) -> None:
    finished, unnamed = planned(scrubs)

    def hide(effect: str, key: str) -> None:
        if effect == "delete":
            scrubs.cluster.topics.denied.add(TOPIC.topic)

    scrubs.cluster.storage.on_effect = hide
    report = scrubs.delete(limits=ScrubLimits(batch_segments=1))
    assert len(unnamed & scrubs.cluster.storage.keys) == 3
    assert finished.isdisjoint(scrubs.cluster.storage.keys)
    assert (report.barred, len(list(report.problems()))) == (3, 1)


@pytest.mark.slow
def test_a_marker_that_is_void_by_now_keeps_what_the_plan_names(scrubs: Scrubs) -> None:
    _, unnamed = planned(scrubs)
    scrubs.cluster.foreign(add(TOPIC, 7))
    report = scrubs.delete()
    assert unnamed <= scrubs.cluster.storage.keys
    assert {refusal.why for refusal in report.left} == {Kept.UNMARKED.value}


@pytest.mark.slow
def test_a_folder_that_cannot_be_listed_by_now_stops_the_class(scrubs: Scrubs) -> None:
    scrubs.cluster.segment(THIRD, 7)
    finished, unnamed = planned(scrubs)

    def refuse(effect: str, key: str) -> None:
        if effect == "list" and "third" in key:
            raise StorageError("access denied")

    scrubs.cluster.storage.on_effect = refuse
    report = scrubs.delete()
    assert unnamed <= scrubs.cluster.storage.keys
    assert finished.isdisjoint(scrubs.cluster.storage.keys)
    assert report.barred == 6


@pytest.mark.slow
def test_a_clone_of_the_cluster_on_the_same_storage_loses_nothing(scrubs: Scrubs) -> None:
    """It has the same ids, so it writes into the folders of our topics, and names its segments in its own log."""
    theirs = set()
    for number in range(10, 30):
        theirs |= scrubs.put(number, scrubs.cluster.alive)
    events = dict(scrubs.cluster.log.high_water_marks())
    for _ in range(4):
        scrubs.scrub()
        assert scrubs.plan()[1] == []
        assert scrubs.delete().deleted == {}
        assert [problem.kind for problem in scrubs.problems()] == ["UNNAMED_OBJECTS"]
        scrubs.wait(WAIT_MS + HOUR_MS)
    assert len(theirs & scrubs.cluster.storage.keys) == 60
    assert dict(scrubs.cluster.log.high_water_marks()) == events
