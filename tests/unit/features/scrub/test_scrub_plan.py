# SPDX-License-Identifier: Apache-2.0
"""What of a scrub may go, when, and what is looked at again right before it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from airflow_provider_rlmm.core.base.clock import DAY_MS, HOUR_MS
from airflow_provider_rlmm.core.base.errors import (
    AuditError,
    BlastRadiusError,
    ClusterMismatchError,
    ConfigurationError,
    PlanError,
    StorageError,
    StorageRootError,
    StorageUnavailableError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.plans.early_deletion import EarlyDeletion
from airflow_provider_rlmm.core.plans.guards import FLOOR_UNREFERENCED_MS, BlastRadius, ScrubLimits
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.core.plans.refusals import RefusalKind
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.root import RootExpectation
from airflow_provider_rlmm.core.storage.stamps import Location
from airflow_provider_rlmm.core.world.audit_in_memory import InMemoryAuditLog
from airflow_provider_rlmm.core.world.hold import Hold
from airflow_provider_rlmm.core.world.only import Only
from airflow_provider_rlmm.core.world.root_proof import prove_root
from airflow_provider_rlmm.features.scrub import scrub_effects
from airflow_provider_rlmm.features.scrub.comparison import scrub
from airflow_provider_rlmm.features.scrub.rules import ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_cleaner import ScrubCleaner, ScrubDeletion, require_places
from airflow_provider_rlmm.features.scrub.scrub_effects import DryRunScrubEffects, RealScrubEffects, ScrubEffects
from airflow_provider_rlmm.features.scrub.scrub_files import (
    ScrubOrigin,
    latest_scrub,
    open_scrub,
    problems_of,
    record_latest,
    table_of_latest,
    write_scrub,
)
from airflow_provider_rlmm.features.scrub.scrub_plan import Choice, ScrubPlan
from airflow_provider_rlmm.features.scrub.scrub_planner import open_scrub_plan, plan_scrub
from airflow_provider_rlmm.features.scrub.scrub_summary import SCRUB_DOCUMENT, SCRUB_TABLE, Amount, ScrubSummary
from tests.builders import CLUSTER_ID, Cluster, add, tip, update
from tests.roots import KNOWN_FROM_THE_BEGINNING
from tests.scrub_rows import whole

TOPIC = tip("orders", 0, 7)
OTHER = tip("other", 0, 99)
WAIT_MS = 72 * HOUR_MS
WIDE = BlastRadius(max_share=1.0)
NOBODY = Hold()


class Scrubs:
    """Scrubs of a cluster, each in a folder of its own, as its runs leave them."""

    def __init__(self, folder: Path, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster(2, layout=AivenLayout("kafka/prod/"))
        self.folder = folder
        self.runs = 0
        self.audit = InMemoryAuditLog()
        self.time_is_proven = True
        self.price: StoragePrice | None = StoragePrice(23_000)

    @property
    def uri(self) -> str:
        return f"{self.folder}/run-{self.runs}"

    def scrub(self, known: Any = ()) -> tuple[ScrubSummary, pa.Table]:
        self.runs += 1
        c = self.cluster
        root = prove_root(
            c.topic(),
            c.storage,
            cluster_id=CLUSTER_ID,
            expectation=RootExpectation(),
            overrides=["unproven_root"],
            ledger=KNOWN_FROM_THE_BEGINNING,
        )
        found = scrub(c.log, c.topics, c.storage, known=known, clock=c.clock)
        origin = ScrubOrigin(
            f"run-{self.runs}", CLUSTER_ID, c.log.topic_id, "a clock", self.time_is_proven, root.to_dict(), self.price
        )
        uri_of = f"{self.folder}/{{}}".format
        latest = latest_scrub(f"{self.folder}/cluster", uri_of, CLUSTER_ID, c.log.topic_id)
        with table_of_latest(latest, uri_of) as earlier:
            summary = write_scrub(self.uri, found, origin, earlier)
        record_latest(f"{self.folder}/cluster", summary)
        with open_scrub(self.uri) as (read, table):
            assert read == summary
            return summary, whole(table)

    def problems(self) -> list[Attention]:
        """What of the last scrub needs a person."""
        with open_scrub(self.uri) as found:
            return problems_of(*found)

    def scrub_and_tell(self) -> list[Attention]:
        self.scrub()
        return self.problems()

    def plan(
        self, radius: BlastRadius = WIDE, expires_in_ms: int = HOUR_MS, **choice: Any
    ) -> tuple[ScrubPlan, list[str]]:
        rules: dict[str, Any] = {"limits": ScrubLimits(), "hold": NOBODY} | choice
        chosen = Choice(**rules)
        options: dict[str, Any] = {"cluster_id": CLUSTER_ID, "expires_in_ms": HOUR_MS, "clock": "a clock"}
        plan_scrub(self.uri, chosen, now_ms=self.cluster.now_ms, blast_radius=radius, **options)
        return self.planned()

    def planned(self) -> tuple[ScrubPlan, list[str]]:
        with open_scrub_plan(self.uri) as (plan, rows):
            return plan, whole(rows)["key"].to_pylist()

    def delete(self, *, allow_writes: bool = True, hold: Hold = NOBODY, **changes: Any) -> ScrubDeletion:
        c, report = self.cluster, ScrubDeletion(changes.get("dry_run", False))
        limits = changes.pop("limits", ScrubLimits())
        effects: ScrubEffects = DryRunScrubEffects()
        if not changes.pop("dry_run", False):
            guard = GuardedPublisher(c.log, allow_writes=allow_writes)
            sleep = changes.pop("sleep", time.sleep)
            effects = RealScrubEffects(c.storage, guard.require_writes, self.audit, sleep)
        cleaner = ScrubCleaner(c.log, c.topics, c.storage, limits, c.clock, lambda: hold, effects, **changes)
        with open_scrub_plan(self.uri) as (_, rows):
            cleaner.clean(rows, report)
        return report

    def wait(self, ms: int = WAIT_MS) -> None:
        self.cluster.now_ms += ms

    def put(self, number: int, topic: Any = TOPIC) -> set[str]:
        """Objects of a segment that no record names."""
        keys = set(self.cluster.layout.required_keys(add(topic, number)))
        for key in keys:
            self.cluster.storage.put_object(key, b"x" * 10)
        return keys

    def mark_anew(self) -> None:
        """Somebody writes about the deleted topic, so that the marker observes its absence again, now."""
        self.cluster.segment(TOPIC, 90 + self.runs)
        self.cluster.mark()

    def finished(self, number: int) -> set[str]:
        """Objects of a segment that is finished."""
        return set(self.cluster.layout.required_keys(self.cluster.segment(TOPIC, number, S.DELETE_SEGMENT_FINISHED)))


@pytest.fixture
def scrubs(tmp_path: Path) -> Scrubs:
    """One living, healthy topic, and one that is deleted, with a segment that is not finished, and marked."""
    found = Scrubs(tmp_path)
    found.cluster.segment(TOPIC, 0)
    found.cluster.mark()
    return found


def test_finished_objects_go_at_once_and_no_event_is_written(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1)
    before, events = set(scrubs.cluster.storage.keys), dict(scrubs.cluster.log.high_water_marks())
    scrubs.scrub()
    plan, planned = scrubs.plan()
    assert (set(planned), plan.planned.segments, plan.planned.bytes) == (keys, 1, 30)
    report = scrubs.delete()
    assert before - set(scrubs.cluster.storage.keys) == keys
    assert report.counts() == {
        "deleted": {"FINISHED": {"objects": 3, "bytes": 30}}, "gone_before": 0, "held": 0, "left": 0, "barred": 0,
        "folders_removed": 0, "dry_run": False,
    }  # fmt: skip
    assert dict(scrubs.cluster.log.high_water_marks()) == events
    assert scrubs.delete().gone_before == 3
    assert scrubs.scrub()[0].classes.keys() == {"IN_USE"}


def test_what_goes_before_its_class_is_paid_for_costs_the_days_that_are_left(scrubs: Scrubs) -> None:
    scrubs.price = StoragePrice(2**30 * 1_000, StorageClass("Cool", 30))
    scrubs.finished(1)
    scrubs.wait(10 * DAY_MS)
    summary, _ = scrubs.scrub()
    assert summary.price == scrubs.price
    plan, _ = scrubs.plan()
    # 30 bytes at 1,000 micros a byte and month of 30 days.
    assert plan.early == EarlyDeletion(3, 30, 20_000, 0, 0)
    scrubs.wait(30 * DAY_MS)
    scrubs.scrub()
    assert scrubs.plan()[0].early == EarlyDeletion(0, 0, 0, 0, 0)
    scrubs.price = None
    scrubs.scrub()
    assert (scrubs.plan()[0].early, scrubs.plan()[0].cost_in_words) == (None, "")


@pytest.mark.slow
def test_unreferenced_objects_wait_between_two_scrubs(scrubs: Scrubs) -> None:
    keys = scrubs.put(1)
    scrubs.scrub()
    assert scrubs.plan()[1] == []
    scrubs.wait(WAIT_MS - 1)
    # Time alone is no second scrub, and the one that is made now is too early.
    assert scrubs.plan()[1] == []
    scrubs.scrub()
    assert scrubs.plan()[0].waiting.objects == 3
    scrubs.wait(1)
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == keys
    assert scrubs.delete().counts()["deleted"] == {"UNREFERENCED": {"objects": 3, "bytes": 30}}
    assert keys.isdisjoint(scrubs.cluster.storage.keys)


def waited(scrubs: Scrubs) -> set[str]:
    """Objects of a deleted topic that no record names, marked and waited for: they may go."""
    keys = scrubs.put(1)
    scrubs.cluster.mark()
    scrubs.scrub()
    scrubs.wait()
    return keys


def test_the_second_scrub_must_have_been_made(scrubs: Scrubs) -> None:
    """The first scrub is 72 hours old, and nobody has looked since."""
    scrubs.put(1)
    scrubs.scrub()
    scrubs.wait()
    assert scrubs.plan()[0].waiting.objects == 3


def forget(scrubs: Scrubs) -> None:
    Path(f"{scrubs.folder}/cluster/latest-scrub.json").unlink()


def damage(scrubs: Scrubs) -> None:
    Path(scrubs.uri, SCRUB_TABLE).write_bytes(b"junk")


def another_log(scrubs: Scrubs) -> None:
    document = json.loads(Path(scrubs.uri, SCRUB_DOCUMENT).read_text())
    summary = replace(ScrubSummary.from_json(json.dumps(document)), metadata_topic_id="AAAAAAAAAAAAAAAAAAAAAA")
    Path(scrubs.uri, SCRUB_DOCUMENT).write_text(summary.to_json())


def write_again(scrubs: Scrubs) -> None:
    scrubs.put(1)


def larger(scrubs: Scrubs) -> None:
    for key in scrubs.cluster.layout.required_keys(add(TOPIC, 1)):
        scrubs.cluster.storage.put_object(key, b"x" * 11, scrubs.cluster.now_ms - WAIT_MS)


def unlisted_in_between(scrubs: Scrubs) -> None:
    """A scrub in between did not find it: it was not there, or its folder could not be listed."""
    objects = dict(scrubs.cluster.storage._objects)
    for key in scrubs.cluster.layout.required_keys(add(TOPIC, 1)):
        scrubs.cluster.storage._objects.pop(key)
    scrubs.scrub()
    scrubs.cluster.storage._objects.update(objects)


@pytest.mark.slow
@pytest.mark.parametrize("what", [forget, damage, another_log, write_again, larger, unlisted_in_between])
def test_the_wait_begins_anew(scrubs: Scrubs, what: Callable[[Scrubs], None]) -> None:
    keys = waited(scrubs)
    what(scrubs)
    # An object that is younger than the marker stays for another reason.
    scrubs.mark_anew()
    _, rows = scrubs.scrub()
    assert set(rows["first_seen_ms"].to_pylist()) == {scrubs.cluster.now_ms}
    plan, planned = scrubs.plan()
    assert (planned, plan.waiting.objects) == ([], 3)
    assert keys <= scrubs.cluster.storage.keys


def test_all_objects_of_a_segment_wait_for_the_youngest(scrubs: Scrubs) -> None:
    keys = waited(scrubs)
    late = min(keys)
    scrubs.cluster.storage.put_object(late, b"x" * 10)
    scrubs.mark_anew()
    scrubs.wait(WAIT_MS - 1)
    scrubs.scrub()
    plan, planned = scrubs.plan()
    assert (planned, plan.waiting.objects) == ([], 3)


@pytest.mark.parametrize("first_is_proven", [False, True])
def test_no_wait_is_measured_by_a_time_that_nobody_proves(scrubs: Scrubs, first_is_proven: bool) -> None:
    scrubs.time_is_proven = first_is_proven
    waited(scrubs)
    scrubs.time_is_proven = not first_is_proven
    scrubs.scrub()
    assert scrubs.plan()[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("state", [S.COPY_SEGMENT_STARTED, S.COPY_SEGMENT_FINISHED, S.DELETE_SEGMENT_STARTED])
def test_an_unfinished_segment_is_never_planned(scrubs: Scrubs, state: S) -> None:
    scrubs.cluster.segment(TOPIC, 1, state)
    for _ in range(2):
        scrubs.scrub()
        scrubs.wait()
    scrubs.scrub()
    assert scrubs.plan()[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("sole_owner", [False, True])
def test_a_topic_id_that_the_log_never_named_needs_the_word_of_the_connection(scrubs: Scrubs, sole_owner: bool) -> None:
    keys = scrubs.put(1, OTHER)
    waited(scrubs)
    scrubs.scrub()
    _, planned = scrubs.plan(sole_owner=sole_owner)
    assert (keys <= set(planned)) is sole_owner
    scrubs.plan(sole_owner=True)
    report = scrubs.delete(sole_owner=sole_owner)
    assert keys.isdisjoint(scrubs.cluster.storage.keys) is sole_owner
    assert report.left_objects == (0 if sole_owner else 3)


def test_what_a_hold_names_stays(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1)
    scrubs.scrub()
    plan, planned = scrubs.plan(hold=Hold(("ord*",)))
    assert (planned, plan.held.objects) == ([], 3)
    scrubs.plan()
    assert scrubs.delete(hold=Hold(("orders",))).held == 3
    assert keys <= scrubs.cluster.storage.keys


def test_a_run_for_other_topics_plans_nothing_of_this_one_and_counts_it_all_the_same(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1)
    scrubs.scrub()
    whole, _ = scrubs.plan()
    plan, planned = scrubs.plan(only=Only(("other",)))
    assert (planned, plan.planned.segments, plan.only, plan.known) == ([], 0, ("other",), whole.known)
    assert scrubs.delete().deleted == {}
    plan, planned = scrubs.plan(only=Only(("ord*",)))
    assert (set(planned), plan.only) == (keys, ("ord*",))


def test_what_bars_all_bars_a_run_for_one_topic_too(scrubs: Scrubs) -> None:
    """An object that no record names, under the id of a topic that lives, says that the log has lost records."""
    scrubs.put(1, OTHER)
    scrubs.put(2)
    scrubs.cluster.topics.create("orders", TOPIC.topic_id)
    waited(scrubs)
    scrubs.scrub()
    whole, _ = scrubs.plan(sole_owner=True)
    plan, planned = scrubs.plan(only=Only(("other",)), sole_owner=True)
    assert whole.barred.objects >= 6
    assert (planned, plan.barred) == ([], whole.barred)


@pytest.mark.parametrize("topic_id", [TOPIC.topic_id, UUID(int=70)])
def test_what_lies_under_the_name_of_a_topic_without_disks_stays(scrubs: Scrubs, topic_id: UUID) -> None:
    """Whether the topic itself lives, or another one has its name."""
    keys, others = scrubs.finished(1), scrubs.finished(2)
    scrubs.scrub()
    scrubs.plan()
    scrubs.cluster.topics.create("orders", topic_id)
    scrubs.cluster.topics.diskless = {"orders"}
    report = scrubs.delete(limits=replace(ScrubLimits(), batch_segments=1))
    assert (report.left_objects, report.deleted, len(report.left)) == (6, {}, 1)
    assert (report.left[0].kind, report.left[0].topic) == (RefusalKind.DISKLESS, "orders")
    assert [problem.kind for problem in report.problems()] == ["DISKLESS"]
    assert keys | others <= scrubs.cluster.storage.keys

    scrubs.cluster.topics.diskless = set()
    assert scrubs.delete().deleted["FINISHED"].objects == 6


def test_objects_that_the_layout_does_not_know_stay(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1)
    note = min(keys).rpartition(".")[0] + ".note"
    scrubs.cluster.storage.put_object(note, b"x")
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == keys
    scrubs.delete()
    assert note in scrubs.cluster.storage.keys


def test_a_place_that_is_not_shown_to_be_the_clusters_is_left(tmp_path: Path) -> None:
    scrubs = Scrubs(tmp_path, Cluster(layout=AivenLayout("now/", ["then/"])))
    scrubs.finished(1)
    _, then = scrubs.cluster.layout.places
    stray = scrubs.cluster.layout.required_keys(add(tip("stray", 0, 50), 1), then)
    scrubs.cluster.storage.put_object(stray[0], b"x")
    summary, _ = scrubs.scrub()
    assert [p["verified"] for p in summary.root["places"]] == [True, False]
    for key in scrubs.cluster.layout.required_keys(add(TOPIC, 1), then):
        scrubs.cluster.storage.put_object(key, b"x")
    scrubs.scrub()
    assert scrubs.plan()[0].elsewhere.objects in (0, 3)
    check = prove_root(
        scrubs.cluster.topic(),
        scrubs.cluster.storage,
        cluster_id=CLUSTER_ID,
        expectation=RootExpectation(),
        overrides=[],
        ledger=KNOWN_FROM_THE_BEGINNING,
    ).check
    unproven = replace(check, places=tuple(replace(place, how=None) for place in check.places))
    with open_scrub_plan(scrubs.uri) as (_, rows):
        require_places(rows, check)
        with pytest.raises(StorageRootError, match="not shown to be this cluster's now"):
            require_places(rows, unproven)


def test_a_canary_takes_whole_segments(scrubs: Scrubs) -> None:
    scrubs.finished(1)
    scrubs.finished(2)
    scrubs.scrub()
    plan, planned = scrubs.plan(max_segments=1)
    assert (len(planned), plan.planned.segments, plan.left_for_later.objects) == (3, 1, 3)


def test_a_plan_is_bound_to_its_cluster_log_time_and_size(scrubs: Scrubs) -> None:
    scrubs.finished(1)
    scrubs.scrub()
    plan, _ = scrubs.plan(BlastRadius(max_segments=0))
    assert not plan.within_blast_radius
    with pytest.raises(BlastRadiusError, match="max_segments is 1"):
        plan.check_blast_radius()
    topic_id = plan.metadata_topic_id
    plan.check_valid(CLUSTER_ID, topic_id, scrubs.cluster.now_ms)
    for cluster, log, now in (
        ("x", topic_id, 0), (CLUSTER_ID, "x", 0), (CLUSTER_ID, topic_id, plan.expires_at_ms),
    ):  # fmt: skip
        with pytest.raises(PlanError, match="scrub again"):
            plan.check_valid(cluster, log, now)
    with pytest.raises(PlanError, match="is of cluster"):
        plan_scrub(
            scrubs.uri,
            Choice(ScrubLimits(), NOBODY),
            cluster_id="x",
            now_ms=0,
            expires_in_ms=1,
            blast_radius=WIDE,
            clock="",
        )


@pytest.mark.parametrize("name", ["scrub.parquet", "scrub.json", "scrub-plan.parquet", "scrub-plan.json"])
def test_what_was_changed_is_no_plan(scrubs: Scrubs, name: str) -> None:
    scrubs.finished(1)
    scrubs.scrub()
    scrubs.plan()
    file = Path(scrubs.uri, name)
    file.write_bytes(file.read_bytes().replace(b"FINISHED", b"UNKNOWN_", 1))
    with pytest.raises(PlanError):
        scrubs.planned() if "plan" in name else scrubs.plan()


def test_limits() -> None:
    assert ScrubLimits().min_unreferenced_ms == WAIT_MS
    assert ScrubLimits(min_unreferenced_ms=FLOOR_UNREFERENCED_MS)
    with pytest.raises(ConfigurationError, match="short_unreferenced_wait"):
        ScrubLimits(min_unreferenced_ms=FLOOR_UNREFERENCED_MS - 1)
    assert ScrubLimits(min_unreferenced_ms=0, overrides=frozenset({"short_unreferenced_wait"}))


# --- right before it goes -----------------------------------------------------------------------------------------------


def planned_both(scrubs: Scrubs) -> tuple[set[str], set[str]]:
    """A plan of a finished segment and one that no record names."""
    finished = scrubs.finished(2)
    unreferenced = waited(scrubs)
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == finished | unreferenced
    return finished, unreferenced


@pytest.mark.slow
def test_a_segment_that_is_named_since_the_scrub_stays(scrubs: Scrubs) -> None:
    _, unreferenced = planned_both(scrubs)
    scrubs.cluster.foreign(add(TOPIC, 1))
    report = scrubs.delete()
    assert unreferenced <= scrubs.cluster.storage.keys
    assert (report.left_objects, report.counts()["deleted"].keys()) == (3, {"FINISHED"})


@pytest.mark.slow
def test_a_segment_that_is_opened_again_stays(scrubs: Scrubs) -> None:
    finished, _ = planned_both(scrubs)
    scrubs.cluster.foreign(add(TOPIC, 2))
    scrubs.delete()
    assert finished <= scrubs.cluster.storage.keys


@pytest.mark.slow
def test_a_segment_that_is_named_after_the_listing_stays(scrubs: Scrubs, monkeypatch: pytest.MonkeyPatch) -> None:
    _, unreferenced = planned_both(scrubs)

    listed = scrubs.cluster.storage.stored_objects

    def name(keys: Any) -> Any:
        found = listed(keys)
        scrubs.cluster.foreign(add(TOPIC, 1))
        return found

    monkeypatch.setattr(scrubs.cluster.storage, "stored_objects", name)
    scrubs.delete(limits=ScrubLimits(batch_segments=1))
    assert unreferenced <= scrubs.cluster.storage.keys


@pytest.mark.slow
def test_an_object_that_was_written_again_stays(scrubs: Scrubs) -> None:
    finished, unreferenced = planned_both(scrubs)
    scrubs.wait(1)
    scrubs.put(1)
    scrubs.put(2)
    report = scrubs.delete()
    assert finished | unreferenced <= scrubs.cluster.storage.keys
    assert {refusal.why for refusal in report.left} == {"it was written again after the scrub"}


@pytest.mark.slow
def test_a_bad_record_since_the_scrub_keeps_what_no_record_names(scrubs: Scrubs) -> None:
    _, unreferenced = planned_both(scrubs)
    scrubs.cluster.log.append(scrubs.cluster.metadata_partition_of(TOPIC), b"junk")
    scrubs.delete()
    assert unreferenced <= scrubs.cluster.storage.keys


@pytest.mark.slow
def test_nothing_goes_where_writes_are_off_or_in_a_dry_run(scrubs: Scrubs) -> None:
    before = set().union(*planned_both(scrubs))
    with pytest.raises(WritesNotAllowedError, match="delete 6 objects"):
        scrubs.delete(allow_writes=False)
    report = scrubs.delete(dry_run=True)
    assert before <= scrubs.cluster.storage.keys
    assert report.counts()["would_delete"].keys() == {"FINISHED", "UNREFERENCED"}


@pytest.mark.parametrize("from_the_beginning", [True, False])
def test_another_cluster_is_noticed(scrubs: Scrubs, from_the_beginning: bool) -> None:
    # Of what no record names the topics are looked for anyway.
    before = scrubs.finished(2) | scrubs.finished(3)
    scrubs.scrub()
    assert set(scrubs.plan()[1]) == before

    def answer(effect: str, key: str) -> None:
        if effect == "delete":
            scrubs.cluster.topics.metadata_topic_id = OTHER.topic_id

    if from_the_beginning:
        answer("delete", "")
    scrubs.cluster.storage.on_effect = answer
    with pytest.raises(ClusterMismatchError):
        scrubs.delete(limits=ScrubLimits(batch_segments=1))
    # The look before the second batch shows it at the latest.
    assert len(before & scrubs.cluster.storage.keys) == (6 if from_the_beginning else 3)


def test_another_root_is_noticed(scrubs: Scrubs) -> None:
    before = set().union(*planned_both(scrubs))
    scrubs.cluster.storage.folders[""] = "another"
    with pytest.raises(StorageRootError):
        scrubs.delete()
    assert before <= scrubs.cluster.storage.keys


@pytest.mark.slow
def test_what_the_store_refuses_is_said_and_needs_a_person(scrubs: Scrubs) -> None:
    finished, unreferenced = planned_both(scrubs)
    kept = min(finished)

    def refuse(effect: str, key: str) -> None:
        if effect == "delete" and key == kept:
            raise StorageError("access denied")

    scrubs.cluster.storage.on_effect = refuse
    report = scrubs.delete()
    assert (finished | unreferenced) & scrubs.cluster.storage.keys == {kept}
    [problem] = report.problems()
    assert (problem.what, problem.why) == (f"object {kept}", "access denied")


@pytest.mark.parametrize("size", [1, 2, 500])
def test_batches(scrubs: Scrubs, size: int) -> None:
    keys = set().union(*(scrubs.finished(number) for number in range(1, 6)))
    scrubs.scrub()
    scrubs.plan()
    report = scrubs.delete(limits=ScrubLimits(batch_segments=size))
    assert keys.isdisjoint(scrubs.cluster.storage.keys)
    assert report.deleted["FINISHED"].objects == 15


def test_empty_folders_of_deleted_topics_go_last(tmp_path: Path) -> None:
    """Over a real folder; the folder of a living topic stays, and so does one that is not empty."""
    (tmp_path / "tiered").mkdir()
    cluster = Cluster()
    cluster.topics.create(OTHER.topic, OTHER.topic_id)
    cluster.storage = ObjectStoreRemoteStorageManager(f"file://{tmp_path}/tiered", cluster.layout)  # type: ignore[assignment]
    folders = {}
    topics = {"gone": tip("gone", 0, 7), "full": tip("full", 0, 8), "living": OTHER}
    for name, topic in topics.items():
        folders[name] = tmp_path / "tiered" / cluster.layout.partition_prefix(topic)
        metadata = cluster.segment(topic, 1, S.DELETE_SEGMENT_FINISHED, objects=False)
        folders[name].mkdir(parents=True)
        for key in cluster.layout.required_keys(metadata):
            (tmp_path / "tiered" / key).write_bytes(b"x" * 10)
        if name == "full":
            (folders[name] / "notes.txt").write_bytes(b"x")
    alive = add(cluster.alive, 0)
    (tmp_path / "tiered" / cluster.layout.partition_prefix(cluster.alive)).mkdir()
    for key in cluster.layout.required_keys(alive):
        (tmp_path / "tiered" / key).write_bytes(b"x" * 10)
    scrubs = Scrubs(tmp_path / "work", cluster)
    scrubs.scrub()
    scrubs.plan()
    report = scrubs.delete(dry_run=True)
    assert (report.folders_removed, folders["gone"].exists()) == (0, True)
    report = scrubs.delete()
    assert (report.deleted["FINISHED"].objects, report.folders_removed) == (15, 1)
    assert {name for name, folder in folders.items() if folder.exists()} == {"full", "living"}
    assert scrubs.cluster.layout.places[0].prefix.rstrip("/") in {path.name for path in (tmp_path / "tiered").iterdir()}


def test_nothing_goes_outside_the_window_and_no_faster_than_it_may(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1)
    scrubs.scrub()
    scrubs.plan()
    hour = scrubs.cluster.now_ms // HOUR_MS % 24
    shut = f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00 UTC"
    report = scrubs.delete(limits=ScrubLimits(deletion_window=shut))
    assert keys <= scrubs.cluster.storage.keys
    assert (report.left_objects, list(report.problems())) == (3, [])
    rested: list[float] = []
    scrubs.delete(limits=ScrubLimits(objects_per_second=1), sleep=rested.append)
    assert keys.isdisjoint(scrubs.cluster.storage.keys)
    assert 0 < sum(rested) <= 3


# --- what needs a person ------------------------------------------------------------------------------------------------


def test_what_needs_a_person(scrubs: Scrubs) -> None:
    scrubs.cluster.segment(TOPIC, 1, objects=False)
    scrubs.put(2)
    offset = scrubs.cluster.log.append(scrubs.cluster.metadata_partition_of(TOPIC), b"junk")
    summary, _ = scrubs.scrub()
    missing, unknown = scrubs.problems()
    assert (missing.kind, missing.topic, missing.offset) == ("MISSING_OBJECTS", "orders", offset - 1)
    assert (unknown.kind, unknown.metadata_partition) == ("SCRUB_UNKNOWN", scrubs.cluster.metadata_partition_of(TOPIC))
    assert missing.acknowledgeable
    assert unknown.acknowledgeable
    assert summary.classes[ScrubClass.MISSING.value].objects == 1
    found = summary.classes[ScrubClass.IN_USE.value]
    assert summary.month(ScrubClass.IN_USE.value, Amount(found.objects, 2**30)) == 23_000
    assert summary.month(ScrubClass.MISSING.value, Amount(1, 2**30)) is None


def test_a_folder_that_cannot_be_listed_needs_a_person(scrubs: Scrubs) -> None:
    def refuse(effect: str, key: str) -> None:
        if "orders" in key:
            raise StorageError("cannot list it")

    scrubs.cluster.storage.on_effect = refuse
    [problem] = scrubs.scrub_and_tell()
    assert problem.kind == "LISTING_INCOMPLETE"
    assert "kafka/prod/orders-" in problem.what


def test_segments_beyond_the_limit_are_counted(scrubs: Scrubs, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_rlmm.features.scrub import scrub_files

    monkeypatch.setattr(scrub_files, "MAX_LISTED", 1)
    for number in (1, 2, 3):
        scrubs.cluster.segment(TOPIC, number, objects=False)
    _, more = scrubs.scrub_and_tell()
    assert (more.kind, more.what) == ("SCRUB_NOT_LISTED", "2 more segments that lack an object")
    assert not more.acknowledgeable


@pytest.mark.slow
def test_an_update_alone_does_not_finish_a_segment(scrubs: Scrubs) -> None:
    """An update that no broker applies is no record that finishes anything."""
    keys = scrubs.put(1)
    scrubs.cluster.foreign(update(TOPIC, 1, S.DELETE_SEGMENT_FINISHED))
    for _ in range(2):
        scrubs.scrub()
        scrubs.wait()
    scrubs.scrub()
    assert keys.isdisjoint(scrubs.plan()[1])


@pytest.mark.slow
def test_the_kill_switch_ends_a_deletion_between_two_batches_and_the_next_scrub_goes_on(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1) | scrubs.finished(2) | scrubs.finished(3)
    scrubs.scrub()
    scrubs.plan()
    before = set(scrubs.cluster.storage.keys)
    asked: list[int] = []

    def should_stop() -> str | None:
        asked.append(len(before - set(scrubs.cluster.storage.keys)))
        return "the switch is on" if asked[-1] else None

    report = scrubs.delete(should_stop=should_stop, limits=ScrubLimits(batch_segments=1))
    assert asked == [0, 3]
    (left,) = report.left
    assert (left.kind, left.what, left.why) == (RefusalKind.STOPPED, "6 objects of the plan", "the switch is on")
    assert (report.left_objects, len(list(report.problems()))) == (6, 1)
    scrubs.scrub()
    scrubs.plan()
    scrubs.delete()
    assert before - set(scrubs.cluster.storage.keys) == keys


def test_a_dry_run_of_a_stopped_deletion_says_what_would_go(scrubs: Scrubs, caplog: pytest.LogCaptureFixture) -> None:
    scrubs.finished(1)
    scrubs.scrub()
    scrubs.plan()
    report = scrubs.delete(should_stop=lambda: "the switch is on", dry_run=True)
    assert (report.left, sum(amount.objects for amount in report.deleted.values())) == ([], 3)
    assert "dry run: the switch is on; a real run would end here" in caplog.text


def test_what_a_scrub_deletes_is_in_the_audit_log(scrubs: Scrubs) -> None:
    scrubs.finished(1)
    scrubs.finished(2)
    stuck = sorted(scrubs.finished(3))[0]
    scrubs.scrub()
    scrubs.plan()

    def fail(name: str, key: str) -> None:
        if name == "delete" and key == stuck:
            raise StorageUnavailableError("it is locked")

    scrubs.cluster.storage.on_effect = fail
    scrubs.delete()
    before = [row for row in scrubs.audit.rows if row["phase"] == "BEFORE"]
    after = {UUID(bytes=row["segment_id"]): row for row in scrubs.audit.rows if row["phase"] == "AFTER"}
    assert [(row["why"], row["outcome"], row["started_offset"]) for row in before] == [("FINISHED", None, None)] * 3
    assert sorted(row["outcome"] for row in after.values()) == ["GONE", "GONE", "PRESENT"]
    assert sorted((row["objects"], row["bytes"]) for row in after.values()) == [(2, 20), (3, 30), (3, 30)]
    (kept,) = [row["why"] for row in after.values() if row["outcome"] == "PRESENT"]
    assert kept
    assert {(row["topic"], row["partition"]) for row in before} == {("orders", 0)}


def phases(scrubs: Scrubs) -> str:
    """What was written down, in its order: B for what is about to go, A for what became of it."""
    return "".join(row["phase"][0] for row in scrubs.audit.rows)


@pytest.mark.parametrize(
    ("where", "most", "written"),
    [
        (Location("s3", bucket="bucket"), 100_000, "BABABA"),
        (Location("s3", "http://127.0.0.1:9000", "bucket"), 100_000, "BBBAAA"),
        (Location("s3", "http://127.0.0.1:9000", "bucket"), 6, "BBAABA"),
    ],
    ids=["by key", "elsewhere", "no more at once"],
)
def test_where_absence_takes_the_whole_folder_it_is_confirmed_once_behind_the_last_batch(
    scrubs: Scrubs, where: Location, most: int, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub_effects, "MOST_UNCONFIRMED", most)
    scrubs.cluster.storage.where, scrubs.cluster.storage.arrange = where, sorted
    for number in (1, 2, 3):
        scrubs.finished(number)
    scrubs.scrub()
    scrubs.plan()
    report = scrubs.delete(limits=ScrubLimits(batch_segments=1))
    assert phases(scrubs) == written
    assert {row["outcome"] for row in scrubs.audit.rows if row["phase"] == "AFTER"} == {"GONE"}
    assert (report.deleted["FINISHED"].objects, report.left_objects) == (9, 0)


def test_another_folder_ends_the_wait_for_its_confirmation(scrubs: Scrubs) -> None:
    for partition in (1, 2):
        for number in (1, 2):
            scrubs.cluster.segment(tip("orders", 1, partition), number, S.DELETE_SEGMENT_FINISHED)
    scrubs.scrub()
    scrubs.plan()
    scrubs.delete(limits=ScrubLimits(batch_segments=1))
    assert phases(scrubs) == "BBAABBAA"


def test_an_error_between_two_batches_leaves_nothing_unconfirmed(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1) | scrubs.finished(2)
    scrubs.scrub()
    scrubs.plan()

    def another_root(effect: str, key: str) -> None:
        if effect == "delete":
            scrubs.cluster.topics.metadata_topic_id = OTHER.topic_id

    scrubs.cluster.storage.on_effect = another_root
    with pytest.raises(ClusterMismatchError):
        scrubs.delete(limits=ScrubLimits(batch_segments=1))
    assert [(row["phase"], row["outcome"]) for row in scrubs.audit.rows] == [("BEFORE", None), ("AFTER", "GONE")]
    assert len(keys & scrubs.cluster.storage.keys) == 3


def test_a_deletion_that_fails_leaves_an_unknown_outcome_in_the_audit_log(
    scrubs: Scrubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    scrubs.finished(1)
    scrubs.scrub()
    scrubs.plan()

    def fail(keys: object) -> None:
        raise StorageUnavailableError("nobody answers")

    monkeypatch.setattr(scrubs.cluster.storage, "delete_objects", fail)
    with pytest.raises(StorageUnavailableError):
        scrubs.delete()
    assert [(row["phase"], row["outcome"]) for row in scrubs.audit.rows] == [("BEFORE", None), ("AFTER", "UNKNOWN")]


def test_what_a_scrub_cannot_write_down_stays(scrubs: Scrubs) -> None:
    keys = scrubs.finished(1)
    scrubs.scrub()
    scrubs.plan()

    def fail(name: str, rows: object) -> None:
        raise AuditError("the disk is full")

    scrubs.audit = InMemoryAuditLog(fail)
    with pytest.raises(AuditError):
        scrubs.delete()
    assert keys <= set(scrubs.cluster.storage.keys)

    def fail_after(name: str, rows: object) -> None:
        if name == "audit after":
            raise AuditError("the disk is full")

    scrubs.audit = InMemoryAuditLog(fail_after)
    report = scrubs.delete()
    assert [(r.kind, r.what) for r in report.left] == [(RefusalKind.AUDIT, "outcomes of batch batch-1, 1 segment")]
    assert [problem.kind for problem in report.problems()] == ["AUDIT"]


def test_a_dry_run_of_a_scrub_writes_nothing_down(scrubs: Scrubs) -> None:
    scrubs.finished(1)
    scrubs.scrub()
    scrubs.plan()
    scrubs.delete(dry_run=True)
    assert scrubs.audit.rows == []
