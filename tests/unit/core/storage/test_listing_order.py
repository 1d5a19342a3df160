# SPDX-License-Identifier: Apache-2.0
"""Listings that end before the end of their folder: where they may, what they prove, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from threading import Lock

import pytest

from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.storage import layout_storage
from airflow_provider_rlmm.core.storage.deletion import Lookup
from airflow_provider_rlmm.core.storage.hidden_copies import DeletionEffect, Freed
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout, LocalTieredStorageLayout
from airflow_provider_rlmm.core.storage.listing_order import ListingOrder, lists_by_key
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.opening import location_of, open_store
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome, StoredObject
from airflow_provider_rlmm.core.storage.stamps import Location
from tests.contracts.layouts import in_house_template
from tests.contracts.remote_storage import segment
from tests.contracts.s3_server import BUCKET, S3Server, running_s3_server
from tests.unit.core.storage.test_in_memory import raising_at

LAYOUT = LocalTieredStorageLayout()
GONE, PRESENT, NEVER_SEEN = DeleteOutcome.GONE, DeleteOutcome.PRESENT, DeleteOutcome.NEVER_SEEN


def stored(*keys: str) -> list[StoredObject]:
    return [StoredObject(key, 1, 0) for key in keys]


class Pages:
    """A listing that knows how far it was read."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.read = 0

    def __iter__(self) -> Iterator[StoredObject]:
        for found in stored(*self.keys):
            self.read += 1
            yield found


LOOKUP = Lookup("p/", ["p/b", "p/d"], {"p/b.log", "p/d.log"})
IN_ORDER = "p/b.index", "p/b.log", "p/c.log", "p/d.log", "p/e.log", "p/f.log"


def looked(order: ListingOrder, *keys: str, to_the_end: bool) -> tuple[list[str], int]:
    pages = Pages(*keys)
    return [found.key for found in order.wanted(LOOKUP, pages, to_the_end=to_the_end)], pages.read


@pytest.mark.parametrize("to_the_end", [True, False])
def test_a_store_that_lists_by_key_is_read_up_to_the_first_key_behind_what_is_wanted(to_the_end: bool) -> None:
    found, read = looked(ListingOrder(True), *IN_ORDER, to_the_end=to_the_end)
    assert found == ["p/b.index", "p/b.log", "p/d.log"]
    assert read == 5


def test_any_other_store_is_read_to_the_end_where_something_is_to_be_absent() -> None:
    found, read = looked(ListingOrder(False), *IN_ORDER, "p/d.index", to_the_end=True)
    assert found == ["p/b.index", "p/b.log", "p/d.log", "p/d.index"]
    assert read == 7


def test_any_other_store_is_read_until_each_segment_was_seen() -> None:
    assert looked(ListingOrder(False), *IN_ORDER, to_the_end=False)[1] == 5
    found, read = looked(ListingOrder(False), "p/b.log", "p/e.log", "p/f.log", "p/d.log", "p/g.log", to_the_end=False)
    assert found == ["p/b.log", "p/d.log"]
    assert read == 5


@pytest.mark.parametrize("to_the_end", [True, False])
def test_a_key_below_the_one_before_ends_the_trust(to_the_end: bool, caplog: pytest.LogCaptureFixture) -> None:
    order = ListingOrder(True)
    found, read = looked(order, "p/c.log", "p/b.log", "p/e.log", "p/f.log", "p/d.log", to_the_end=to_the_end)
    assert (found, read) == (["p/b.log", "p/d.log"], 5)
    assert not order.is_trusted
    assert "'p/b.log' behind 'p/c.log'" in caplog.text
    assert looked(order, *IN_ORDER, to_the_end=True)[1] == len(IN_ORDER)
    assert len(caplog.records) == 1


def test_one_stem_may_begin_another() -> None:
    lookup = Lookup("", ["a", "ab"], set())
    found = ListingOrder(True).wanted(lookup, stored("a.log", "ab.log", "az", "b"), to_the_end=True)
    assert [o.key for o in found] == ["a.log", "ab.log", "az"]


@pytest.mark.parametrize(
    ("uri", "options", "by_key"),
    [
        ("s3://bucket/tiered", {"aws_region": "eu-central-1"}, True),
        ("https://bucket.s3.eu-central-1.amazonaws.com", {}, True),
        ("gs://bucket", {}, True),
        ("s3://bucket", {"aws_endpoint": "https://minio.example:9000"}, False),
        ("s3://some-abcdefghij-s3alias", {"aws_region": "eu-central-1"}, False),
        ("s3://some-outpost--op-s3", {"aws_region": "eu-central-1"}, False),
        ("az://container", {"account_name": "account"}, True),
        ("abfss://container@account.dfs.core.windows.net/x", {}, True),
        ("az://container", {"account_name": "account", "endpoint": "https://ours.example"}, False),
        ("abfss://container@account.dfs.core.chinacloudapi.cn", {}, False),
    ],
)
def test_only_services_that_say_so_list_by_key(
    uri: str, options: dict[str, str], by_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    location = location_of(open_store(uri, {**options, "skip_signature": "true"}), "")
    assert lists_by_key(location, LAYOUT) == by_key


def test_an_address_in_the_environment_is_any_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.example:9000")
    assert not lists_by_key(location_of(open_store("s3://bucket", {"skip_signature": "true"}), ""), LAYOUT)


def test_segments_with_folders_of_their_own_are_listed_to_the_end() -> None:
    assert lists_by_key(Location("s3", bucket="bucket"), AivenLayout("tiered/"))
    assert not lists_by_key(Location("s3", bucket="bucket"), in_house_template())
    assert not lists_by_key(Location("file"), LAYOUT)


class Namespace:
    """The settings of an account of Azure, as far as listings are concerned."""

    tells_versions = False

    def __init__(self, flat: bool) -> None:
        self._flat = flat

    def look(self, prefixes: Sequence[str]) -> DeletionEffect:
        return DeletionEffect(Freed.UNKNOWN, "")

    def is_flat(self) -> bool:
        return self._flat


@pytest.mark.parametrize(("inspector", "after"), [(Namespace(flat=True), 1), (Namespace(flat=False), 450), (None, 450)])
def test_an_account_of_azure_lists_by_key_only_where_it_says_that_it_is_flat(
    inspector: Namespace | None, after: int
) -> None:
    memory = Memory(LAYOUT, documented=True)
    memory.manager.where, memory.manager.inspector = Location("az", "account", "container"), inspector
    memory.place(range(100))
    report = memory.manager.delete_log_segments([segment(number) for number in range(10)], others=())
    assert {deletion.outcome for deletion in report.segments} == {GONE}
    assert memory.listed == 51 + after


@pytest.fixture(autouse=True, params=[1, 4])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every test goes for listings one after the other, and for some side by side."""
    number: int = request.param
    monkeypatch.setattr(Memory, "at_once", number)
    return number


@pytest.mark.parametrize(
    ("inspector", "scheme", "listed"),
    [(Namespace(flat=True), "az", 50), (Namespace(flat=False), "az", 950), (None, "az", 950), (None, "memory", 50)],
)
def test_a_listing_begins_behind_a_key_only_where_keys_are_what_counts(
    inspector: Namespace | None, scheme: str, listed: int
) -> None:
    """Where Azure has folders a key that is no object's may hide what lies behind it: its absence would prove nothing."""
    memory = Memory(LAYOUT, documented=True)
    memory.manager.where, memory.manager.inspector = Location(scheme, "account", "container"), inspector
    memory.place(range(100))
    report = memory.manager.delete_log_segments([segment(number) for number in range(90, 100)], others=())
    assert {deletion.outcome for deletion in report.segments} == {GONE}
    assert memory.listed == listed


class Memory:
    """A store in memory, of which each listing comes in the order that is set."""

    at_once = 1

    def __init__(self, layout: Layout, *, documented: bool) -> None:
        self.manager = InMemoryRemoteStorageManager(layout)
        self.manager.where = Location("s3", bucket="bucket") if documented else Location("memory")
        self.listed = 0
        self.manager.arrange = self._counted
        self.manager._calls.listings_at_once = self.at_once
        self._lock = Lock()

    def arranged(self, listed: list[StoredObject]) -> Iterable[StoredObject]:
        return sorted(listed)

    def _counted(self, listed: list[StoredObject]) -> Iterator[StoredObject]:
        for found in self.arranged(listed):
            with self._lock:
                self.listed += 1
            yield found

    def place(self, numbers: Iterable[int], partition: int = 0) -> None:
        for number in numbers:
            for key in self.manager.layout.required_keys(segment(number, partition=partition)):
                self.manager.put_object(key, b"0123456789")


@pytest.mark.parametrize(("documented", "after"), [(True, 1), (False, 450)])
def test_what_lies_behind_a_batch_is_listed_only_where_nothing_is_documented(documented: bool, after: int) -> None:
    memory = Memory(LAYOUT, documented=documented)
    memory.place(range(100))
    going = [segment(number) for number in range(10)]
    report = memory.manager.delete_log_segments(going, others=())
    assert {deletion.outcome for deletion in report.segments} == {GONE}
    # Before, its own 50 objects and the one behind them.
    assert memory.listed == 51 + after
    assert len(memory.manager.list_log_segments(segment(1).remote_log_segment_id.topic_id_partition)) == 90


@pytest.mark.parametrize("documented", [True, False])
def test_many_are_looked_for_side_by_side_and_none_twice(
    documented: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_storage, "_PAGE", 101)
    memory = Memory(LAYOUT, documented=documented)
    memory.place(range(100))
    memory.place(range(10), partition=1)
    going = [segment(number) for number in range(50, 90)] + [segment(number, partition=1) for number in range(5)]
    before = memory.manager._calls.requests
    wanted = list(chain.from_iterable(map(LAYOUT.required_keys, going)))
    assert memory.manager.stored_objects(wanted).keys() == set(wanted)
    # 200 objects in two parts, 25 in one.
    assert memory.manager._calls.requests - before == (3 if at_once > 1 else 2)
    report = memory.manager.delete_log_segments(going, others=())
    assert {deletion.outcome for deletion in report.segments} == {GONE}
    assert sum(deletion.objects_deleted for deletion in report.segments) == 225


class Unordered(Memory):
    """The last keys of each listing come first: behind the place where an early look ends lies what it looks for."""

    def arranged(self, listed: list[StoredObject]) -> Iterable[StoredObject]:
        return sorted(listed, reverse=True)


@pytest.mark.parametrize("documented", [True, False])
def test_a_store_without_an_order_is_believed_to_its_end_only(documented: bool) -> None:
    memory = Unordered(LAYOUT, documented=documented)
    memory.place(range(100))
    going = [segment(number) for number in range(10)]
    # The listing of a user partition comes before any of its segments is deleted, and goes to the end.
    memory.manager.list_log_segments(segment(1).remote_log_segment_id.topic_id_partition)
    kept = frozenset(LAYOUT.required_keys(segment(3)))
    memory.manager.on_effect = raising_at("delete", StorageUnavailableError("refused by the test"), kept.__contains__)
    report = memory.manager.delete_log_segments(going, others=())
    assert [deletion.outcome for deletion in report.segments] == [GONE] * 3 + [PRESENT] + [GONE] * 6
    assert memory.manager.missing_keys(LAYOUT.required_keys(segment(50))) == frozenset()


class OutOfOrderIn(Memory):
    """Of one folder, what is wanted comes behind what lies behind it, and nobody sees that; another is listed backwards."""

    def arranged(self, listed: list[StoredObject]) -> Iterable[StoredObject]:
        ordered = sorted(listed)
        if "-1/" in ordered[0].key:
            return ordered[::-1]
        return ordered[-1:] + ordered[:-1]


def test_looks_that_ended_before_an_order_was_broken_are_made_again() -> None:
    memory = OutOfOrderIn(LAYOUT, documented=True)
    memory.place([1, 2])
    memory.place([1], partition=1)
    wanted = list(chain(*(LAYOUT.required_keys(m) for m in (segment(1), segment(1, partition=1)))))
    assert memory.manager.stored_objects(wanted).keys() == set(wanted)
    assert memory.manager.missing_keys(LAYOUT.required_keys(segment(1))) == frozenset()


def test_a_segment_that_was_not_seen_before_the_end_is_looked_for_behind_it() -> None:
    memory = Unordered(LAYOUT, documented=False)
    memory.place([1, 5])
    (deletion,) = memory.manager.delete_log_segments([segment(1)], others=()).segments
    assert deletion.outcome == GONE
    (deletion,) = memory.manager.delete_log_segments([segment(1)], others=()).segments
    assert deletion.outcome == NEVER_SEEN


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3_server() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(("documented", "requests"), [(True, 5), (False, 12)])
def test_listings_of_leaked_objects_before_living_ones(
    server: S3Server, documented: bool, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_storage, "lists_by_key", lambda location, layout: documented)
    server.objects.clear()
    leaked = [key for number in range(240) for key in LAYOUT.required_keys(segment(number))]
    server.objects |= dict.fromkeys(leaked, b"x")
    living = [key for number in range(1000, 2500) for key in LAYOUT.required_keys(segment(number))]
    server.objects |= dict.fromkeys(living, b"x")
    manager = ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", LAYOUT, options=server.options)
    assert manager.stored_objects(leaked).keys() == set(leaked)
    assert manager.absence_takes_whole_folder != documented
    assert manager.still_there(leaked, manager.delete_objects(leaked)) == {}
    assert manager._calls.requests == requests
    assert set(server.objects) == set(living)
