# SPDX-License-Identifier: Apache-2.0
"""What all routes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException, Request

from airflow_provider_rlmm.file_systems import folder_in_words
from airflow_provider_rlmm.page_data.documents import read_json_object
from airflow_provider_rlmm.plugins.heavy_answers import LARGE_BYTES
from airflow_provider_rlmm.plugins.rendering import Shell
from airflow_provider_rlmm.plugins.rights import Rights
from airflow_provider_rlmm.settings import is_artifact_name, work_uri


def shell_of(request: Request) -> Shell:
    """
    Return what stands around a page.

    :param request: the request for it.
    """
    return Shell(root=str(request.scope.get("root_path", "")).rstrip("/"))


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
    Say of whatever a page cannot show that it is the document's fault: the pages are pure functions of it.

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
