# SPDX-License-Identifier: Apache-2.0
"""Who reads the settings of a bucket that is opened by the login of the machine, or by options of obstore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_rlmm.core.base.store_uris import read_store_uri
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.login import INSTANCE_METADATA

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector


def inspector_of_login(uri: str, options: Mapping[str, str], access: StoreAccess) -> BucketInspector | None:
    """
    Return what reads the settings of a bucket; nothing is opened before it is asked.

    :param uri: the storage root.
    :param options: as :func:`~airflow_provider_rlmm.core.storage.logins.login.with_login` took them.
    :param access: what it returned.
    :return: ``None`` where there are no settings: of folders, and of ``https://`` URIs, which do not name their bucket.
    """
    where = read_store_uri(uri)
    parts = urlsplit(where.uri)
    allowed = options.get(INSTANCE_METADATA, "").lower() == "true"
    match parts.scheme:
        case "s3":
            from airflow_provider_rlmm.core.storage.bucket_settings import S3BucketInspector
            from airflow_provider_rlmm.core.storage.logins.aws_client import client_of_s3

            client = partial(client_of_s3, access, parts.netloc, instance_metadata=allowed)
            return S3BucketInspector(client, parts.netloc, parts.path)
        case "gs":
            from airflow_provider_rlmm.core.storage.bucket_settings import GcsBucketInspector
            from airflow_provider_rlmm.core.storage.logins.google_client import bucket_of_google

            bucket = partial(bucket_of_google, access, parts.netloc, instance_metadata=allowed)
            return GcsBucketInspector(bucket, parts.path)
        case "az":
            from airflow_provider_rlmm.core.storage.azure_settings import AzureContainerInspector
            from airflow_provider_rlmm.core.storage.logins.azure_client import AzureService
            from airflow_provider_rlmm.core.storage.opening import with_account

            def service() -> AzureService:
                return AzureService(replace(access, options=with_account(where, access.options)))

            return AzureContainerInspector(service, parts.netloc, parts.path)
    return None
