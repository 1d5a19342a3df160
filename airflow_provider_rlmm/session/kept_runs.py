# SPDX-License-Identifier: Apache-2.0
"""Runs that have ended, as the folders of their clusters have kept them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider_rlmm.errors import DocumentError
from airflow_provider_rlmm.file_systems import list_files, list_folders, read_file
from airflow_provider_rlmm.policy.run_summary import MAX_RUN_SUMMARY_BYTES, RUNS_FOLDER, RunSummary, run_of_file
from airflow_provider_rlmm.policy.work_folder import cluster_folder, is_cluster_folder


def clusters(work_uri: str) -> list[str]:
    """
    Return the folders of clusters below the work folder.

    :param work_uri: the work folder.
    :raises OSError: if it cannot be listed.
    """
    return [f"{work_uri}/{name}" for name in list_folders(work_uri) if is_cluster_folder(name)]


def run_names(cluster_uri: str, wanted: Callable[[str], bool]) -> list[str]:
    """
    Return the names of the documents of runs, the newest first.

    :param cluster_uri: the folder of a cluster.
    :param wanted: takes the artifact of a run.
    :raises OSError: if the folder cannot be listed.
    """
    found = ((name, run_of_file(name)) for name in list_files(f"{cluster_uri}/{RUNS_FOLDER}"))
    return sorted((name for name, run in found if run and wanted(run[1])), reverse=True)


def read_run(cluster_uri: str, name: str) -> RunSummary:
    """
    Read the document of a run.

    :param cluster_uri: the folder of its cluster.
    :param name: one of :func:`run_names`.
    :raises DocumentError: if it is none, or another run's or another cluster's.
    :raises OSError: if it cannot be read.
    """
    raw = bytes(read_file(f"{cluster_uri}/{RUNS_FOLDER}/{name}", MAX_RUN_SUMMARY_BYTES))
    try:
        run = RunSummary.from_json(raw.decode())
    except UnicodeDecodeError as e:
        raise DocumentError(f"the summary {name} is no text") from e
    if run.file_name != name or cluster_folder(run.cluster_id) != cluster_uri.rpartition("/")[2]:
        raise DocumentError(f"the summary {name} lies where another run's belongs: somebody has copied or renamed it")
    return run


def runs_before(cluster_uri: str, run: RunSummary, most: int) -> Iterator[RunSummary]:
    """
    Return runs of the same DAG that ended before another, the newest first; those that cannot be read are left out.

    :param cluster_uri: the folder of their cluster.
    :param run: the other one.
    :param most: how many documents are read.
    :raises OSError: if the folder cannot be listed.
    """
    # An artifact begins with its DAG's id, as far as a name can hold it.
    beginning = run.artifact[: run.artifact.find(".") + 1]
    names = run_names(cluster_uri, lambda artifact: artifact.startswith(beginning))
    for name in [name for name in names if name < run.file_name][:most]:
        try:
            earlier = read_run(cluster_uri, name)
        except (DocumentError, OSError):
            continue
        if earlier.dag_id == run.dag_id:
            yield earlier
