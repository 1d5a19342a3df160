# SPDX-License-Identifier: Apache-2.0
"""A broker that tiers to S3 with the keys and the custom metadata of Aiven's plugin."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dev import ensure_java_classes
from dev.broker import LocalKafka
from dev.faults import StorageFaults
from dev.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server

ENCRYPTION_KEY: Final = b"a key for tests, kept by brokers"
ENCRYPTED: Final[Mapping[str, str]] = {
    "rsm.config.encryption.enabled": "true",
    "rsm.config.encryption.key": base64.b64encode(ENCRYPTION_KEY).decode(),
}
"""Properties of a broker whose plugin encrypts, as ``dev/java/s3/AivenEncryption.java`` has it."""


class S3Kafka(LocalKafka):
    """
    A :class:`~dev.broker.LocalKafka` whose remote storage is a bucket, by ``dev/java/s3/AivenKeysRemoteStorageManager.java``.

    :param server: the S3 server.
    :param endpoint: where the broker finds it; its own address by default, or what stands before it.
    :param key_prefix: the plugin's ``key.prefix``.
    :param custom_metadata: the plugin's ``custom.metadata.fields.include``.
    :param data_dir: as there; a temporary folder by default.
    :param properties: as there.
    :param metadata_partitions: as there.
    :raises DevEnvironmentError: if Java has no compiler.
    """

    def __init__(
        self,
        server: S3Server,
        *,
        endpoint: str | None = None,
        key_prefix: str = "",
        custom_metadata: Sequence[str] = (),
        data_dir: Path | None = None,
        properties: Mapping[str, str] | None = None,
        metadata_partitions: int = 5,
    ) -> None:
        super().__init__(data_dir, metadata_partitions=metadata_partitions, class_path=[ensure_java_classes()])
        self.server = server
        self.endpoint = endpoint or server.endpoint
        self.key_prefix = key_prefix
        folder = self.data_dir / "faults"
        self.faults = StorageFaults(folder)
        self._properties |= {
            "remote.log.storage.manager.class.name": "rlmm.dev.s3.AivenKeysRemoteStorageManager",
            "rsm.config.s3.endpoint": self.endpoint,
            "rsm.config.s3.bucket": BUCKET,
            "rsm.config.s3.region": REGION,
            "rsm.config.s3.access.key": ACCESS_KEY,
            "rsm.config.s3.secret.key": SECRET_KEY,
            "rsm.config.key.prefix": key_prefix,
            "rsm.config.custom.metadata.fields.include": ",".join(custom_metadata),
            "rsm.config.faults.dir": str(folder),
            **(properties or {}),
        }

    def remote_objects(self) -> dict[str, int]:
        """See :meth:`LocalKafka.remote_objects`: the whole bucket, without what this package keeps there."""
        return {k: size for k, size in self.server.objects().items() if not k.startswith("airflow-provider-rlmm/")}

    def change_key_prefix(self, key_prefix: str) -> None:
        """
        Restart the broker with another prefix; what was copied before stays where it is.

        :param key_prefix: the plugin's ``key.prefix``.
        """
        self.stop()
        self.key_prefix = key_prefix
        self._properties["rsm.config.key.prefix"] = key_prefix
        self.start()
