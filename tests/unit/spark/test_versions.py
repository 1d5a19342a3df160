# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.spark.executor.versions import differences, require_one_pyspark, software


def test_what_differs_is_one_line() -> None:
    here = software()
    assert set(here) == {"Python", "numpy", "pyarrow", "pyspark"}
    assert differences(here, here) == ""
    other = {**here, "pyarrow": "1.0", "numpy": "0.1"}
    assert differences(other, here) == f"numpy {here['numpy']} (driver: 0.1), pyarrow {here['pyarrow']} (driver: 1.0)"
    assert differences({"Python": "3"}, {}) == "Python is missing (driver: 3)"


def test_another_pyspark_is_refused_and_another_pyarrow_is_not() -> None:
    here = software()
    require_one_pyspark({**here, "pyarrow": "1.0"})
    with pytest.raises(
        ConfigurationError, match=rf"pyspark {here['pyspark']} \(driver: 4.0.99\); give executors and driver one"
    ):
        require_one_pyspark({**here, "pyspark": "4.0.99"})
