# SPDX-License-Identifier: Apache-2.0
"""One real Airflow for all system tests."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.airflow import LocalAirflow


@pytest.fixture(scope="session")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``[rlmm] work_uri`` of the Airflow under test."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="session")
def local_airflow(tmp_path_factory: pytest.TempPathFactory, work_dir: Path) -> Iterator[LocalAirflow]:
    with socket.socket() as nobody:
        # Bound and not listening: a port that certainly refuses.
        nobody.bind(("127.0.0.1", 0))
        broker = f"127.0.0.1:{nobody.getsockname()[1]}"
        connections = {
            "kafka_down": {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}},
            "rlmm_down": {
                "conn_type": "rlmm",
                "extra": {"kafka_conn_id": "kafka_down", "storage_uri": f"file://{work_dir}/missing"},
            },
        }
        with LocalAirflow(
            tmp_path_factory.mktemp("airflow"),
            dags_folder=Path(__file__).parent / "dags",
            connections={conn_id: json.dumps(document) for conn_id, document in connections.items()},
            env={"AIRFLOW__RLMM__WORK_URI": str(work_dir)},
        ) as airflow:
            yield airflow
