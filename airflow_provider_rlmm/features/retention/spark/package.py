# SPDX-License-Identifier: Apache-2.0
"""
What a Spark job of this package needs beside its driver script: the Python code for the executors, and the connector.

The executors' Python has pyspark, pyarrow and numpy, obstore where anything lies in an object store, and for the records of
remote logs google-crc32c. Everything else that the jobs call is pure Python and travels as one small zip, so this package's
wheel need not be installed there.
"""

from __future__ import annotations

import ast
import os
import re
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import airflow_provider_rlmm
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.retention.spark.executor.versions import connector_coordinates

PY_FILES_NAME = "airflow_provider_rlmm.zip"

_PACKAGE = airflow_provider_rlmm.__name__
_PACKAGE_ROOT = Path(airflow_provider_rlmm.__file__).parent
_ENTRIES = (
    # what the drivers import where the package is not installed
    "airflow_provider_rlmm.core.world.cluster_state",
    "airflow_provider_rlmm.features.retention.record_ages",
    "airflow_provider_rlmm.features.retention.rules",
    "airflow_provider_rlmm.features.retention.spark.cluster",
    "airflow_provider_rlmm.features.retention.spark.frames",
    "airflow_provider_rlmm.features.retention.spark.generations",
    "airflow_provider_rlmm.features.retention.spark.job_report",
    "airflow_provider_rlmm.features.retention.spark.leaders_again",
    "airflow_provider_rlmm.features.retention.spark.log_refusals",
    "airflow_provider_rlmm.features.retention.spark.orphans",
    "airflow_provider_rlmm.features.retention.spark.package",
    "airflow_provider_rlmm.features.retention.spark.plan",
    "airflow_provider_rlmm.features.retention.spark.source",
    "airflow_provider_rlmm.features.retention.spark.what_if_document",
    # what the tasks of the export and of the DataFrame of records import
    "airflow_provider_rlmm.features.reading.exporting",
)
"""Modules that are packed with all that they import."""

OF_ITS_OWN = (
    "a cluster's Spark 3.5 takes the job by its own spark-submit, without Airflow (docs/how-to/spark-submit.md)"
)

_FIRST_WITH_CLIENT = 4
_SCALA_OF_SPARK_4 = "2.13"
_CORE = re.compile(r"spark-core_([0-9]+\.[0-9]+)-([0-9]+\.[0-9]+\.[0-9]+)", re.ASCII)

# The oldest time that a zip can hold: the same sources give the same bytes, wherever and whenever they are packed.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def require_pyspark() -> None:
    """
    Refuse an environment in which no Spark job can work, before anything of Spark is started.

    Airflow's Spark provider asks for ``pyspark-client``, which writes the same files as ``pyspark``: where their versions
    differ, each has overwritten some of the other's. There is none of Spark 3.

    :raises ConfigurationError: if PySpark is missing, older than 4.0, or there in two versions.
    """
    pyspark, client = _version_of("pyspark"), _version_of("pyspark-client")
    if pyspark is None:
        raise ConfigurationError(
            "PySpark is not installed where this task runs: pip install 'airflow-provider-rlmm[spark]'"
        )
    if is_older_than_clients(pyspark):
        raise ConfigurationError(
            f"pyspark {pyspark} is installed beside Airflow's Spark provider, whose pyspark-client is of Spark 4.0 or newer "
            f"and writes the same files: pip install --upgrade 'airflow-provider-rlmm[spark]'; {OF_ITS_OWN}"
        )
    if client not in (None, pyspark):
        raise ConfigurationError(
            f"pyspark {pyspark} and pyspark-client {client} are installed and write the same files, so no Spark job works: "
            f"pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}"
        )


def is_older_than_clients(version: str) -> bool:
    """
    Tell whether a version of Spark has no ``pyspark-client``.

    :param version: of Spark.
    """
    return int(version.partition(".")[0]) < _FIRST_WITH_CLIENT


def _version_of(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def kafka_connector_coordinates(home: Path | None = None) -> str:
    """
    Return the Maven coordinates of Spark's Kafka connector for the installed PySpark, as ``--packages`` takes them.

    Both must be of one version, and the connector is built for the Scala of the driver's own jars.

    :param home: folder of the Spark that runs the driver, ``None`` for PySpark's own.
    """
    core = core_of(pyspark_home() if home is None else home)
    scala = _SCALA_OF_SPARK_4 if core is None else core.scala
    return connector_coordinates(scala, pyspark_version())


@dataclass(frozen=True, slots=True)
class SparkCore:
    """What the name of a Spark's core tells."""

    scala: str  # two numbers
    version: str  # three numbers


def core_of(home: Path | None) -> SparkCore | None:
    """
    Return what a Spark is, by its folder of jars; ``None`` where that holds no core.

    :param home: folder of the Spark, ``None`` where it is not seen.
    """
    names = () if home is None else (path.name for path in sorted((home / "jars").glob("spark-core_*.jar")))
    return next((SparkCore(found[1], found[2]) for found in map(_CORE.match, names) if found), None)


def pyspark_home() -> Path | None:
    """Return the folder of the installed PySpark, which may hold a Spark; it is not imported."""
    found = find_spec("pyspark")
    return next(map(Path, (found and found.submodule_search_locations) or ()), None)


def pyspark_version() -> str:
    """Return the version of the installed PySpark, which :func:`require_pyspark` has found."""
    return version("pyspark")


def build_py_files(target_dir: Path) -> Path:
    """
    Write the zip for ``spark-submit --py-files`` and return its path.

    The same sources always give the same bytes. The file appears whole or not at all, so several tasks may build it into
    one folder at a time.

    :param target_dir: folder for the zip; made if it does not exist.
    """
    target_dir.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target_dir, suffix=".zip.tmp")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for source in _shipped_files():
                name = f"{_PACKAGE_ROOT.name}/{source.relative_to(_PACKAGE_ROOT).as_posix()}"
                entry = zipfile.ZipInfo(name, _ZIP_EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, source.read_bytes())
        target = target_dir / PY_FILES_NAME
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def _shipped_files() -> list[Path]:
    """Return the files of the entries and of all that they import, lazily or for type checkers, too."""
    files: dict[str, Path] = {}
    todo = list(_ENTRIES)
    while todo:
        module = todo.pop()
        if module not in files and (file := _file_of(module)) is not None:
            files[module] = file
            todo.extend(_imports_of(file))
            todo.append(module.rpartition(".")[0])
    return sorted(files.values())


def _file_of(module: str) -> Path | None:
    path = _PACKAGE_ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if module and file.is_file()), None)


@cache
def _imports_of(file: Path) -> list[str]:
    """Return what a file names in its imports; parsing all files takes half a second, and an installed one is not edited."""
    found = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _PACKAGE:
            # A name may be a module of its own.
            found += [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
    return found
