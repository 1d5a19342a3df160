# SPDX-License-Identifier: Apache-2.0
"""
The tasks of a cleanup import no pandas: pyarrow would, which takes more CPU time than all else that an idle task does.

Nothing is hidden for it, as the process is Airflow's. Where this fails, an audit hook on ``import`` says who asked;
:mod:`airflow_provider_rlmm.core.base.arrow_arrays` and ``arrow_groups`` have what does not ask.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TASKS = {
    "test_operators.py": (
        "test_the_four_steps_delete_what_is_gone_and_nothing_else",
        "test_a_task_reads_its_connection_once_and_the_hold_anew",
    ),
    "test_leader_retention_operator.py": (),
}
"""Files of tests that run tasks, and which of the tests, all of them where none is named."""


@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.parametrize("name", TASKS)
def test_tasks_import_no_pandas_and_it_works_beside_them(name: str) -> None:
    tests = [f"{HERE / name}::{test}" for test in TASKS[name]] or [str(HERE / name)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.without_pandas", *tests]
    done = subprocess.run(command, check=False, cwd=HERE.parents[3], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
