# SPDX-License-Identifier: Apache-2.0
"""The store of the work folder, handed over to a Spark job that a task starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_rlmm.core.base.file_systems import local_path
from airflow_provider_rlmm.hooks.work_store import work_store_to_hand_over
from airflow_provider_rlmm.operators.task_folder import handed_over
from airflow_provider_rlmm.settings import work_conn_id, work_uri


@contextmanager
def work_store_handed_over(folder: Path) -> Iterator[dict[str, str]]:
    """
    Let the job open the work folder as this task does; what opens it is in no file and on no command line.

    :param folder: of the task, for a named pipe.
    :return: the job's arguments; none where the work folder is local, or the environment opens its store.
    :raises ConfigurationError: if the connection does not exist, or does not fit the work folder.
    :raises StorageError: if the connection gives no credentials.
    """
    conn_id, uri, pipe = work_conn_id(), work_uri(), folder / "store.json"
    if conn_id is None or local_path(uri) is not None:
        yield {}
        return
    with handed_over(pipe, work_store_to_hand_over(uri, conn_id).to_json()):
        yield {"--store-options": str(pipe)}
