# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_rlmm.features.retention.spark import plan
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from dev.spark import SHORT_LIFE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            # PySpark leaves the sockets to its JVM to the garbage collector, which says so.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collect_sockets_here() -> Iterator[None]:
    """Let PySpark's sockets be collected under its own tests' filter, not in the middle of another test."""
    yield
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _plans_are_written_by_tasks() -> Iterator[None]:
    """Let plans of a few rows be written as large ones are; of jobs that are submitted the driver writes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SMALL_BYTES", -1)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small session for all tests; its workers get the package as a cluster's executors do, from the zip."""
    from pyspark.sql import SparkSession

    folder: Path = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Without the working directory on the workers' path the zip is all they have of the package.
        patch.setenv("PYTHONSAFEPATH", "1")
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("rlmm-tests")
            .config("spark.driver.extraJavaOptions", SHORT_LIFE)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.submit.pyFiles", str(build_py_files(folder)))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
