# SPDX-License-Identifier: Apache-2.0
"""
What a Spark job of this package needs beside its driver script: the Python code for the executors, and the connector.

The executors' Python has pyspark, pyarrow and numpy, and for the export of remote logs obstore and google-crc32c. Everything
else that the jobs call is pure Python and travels as one small zip, so this package's wheel need not be installed there.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from airflow_provider_rlmm.errors import ConfigurationError

PY_FILES_NAME = "airflow_provider_rlmm.zip"

_PACKAGE_ROOT = Path(__file__).resolve().parents[1]
_SHIPPED = (
    "__init__.py",
    "clock.py",
    "errors.py",
    "event_log",
    "file_systems.py",
    "local_writing.py",
    "metadata",
    "object_parts.py",
    "policy",
    "quoting.py",
    "redaction.py",
    "remote_log",
    "spark",
    "storage",
    "store_uris.py",
)
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
    files: list[Path] = []
    for name in _SHIPPED:
        path = _PACKAGE_ROOT / name
        files.extend(path.rglob("*.py") if path.is_dir() else [path])
    return sorted(files)
