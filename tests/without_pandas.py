# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest: what its session runs imports no pandas, and pandas works in the same process afterwards."""

from __future__ import annotations

import sys

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look at the process before it ends."""
    assert session.testscollected, "nothing was run"
    assert "pandas" not in sys.modules, "pandas was imported: see tests/unit/airflow/operators/test_without_pandas.py"
    import pandas as pd
    import pyarrow as pa

    # Where pandas is hidden from pyarrow this null is lost.
    assert pa.array(pd.Series([1.0, None])).null_count == 1
    assert pa.table({"a": [1, None]}).to_pandas()["a"].isna().tolist() == [False, True]
