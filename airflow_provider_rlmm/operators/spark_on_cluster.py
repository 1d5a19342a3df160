# SPDX-License-Identifier: Apache-2.0
"""What a Spark job needs whose driver runs on the cluster: files where that finds them, and a command line."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final
from uuid import uuid4

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import (
    list_folders,
    local_path,
    read_file,
    remove_folder,
    replace_file,
)
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.redaction import secrets_of
from airflow_provider_rlmm.features.retention.spark.package import PY_FILES_NAME, build_py_files
from airflow_provider_rlmm.hooks.metadata import RemoteLogMetadataHook
from airflow_provider_rlmm.resources import spark_job_path

LAST_WORD: Final = "no-plan.txt"
"""Where the job leaves why it made no plan: the driver's log does not reach Airflow."""

_JOB: Final = "segment_retention.py"
_PREFIX: Final = "job-"
_DRIVER: Final = "driver"
_DRIVER_ID: Final = re.compile(r"driver-[0-9]+-[0-9]+", re.ASCII)
_MAX_BYTES: Final = 2**20
_OF_THE_DRIVER: Final = ("spark.driver.memory", "spark.driver.cores")


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A folder below the work folder that driver and executors see as this task does."""

    uri: str  # of the folder, of one try: a path, or a URI in an object store

    @classmethod
    def below(cls, artifact: str) -> JobFolder:
        """
        Make the folder of a try.

        :param artifact: URI of the folder of the run.
        """
        path, name = local_path(artifact), f"{_PREFIX}{uuid4().hex}"
        if path is None:
            return cls(f"{artifact}/{name}")
        (path / name).mkdir(parents=True)
        return cls(str(path / name))

    @classmethod
    def all_below(cls, artifact: str) -> list[JobFolder]:
        """
        Return the folders that earlier tries have left.

        :param artifact: URI of the folder of the run.
        :raises OSError: if that cannot be told.
        """
        return [cls(f"{artifact}/{name}") for name in list_folders(artifact) if name.startswith(_PREFIX)]

    @property
    def is_local(self) -> bool:
        """Whether all machines must share it as a path."""
        return local_path(self.uri) is not None

    def note_driver(self, driver_id: str) -> None:
        """
        Remember which driver works here, for a later try.

        :param driver_id: what the master has called it.
        """
        replace_file(f"{self.uri}/{_DRIVER}", [driver_id.encode()])

    def driver(self) -> str | None:
        """Return the driver that was given this folder, ``None`` where none is known."""
        found = _DRIVER_ID.fullmatch(self._text(_DRIVER)[:100])
        return found and found[0]

    def code(self, spark_files_folder: str | None) -> tuple[str, str]:
        """
        Return the paths of the job and of the package's zip on the driver's machine.

        :param spark_files_folder: where a person has put both there, ``None`` to write them here.
        :raises ConfigurationError: if it is no absolute path, or no person has put them there and this is an object store:
            Spark reads no program from one by this package's credentials.
        """
        if spark_files_folder is not None:
            folder = _on_the_cluster("spark_files_folder", spark_files_folder)
            return f"{folder}/{_JOB}", f"{folder}/{PY_FILES_NAME}"
        path = local_path(self.uri)
        if path is None:
            raise ConfigurationError(
                f"[rlmm] work_uri leads to {in_quotes(self.uri)}, and in cluster mode Spark starts programs from its own "
                f"machines: let rlmm spark-files write {_JOB} and {PY_FILES_NAME} into a folder of every machine of the "
                "Spark cluster, and name that in spark_files_folder"
            )
        job = path / _JOB
        shutil.copyfile(spark_job_path(job.name), job)
        return str(job), str(build_py_files(path))

    def hand_over(self, hook: RemoteLogMetadataHook, named_file: str | None) -> str:
        """
        Return where the driver finds the client properties.

        :param hook: of the Kafka connection.
        :param named_file: a file on its machine that a person has put into place, ``None`` for none.
        :raises ConfigurationError: if the connection holds secrets and no file is named: a secret is never written here.
        """
        if named_file is not None:
            return _on_the_cluster("kafka_properties_file", named_file)
        if secrets_of(hook.get_client_config().properties):
            raise ConfigurationError(
                "the Kafka connection holds secrets, and in cluster mode they are not handed over: put a Java properties "
                "file with the client's settings on every machine of the Spark cluster, readable by Spark's user only, and "
                "name it in kafka_properties_file"
            )
        return self.write("client.properties", hook.java_client_properties())

    def hand_over_store(self, named_file: str | None) -> dict[str, str]:
        """
        Return the job's arguments that say what opens the work folder; nothing of its connection is written anywhere.

        :param named_file: a file on the driver's machine with the store's options, ``None`` where the environment or the role
            of Spark's machines opens it.
        :raises ConfigurationError: if it is no absolute path.
        """
        return {} if named_file is None else {"--store-options": _on_the_cluster("store_options_file", named_file)}

    def write(self, name: str, text: str) -> str:
        """
        Write a document for the driver; return where it is.

        :param name: of the file.
        :param text: without secrets.
        """
        replace_file(f"{self.uri}/{name}", [text.encode()])
        return f"{self.uri}/{name}"

    def last_word(self) -> str | None:
        """Return why the job made no plan, in its own words; ``None`` where it left none."""
        return self._text(LAST_WORD)[:4_096].strip() or None

    def remove(self) -> None:
        """Remove the folder; what cannot be removed goes with the folder of the run."""
        with suppress(OSError):
            remove_folder(self.uri)

    def _text(self, name: str) -> str:
        try:
            return bytes(read_file(f"{self.uri}/{name}", _MAX_BYTES)).decode(errors="replace")
        except OSError:
            return ""


def _on_the_cluster(what: str, path: str) -> str:
    if not PurePosixPath(path).is_absolute():
        raise ConfigurationError(
            f"{what} is {in_quotes(path)}: give an absolute path on the machines of the Spark cluster"
        )
    return path.rstrip("/")


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
