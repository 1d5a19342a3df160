# SPDX-License-Identifier: Apache-2.0
"""What is installed beside this package: its extras bring Airflow and Spark, and the core works without."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

AIRFLOW_RANGE = ((3, 1), (3, 4))
"""Versions of Airflow that the tests run on: from the first, inclusive, to the second, exclusive; as the extra says."""

WITHOUT_SPARK = (
    "remote_log_retention and its operators need Spark: pip install 'airflow-provider-rlmm[airflow,spark]'; "
    "remote_log_cleaner works without"
)


def require_airflow() -> None:
    """
    Refuse to load what is made for Airflow where there is none, or another than the tests have seen.

    :raises ModuleNotFoundError: naming the extra.
    :raises RuntimeError: naming both versions, as Airflow's own providers do.
    """
    if find_spec("airflow") is None:
        raise ModuleNotFoundError(
            "hooks, operators and pages of airflow-provider-rlmm need Airflow: pip install 'airflow-provider-rlmm[airflow]'",
            name="airflow",
        )
    try:
        installed = version("apache-airflow-core")
    except PackageNotFoundError:
        # The Task SDK alone, as some workers have it.
        return
    lowest, above = AIRFLOW_RANGE
    found = re.match(r"(\d+)\.(\d+)", installed)
    if found is None or not lowest <= (int(found[1]), int(found[2])) < above:
        tested = f">={lowest[0]}.{lowest[1]},<{above[0]}.{above[1]}"
        raise RuntimeError(
            f"airflow-provider-rlmm works with Apache Airflow {tested}, and {installed} is installed: "
            "take the one or the other in another version"
        )
