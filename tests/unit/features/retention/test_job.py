# SPDX-License-Identifier: Apache-2.0
"""The job's command line, and the one line that it ends with."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from dev.spark_job import JOB, load_job

PLAN = ["--bootstrap-servers", "a:1", "--cluster-state", "listing.json", "--output", "out", "--plan-id", "p"]
WHAT_IF = ["--what-if", "orders:retention.ms=5"]


@pytest.fixture(scope="module")
def job() -> ModuleType:
    return load_job()


def test_a_plan_needs_no_data_set_and_takes_other_settings_along(job: ModuleType) -> None:
    plain = job.parse_arguments(PLAN)
    assert (plain.data_set, plain.what_if) == (None, [])
    arguments = job.parse_arguments([*PLAN, *WHAT_IF, "--what-if", "retention.bytes=-1", "--price-micros", "23000"])
    assert [scenario.changes for scenario in arguments.what_if] == [{"retention_ms": 5}, {"retention_bytes": -1}]
    assert arguments.price_micros == 23_000


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (PLAN[2:], "required: --bootstrap-servers"),
        (PLAN[:4], "required: --output, --plan-id"),
        ([*PLAN, *WHAT_IF, "--what-if", "retention=1"], "--what-if: settings 'retention=1' must be of the form"),
        ([*PLAN, *WHAT_IF * 21], "--what-if: may be given 20 times"),
    ],
)
def test_what_is_missing_is_named(
    job: ModuleType, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        job.parse_arguments(argv)
    assert message in capsys.readouterr().err


def test_of_an_executors_error_the_last_line_is_told(job: ModuleType) -> None:
    message = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ValueError: not here
airflow_provider_rlmm.core.base.errors.ConfigurationError: the executors' Python has pyspark 4.0.1 (driver: 4.0.0)
"""
    assert job._one_line(message).endswith(
        "ConfigurationError: the executors' Python has pyspark 4.0.1 (driver: 4.0.0)"
    )
    assert job._one_line("[PATH_NOT_FOUND] Path does not exist: x\n at org.apache.spark") == (
        "[PATH_NOT_FOUND] Path does not exist: x"
    )
    assert job._one_line("") == ""


_CALL = "An error occurred while calling o1.collectToPython."
_DENIED = "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [t]"
_NO_STORE = 'java.io.IOException: No FileSystem for scheme "s3"'


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            f"{_CALL}\n: org.apache.spark.SparkException: Job aborted.\n\tat a.b\nCaused by: {_DENIED}\n\tat a.c",
            _DENIED,
        ),
        (f"{_CALL}\n: {_NO_STORE}\n\tat a.b\n", _NO_STORE),
        (_CALL, _CALL),
    ],
)
def test_what_java_says_is_told_and_not_which_call_it_was(job: ModuleType, message: str, said: str) -> None:
    assert job._one_line(message) == said


def test_the_zip_holds_all_that_the_job_imports(tmp_path: Path) -> None:
    """On a cluster it is all that the driver has of this package."""
    wanted = {
        node.module.replace(".", "/") + ".py"
        for node in ast.walk(ast.parse(JOB.read_bytes()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("airflow_provider_rlmm.")
    }
    assert len(wanted) > 10
    with ZipFile(build_py_files(tmp_path)) as archive:
        assert wanted <= set(archive.namelist())
