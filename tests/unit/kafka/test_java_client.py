# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.errors import ConfigurationError
from airflow_provider_rlmm.kafka.java_client import java_client_properties

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "rlmm",
    "sasl.password": "s3cret",
}


def lines(settings: dict[str, str]) -> list[str]:
    text = java_client_properties(settings)
    assert text == "" or text.endswith("\n")
    return text.splitlines()


def test_settings_of_the_same_name_are_taken_over_sorted() -> None:
    assert lines({"security.protocol": "SSL", "bootstrap.servers": "a:1,b:2"}) == [
        "bootstrap.servers=a:1,b:2",
        "security.protocol=SSL",
    ]


def test_settings_that_mean_nothing_to_java_are_left_out() -> None:
    assert lines({"client.id": "x", "group.id": "g", "socket.timeout.ms": "1", "acks": "all", "debug": "broker"}) == []


def test_sasl_becomes_a_jaas_entry() -> None:
    assert lines(SASL) == [
        f'sasl.jaas.config={SCRAM} required username="rlmm" password="s3cret";',
        "sasl.mechanism=SCRAM-SHA-512",
        "security.protocol=SASL_SSL",
    ]


def test_the_other_spelling_of_the_mechanism_means_the_same() -> None:
    settings = {**SASL, "sasl.mechanisms": "PLAIN"}
    assert "sasl.mechanism=SCRAM-SHA-512" in lines(settings)
    del settings["sasl.mechanism"]
    assert "plain.PlainLoginModule" in lines(settings)[0]


def test_a_certificate_file_becomes_a_pem_truststore() -> None:
    assert lines({"ssl.ca.location": "/etc/ca.pem"}) == [
        "ssl.truststore.location=/etc/ca.pem",
        "ssl.truststore.type=PEM",
    ]


@pytest.mark.parametrize(
    ("password", "written"),
    [
        ('a"b', r"a\\" + '"b'),
        ("a\\b", "a" + "\\" * 4 + "b"),
        ("a\nb", r"a\\nb"),
        (" a ", " a "),
        ("pässwörd", "pässwörd"),
    ],
)
def test_a_password_is_escaped_for_jaas_and_then_for_the_file(password: str, written: str) -> None:
    assert f'password="{written}";' in lines({**SASL, "sasl.password": password})[0]


@pytest.mark.parametrize(("value", "written"), [(" /a", "\\ /a"), ("C:\\a", "C:\\\\a"), ("a\nb", "a\\nb")])
def test_a_value_is_escaped_for_the_file(value: str, written: str) -> None:
    assert lines({"ssl.ca.location": value})[0] == f"ssl.truststore.location={written}"


@pytest.mark.parametrize(
    "settings",
    [
        {"ssl.key.password": "s3cret"},
        {"sasl.password": "s3cret"},
        {**SASL, "sasl.oauthbearer.config": "s3cret"},
    ],
)
def test_a_setting_without_translation_is_refused_by_name_only(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="have no translation") as error:
        java_client_properties(settings)
    assert list(settings)[-1] in str(error.value)
    assert "s3cret" not in str(error.value)


def test_a_mechanism_without_translation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'GSSAPI' is not supported for Spark") as error:
        java_client_properties({**SASL, "sasl.mechanism": "GSSAPI"})
    assert "s3cret" not in str(error.value)
