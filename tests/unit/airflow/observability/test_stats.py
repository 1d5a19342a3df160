# SPDX-License-Identifier: Apache-2.0
"""Metrics through Airflow's Stats: names with and without tags, and a failure that breaks nothing."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat import sdk

from airflow_provider_rlmm.observability.stats import send_metrics
from airflow_provider_rlmm.operators.history import keep_summary
from airflow_provider_rlmm.overview.run_metrics import metrics_of
from tests.otlp_receiver import OtlpReceiver
from tests.unit.overview.test_run_metrics import RUN


class Recorder:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, float, Any]] = []

    def gauge(self, stat: str, value: float, tags: Any = None) -> None:
        self.seen.append(("gauge", stat, value, tags))

    def incr(self, stat: str, count: int, tags: Any = None) -> None:
        self.seen.append(("incr", stat, count, tags))


@pytest.fixture
def stats(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(sdk, "Stats", recorder, raising=False)
    return recorder


def test_tags_tell_clusters_apart(stats: Recorder) -> None:
    send_metrics(RUN)
    of_cluster = {"connection": "rlmm_default", "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk"}
    assert ("gauge", "rlmm.stored_bytes", 500_000, of_cluster) in stats.seen
    of_step = {"connection": "rlmm_default", "kind": "cleaner", "step": "clean", "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk"}
    assert ("gauge", "rlmm.step_seconds", 3.0, of_step) in stats.seen
    assert ("incr", "rlmm.deleted_bytes_total", 12_000, of_cluster | {"kind": "cleaner"}) in stats.seen


@pytest.mark.parametrize(
    ("settings", "tagged"),
    [
        ({"STATSD_ON": "True"}, False),
        ({"STATSD_ON": "True", "STATSD_INFLUXDB_ENABLED": "True"}, True),
        ({"STATSD_ON": "True", "STATSD_DATADOG_ENABLED": "True"}, True),
        ({"STATSD_DATADOG_ENABLED": "True", "STATSD_DATADOG_METRICS_TAGS": "False"}, False),
        ({"OTEL_ON": "True"}, True),
    ],
)
def test_where_no_tags_are_sent_the_name_tells_clusters_apart(
    stats: Recorder, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], tagged: bool
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    send_metrics(replace(RUN, connection="rlmm.west,1"))
    names = {(stat, tags is not None) for _, stat, _, tags in stats.seen}
    if tagged:
        assert ("rlmm.step_seconds", True) in names
    else:
        assert ("rlmm.step_seconds.rlmm_west_1.cleaner.clean", False) in names
        assert ("rlmm.stored_bytes.rlmm_west_1", False) in names
    assert {was_tagged for _, was_tagged in names} == {tagged}


def test_a_failure_is_a_line_in_the_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def gauge(self, stat: str, value: float, tags: Any = None) -> None:
            raise OSError("no route to host")

    monkeypatch.setattr(sdk, "Stats", Broken(), raising=False)
    with caplog.at_level(logging.WARNING):
        send_metrics(RUN)
    assert "were not sent" in caplog.text


def green(stats: Recorder) -> list[float]:
    return [value for _, stat, value, _ in stats.seen if stat == "rlmm.run_succeeded"]


def test_a_run_that_keeps_its_summary_tells_its_numbers(
    stats: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    assert keep_summary(lambda: RUN) == ""
    assert green(stats) == [1]


def test_a_run_whose_summary_is_not_kept_is_told_as_red(
    stats: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").write_text("no folder")
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    assert "is not kept" in keep_summary(lambda: RUN)
    assert green(stats) == [0]


SEND = """
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from airflow_provider_rlmm.observability.stats import send_metrics
from tests.unit.overview.test_run_metrics import RUN

stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=conf.getboolean("metrics", "legacy_names_on"))
send_metrics(RUN)
"""


def test_opentelemetry_receives_them_with_their_tags(tmp_path: Path) -> None:
    """As a task's process has it: initialised as Airflow does it, flushed when the process ends."""
    with OtlpReceiver() as receiver:
        settings = {
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }
        subprocess.run([sys.executable, "-c", SEND], env=os.environ | settings, check=True, timeout=120)
    tags = {"connection": "rlmm_default", "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk"}
    assert receiver.value("airflow.rlmm.stored_bytes", **tags) == 500_000
    assert receiver.value("airflow.rlmm.step_seconds", **tags, kind="cleaner", step="clean") == 3
    assert receiver.value("airflow.rlmm.deleted_bytes_total", **tags, kind="cleaner") == 12_000
    assert {name for name, _ in receiver.values} == {f"airflow.rlmm.{metric.name}" for metric in metrics_of(RUN)}
