# SPDX-License-Identifier: Apache-2.0
"""What the Python of a driver or an executor runs."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from importlib import import_module

from airflow_provider_rlmm.core.base.errors import ConfigurationError

_LIBRARIES = ("numpy", "pyarrow", "pyspark")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)


def release(version: str) -> str:
    """
    Return the numbers of a version, by which versions of Spark compare: a vendor's ``3.5.5-amzn-1`` is Spark 3.5.5.

    :param version: of Spark or one of its parts; it is returned as it is if it does not begin with three numbers.
    """
    found = _RELEASE.match(version)
    return version if found is None else found[0]


def connector_coordinates(scala: str, spark: str) -> str:
    """
    Return the Maven coordinates of Spark's Kafka connector, as ``--packages`` takes them; a vendor's Spark takes Apache's.

    :param scala: version of the Scala that the driver's jars are built for; two of its numbers count.
    :param spark: version of the driver's Spark.
    """
    return f"org.apache.spark:spark-sql-kafka-0-10_{'.'.join(scala.split('.')[:2])}:{release(spark)}"


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
    if release(driver["pyspark"]) != release(here["pyspark"]):
        raise ConfigurationError(
            f"the executors' Python has {differences(driver, here)}; give executors and driver one version of pyspark"
        )
