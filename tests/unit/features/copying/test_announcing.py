# SPDX-License-Identifier: Apache-2.0
"""How much custom metadata a copy may have: what all brokers say, and what is said where one does not."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from airflow_provider_rlmm.core.log.in_process_topics import InProcessClusterTopics
from airflow_provider_rlmm.features.copying.announcing import (
    CUSTOM_METADATA_SETTING,
    CustomMetadataLimit,
    limit_of_brokers,
)

NOT_TOLD = "not tell remote.log.metadata.custom.metadata.max.bytes, which takes DESCRIBE_CONFIGS on the cluster"


def asked(*told: str | None) -> CustomMetadataLimit:
    """Ask brokers that say so; ``None`` for one that refuses."""
    topics = InProcessClusterTopics({}, metadata_topic_id=UUID(int=1))
    topics.broker_settings = {
        number: None if value is None else {CUSTOM_METADATA_SETTING: value} for number, value in enumerate(told, 1)
    }
    return limit_of_brokers(topics)


@pytest.mark.parametrize(("told", "least"), [(("128", "128"), 128), (("256", "144"), 144), (("64", "256"), 64)])
def test_the_least_of_all_brokers_counts(told: tuple[str, ...], least: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert asked(*told) == CustomMetadataLimit(least, CUSTOM_METADATA_SETTING)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("told", "most", "whose"),
    [
        (("256", None), 128, "broker 2 does"),
        (("64", None, None), 64, "broker 2, 3 does"),
        ((None,), 128, "broker 1 does"),
        ((), 128, "brokers do"),
    ],
)
def test_a_broker_that_does_not_tell_is_taken_for_one_with_kafkas_default(
    told: tuple[str | None, ...], most: int, whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    limit = asked(*told)
    assert limit == CustomMetadataLimit(most, f"Kafka's default, as {whose} {NOT_TOLD}")
    assert f"{most} bytes of custom metadata are taken for the most" in caplog.text
