# SPDX-License-Identifier: Apache-2.0
"""What a Spark job needs whose driver runs on the cluster: files where that finds them, and a command line."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final
from uuid import uuid4

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import local_path
from airflow_provider_rlmm.core.base.local_writing import telling_of_full_disks
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.redaction import secrets_of
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.resources import spark_job_path

LAST_WORD: Final = "no-plan.txt"
"""Where the job leaves why it made no plan: nobody hands the driver's log to Airflow."""

_PREFIX: Final = "job-"
_DRIVER: Final = "driver"
_DRIVER_ID: Final = re.compile(r"driver-[0-9]+-[0-9]+", re.ASCII)
_OF_THE_DRIVER: Final = ("spark.driver.memory", "spark.driver.cores")


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A folder below the work folder that driver and executors see as this task does."""

    path: Path  # the folder, of one try

    @classmethod
    def below(cls, artifact: str) -> JobFolder:
        """
        Make the folder of a try.

        :param artifact: URI of the folder of the run.
        :raises ConfigurationError: if the work folder is no path: a driver on another machine was not seen to read a store.
        """
        folder = _path_of(artifact)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{_PREFIX}{uuid4().hex}"
        path.mkdir()
        return cls(path)

    @classmethod
    def all_below(cls, artifact: str) -> list[JobFolder]:
        """
        Return the folders that earlier tries have left.

        :param artifact: URI of the folder of the run.
        :raises ConfigurationError: as :meth:`below`.
        """
        return [cls(path) for path in sorted(_path_of(artifact).glob(f"{_PREFIX}*")) if path.is_dir()]

    def note_driver(self, driver_id: str) -> None:
        """
        Remember which driver works here, for a later try.

        :param driver_id: what the master has called it.
        """
        with telling_of_full_disks(self.path / _DRIVER):
            (self.path / _DRIVER).write_text(driver_id)

    def driver(self) -> str | None:
        """Return the driver that was given this folder, ``None`` where none is known."""
        try:
            found = _DRIVER_ID.fullmatch((self.path / _DRIVER).read_text(errors="replace")[:100])
        except OSError:
            return None
        return found and found[0]

    def write_code(self) -> tuple[str, str]:
        """Write the job and the package's zip; return their paths."""
        job = self.path / "segment_retention.py"
        shutil.copyfile(spark_job_path(job.name), job)
        return str(job), str(build_py_files(self.path))

    def hand_over(self, hook: RemoteLogMetadataHook, named_file: str | None) -> str:
        """
        Return the path of the client properties on the driver's machine.

        :param hook: of the Kafka connection.
        :param named_file: a file there that somebody has put into place, ``None`` for none.
        :raises ConfigurationError: if the connection holds secrets and no file is named: a secret is never written here.
        """
        if named_file is not None:
            if not PurePosixPath(named_file).is_absolute():
                raise ConfigurationError(
                    f"kafka_properties_file is {in_quotes(named_file)}: give an absolute path on the machines of the Spark "
                    "cluster"
                )
            return named_file
        if secrets_of(hook.get_client_config().properties):
            raise ConfigurationError(
                "the Kafka connection holds secrets, and in cluster mode they are not handed over: put a Java properties "
                "file with the client's settings on every machine of the Spark cluster, readable by Spark's user only, and "
                "name it in kafka_properties_file"
            )
        path = self.path / "client.properties"
        with telling_of_full_disks(path):
            path.write_text(hook.java_client_properties())
        return str(path)

    def last_word(self) -> str | None:
        """Return why the job made no plan, in its own words; ``None`` where it left none."""
        try:
            return (self.path / LAST_WORD).read_text(encoding="utf-8", errors="replace")[:4_096].strip() or None
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the folder; what cannot be removed goes with the folder of the run."""
        shutil.rmtree(self.path, ignore_errors=True)


def _path_of(artifact: str) -> Path:
    folder = local_path(artifact)
    if folder is None:
        raise ConfigurationError(
            f"[rlmm] work_uri leads to {in_quotes(artifact)}: in cluster mode it must be a path that every machine of the "
            "Spark cluster shares with this one; set it to one, or deploy-mode of the Spark connection to client"
        )
    return folder


@dataclass(frozen=True, slots=True)
class Submission:
    """What ``SparkSubmit`` is told on the driver's machine."""

    master: str  # URL of the masters
    name: str  # of the application
    conf: Mapping[str, Any] = field(default_factory=dict)  # Spark's properties
    options: Mapping[str, str | None] = field(default_factory=dict)  # of spark-submit: jars, packages, repositories

    def arguments(self, job: str, py_files: str, job_arguments: list[str]) -> list[str]:
        """
        Return its arguments.

        :param job: path of the job.
        :param py_files: path of the zip.
        :param job_arguments: of the job.
        """
        given = {"--master": self.master, "--name": self.name, **self.options, "--py-files": py_files}
        words = [word for name, value in given.items() if value for word in (name, value)]
        for name, value in self.conf.items():
            words += ["--conf", f"{name}={value}"]
        return [*words, job, *job_arguments]

    def driver(self) -> dict[str, str]:
        """Return the properties of the driver's process, which is started before it reads any argument."""
        return {name: str(self.conf[name]) for name in _OF_THE_DRIVER if name in self.conf}
