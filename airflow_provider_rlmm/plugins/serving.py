# SPDX-License-Identifier: Apache-2.0
"""What all routes share."""

from __future__ import annotations

from fastapi import Request

from airflow_provider_rlmm.plugins.rendering import Shell


def shell_of(request: Request) -> Shell:
    """
    Return what stands around a page.

    :param request: the request for it.
    """
    return Shell(root=str(request.scope.get("root_path", "")).rstrip("/"))
