# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from uuid import UUID

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.world.hold import Hold

ID = UUID(int=2**127 - 5)


@pytest.mark.parametrize(
    ("entry", "held"),
    [
        ("orders", True),
        ("order", False),
        ("Orders", False),
        ("ord*", True),
        ("*", True),
        ("ord?rs", True),
        ("eu.*", True),
        (kafka_uuid_str(ID), True),
        (kafka_uuid_str(UUID(int=7)), False),
    ],
)
def test_names_patterns_and_ids_hold(entry: str, held: bool) -> None:
    assert (Hold((entry,)).refusal_of(TopicIdPartition(ID, "orders", 0), ("eu.orders",)) is not None) is held


def test_holds_of_several_sources_add_up() -> None:
    assert Hold.of("a, b\n c", ["d", "a"], None, "").entries == ("a", "b", "c", "d")


@pytest.mark.parametrize("entry", ["a b", "a/b", "[ab]", "x" * 250, "", 7])
def test_an_entry_that_could_hold_nothing_is_refused(entry: object) -> None:
    with pytest.raises(ConfigurationError, match="hold entry"):
        Hold((entry,))  # type: ignore[arg-type]
