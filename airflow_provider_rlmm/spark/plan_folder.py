# SPDX-License-Identifier: Apache-2.0
"""The folder of a plan, wherever Spark can write."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_rlmm.errors import PlanError
from airflow_provider_rlmm.policy.plan import SUMMARY_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEFT_BEHIND = re.compile(r"rows-\w+\.tmp|\.summary\.json\.\w+\.tmp|metadata-partition-\d+\.parquet")


class PlanFolder:
    """
    A folder on one of Hadoop's file systems.

    :param spark: the session.
    :param uri: of the folder.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._jvm: Any = spark._jvm
        self._files: Any = self._path("").getFileSystem(spark._jsc.hadoopConfiguration())

    def clear(self) -> None:
        """Remove the plan that is there, its summary first, and what killed tries left."""
        self.delete(SUMMARY_NAME)
        for name in filter(_LEFT_BEHIND.fullmatch, self._children("")):
            self.delete(name)

    def new_rows(self) -> str:
        """Return the name of a folder for Spark to write into, of this try alone."""
        return f"rows-{uuid4().hex}.tmp"

    def take(self, rows: str, name: str) -> tuple[int, str]:
        """
        Give the one file that Spark wrote its final name, in the place of an older one.

        :param rows: where Spark wrote it, below the folder.
        :param name: its final name.
        :return: its size in bytes, and the SHA-256 of its bytes in lower-case hex.
        :raises PlanError: if Spark wrote several files or none.
        """
        found = [child for child in self._children(rows) if child.endswith(".parquet")]
        if len(found) != 1:
            raise PlanError(f"Spark wrote {len(found)} files into {self.uri}/{rows} where one was to be; run again")
        source, target = self._path(f"{rows}/{found[0]}"), self._path(name)
        stream = self._files.open(source)
        try:
            sha256 = str(self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))
        finally:
            stream.close()
        size = int(self._files.getFileStatus(source).getLen())
        self._files.delete(target, False)
        self._rename(source, target)
        return size, sha256

    def create(self, name: str, data: bytes) -> None:
        """
        Write a small file where there is none, whole or not at all.

        HDFS and local file systems see to it that one of two that do it at once fails. In an object store the connector looks
        first, so at worst both succeed, and what the summary of the later one says fits the files of one of them only.

        :param name: of the file.
        :param data: its content.
        :raises PlanError: if there is one already.
        """
        temporary, target = self._path(f".{name}.{uuid4().hex}.tmp"), self._path(name)
        stream = self._files.create(temporary, False)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()
        try:
            self._rename_to_new(temporary, target)
        finally:
            self._files.delete(temporary, False)

    def delete(self, name: str) -> None:
        """Remove a file or a folder with all that is in it, if it is there."""
        self._files.delete(self._path(name), True)

    def _children(self, name: str) -> list[str]:
        path = self._path(name)
        return [str(s.getPath().getName()) for s in self._files.listStatus(path)] if self._files.exists(path) else []

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{name}" if name else self.uri)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._files.rename(source, target):
            raise PlanError(f"{source} cannot be renamed to {target}: another try writes this plan; run again")

    def _rename_to_new(self, source: Any, target: Any) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no type information

        exists = f"{target} exists already: another try wrote this plan at the same time; run again"
        try:
            if self._files.getScheme() == "file":
                # There a rename would replace; a link does not.
                os.link(source.toUri().getPath(), target.toUri().getPath())
            else:
                self._rename(source, target)
        except FileExistsError as e:
            raise PlanError(exists) from e
        except Py4JJavaError as e:
            if "AlreadyExists" in str(e.java_exception.getClass().getName()):
                raise PlanError(exists) from None
            raise
