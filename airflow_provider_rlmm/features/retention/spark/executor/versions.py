# SPDX-License-Identifier: Apache-2.0
"""What the Python of a driver or an executor runs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import import_module

from airflow_provider_rlmm.core.base.errors import ConfigurationError

_LIBRARIES = ("numpy", "pyarrow", "pyspark")


def software() -> dict[str, str]:
    """Return name → version of what the job depends on here."""
    found = {name: str(import_module(name).__version__) for name in _LIBRARIES}
    return {"Python": platform.python_version(), **found}


def differences(driver: Mapping[str, str], executor: Mapping[str, str]) -> str:
    """
    Say in one line what an executor runs that the driver does not; empty where nothing differs.

    :param driver: what :func:`software` returned there.
    :param executor: what it returned here.
    """
    return ", ".join(
        f"{name} {executor.get(name, 'is missing')} (driver: {version})"
        for name, version in driver.items()
        if executor.get(name) != version
    )


def require_one_pyspark(driver: Mapping[str, str]) -> None:
    """
    Refuse to work for a driver of another pyspark, be it in the last number: the two call each other's insides.

    :param driver: what :func:`software` returned there.
    :raises ConfigurationError: naming all that differs.
    """
    here = software()
    if driver["pyspark"] != here["pyspark"]:
        raise ConfigurationError(
            f"the executors' Python has {differences(driver, here)}; give executors and driver one version of pyspark"
        )
