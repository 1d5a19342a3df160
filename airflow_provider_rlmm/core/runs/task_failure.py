# SPDX-License-Identifier: Apache-2.0
"""What a task that failed leaves in the folder of its run, so that the message about the run can say why."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from airflow_provider_rlmm.core.base import strict_json as strict
from airflow_provider_rlmm.core.base.documents import Text, plain_of, reader_of
from airflow_provider_rlmm.core.base.errors import DocumentError

FAILURE_FORMAT = 1
MAX_FAILURE_BYTES = 64 * 2**10
MAX_ERROR = 2_000

_NAME = re.compile(r"failed-[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """
    The error of a task.

    :param dag_id: of its run.
    :param run_id: of its run.
    :param task_id: of the task.
    :param map_index: of the mapped task instance, ``None`` where it is not mapped.
    :param failed_at_ms: ms since the epoch.
    :param error: in words; of an error that is not ours its type alone.
    """

    dag_id: Text
    run_id: Text
    task_id: Text
    map_index: int | None
    failed_at_ms: int
    error: Text

    @property
    def file_name(self) -> str:
        """Name of the document: of two failures of one task instance the last one stays."""
        digest = hashlib.sha256(f"{self.task_id}[{self.map_index}]".encode(errors="surrogatepass"))
        return f"failed-{digest.hexdigest()[:16]}.json"

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(strict.sealed(plain_of(self), FAILURE_FORMAT), indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TaskFailure:
        """
        Read the document.

        :param text: what :meth:`to_json` returned.
        :raises DocumentError: if it is not, to the letter.
        """
        try:
            return _READ(strict.unsealed(text, FAILURE_FORMAT), "failure")
        except ValueError as e:
            raise DocumentError(f"the error of a task cannot be read ({e})") from e


@dataclass(frozen=True, slots=True)
class FailedTask:
    """
    A task that failed before the report of its run.

    :param name: its id, of a mapped task instance with its index.
    :param error: what it has said, ``None`` where it died without a word.
    :param log_url: where Airflow shows its log, empty where it is not known.
    """

    name: str
    error: str | None = None
    log_url: str = ""

    def __str__(self) -> str:
        if self.error is not None:
            return f"the task {self.name} failed: {self.error}"
        return (
            f"the task {self.name} died without leaving a document: it was killed, its worker went away, or it could not "
            "write one"
        )

    @property
    def advice(self) -> str:
        """Where its log is, in words."""
        return f"look at the log of the task {self.name}{f': {self.log_url}' if self.log_url else ''}"


def is_failure(name: str) -> bool:
    """Tell whether a file may be the document of a failure."""
    return _NAME.fullmatch(name) is not None


_READ = reader_of(TaskFailure)
