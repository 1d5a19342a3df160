# SPDX-License-Identifier: Apache-2.0
"""An object in an archive tier is told from one that may not be read: S3 and Azure say it in a refusal."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from airflow_provider_rlmm.core.base.errors import ArchivedObjectError, RemoteObjectNotFoundError, StorageAccessError
from airflow_provider_rlmm.core.storage.answers import is_archived
from airflow_provider_rlmm.core.storage.object_store import _error_class

OF_S3 = (
    "The operation lacked the necessary privileges: Server returned non-2xx status code: 403 Forbidden: "
    "<Error><Code>InvalidObjectState</Code><StorageClass>GLACIER</StorageClass></Error>"
)
OF_AZURE = "status code: 409 Conflict: <Error><Code>BlobArchived</Code></Error>"
OF_AZURE_IN_WORDS = "status code: 409 Conflict: This operation is not permitted on an archived blob."
REFUSED = "status code: 403 Forbidden: <Error><Code>AccessDenied</Code></Error>"


@pytest.mark.parametrize(
    "error", [PermissionDeniedError(OF_S3), GenericError(OF_AZURE), GenericError(OF_AZURE_IN_WORDS)]
)
def test_an_archived_object_is_told(error: Exception) -> None:
    assert _error_class(error, RemoteObjectNotFoundError) is ArchivedObjectError


def test_a_refusal_is_none() -> None:
    assert not is_archived(REFUSED)
    assert _error_class(PermissionDeniedError(REFUSED), RemoteObjectNotFoundError) is StorageAccessError
