# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from dev.airflow import LocalAirflow, LocalAirflowError

pytestmark = pytest.mark.system


class Watched(LocalAirflow):
    """Remembers what ran when it was stopped."""

    stopped: list[psutil.Process]

    def stop(self, timeout: float = 20.0) -> None:
        self.stopped = self.processes()
        super().stop(timeout)


def test_it_listens_on_this_machine_only(local_airflow: LocalAirflow) -> None:
    processes = local_airflow.processes()
    listening = []
    for process in processes:
        # The process of a DAG file that is parsed lives for a moment.
        with suppress(psutil.NoSuchProcess):
            listening += [c.laddr for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert len(processes) >= 4
    assert {(address.ip, address.port) for address in listening} == {("127.0.0.1", local_airflow.port)}


@pytest.mark.scenarios
def test_a_start_that_fails_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = Watched(
        tmp_path / "home", dags_folder=tmp_path, connections={}, env={"AIRFLOW__CORE__EXECUTOR": "NoSuchExecutor"}
    )
    with pytest.raises(LocalAirflowError, match="NoSuchExecutor"), broken:
        pytest.fail("it must not start")
    assert broken.stopped
    assert [process for process in broken.stopped if process.is_running()] == []


def test_an_old_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "airflow.db").touch()
    with pytest.raises(LocalAirflowError, match="earlier Airflow"):
        LocalAirflow(tmp_path, dags_folder=tmp_path, connections={}).start()
