# SPDX-License-Identifier: Apache-2.0
"""
Airflow's local settings of a :class:`~dev.airflow.LocalAirflow`: import once what each task imports.

A task is a fork of a worker, which is a fork of the scheduler, and a DAG file is parsed in a fork of the DAG processor. Most
of what such a process did was to import the same hundreds of modules.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from contextlib import suppress

__all__: list[str] = []
"""Airflow takes what is here for settings of its own."""

IN_TASKS = (
    # PyArrow imports it with its first array, if it is there.
    "pandas",
    "confluent_kafka.admin",
    "obstore.store",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "airflow.providers.apache.kafka.hooks.base",
    "airflow.providers.standard.operators.hitl",
    "airflow_provider_rlmm.core.log.kafka",
    "airflow_provider_rlmm.core.records.columnar",
    "airflow_provider_rlmm.core.records.fold",
    "airflow_provider_rlmm.core.storage",
    "airflow_provider_rlmm.core.world",
    "airflow_provider_rlmm.dag_factory",
    "airflow_provider_rlmm.features.cleanup",
    "airflow_provider_rlmm.features.survey",
    "airflow_provider_rlmm.operators",
)
"""Of this package's own packages all modules, too."""

_imported: list[str] = []


def _import_ahead() -> None:
    # Not before the first fork: these settings are read while Airflow itself is being imported.
    if _imported:
        return
    _imported.extend(IN_TASKS)
    for name in IN_TASKS:
        # Where one is missing a task does without it, or says so.
        with suppress(ImportError):
            imported = importlib.import_module(name)
            inner = getattr(imported, "__path__", ()) if name.startswith("airflow_provider_rlmm") else ()
            for module in pkgutil.iter_modules(inner, f"{name}."):
                importlib.import_module(module.name)


os.register_at_fork(before=_import_ahead)
