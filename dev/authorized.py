# SPDX-License-Identifier: Apache-2.0
"""A local Kafka with an authorizer: to see what a principal is told that may not see everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dev.broker import LocalKafka, free_ports

LISTENER = "RESTRICTED"


class AuthorizedKafka(LocalKafka):
    """
    A broker with a second listener, where users log in by SASL/PLAIN and may do what ACLs allow.

    On the first listener everybody is anonymous and may do everything: the broker itself, its clients for the metadata
    topic, and the tests.

    :param users: user → password.
    :param data_dir: as for :class:`~dev.broker.LocalKafka`.
    :param metadata_partitions: as for :class:`~dev.broker.LocalKafka`.
    """

    def __init__(self, users: Mapping[str, str], data_dir: Path | None = None, *, metadata_partitions: int = 5) -> None:
        super().__init__(data_dir, metadata_partitions=metadata_partitions)
        (self._restricted_port,) = free_ports(1)
        self._users = dict(users)

    def login(self, user: str) -> dict[str, str]:
        """
        Properties of a librdkafka client that is one of the users.

        :param user: one of the users.
        """
        return {
            "bootstrap.servers": f"127.0.0.1:{self._restricted_port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self._users[user],
        }

    def _default_properties(self) -> dict[str, str]:
        properties = super()._default_properties()
        address = f"{LISTENER}://127.0.0.1:{self._restricted_port}"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        users = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        return properties | {
            "listeners": f"{properties['listeners']},{address}",
            "advertised.listeners": f"{properties['advertised.listeners']},{address}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
            f"listener.name.{LISTENER.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{module} {users};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
