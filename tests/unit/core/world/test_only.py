# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.world.only import ALL_TOPICS, EVERYTHING, Chosen, Only, only_of_plan
from airflow_provider_rlmm.core.world.topic_entries import KnownTopics

ID, OTHER_ID = UUID(int=2**127 - 5), UUID(int=7)
TIP = TopicIdPartition(ID, "orders", 0)
KNOWN = KnownTopics(frozenset({"orders", "billing"}), frozenset({kafka_uuid_str(ID)}))
NAMES = {ID: ("orders",), OTHER_ID: ("billing",)}


@pytest.mark.parametrize(
    ("entry", "chosen"),
    [
        ("orders", True),
        ("order", False),
        ("Orders", False),
        ("ord*", True),
        ("ord?rs", True),
        ("eu.*", True),
        (kafka_uuid_str(ID), True),
        (kafka_uuid_str(OTHER_ID), False),
        (f"{kafka_uuid_str(ID)[:2]}*", False),  # a pattern is of names: an id that happens to fit it is not meant
        (f"?{kafka_uuid_str(ID)[1:]}", False),
    ],
)
def test_names_patterns_and_ids_choose(entry: str, chosen: bool) -> None:
    only = Only((entry,))
    assert only.chooses(TIP, ("eu.orders",)) is chosen
    assert only.among([ID], {ID: ("orders", "eu.orders")}.__getitem__) == (frozenset({ID}) if chosen else frozenset())
    assert (only.narrowed_to, only.is_all) == ((entry,), False)


def test_a_star_is_all_topics_and_plans_do_not_say_it() -> None:
    for only in (ALL_TOPICS, Only.of("*"), Only.of(["orders", "*"]), only_of_plan(())):
        assert only.chooses(TIP)
        assert only.among(NAMES, lambda _: pytest.fail("nobody asks for names")) == {ID, OTHER_ID}
        assert (only.narrowed_to, only.is_all, only.unmatched(KnownTopics(frozenset(), frozenset()))) == ((), True, [])
    assert only_of_plan(("orders",)) == Only(("orders",))


@pytest.mark.parametrize("nothing", [(), ("",), (" , ",), (None,), ([],), ([""],)])
def test_nothing_is_not_all_topics(nothing: tuple[object, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"only names no topic: write \* where a run is for all topics"):
        Only.of(*nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", ["a b", "a/b", "[ab]", "x" * 250, "", 7])
def test_an_entry_that_can_name_no_topic_is_refused(entry: object) -> None:
    with pytest.raises(ConfigurationError, match="only entry"):
        Only((entry,))  # type: ignore[arg-type]


def test_entries_that_no_topic_answers_to_are_named_with_what_may_be_meant() -> None:
    like_an_id = f"{kafka_uuid_str(ID)[:3]}*"
    entries = ("orders", "bil*", kafka_uuid_str(ID), "odrers", "audit-*", kafka_uuid_str(OTHER_ID), like_an_id)
    found = Only(entries).unmatched(KNOWN)
    assert [topic.entry for topic in found] == ["odrers", "audit-*", kafka_uuid_str(OTHER_ID), like_an_id]
    assert found[0].meant == "; did you mean 'orders'?"


def test_a_plan_and_what_a_run_is_for_narrow_together() -> None:
    chosen = Chosen(Only(("orders",)), frozenset({(ID, 0), (OTHER_ID, 0)}))
    assert chosen.takes(TIP, ())
    assert not chosen.takes(TopicIdPartition(ID, "orders", 1), ())
    assert not chosen.takes(TopicIdPartition(OTHER_ID, "billing", 0), ())
    assert chosen.among(NAMES, NAMES.__getitem__) == {ID}
    assert Chosen(planned=frozenset({(OTHER_ID, 0)})).among(NAMES, NAMES.__getitem__) == {OTHER_ID}
    assert EVERYTHING.takes(TIP, ())
