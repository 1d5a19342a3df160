# SPDX-License-Identifier: Apache-2.0
"""Where the DAG files and Spark jobs are: inside the package in a wheel, beside it in a checkout of the repository."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_rlmm.core.base.errors import ConfigurationError

__all__ = ["dags_folder"]

_PACKAGE = Path(__file__).resolve().parent


def dags_folder() -> str:
    """
    Return the folder of the DAG files that this package ships.

    :raises ConfigurationError: if it is missing, so that the package is not installed whole.
    """
    return str(_folder("dags"))


def spark_job_path(name: str) -> str:
    """
    Return the path of a Spark job's script.

    :param name: its file name, such as ``segment_retention.py``.
    :raises ConfigurationError: if there is no such job; names those that exist.
    """
    folder = _folder("spark_jobs")
    known = sorted(path.name for path in folder.glob("*.py"))
    if name not in known:
        raise ConfigurationError(f"there is no Spark job {name!r}; there are {known}")
    return str(folder / name)


def _folder(name: str) -> Path:
    # A folder of that name beside an installed package belongs to another package.
    in_checkout = (_PACKAGE.parent / "pyproject.toml").is_file()
    for root in (_PACKAGE, _PACKAGE.parent) if in_checkout else (_PACKAGE,):
        if (root / name).is_dir():
            return root / name
    raise ConfigurationError(f"the folder {name!r} of airflow-provider-rlmm is missing: install the package again")
