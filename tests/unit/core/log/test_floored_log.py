# SPDX-License-Identifier: Apache-2.0
"""What runs of a work folder have read of the log is a floor: a log that lost records since is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import (
    ConfigurationError,
    EventLogAccessError,
    EventLogUnavailableError,
    FloorError,
    LogBehindError,
    LogEraError,
    LogReplacedError,
    LostRecordsError,
)
from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.log.floored_log import Confirmation, FlooredLog
from airflow_provider_rlmm.core.log.floors import FloorFiles
from airflow_provider_rlmm.core.log.in_process import InProcessMetadataEventLog
from airflow_provider_rlmm.core.log.write_guard import GuardedPublisher
from airflow_provider_rlmm.core.records.era import Era
from airflow_provider_rlmm.core.records.serde import serialize
from tests.unit.core.records import events

NOW_MS = 1_800_000_000_000


class World:
    """A log with 24 records in metadata partition 1, and a work folder."""

    def __init__(self, folder: Path) -> None:
        self.log = InProcessMetadataEventLog(3, clock=lambda: NOW_MS)
        self.folder = folder
        self.store = FloorFiles(str(folder))
        self.waited: list[float] = []
        self.while_waiting: Callable[[], object] = lambda: None
        self.append(24)

    def append(self, number: int, what: bytes = b"event") -> None:
        for _ in range(number):
            self.log.append(1, b"%s %d" % (what, self.log.high_water_marks()[1]))

    def open(self, *confirm: str, dry_run: bool = False, by: str = "ann") -> FlooredLog:
        def sleep(seconds: float) -> None:
            self.waited.append(seconds)
            self.while_waiting()

        return FlooredLog.open(
            self.log,
            self.store,
            dry_run=dry_run,
            confirmation=Confirmation(confirm, by),
            clock=lambda: NOW_MS,
            sleep=sleep,
        )

    def run(self, *confirm: str, dry_run: bool = False) -> FlooredLog:
        """A run that reads all that there is."""
        log = self.open(*confirm, dry_run=dry_run)
        ends = log.high_water_marks()
        begins = log.beginning_offsets()
        for _ in log.read_many({number: (begins[number], end) for number, end in ends.items()}):
            pass
        log.keep(all_of_it=True)
        return log

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "floors").glob("*"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_floor_that_another_run_removes_for_a_higher_one_is_not_damaged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    listed = world.store._names

    def listed_late() -> list[str]:
        found = listed()
        monkeypatch.undo()
        world.append(1)
        world.run()
        assert world.store.prune()
        return found

    monkeypatch.setattr(FloorFiles, "_names", lambda _: listed_late())
    [floor] = [floor for floor in world.store.floors(world.log.topic_id) if floor.metadata_partition == 1]
    assert floor.end == 25


def test_a_floor_that_is_listed_and_gone_is_damaged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run()
    names = world.store._names()
    for name in names:
        (world.folder / "floors" / name).unlink()
    monkeypatch.setattr(FloorFiles, "_names", lambda _: names)
    with pytest.raises(FloorError, match="cannot be read"):
        world.store.floors(world.log.topic_id)


POLICY = frozenset({"compact", "delete"})


def era_of(world: World, *, dry_run: bool = False) -> str:
    return str(world.run(dry_run=dry_run).era)


def keyed(world: World, key: bytes) -> None:
    world.log.append(1, serialize(events.started(7)), key)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_topic_that_was_compacted_once_stays_compacted(world: World, dry_run: bool) -> None:
    assert era_of(world).startswith("plain")
    world.log.policy = POLICY
    assert era_of(world, dry_run=dry_run) == "compacted: its cleanup.policy is compact,delete"
    world.log.policy = frozenset({"delete"})
    seen = "compacted: its cleanup.policy is compact,delete, as an earlier run has seen"
    assert [era_of(world) for _ in range(2)] == [seen, seen]
    assert len([name for name in world.files if name.endswith(".era.json")]) == 1
    assert world.store.prune() == 0


def test_a_key_that_names_its_record_is_seen_and_remembered_and_no_reason_for_less_than_compaction(
    world: World,
) -> None:
    keyed(world, b"anything")
    keyed(world, b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:98:5")
    assert era_of(world).startswith("plain")
    keyed(world, b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5")
    assert era_of(world, dry_run=True) == "keyed: metadata partition 1 has a record with a key at offset 26"
    seen = world.open()
    assert (
        str(seen.era) == "keyed: metadata partition 1 has a record with a key at offset 26, as an earlier run has seen"
    )
    world.log.policy = POLICY
    assert world.open().era.era is Era.COMPACTED


def test_a_key_is_seen_before_anything_is_changed(world: World) -> None:
    keyed(world, b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5")
    log = world.open()
    publisher = GuardedPublisher(world.log, allow_writes=True, memory=log)
    publisher.require_writes("do what was decided before anything was read")
    assert [batch.num_rows for batch in log.read(1, 20, 25)] == [5]
    with pytest.raises(LogEraError, match="keyed: metadata partition 1 has a record with a key at offset 24"):
        publisher.require_writes("delete everything")


def test_a_record_of_version_1_shows_that_brokers_write_keys(world: World) -> None:
    event = replace(events.copied(7), end_offset=99, broker_leader_epoch=5)
    world.log.append(1, serialize(event), b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5:UPDATE")
    log = world.open()
    assert sum(batch.num_rows for batch in log.read(1, 20, 25)) == 5
    assert log.era.era is Era.KEYED


def test_a_key_is_seen_where_what_was_read_is_lost_too(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    keyed(world, b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5")
    log = world.open()
    assert len(list(log.read(1, 0, 15))) == 1
    assert log.era.era is Era.KEYED


def test_another_metadata_topic_has_an_era_of_its_own(world: World) -> None:
    world.log.policy = POLICY
    world.run()
    world.log = InProcessMetadataEventLog(3, topic_id=UUID(int=1), clock=lambda: NOW_MS)
    assert era_of(world).startswith("plain")


def test_where_the_configuration_may_not_be_read_a_run_for_real_ends_and_a_dry_run_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused() -> frozenset[str]:
        raise EventLogAccessError("DESCRIBE_CONFIGS is missing")

    monkeypatch.setattr(world.log, "cleanup_policy", refused)
    with pytest.raises(EventLogAccessError, match="DESCRIBE_CONFIGS is missing"):
        world.open()
    assert (
        str(world.run(dry_run=True).era)
        == "plain: whether it may be compacted is not known: DESCRIBE_CONFIGS is missing"
    )
    assert "a real run would end here: DESCRIBE_CONFIGS is missing" in caplog.text
    keyed(world, b"Pw4hj_qgSfKChUdSDIzsxg:orders:2:99:5")
    assert era_of(world, dry_run=True).startswith("keyed")


def test_an_era_that_cannot_be_read_ends_a_run_for_real(world: World) -> None:
    world.log.policy = POLICY
    world.run()
    (name,) = (world.folder / "floors").glob("*.era.json")
    name.write_text("{}")
    with pytest.raises(FloorError, match=r"era\.json cannot be read"):
        world.open()


def holes(world: World) -> list[int]:
    """Offsets 5, 6 and 20 of metadata partition 1 hold no record."""
    world.log.remove(1, [5, 6, 20])
    return [5, 6, 20]


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_cause_of_a_gap_is_said_once_and_counts_from_then_on(world: World, dry_run: bool) -> None:
    holes(world)
    log = world.open("1@5-6=the marker of a transaction", "1@20-20=another", dry_run=dry_run)
    assert log.explained_gaps == {1: [(5, 7), (20, 21)]}
    documents = sorted((world.folder / "floors").glob("*.gap.json"))
    assert [path.name.split(".", 1)[1] for path in documents] == (
        [] if dry_run else ["1.20-21.gap.json", "1.5-7.gap.json"]
    )
    later = world.open()
    assert later.explained_gaps == ({} if dry_run else {1: [(20, 21), (5, 7)]})
    if not dry_run:
        assert json.loads(documents[1].read_text()) == {
            "cause": "the marker of a transaction", "at_ms": NOW_MS, "by": "ann",
        }  # fmt: skip
        world.open("1@5-6=said again", by="bob")
        assert len(list((world.folder / "floors").glob("*.gap.json"))) == 2


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("1@5-7=a transaction", "offset 7 holds a record"),
        ("1@4-5=a transaction", "offset 4 holds a record"),
        ("1@20-24=a transaction", "has offsets 0 to 23"),
        ("7@20-20=a transaction", "has offsets 0 to -1"),
    ],
)
def test_only_offsets_that_hold_no_record_have_a_cause(world: World, word: str, why: str) -> None:
    holes(world)
    with pytest.raises(LostRecordsError, match=why):
        world.open(word)
    assert [name for name in world.files if "gap" in name] == []


@pytest.mark.parametrize("word", ["1@5-6", "1@5-6=", "1@5-6= ", "1@6-5=cause", "1@5-6=two\nlines", "1@-6=x", "@5-6=x"])
def test_what_is_no_word_about_a_gap_is_refused(world: World, word: str) -> None:
    holes(world)
    with pytest.raises(ConfigurationError, match="METADATA_PARTITION@FIRST-LAST=CAUSE"):
        world.open(word)


def test_a_cause_is_of_one_metadata_topic(world: World) -> None:
    holes(world)
    world.open("1@5-6=a transaction")
    world.log = InProcessMetadataEventLog(3, topic_id=UUID(int=1), clock=lambda: NOW_MS)
    assert world.open().explained_gaps == {}


def lost(world: World, *confirm: str, dry_run: bool = False) -> dict[int, tuple[str, bool]]:
    return {n: (loss.name, loss.is_open) for n, loss in world.open(*confirm, dry_run=dry_run).losses.items()}


def test_what_was_read_is_remembered_once_and_compared_with_what_is_there(world: World) -> None:
    assert world.run().losses == {}
    (name,) = world.files
    assert name.split(".")[1:4] == ["1", "0", "24"]
    (floor,) = world.store.floors(world.log.topic_id)
    assert (floor.first, floor.end) == (8, 24)
    assert world.run().losses == {}
    assert world.files == [name]
    world.append(3)
    assert world.run().losses == {}
    assert len(world.files) == 2
    assert world.store.prune() == 1
    assert [floor.end for floor in world.store.floors(world.log.topic_id)] == [27]


def test_a_log_that_ends_before_what_was_read_is_asked_again_and_then_has_lost_records(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    found = world.open()
    assert sum(world.waited) == floored_log.CATCH_UP_S
    (loss,) = found.losses.values()
    assert (loss.metadata_partition, loss.read_until, loss.end, loss.is_open) == (1, 24, 14, True)
    assert loss.why == (
        "metadata partition 1 was read up to offset 24 by an earlier run, and it ends at offset 14: it has lost its last "
        "records"
    )
    assert '"confirm_lost_records": "1@24"' in loss.what_to_do
    with pytest.raises(LostRecordsError, match="nothing is done there"):
        found.require_unbroken([0, 1])
    found.require_unbroken([0, 2])


def test_a_log_that_has_grown_again_has_lost_records(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    world.append(20, b"other")
    found = world.open()
    assert world.waited == []
    assert "its last records below that are others now" in found.losses[1].why


def test_a_log_that_lost_few_records_and_has_grown_again_is_known_by_the_last_one(world: World) -> None:
    world.run()
    world.log.cut_off(1, 23)
    world.append(1, b"other")
    assert lost(world) == {1: ("1@24", True)}


def test_a_compacted_log_is_known_by_what_is_left_of_its_last_records_and_by_the_newest(world: World) -> None:
    world.log.policy = POLICY
    world.run()
    world.log.remove(1, [20, 22])
    assert lost(world) == {}
    world.log.remove(1, [23])
    assert lost(world) == {1: ("1@24", True)}


def test_a_run_reads_on_where_the_log_cleaner_has_been_as_long_as_the_newest_record_is_there(world: World) -> None:
    world.run()
    world.log.policy = POLICY
    log = world.open()
    world.log.remove(1, [20, 22])
    assert sum(batch.num_rows for batch in log.read(1, 0, 24)) == 22
    world.log.remove(1, [23])
    world.append(1)
    with pytest.raises(LogReplacedError, match="hold other records"):
        list(log.read(1, 0, 25))


def test_a_log_that_is_not_compacted_is_known_by_all_of_its_last_records(world: World) -> None:
    world.run()
    log = world.open()
    world.log.remove(1, [20])
    with pytest.raises(LogReplacedError, match="hold other records"):
        list(log.read(1, 0, 24))
    assert lost(world) == {1: ("1@24", True)}


def test_a_broker_that_catches_up_while_it_is_asked_has_lost_nothing(world: World) -> None:
    world.run()
    world.log.cut_off(1, 20)
    world.while_waiting = lambda: world.append(1)
    assert world.open().losses == {}
    assert len(world.waited) == 4


def test_a_broker_that_is_still_catching_up_is_no_loss_and_the_command_may_be_tried_again(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    grown = iter([True])
    world.while_waiting = lambda: next(grown, False) and world.append(1)
    with pytest.raises(LogBehindError, match="still catching up") as raised:
        world.open()
    assert raised.value.retriable


def test_brokers_that_do_not_answer_are_no_loss(world: World) -> None:
    def silent(name: str, _: object) -> None:
        if name == "high_water_marks":
            raise EventLogUnavailableError("no broker")

    world.run()
    world.log.on_effect = silent
    with pytest.raises(EventLogUnavailableError):
        world.open()


@pytest.mark.parametrize("begin", [8, 15, 23, 24, 30])
def test_a_lost_beginning_is_none_of_these_losses(world: World, begin: int) -> None:
    """What is still there of the remembered records is compared; where nothing is, the beginning is lost, as always."""
    world.run()
    world.append(10)
    world.log.truncate(1, begin)
    assert world.run().losses == {}
    assert [floor.end for floor in world.store.floors(world.log.topic_id)] == [34]


def test_the_highest_floor_counts_whoever_left_a_lower_one(world: World) -> None:
    world.run()
    world.append(6)
    late = world.open()
    world.run()
    for _ in late.read(1, 0, 26):
        pass
    late.keep(all_of_it=True)
    assert len(world.files) == 3
    assert [floor.end for floor in world.store.floors(world.log.topic_id)] == [30]


def test_two_runs_that_read_other_records_up_to_the_same_offset_are_a_loss(world: World) -> None:
    world.log.cut_off(1, 14)
    first = world.open()
    world.append(10, b"one")
    for _ in first.read(1, 0, 24):
        pass
    world.log.cut_off(1, 14)
    world.append(10, b"two")
    world.run()
    first.keep(all_of_it=True)
    assert len(world.files) == 2
    assert lost(world) == {1: ("1@24", True)}


def test_a_log_that_is_swapped_while_a_run_reads_is_known_to_that_run(world: World) -> None:
    log = world.run()
    world.log.cut_off(1, 14)
    world.append(20, b"other")
    with pytest.raises(LogReplacedError, match="offsets 8 to 23 hold other records"):
        for _ in log.read(1, 0, 34):
            pass
    log.keep(all_of_it=True)
    assert lost(world) == {1: ("1@24", True)}


def test_records_that_were_not_read_are_not_remembered(world: World) -> None:
    log = world.open()
    for start, end in ((0, 3), (10, 13)):
        for _ in log.read(1, start, end):
            pass
    log.keep()
    (floor,) = world.store.floors(world.log.topic_id)
    assert [offset for offset, _ in floor.records] == [10, 11, 12]
    assert lost(world) == {}


def test_a_floor_is_kept_once_before_a_run_changes_anything_and_at_its_end(world: World) -> None:
    log = world.open()
    for end in (5, 9):
        for _ in log.read(1, 0, end):
            pass
        log.keep()
    assert [floor.end for floor in world.store.floors(world.log.topic_id)] == [5]
    log.keep(all_of_it=True)
    assert [floor.end for floor in world.store.floors(world.log.topic_id)] == [9]


def test_nothing_is_remembered_of_a_metadata_partition_that_has_lost_records(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    world.append(30, b"other")
    before = world.files
    assert world.run().losses.keys() == {1}
    assert world.files == before
    assert lost(world) == {1: ("1@24", True)}


def test_a_confirmed_loss_is_in_doubt_for_ever_and_the_floor_counts_anew(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    confirmed = world.run("1@24")
    confirmed.require_unbroken([1])
    assert lost(world) == {1: ("1@24", False)}
    assert [floor.end for floor in world.store.floors(world.log.topic_id)] == [14]
    assert "as was confirmed on 2027-01-15T08:00:00Z by ann" in confirmed.losses[1].why
    world.store.prune()
    world.append(30, b"other")
    assert world.run().losses[1].is_open is False
    # Said again, as every task of a run says it, it changes nothing.
    assert lost(world, "1@24") == {1: ("1@24", False)}
    world.log.cut_off(1, 40)
    assert lost(world) == {1: ("1@44", True)}
    assert lost(world, "1@44") == {1: ("1@44", False)}
    assert len([name for name in world.files if "confirmed" in name]) == 2


def test_a_dry_run_records_no_confirmation(world: World) -> None:
    world.run()
    world.log.cut_off(1, 14)
    before = world.files
    assert world.run("1@24", dry_run=True).losses[1].is_open is False
    assert world.files == before
    assert lost(world) == {1: ("1@24", True)}


@pytest.mark.parametrize(("name", "right"), [("1@14", "1@24"), ("0@24", "1@24")])
def test_a_confirmation_of_what_is_not_lost_is_refused_with_what_would_be_right(
    world: World, name: str, right: str
) -> None:
    world.run()
    world.log.cut_off(1, 14)
    with pytest.raises(
        LostRecordsError, match=f"{name} names no records that are lost and not confirmed; it would be {right}"
    ):
        world.open(name)
    assert lost(world) == {1: ("1@24", True)}


def test_a_confirmation_where_nothing_is_lost_is_refused(world: World) -> None:
    world.run()
    with pytest.raises(LostRecordsError, match="it would be nothing"):
        world.open("1@24")
    for name in ("1", "1@", "@24", "01@2", "1@24 ", "a@b"):
        with pytest.raises(ConfigurationError, match="METADATA_PARTITION@OFFSET"):
            world.open(name)


def test_a_run_for_real_needs_to_know_and_to_remember_and_a_reading_command_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.run()
    (name,) = world.files
    (world.folder / "floors" / name).write_text("{}")
    with pytest.raises(FloorError, match=f"{name} cannot be read"):
        world.open()
    assert world.run(dry_run=True).losses == {}
    assert "is not known, nothing is compared" in caplog.text


def test_a_work_folder_that_cannot_be_written_to_is_said_before_anything_is_changed(world: World) -> None:
    (world.folder / "floors").write_text("a file")
    with pytest.raises(FloorError):
        world.open()
    (world.folder / "floors").unlink()
    log = world.open()
    for _ in log.read(1, 0, 24):
        pass
    (world.folder / "floors").write_text("a file")
    with pytest.raises(FloorError, match="cannot be written"):
        log.keep()


def test_another_topic_has_floors_of_its_own(world: World) -> None:
    from uuid import UUID

    world.run()
    world.log.cut_off(1, 14)
    world.log.topic_id = UUID(int=7)
    assert world.run().losses == {}
    assert len(world.files) == 2
    assert world.store.prune() == 0
