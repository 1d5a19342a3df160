# SPDX-License-Identifier: Apache-2.0
"""Connections that hold secrets in all fields that take one: some work, most fail, each in its own way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from dev.secured import SecuredKafka
from tests.contracts.s3_server import BUCKET, S3Server

USER, BLIND = "cleaner", "blind"
"""Users of the broker: one may do everything, the other one may only describe topics."""

DECOY = "decoy"

_NAMES = (
    DECOY,
    "password", "password of the blind", "wrong password", "password in an address", "token in an address",
    "key password", "client secret", "jaas password", "token configuration", "command", "library",
    "secret key", "session token", "expired token", "environment's secret key", "environment's token",
    "secret key in a URI", "account key", "signature", "service account key",
    "unknown field", "password of rlmm", "variable", "environment", "address of the notifier",
)  # fmt: skip

Extra = dict[str, Any]


class Planted:
    """
    The secrets, each a text that is nowhere else.

    :ivar texts: name → text.
    """

    def __init__(self) -> None:
        self.texts = {name: f"planted{number:02}x{uuid4().hex}" for number, name in enumerate(_NAMES)}
        key = rsa.generate_private_key(65537, 2048)
        encryption = BestAvailableEncryption(self["key password"].encode())
        self.texts["key"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    def users(self) -> dict[str, str]:
        """Return the users of the broker."""
        return {USER: self["password"], BLIND: self["password of the blind"]}

    def environment(self, expired: S3Server) -> dict[str, str]:
        """Return what Airflow and all its tasks find in their environment; its credentials are over."""
        given = {name.upper(): value for name, value in expired.options.items()}
        return given | {
            "AWS_SECRET_ACCESS_KEY": self["environment's secret key"],
            "AWS_SESSION_TOKEN": self["environment's token"],
            "AIRFLOW_VAR_RLMM_TEST_DECOY": self[DECOY],
            "AIRFLOW_VAR_RLMM_TEST_VARIABLE": self["variable"],
            "RLMM_TEST_ENVIRONMENT": self["environment"],
        }


def kafka_connections(planted: Planted, kafka: SecuredKafka) -> Mapping[str, Extra]:
    """Return what stands in the Kafka connections; ``good`` is the one that works."""
    good = kafka.login(USER)
    token = {
        "bootstrap.servers": kafka.secured_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": str(kafka.ca_path),
    }
    return {
        "good": good,
        "blind": kafka.login(BLIND),
        "wrong": good | {"sasl.password": planted["wrong password"]},
        "address": {"bootstrap.servers": f"SASL_SSL://me:{planted['password in an address']}@{kafka.secured_servers}"},
        "key": good | {"ssl.key.pem": planted["key"], "ssl.key.password": planted["key password"]},
        "half_key": good | {"ssl.key.pem": planted["key"], "ssl.key.password": planted["key password"][:-1]},
        "oidc": token
        | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": planted["client secret"],
            "sasl.oauthbearer.token.endpoint.url": f"https://127.0.0.1:1/token?code={planted['token in an address']}",
        },
        "token": token | {"sasl.oauthbearer.config": f"principal=me what={planted['token configuration']}"},
        "jaas": good | {"sasl.jaas.config": f'a.PlainLoginModule required password="{planted["jaas password"]}";'},
        "command": good | {"sasl.kerberos.kinit.cmd": f"kinit --password {planted['command']}"},
        "library": good | {"plugin.library.paths": f"/nowhere/{planted['library']}.so"},
    }


def stores(planted: Planted, storage: S3Server, expired: S3Server) -> Mapping[str, Extra]:
    """Return what the ``rlmm`` connections say of their stores; ``options`` is what a connection of the store says."""
    secret = {"aws_secret_access_key": planted["secret key"]}
    uri = f"s3://{BUCKET}"
    return {
        "good": {"storage_uri": uri, "options": storage.options | secret | {"aws_session_token": planted["session token"]}},
        "expired": {
            "storage_uri": uri, "options": expired.options | secret | {"aws_session_token": planted["expired token"]},
        },
        # All but the address comes from the environment.
        "environment": {
            "storage_uri": uri,
            "options": {name: expired.options[name] for name in ("aws_endpoint", "AWS_ALLOW_HTTP")},
        },
        "uri": {"storage_uri": f"s3://me:{planted['secret key in a URI']}@{BUCKET}"},
        "azure": {
            "storage_uri": "az://container",
            "options": {
                "azure_storage_account_name": "account", "azure_storage_account_key": planted["account key"],
                "azure_endpoint": "http://127.0.0.1:1", "allow_http": "true",
            },
        },
        "signed": {
            "storage_uri": "az://container",
            "options": {
                "azure_storage_account_name": "account",
                "azure_storage_sas_key": f"sv=2024-01-01&sig={planted['signature']}",
                "azure_endpoint": "http://127.0.0.1:1", "allow_http": "true",
            },
        },
        "google": {
            "storage_uri": "gs://bucket",
            "options": {"google_service_account_key": json.dumps({"private_key": planted["service account key"]})},
        },
        "field": {"storage_uri": uri, "storage_pasword": planted["unknown field"]},
        "password": {"storage_uri": uri, "password": planted["password of rlmm"]},
    }  # fmt: skip
