# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import tests.airflow_home  # noqa: F401  # its import is what it is for
from airflow_provider_rlmm.core.log.kafka import cluster as kafka_cluster
from airflow_provider_rlmm.core.log.kafka.cluster import VerifiedCluster
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig
from airflow_provider_rlmm.core.log.kafka.listening import Listening
from tests.kill_switch import the_api_server_knows_no_switch, the_pages_know_no_switch  # noqa: F401  # fixtures
from tests.roots import the_work_folder_is_older_than_all_copies  # noqa: F401  # a fixture


@pytest.fixture(autouse=True)
def cluster_1_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker runs here: every address names cluster-1 and is its own advertised one."""

    def verify_cluster(
        config: KafkaClientConfig, *, request_timeout_s: float, listening: Listening | None
    ) -> VerifiedCluster:
        return VerifiedCluster("cluster-1", config, config.bootstrap_addresses, ())

    monkeypatch.setattr(kafka_cluster, "verify_cluster", verify_cluster)


@pytest.fixture(autouse=True)
def spark_submit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of this Python environment are on the PATH, also where nobody has activated it."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
