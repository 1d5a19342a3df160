# SPDX-License-Identifier: Apache-2.0
"""A throw-away Airflow for tests in this process: its settings must stand before ``airflow`` is imported first."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_HOME = tempfile.mkdtemp(prefix="rlmm-airflow-home-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

os.environ |= {
    "AIRFLOW_HOME": _HOME,
    "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": f"{_HOME}/dags",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
