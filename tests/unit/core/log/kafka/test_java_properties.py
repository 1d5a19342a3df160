# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.log.kafka.config import KafkaClientConfig, java_client_properties
from airflow_provider_rlmm.core.log.kafka.java_properties import librdkafka_properties, read_java_properties

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({"bootstrap.servers": "a:1", "client.id": "x"}, {"bootstrap.servers": "a:1", "client.id": "x"}),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN} required username="me" password="a b;c";',
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "me",
                "sasl.password": "a b;c",
            },
        ),
        (
            {"sasl.jaas.config": f'{SCRAM} required\n  username=me\n  password="a\\"b\\\\c"'},
            {"sasl.username": "me", "sasl.password": 'a"b\\c'},
        ),
        (
            {
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                'keyTab="/etc/me.keytab" principal="me@REALM";'
            },
            {"sasl.kerberos.principal": "me@REALM", "sasl.kerberos.keytab": "/etc/me.keytab"},
        ),
        (
            {
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                "clientId='x' clientSecret=\"y\";".replace("'", '"'),
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
            },
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "x",
                "sasl.oauthbearer.client.secret": "y",
                "sasl.oauthbearer.token.endpoint.url": "https://id/token",
            },
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem", "ssl.truststore.password": "unused"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem", "ssl.key.password": "p"},
            {"ssl.key.location": "/me.pem", "ssl.certificate.location": "/me.pem", "ssl.key.password": "p"},
        ),
        (
            {"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CERT", "ssl.truststore.certificates": "CA"},
            {"ssl.key.pem": "KEY", "ssl.certificate.pem": "CERT", "ssl.ca.pem": "CA"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl.endpoint.identification.algorithm": "https"}),
        ({"group.id": "g", "key.deserializer": "x", "default.api.timeout.ms": "5"}, {}),
    ],
)
def test_what_java_says_librdkafka_says_too(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert librdkafka_properties(java) == librdkafka


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ({"ssl.truststore.location": "/s3cr3t.jks"}, r"ssl\.truststore\.type JKS can only be read by Java.*PEM"),
        ({"ssl.keystore.location": "/s3cr3t.jks"}, r"ssl\.keystore\.type JKS can only be read by Java.*PKCS12"),
        ({"sasl.jaas.config": "s3cr3t"}, r"sasl\.jaas\.config is no entry"),
        ({"sasl.jaas.config": f'{PLAIN} required username="s3cr3t";'}, r"sasl\.jaas\.config lacks password"),
        ({"sasl.jaas.config": 'x.y.Other required password="s3cr3t";'}, r"names 'Other': known are PlainLoginModule"),
        ({"no.such.property": "s3cr3t"}, r"properties \['no\.such\.property'\] are not known to librdkafka"),
    ],
)
def test_what_has_no_like_is_refused_by_name(java: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        librdkafka_properties(java)
    assert "s3cr3t" not in str(caught.value)


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# of the operators\nbootstrap.servers : a:1,\\\n    b:2\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} required \\\n  username="m\\u00fcller" \\\n  password="a\\\\\\\\b";\n'
    )
    assert read_java_properties(str(file)) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "müller",
        "sasl.password": "a\\b",
    }


def test_a_file_that_cannot_be_read_is_named_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'.*none' cannot be read: No such file"):
        read_java_properties(str(tmp_path / "none"))
    broken = tmp_path / "broken"
    broken.write_text("a=s3cr3t\\u00zz\n")
    with pytest.raises(ConfigurationError, match="broken") as caught:
        read_java_properties(str(broken))
    assert "s3cr3t" not in str(caught.value)
    large = tmp_path / "large"
    large.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigurationError, match="larger than"):
        read_java_properties(str(large))


@pytest.mark.parametrize("password", ["plain", 'with "quotes"', "back\\slash", " spaces ", "a;b", "ü"])
def test_what_is_written_for_java_is_read_back(tmp_path: Path, password: str) -> None:
    """The file that the Spark job gets is one that the command takes."""
    given = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": password,
    }
    file = tmp_path / "client.properties"
    file.write_text(java_client_properties(KafkaClientConfig(given).properties), "utf-8")
    assert read_java_properties(str(file)) == given
