# SPDX-License-Identifier: Apache-2.0
"""A small Spark inside the Airflow of demo and tests: what its tasks need in their environment."""

from __future__ import annotations

from pathlib import Path

from dev import ensure_spark_jars

SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for JVMs of short lives: most of a short job's time is spent compiling it."""

_DEFAULTS = f"""\
spark.ui.enabled               false
spark.driver.extraJavaOptions  {SHORT_LIFE}
"""


def local_spark_env(folder: Path) -> dict[str, str]:
    """
    Environment of an Airflow whose tasks start Spark jobs of this package on this machine.

    :param folder: for Spark's configuration; created if missing.
    :return: variables, among them the Airflow variable ``rlmm_spark_jars``: no repository is asked when the job starts.
    :raises DevEnvironmentError: if the connector's jars cannot be fetched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spark-defaults.conf").write_text(_DEFAULTS)
    return {
        "AIRFLOW_VAR_RLMM_SPARK_JARS": ",".join(str(jar) for jar in sorted(ensure_spark_jars().glob("*.jar"))),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
