# SPDX-License-Identifier: Apache-2.0
"""The small cluster of the lifecycle's tests, with its remote storage in a bucket of moto's S3."""

from __future__ import annotations

from typing import Any

from airflow_provider_rlmm.core.storage.bucket_settings import S3BucketInspector
from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from airflow_provider_rlmm.core.storage.pace import Pace
from airflow_provider_rlmm.core.storage.root import RootCheck, RootExpectation
from tests.builders import CLUSTER_ID, Cluster
from tests.moto_s3 import MotoS3


class BucketStorage(ObjectStoreRemoteStorageManager):
    """Remote storage in a bucket, with the ways around it that the builders want."""

    def __init__(self, s3: MotoS3, bucket: str, layout: Layout, *, inspected: bool) -> None:
        self.client = s3.client()
        self.bucket = bucket
        super().__init__(
            f"s3://{bucket}",
            layout,
            options=s3.options,
            pace=Pace(sleep=lambda seconds: None),
            inspector=S3BucketInspector(lambda: self.client, bucket) if inspected else None,
        )

    def put_object(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    @property
    def keys(self) -> frozenset[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return frozenset(found["Key"] for page in pages for found in page.get("Contents", ()))

    @property
    def versions(self) -> int:
        """How many versions with content the bucket keeps."""
        return len(self.client.list_object_versions(Bucket=self.bucket).get("Versions", ()))


class BucketCluster(Cluster):
    """
    A cluster whose storage is a bucket.

    :param s3: the server.
    :param bucket: the bucket, a fresh one by default.
    :param layout: Aiven's with the prefix ``kp/`` by default.
    :param inspected: whether the settings of the bucket may be read.
    """

    def __init__(
        self, s3: MotoS3, bucket: str | None = None, layout: Layout | None = None, *, inspected: bool = False
    ) -> None:
        super().__init__(living_topic=False, layout=layout or AivenLayout("kp/"))
        self.s3 = s3
        self.bucket = bucket or s3.bucket()
        self.opens(self.layout, inspected=inspected)
        self.topics.create("alive", self.alive.topic_id)
        self.segment(self.alive, 0)

    def opens(self, layout: Layout, *, inspected: bool = False) -> None:
        """Open the bucket with another layout: a connection that was changed."""
        self.layout = layout
        storage: Any = BucketStorage(self.s3, self.bucket, layout, inspected=inspected)
        self.storage = storage

    def check_root(self) -> RootCheck:
        """Look at the root as the cleaner does."""
        ids = frozenset(history.topic_id_partition.topic_id for history in self.replay().histories.values())
        return self.storage.check_root(ids, CLUSTER_ID, RootExpectation(self.recorded_roots))

    def delete_objects(self, *keys: str) -> None:
        """Take objects away behind the manager's back."""
        for key in keys:
            self.s3.client().delete_object(Bucket=self.bucket, Key=key)
