# SPDX-License-Identifier: Apache-2.0
"""Who reads the settings of a bucket: the official Airflow provider of its store, by the connection that opens the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import Connection

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.storage.hidden_copies import BucketInspector


def bucket_inspector(uri: str, connection: Connection) -> BucketInspector | None:
    """
    Return what reads the settings of a bucket; nothing is opened before it is asked.

    :param uri: the storage root.
    :param connection: that opens the store.
    :return: ``None`` where the connection is of no official provider: its options are for obstore, which reads no settings.
    """
    from airflow_provider_rlmm.core.storage import bucket_settings
    from airflow_provider_rlmm.core.storage.azure_settings import AzureContainerInspector

    parts = urlsplit(uri)
    match connection.conn_type:
        case "aws":
            client = partial(_s3_client, connection.conn_id)
            return bucket_settings.S3BucketInspector(client, parts.netloc, parts.path)
        case "google_cloud_platform":
            bucket = partial(_gcs_bucket, connection.conn_id, parts.netloc)
            return bucket_settings.GcsBucketInspector(bucket, parts.path)
        case "wasb":
            service = partial(_blob_service, connection.conn_id)
            return AzureContainerInspector(service, parts.netloc.partition("@")[0], parts.path)
    return None


def _s3_client(conn_id: str) -> Any:
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook
    from botocore.config import Config

    from airflow_provider_rlmm.core.storage.bucket_settings import BOUNDED_CALLS

    hook = S3Hook(aws_conn_id=conn_id)
    # What the connection says counts.
    return hook.get_client_type(config=Config(**BOUNDED_CALLS).merge(hook.config))


def _gcs_bucket(conn_id: str, bucket: str) -> Any:
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    return GCSHook(gcp_conn_id=conn_id).get_conn().get_bucket(bucket)


def _blob_service(conn_id: str) -> Any:
    from airflow.providers.microsoft.azure.hooks.wasb import WasbHook

    return WasbHook(wasb_conn_id=conn_id).get_conn()
