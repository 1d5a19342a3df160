# SPDX-License-Identifier: Apache-2.0
"""What most tests import and no mutation touches; nothing of the package may be among it."""

from __future__ import annotations

import importlib
import os

import tests.airflow_home  # noqa: F401  # before Airflow

LIBRARIES = (
    "airflow.models", "airflow.providers.apache.kafka.hooks.base", "airflow.sdk", "confluent_kafka.admin",
    "fastapi.testclient", "httpx", "hypothesis.strategies", "jinja2", "numpy", "obstore.store", "pyarrow.compute",
    "pyarrow.parquet", "pytest",
)  # fmt: skip

os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
for library in LIBRARIES:
    importlib.import_module(library)
