# SPDX-License-Identifier: Apache-2.0
"""What Kafka's tool prints of the brokers' disks."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.first_aid.log_directories import read_log_directories
from tests.unit.features.first_aid.looks import printed


def test_the_bytes_of_all_replicas_are_added_up() -> None:
    text = printed({1: {"my-topic-0": 10, "my-topic-1": 5, "other-0": 99}, 2: {"my-topic-0": 11}})
    found = read_log_directories(text, "dirs")
    assert found.bytes_of("my-topic", ((1, 2), (1,))) == 26
    assert (found.topics, found.brokers) == ({"my-topic", "other"}, {1, 2})


def test_a_replica_that_no_broker_tells_of_is_no_zero() -> None:
    found = read_log_directories(printed({1: {"t-0": 10}}), "dirs")
    assert found.bytes_of("t", ((1, 2),)) == "broker 2 has not told of partition 0"


def test_a_broker_with_a_directory_that_is_offline_does_not_tell_all() -> None:
    found = read_log_directories(printed({1: {"t-0": 10}, 2: {"t-0": 10}}, offline=frozenset({2})), "dirs")
    assert found.bytes_of("t", ((1, 2),)) == "broker 2 has a log directory that is offline"
    assert found.bytes_of("t", ((1,),)) == 10


def test_a_replica_on_the_move_counts_once() -> None:
    moving = printed({1: {"t-0": 10}}).replace('"isFuture": false', '"isFuture": true')
    assert read_log_directories(moving, "dirs").bytes_of("t", ((1,),)) == "broker 1 has not told of partition 0"


@pytest.mark.parametrize(
    "text", ["", "{}", "Querying", '{"brokers": 1}', '{"brokers": [{"broker": 1}]}', "{}\n{}", "{"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"dirs is not what '[a-z.-]+ --describe' prints"):
        read_log_directories(text, "dirs")
