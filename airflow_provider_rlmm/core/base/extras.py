# SPDX-License-Identifier: Apache-2.0
"""What is installed beside this package: its extras bring Airflow and Spark, and the core works without."""

from __future__ import annotations

import re
import warnings
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

AIRFLOW_RANGE = ((3, 1), (4, 0))
"""Versions of Airflow that are loaded: from the first, inclusive, to the second, exclusive; as the extra says."""

AIRFLOW_TESTED_BELOW = (3, 4)
"""The tests run on those of the range that are below this one. A later one is loaded, and a warning says so."""

WITHOUT_SPARK = (
    "remote_log_retention and its operators need Spark: pip install 'airflow-provider-rlmm[airflow,spark]'; "
    "remote_log_cleaner works without"
)


def require_airflow() -> None:
    """
    Refuse to load what is made for Airflow where there is none, or one of another range.

    A later minor version than the tests have seen is loaded: Airflow's own providers name a lower bound only, and a user who
    updates Airflow must not lose every DAG by it.

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
    parsed = re.match(r"(\d+)\.(\d+)", installed)
    found = (int(parsed[1]), int(parsed[2])) if parsed else None
    if found is None or not lowest <= found < above:
        raise RuntimeError(
            f"airflow-provider-rlmm works with Apache Airflow >={_dotted(lowest)},<{_dotted(above)}, and {installed} is "
            "installed: install another version of one of them"
        )
    if found >= AIRFLOW_TESTED_BELOW:
        _warn_of_untested(installed)


@cache
def _warn_of_untested(installed: str) -> None:
    """Warn once in a process: each package of Airflow's face asks for Airflow when it is imported."""
    tested = f">={_dotted(AIRFLOW_RANGE[0])},<{_dotted(AIRFLOW_TESTED_BELOW)}"
    warnings.warn(
        f"airflow-provider-rlmm was tested with Apache Airflow {tested}, and {installed} is installed: look for a later "
        "version of this package, and try a dry run first",
        UserWarning,
        stacklevel=3,
    )


def _dotted(bound: tuple[int, int]) -> str:
    return ".".join(map(str, bound))
