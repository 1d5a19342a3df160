# SPDX-License-Identifier: Apache-2.0
"""An Airflow that is told to send its metrics by OpenTelemetry sends those of this package, too; with their tags."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.resources import dags_folder
from dev.airflow import LocalAirflow
from dev.broker import LocalKafka
from tests.otlp_receiver import OtlpReceiver
from tests.system.receivers import awaited

pytestmark = [pytest.mark.system, pytest.mark.integration, pytest.mark.timeout(1800), pytest.mark.rare]

DOCTOR = "remote_log_doctor"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


@pytest.fixture
def airflow(tmp_path: Path, receiver: OtlpReceiver) -> Iterator[LocalAirflow]:
    """One of its own: an Airflow has one receiver of metrics."""
    (tmp_path / "dags").mkdir()
    shutil.copy(Path(dags_folder()) / f"{DOCTOR}.py", tmp_path / "dags")
    env = {
        "AIRFLOW__RLMM__WORK_URI": str(tmp_path / "work"),
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    with LocalAirflow(tmp_path / "airflow", dags_folder=tmp_path / "dags", connections={}, env=env) as running:
        yield running


def test_a_run_is_told_with_its_tags(airflow: LocalAirflow, receiver: OtlpReceiver, broker: LocalKafka) -> None:
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    airflow.add_connection("kafka_default", {"conn_type": "kafka", "extra": kafka})
    rlmm: dict[str, Any] = {"storage_uri": broker.remote_dir.as_uri()}
    airflow.add_connection("rlmm_default", {"conn_type": "rlmm", "extra": rlmm})
    run_id = airflow.trigger(DOCTOR)
    airflow.wait(DOCTOR, run_id, timeout=300)
    surveyed, examined = (airflow.xcom(DOCTOR, run_id, task) for task in ("survey", "doctor"))
    cluster = {"connection": "rlmm_default", "cluster_id": broker.cluster_id}
    run = cluster | {"kind": "doctor"}

    def told() -> bool:
        return None not in (
            receiver.value("airflow.rlmm.stored_bytes", **cluster),
            receiver.value("airflow.rlmm.run_succeeded", **run),
        )

    assert awaited(told)
    assert receiver.value("airflow.rlmm.stored_bytes", **cluster) == surveyed["stored_bytes"]
    assert receiver.value("airflow.rlmm.doctor_critical", **cluster) == examined["critical"]
    assert receiver.value("airflow.rlmm.step_seconds", **run, step="doctor") is not None
