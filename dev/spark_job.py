# SPDX-License-Identifier: Apache-2.0
"""The Spark job's script as a module: it lies in a folder that is no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

JOB = Path(__file__).parents[1] / "spark_jobs" / "segment_retention.py"


def load_job() -> ModuleType:
    """Return the script as a module; nothing is run."""
    spec = importlib.util.spec_from_file_location("segment_retention_job", JOB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
