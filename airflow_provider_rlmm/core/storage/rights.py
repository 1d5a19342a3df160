# SPDX-License-Identifier: Apache-2.0
"""Which right a store wants for a call that it has forbidden, in the store's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OF_STORES: Final[Mapping[str, Mapping[str, str]]] = {
    "S3Store": {
        "list": "s3:ListBucket on the bucket",
        # Of an object that is not there S3 says so only to who may list the bucket.
        "read": "s3:GetObject on it, and s3:ListBucket on the bucket",
        "write": "s3:PutObject on it",
    },
    "GCSStore": {
        "list": "storage.objects.list on the bucket",
        "read": "storage.objects.get on it",
        "write": "storage.objects.create on it",
    },
    "AzureStore": {
        "list": "the role Storage Blob Data Reader on the container",
        "read": "the role Storage Blob Data Reader on the container",
        "write": "the role Storage Blob Data Contributor on the container",
    },
}
"""Class of obstore → what is done, in one verb → the right for it."""


def right_for(store: str, action: str) -> str | None:
    """
    Return what helps where a store forbids a call.

    :param store: name of obstore's class.
    :param action: what was to be done; it begins with a verb.
    :return: ``None`` where no right of the store allows it.
    """
    right = _OF_STORES.get(store, {}).get(action.partition(" ")[0])
    return None if right is None else f"give the credentials {right}"
