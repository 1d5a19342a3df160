# SPDX-License-Identifier: Apache-2.0
"""
What a Spark job needs where its task runs, looked at before anything is started.

Connection, master, spark-submit, Java, versions, Kafka connector: Spark itself says most of this late, and in the middle of
pages of something else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from zipfile import BadZipFile, ZipFile

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.features.retention.spark.executor.versions import release
from airflow_provider_rlmm.features.retention.spark.package import (
    OF_ITS_OWN,
    core_of,
    is_older_than_clients,
    kafka_connector_coordinates,
    pyspark_home,
    pyspark_version,
)

OLDEST_JAVA: Final = 17
JARS_VARIABLE: Final = "rlmm_spark_jars"
"""Airflow variable from which the DAG ``remote_log_retention`` takes the jars of Spark's Kafka connector."""

_MASTERS: Final = re.compile(r"local(\[[^\[\]]+\])?|local-cluster\[[^\[\]]+\]|yarn|(spark|k8s)://[^/\s].*")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')
_JAVA_ANSWERS_S: Final = 30
_CONNECTOR: Final = "spark-sql-kafka-0-10"
_CONNECTOR_CLASS: Final = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"
_VERSION: Final = r"[0-9]+\.[0-9]+\.[0-9]+"
_OF_A_JAR: Final = re.compile(rf"{_CONNECTOR}_[0-9.]+-({_VERSION}).*\.jar")
_OF_A_PACKAGE: Final = re.compile(rf"[^:,]+:{_CONNECTOR}_[0-9.]+:({_VERSION})?[^,]*")
_UNRESOLVED: Final = re.compile(r"(unresolved dependency|download failed): [^\]\n]+")


def require_spark_connection(conn_id: str) -> None:
    """
    Refuse a connection that does not exist: Airflow's hook would take YARN instead.

    :param conn_id: of the Spark connection.
    :raises ConfigurationError: naming it.
    """
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConfigurationError(
            f"connection {conn_id!r} does not exist: create it with type Spark and, as its host, the master, such as "
            "local[2] or spark://host:7077"
        ) from None


@dataclass(frozen=True, slots=True)
class SparkHere:
    """
    Spark as a task would start it.

    :param conn_id: of the Spark connection, for messages.
    :param master: where the job is to run.
    :param binary: name or path of ``spark-submit``.
    :param environment: variables of the process that is to be started.
    """

    conn_id: str
    master: str
    binary: str
    environment: Mapping[str, str]

    def require_usable(self) -> None:
        """
        Refuse a master that Spark does not know, and what lacks here to reach any.

        :raises ConfigurationError: naming what is missing, and where it is looked for.
        """
        if not _MASTERS.fullmatch(self.master):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: its master is {in_quotes(self.master)}; its host must be local, local[2], "
                "spark://host:7077, k8s://https://host:443 or yarn"
            )
        if shutil.which(self.binary, path=self.environment.get("PATH")) is None:
            raise ConfigurationError(
                f"{self.binary} is not found on the PATH of this task: add the bin folder of the Python environment that "
                "holds PySpark, or of a Spark installation, to the PATH of the worker"
            )
        named = self.environment.get("SPARK_HOME")
        if named and self.home != Path(named):
            raise ConfigurationError(
                f"SPARK_HOME is {in_quotes(named)}, which has no folder jars: set it to the folder of a Spark installation, "
                "or unset it to take PySpark's own"
            )
        if self._has_own_script():
            return
        if self.master == "yarn" and not any(self.environment.get(n) for n in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")):
            raise ConfigurationError(
                f"connection {self.conn_id!r}: its master is yarn, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set: set "
                "one to the folder of the cluster's configuration, or name another master, such as local[2]"
            )
        self._require_java()

    @property
    def home(self) -> Path | None:
        """The folder of the Spark that would be started, as its own scripts find it; ``None`` where it is not seen."""
        found = shutil.which(self.binary, path=self.environment.get("PATH"))
        pyspark = pyspark_home()
        homes = [
            *([Path(self.environment["SPARK_HOME"])] if self.environment.get("SPARK_HOME") else []),
            *([Path(found).resolve().parents[1]] if found else []),
            *([pyspark] if pyspark else []),
        ]
        return next((home for home in homes if (home / "jars").is_dir()), None)

    def _has_own_script(self) -> bool:
        """Tell whether Spark sources a script first, which may set what is missed here."""
        configuration = self._configuration()
        return configuration is not None and (configuration / "spark-env.sh").exists()

    def _configuration(self) -> Path | None:
        home, folder = self.home, self.environment.get("SPARK_CONF_DIR")
        return Path(folder) if folder else home / "conf" if home else None

    def defaults(self) -> Mapping[str, str]:
        """Return the properties of Spark's own file, ``spark-defaults.conf``; none where it has none, or cannot be read."""
        import javaproperties

        configuration = self._configuration()
        try:
            with (configuration or Path()).joinpath("spark-defaults.conf").open(encoding="utf-8") as file:
                return {} if configuration is None else javaproperties.load(file)
        except (OSError, ValueError):
            return {}

    def _require_java(self) -> None:
        needed = f"Spark needs Java {OLDEST_JAVA} or newer"
        home = self.environment.get("JAVA_HOME")
        java = shutil.which(f"{home}/bin/java" if home else "java", path=self.environment.get("PATH"))
        if java is None:
            where = (
                f"JAVA_HOME is {in_quotes(home)}, which has no bin/java"
                if home
                else "neither JAVA_HOME nor PATH has one"
            )
            raise ConfigurationError(f"{needed}, and {where}: install it on the worker and set JAVA_HOME to its folder")
        try:
            done = subprocess.run(
                [java, "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_JAVA_ANSWERS_S,
                env=dict(self.environment),
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            raise ConfigurationError(
                f"{needed}, and {java} -version fails ({type(e).__name__}): install it anew"
            ) from None
        found = _JAVA_VERSION.search(done.stderr + done.stdout)
        if found is None or int(found[1]) < OLDEST_JAVA:
            which = f"Java {found[1]}" if found else f"no Java that tells its version (exit status {done.returncode})"
            raise ConfigurationError(f"{needed}, and {java} is {which}: set JAVA_HOME to the folder of a newer one")

    def require_one_version(self) -> None:
        """
        Refuse a Spark of another version than PySpark's: the one starts the job, the other says what it is made of.

        :raises ConfigurationError: naming both versions.
        """
        home, pyspark = self.home, release(pyspark_version())
        core = core_of(home)
        if core is None or core.version == pyspark:
            return
        advice = (
            f"or install pyspark and pyspark-client {core.version}"
            if not is_older_than_clients(core.version)
            else f"for there is no pyspark-client {core.version}; {OF_ITS_OWN}"
        )
        raise ConfigurationError(
            f"{home} is Spark {core.version}, and PySpark {pyspark} is installed: set SPARK_HOME to a Spark {pyspark}, unset "
            f"it to take PySpark's own, {advice}"
        )

    @property
    def connector(self) -> str:
        """Maven coordinates of the Kafka connector that fits."""
        return kafka_connector_coordinates(self.home)

    def has_connector(self, jars: str, packages: str) -> bool:
        """
        Tell whether Spark's Kafka connector is given, or lies in Spark's own folder; if not, it is to be fetched.

        :param jars: comma-separated paths, patterns and URIs; empty for none.
        :param packages: comma-separated Maven coordinates; empty for none.
        :raises ConfigurationError: if a local jar does not exist, the connector is of another version than PySpark, or jars
            are given and none of them holds it.
        """
        named = [found for part in packages.split(",") if (found := _OF_A_PACKAGE.fullmatch(part.strip()))]
        for found in named:
            self._require_version("packages", found[0], found[1])
        paths, remote = self._jars_of(jars)
        for path in paths:
            if by_name := _OF_A_JAR.fullmatch(path.name):
                self._require_version("jars", path.name, by_name[1])
        if named or remote or any(map(_holds_connector, paths)):
            return True
        for found in filter(None, map(_OF_A_JAR.fullmatch, _names(self.home))):
            self._require_version(f"{self.home}/jars", found[0], found[1])
            return True
        if paths:
            raise ConfigurationError(
                f"jars {in_quotes(jars)} do not hold Spark's Kafka connector: add the jars of "
                f"{self.connector} and of what it needs, or leave jars (Airflow variable {JARS_VARIABLE}) empty to have them "
                "fetched"
            )
        return False

    def _jars_of(self, jars: str) -> tuple[list[Path], list[str]]:
        """Return the local jars of a list, all of them there, and those that are elsewhere."""
        local: list[Path] = []
        remote: list[str] = []
        for jar in filter(None, (part.strip() for part in jars.split(","))):
            parts = urlsplit(jar)
            if parts.scheme not in ("", "file"):
                remote.append(jar)
                continue
            path = Path(unquote(parts.path) if parts.scheme else jar).absolute()
            found = sorted(Path("/").glob(str(path)[1:])) if any(c in jar for c in "*?[") else [path]
            if not found or not all(one.is_file() for one in found):
                raise ConfigurationError(
                    f"jars names {in_quotes(jar)}, and there is no such file on this machine: it must lie on every worker; "
                    f"correct it, or leave jars (Airflow variable {JARS_VARIABLE}) empty to have {self.connector} fetched"
                )
            local += found
        return local, remote

    def _require_version(self, where: str, name: str, version: str | None) -> None:
        wanted = release(pyspark_version())
        if version != wanted:
            raise ConfigurationError(
                f"{where}: {name} is of another version than PySpark {wanted}, and both must be of one: take {self.connector}"
            )


def why_not_fetched(output: str) -> str | None:
    """
    Return what Spark says of a connector that no repository gave, in one line; ``None`` where it says nothing of it.

    :param output: the end of Spark's output, in which that stands among all that was tried.
    """
    found = _UNRESOLVED.search(output)
    if found is None:
        return None
    return (
        f"Spark's packages cannot be fetched ({found[0]}): put the jars of {kafka_connector_coordinates()} and of what it "
        f"needs on this machine and their paths into the Airflow variable {JARS_VARIABLE} (argument jars), or name a Maven "
        "repository that has them in the argument repositories"
    )


def _holds_connector(jar: Path) -> bool:
    try:
        with ZipFile(jar) as archive:
            return _CONNECTOR_CLASS in archive.namelist()
    except (BadZipFile, OSError) as e:
        raise ConfigurationError(
            f"jars names {in_quotes(str(jar))}, which is no jar that can be read ({type(e).__name__}): copy it anew"
        ) from None


def _names(home: Path | None) -> Iterable[str]:
    return () if home is None else sorted(path.name for path in (home / "jars").iterdir())
