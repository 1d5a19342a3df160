# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  # fixtures are imported by their names
"""Every run asks whether brokers keep what it still needs of the metadata topic, and is red where they soon may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_rlmm.core.base.clock import DAY_MS
from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC
from tests.unit.airflow.operators.test_check_operator import allowed, check, cluster, plain_cluster  # noqa: F401
from tests.unit.airflow.operators.test_operators import (
    NOW,
    Cluster,
    kinds_in,
    run_all,
    work,  # noqa: F401  # a fixture
)


def test_the_check_says_how_long_metadata_that_are_needed_are_kept(cluster: Cluster, work: Path) -> None:
    assert check(limits=NOW)["retention"].startswith("nothing that is still needed of the metadata topic is deleted")
    cluster.topics.settings[METADATA_TOPIC] = {"retention.ms": 40 * DAY_MS}
    assert "this is too soon from " in check(limits=NOW)["retention"]
    cluster.topics.settings[METADATA_TOPIC] = {"retention.ms": 29 * DAY_MS}
    assert "that is too soon; set retention.ms=-1 on __remote_log_metadata" in check(limits=NOW)["retention"]
    cluster.topics.denied.add(METADATA_TOPIC)
    assert check(limits=NOW)["retention"].startswith(
        "cannot tell whether the metadata topic keeps what is still needed: describing the configuration"
    )


def test_a_run_below_too_short_a_retention_cleans_and_is_red(cluster: Cluster, work: Path) -> None:
    """To stop it would keep the very segments whose records are about to go."""
    cluster.topics.settings[METADATA_TOPIC] = {"retention.ms": 29 * DAY_MS}
    with pytest.raises(AirflowFailException, match=r"1 thing needs a person\. .*OTHER topic __remote_log_metadata"):
        run_all()
    assert not any("gone" in key for key in cluster.storage.keys)
    assert kinds_in(work) == ["OTHER"]
    (problem,) = json.loads((work / "dag.run" / "report.json").read_text())["needs_person"]
    assert problem["what_to_do"] == "set retention.ms=-1 on __remote_log_metadata"
    assert "the oldest record that is still needed is offset" in problem["why"]


@pytest.mark.parametrize("days", [-1, 31])
def test_a_run_below_a_retention_that_is_long_enough_is_green(cluster: Cluster, work: Path, days: int) -> None:
    cluster.topics.settings[METADATA_TOPIC] = {"retention.ms": days * DAY_MS if days > 0 else -1}
    run_all()
    assert kinds_in(work) == []
