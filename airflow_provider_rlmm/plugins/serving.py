# SPDX-License-Identifier: Apache-2.0
"""What all routes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request

from airflow_provider_rlmm.core.base.file_systems import folder_in_words
from airflow_provider_rlmm.overview.documents import read_json_object
from airflow_provider_rlmm.plugins.dag_ids import connections_of
from airflow_provider_rlmm.plugins.heavy_answers import LARGE_BYTES
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import Rights
from airflow_provider_rlmm.plugins.switches import set_switches
from airflow_provider_rlmm.settings import connections, is_artifact_name, work_uri


def shell_of(request: Request) -> Shell:
    """
    Return what stands around a page.

    :param request: the request for it.
    """
    return Shell(root=str(request.scope.get("root_path", "")).rstrip("/"))


def shell_of_run(request: Request, artifact: str, cluster_id: object, active: str = "") -> Shell:
    """
    Return what stands around a page of a run, or of what it has written: its kill switch is said on each.

    :param request: the request for it.
    :param artifact: name of the run's folder; where no connection has a DAG of it, the switch of any may concern it.
    :param cluster_id: of the cluster, as a document has it.
    :param active: part of the cluster's pages to which it belongs.
    """
    stopped = tuple(set_switches(connections_of(artifact) or connections()).values())
    known = cluster_id if isinstance(cluster_id, str) else None
    return replace(shell_of(request), cluster_id=known, active=active, stopped=stopped)


def readable_document(rights: Rights, name: str, file: str) -> dict[str, Any]:
    """
    Return a document that a user may see.

    :param rights: of the user.
    :param name: of the run that wrote it.
    :param file: its file.
    :raises HTTPException: 404 if there is none, 403 if the user may not see it, 429 if it is large and enough of them are
        being given out.
    :raises DocumentError: if it is no regular file below the work folder, too large, unreadable or no JSON object.
    """
    if not is_artifact_name(name):
        raise HTTPException(HTTPStatus.NOT_FOUND, "no such document")
    if not rights.may_see_document(name):
        raise HTTPException(HTTPStatus.FORBIDDEN, "the DAG of this document may not be read")

    def counted(size: int) -> None:
        if size > LARGE_BYTES:
            rights.begin_heavy_answer()

    try:
        return read_json_object(work_uri(), name, file, before_parsing=counted)
    except FileNotFoundError as e:
        raise HTTPException(
            HTTPStatus.NOT_FOUND, f"{name} has no {file}, or not yet, in the work folder {folder_in_words(work_uri())}"
        ) from e


@contextmanager
def shown(name: str, file: str) -> Iterator[None]:
    """
    Say of all that a page cannot show that it is the document's fault: the pages are pure functions of it.

    :param name: of the run that wrote it.
    :param file: its file.
    :raises HTTPException: 422.
    """
    try:
        yield
    except HTTPException:
        raise
    except Exception as e:
        what = f"{file} of {name} does not have the expected form ({type(e).__name__}: {e})"
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, what) from e
