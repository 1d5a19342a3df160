# SPDX-License-Identifier: Apache-2.0
"""
Settings of this package in Airflow's configuration, section ``[rlmm]`` (environment: ``AIRFLOW__RLMM__…``).

They are read when asked for and not at import, so that importing this package never starts Airflow's configuration.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from airflow_provider_rlmm.errors import ConfigurationError

SECTION = "rlmm"

_ARTIFACT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def work_uri() -> str:
    """
    Return where plans and reports are written: ``[rlmm] work_uri``, by default the folder ``rlmm`` in AIRFLOW_HOME.

    :return: an absolute path or a URI of :mod:`pyarrow.fs`, without a slash at the end.
    """
    from airflow.sdk import conf

    configured: str = conf.get(SECTION, "work_uri", fallback="") or ""
    if configured:
        return configured.rstrip("/")
    home = Path(os.path.expandvars(os.environ.get("AIRFLOW_HOME", "~/airflow"))).expanduser()
    return str(home / "rlmm")


def artifact_uri(name: str) -> str:
    """
    Return where the documents of one plan or one report lie.

    :param name: letters, digits, dots, dashes and underscores, starting with a letter or a digit, at most 128: it is
        one path segment and can never walk.
    :raises ConfigurationError: for any other name.
    """
    if not _ARTIFACT_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:140]!r} cannot name a plan or a report: it must match {_ARTIFACT_NAME.pattern}"
        )
    return f"{work_uri()}/{name}"
