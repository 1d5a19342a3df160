# SPDX-License-Identifier: Apache-2.0
"""
What a Spark job of this package needs beside its driver script: the Python code for the executors, and the connector.

The executors' Python has pyspark, pyarrow and numpy, and for the export of remote logs obstore and google-crc32c. Everything
else that the jobs call is pure Python and travels as one small zip, so this package's wheel need not be installed there.
"""

from __future__ import annotations

import ast
import os
import tempfile
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import airflow_provider_rlmm
from airflow_provider_rlmm.core.base.errors import ConfigurationError

PY_FILES_NAME = "airflow_provider_rlmm.zip"

_PACKAGE = airflow_provider_rlmm.__name__
_PACKAGE_ROOT = Path(airflow_provider_rlmm.__file__).parent
_ENTRIES = (
    # what the drivers import where the package is not installed
    "airflow_provider_rlmm.core.world.cluster_state",
    "airflow_provider_rlmm.features.retention.rules",
    "airflow_provider_rlmm.features.retention.spark.cluster",
    "airflow_provider_rlmm.features.retention.spark.generations",
    "airflow_provider_rlmm.features.retention.spark.job_report",
    "airflow_provider_rlmm.features.retention.spark.orphans",
    "airflow_provider_rlmm.features.retention.spark.package",
    "airflow_provider_rlmm.features.retention.spark.plan",
    "airflow_provider_rlmm.features.retention.spark.source",
    "airflow_provider_rlmm.features.retention.spark.what_if",
    # what the tasks of the export import
    "airflow_provider_rlmm.features.reading.exporting",
)
"""Modules that are packed with all that they import."""

# The oldest time that a zip can hold: the same sources give the same bytes, wherever and whenever they are packed.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def require_pyspark() -> None:
    """
    Refuse an environment in which no Spark job can work, before anything of Spark is started.

    Airflow's Spark provider asks for ``pyspark-client``, which writes the same files as ``pyspark``: where their versions
    differ, each has overwritten some of the other's.

    :raises ConfigurationError: if PySpark is missing, or there in two versions.
    """
    pyspark, client = _version_of("pyspark"), _version_of("pyspark-client")
    if pyspark is None:
        raise ConfigurationError(
            "PySpark is not installed where this task runs: pip install 'airflow-provider-rlmm[spark]'"
        )
    if client not in (None, pyspark):
        raise ConfigurationError(
            f"pyspark {pyspark} and pyspark-client {client} are installed and write the same files, so no Spark job works: "
            f"pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}"
        )


def _version_of(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def kafka_connector_coordinates() -> str:
    """
    Return the Maven coordinates of Spark's Kafka connector for the installed PySpark, as ``--packages`` takes them.

    Both must be of one version; PySpark 4 is built for Scala 2.13.
    """
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark_version()}"


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
    """Return what a file names in its imports; parsing all files takes half a second, and nobody edits an installed one."""
    found = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _PACKAGE:
            # A name may be a module of its own.
            found += [str(node.module), *(f"{node.module}.{name.name}" for name in node.names)]
    return found
