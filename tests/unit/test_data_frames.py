# SPDX-License-Identifier: Apache-2.0
"""What a DataFrame of records refuses before a broker, a store or Spark is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.data_frames import remote_log_records


def session_with(*missing: str) -> Any:
    """A session whose executors say what they lack."""
    answers = SimpleNamespace(map=lambda function: SimpleNamespace(collect=lambda: [*missing]))
    context = SimpleNamespace(defaultParallelism=2, parallelize=lambda *_: answers)
    return SimpleNamespace(_jvm=None, sparkContext=context)


def test_a_session_of_spark_connect_is_refused() -> None:
    session: Any = object()
    with pytest.raises(ConfigurationError, match="this is a Spark Connect session"):
        remote_log_records(session, "orders")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"start_offset": 7}, "an offset is one of a partition"),
        ({"end_offset": 0}, "an offset is one of a partition"),
        ({"start_offset": 7, "partitions": [0, 1]}, "an offset is one of a partition"),
        ({"start_offset": 7, "start_time": 1, "partitions": [0]}, "the start is given as an offset and as a time"),
        ({"partitions": []}, "partitions names none"),
        ({"start_time": "2026-01-01T00:00:00"}, "start_time .* has no zone"),
        ({"end_time": "yesterday"}, "end_time"),
        ({"isolation_level": "serializable"}, "isolation_level .*read_uncommitted or read_committed"),
        ({"bytes_per_second": 0}, "bytes_per_second .* above 0"),
        ({"piece_bytes": 0}, "piece_bytes .* above 0"),
    ],
)
def test_what_is_not_understood_is_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        remote_log_records(session_with(), "orders", **wanted)


def test_settings_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMM_CONFIG", "")
    monkeypatch.delenv("RLMM_BOOTSTRAP_SERVER", raising=False)
    with pytest.raises(ConfigurationError, match=r"unknown fields .*'allow_writes'"):
        remote_log_records(session_with(), "orders", {"allow_writes": "true"})
    with pytest.raises(ConfigurationError, match=r"the configuration file .*/nowhere\.toml' cannot be read"):
        remote_log_records(session_with(), "orders", {"config": "/nowhere.toml"})


def test_executors_that_cannot_read_are_refused_before_a_broker_is_asked() -> None:
    with pytest.raises(ConfigurationError, match="the executors' Python lacks obstore: install there"):
        remote_log_records(session_with("", "obstore", "obstore"), "orders")
    with pytest.raises(ConfigurationError, match=r"executors lack this package's code, .*\.addPyFile$"):
        remote_log_records(session_with("airflow_provider_rlmm.features.reading.pieces", "obstore"), "orders")
