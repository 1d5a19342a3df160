# SPDX-License-Identifier: Apache-2.0
"""
A throw-away Airflow for tests in this process: its settings must stand before ``airflow`` is imported first.

Import it first thing in a conftest.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

HOME = tempfile.mkdtemp(prefix="rlmm-airflow-home-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

ENVIRONMENT = {
    "AIRFLOW_HOME": HOME,
    "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": f"{HOME}/dags",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}
os.environ |= ENVIRONMENT
