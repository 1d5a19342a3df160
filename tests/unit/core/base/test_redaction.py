# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_rlmm.core.base.redaction import (
    HIDDEN,
    secrets_of,
    without_addresses,
    without_secrets,
    without_stores_secrets,
)

PUBLIC = {
    "bootstrap.servers": "broker-1:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "client.id": "rlmm",
    "group.id": "cleaner",
    "ssl.ca.location": "/etc/kafka/ca.pem",
    "ssl.key.location": "/etc/kafka/key.pem",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.truststore.type": "PEM",
    "request.timeout.ms": "15000",
    "enable.ssl.certificate.verification": "true",
    "compression.type": "gzip",
}


def hidden(text: str, properties: dict[str, Any]) -> str:
    return without_secrets(text, secrets_of(properties))


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret", "some.new.thing"]
)
def test_a_value_is_hidden(name: str) -> None:
    assert hidden("login of alice with hunter2 failed", {**PUBLIC, name: "hunter2"}) == "login of alice with *** failed"


@pytest.mark.parametrize("name", ["security.protocol", "sasl.mechanism", "sasl.mechanisms"])
def test_a_secret_in_the_wrong_field_is_hidden(name: str) -> None:
    assert hidden("invalid value hunter2", {**PUBLIC, name: "hunter2"}) == "invalid value ***"


@pytest.mark.parametrize("mechanism", ["PLAIN", "scram-sha-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"])
def test_a_mechanism_is_no_secret(mechanism: str) -> None:
    assert hidden(f"mechanism {mechanism}", {"sasl.mechanism": mechanism}) == f"mechanism {mechanism}"


def test_what_is_no_secret_stays() -> None:
    text = ", ".join(f"{name}={value}" for name, value in PUBLIC.items())
    assert hidden(text, PUBLIC) == text
    assert hidden("5 retries, mode fast, True", {"retries": 5, "new.mode": "fast", "flag": True, "cb": print}) == (
        "5 retries, mode fast, True"
    )


@pytest.mark.parametrize(
    ("config", "alone"),
    [
        ('org.Module required username="alice" password="battery-staple";', ["battery-staple"]),
        ("org.Module required password='battery-staple' ;", ["battery-staple"]),
        ("org.Module required password=battery-staple;", ["battery-staple"]),
        (r'org.Module required password = "say \"please\" \\ now";', [r"say \"please\" \\ now", r'say "please" \ now']),
        ('org.Module required password="first"; org.Module optional token="second";', ["first", "second"]),
        ('org.Module required clientId="alice" clientSecret="battery-staple" scope="read";', ["battery-staple"]),
        ('Krb5LoginModule required useKeyTab=true keyTab="/k.tab" principal="alice" extra="hidden";', ["hidden"]),
    ],
)
def test_the_parts_of_a_jaas_entry_are_hidden_where_they_appear_alone(config: str, alone: list[str]) -> None:
    for name in ("sasl.jaas.config", "listener.name.internal.scram.sasl.jaas.config"):
        for secret in [config, *alone]:
            text = hidden(f"alice from /k.tab: [{secret}] is wrong, true", {name: config, **PUBLIC})
            assert text == "alice from /k.tab: [***] is wrong, true"


@pytest.mark.parametrize(
    "config",
    [
        "principal=alice scope=read clientSecret=battery-staple lifeSeconds=600",
        "principal=alice,clientSecret=battery-staple,scope=read",
        "principal=alice&token=battery-staple",
        '{"principal": "alice", "client_secret": "battery-staple", "scope": "read"}',
        "token: battery-staple",
        "url=https://alice:battery-staple@idp/token",
        "url=https://idp/token?secret=battery-staple",
        "battery-staple",
    ],
)
def test_the_parts_of_an_oauth_configuration_are_hidden_where_they_appear_alone(config: str) -> None:
    properties = {"sasl.oauthbearer.config": config}
    text = hidden("no token for alice, scope read, 600 s: battery-staple was refused", properties)
    assert text == "no token for alice, scope read, 600 s: *** was refused"
    assert "battery-staple" not in hidden(f"cannot parse {config}", properties)


@pytest.mark.parametrize("name", ["sasl.oauthbearer.token.endpoint.url", "schema.registry.url"])
def test_a_login_and_a_query_in_a_url_are_hidden_and_the_host_is_not(name: str) -> None:
    properties = {name: "https://alice:battery%20staple@idp.example.com/token?key=k3y-of-mine"}
    text = hidden("idp.example.com refuses battery staple, battery%20staple and k3y-of-mine", properties)
    assert text == "idp.example.com refuses ***, *** and ***"


def test_a_key_of_many_lines_is_hidden_line_by_line() -> None:
    body = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQDExampleExample"]
    pem = "\n".join(["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"])
    properties = {"ssl.key.pem": pem}
    assert hidden(f"bad key {pem!r}", properties) == "bad key '***'"
    assert hidden(f"bad line {body[1]}", properties) == "bad line ***"


SECRET = 'p"a ss\\wö/rd'


@pytest.mark.parametrize("form", [SECRET, json.dumps(SECRET), quote(SECRET), quote(SECRET, safe=""), repr(SECRET)])
def test_a_secret_is_known_in_other_forms(form: str) -> None:
    text = hidden(f"<{form}>", {"sasl.password": SECRET})
    assert HIDDEN in text
    assert not any(part in text for part in ("ss", "w", "rd"))


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    assert hidden("user1, 1 of 11, password 1", {"sasl.password": "1"}) == "user1, *** of 11, password ***"


def test_the_longer_of_two_secrets_is_hidden_whole() -> None:
    properties = {"sasl.password": "hunter", "ssl.key.password": "hunter2-and-more"}
    assert hidden("hunter2-and-more hunter", properties) == "*** ***"


def test_nothing_to_hide() -> None:
    assert without_secrets("text", ()) == "text"
    assert hidden("text", {"sasl.password": "", "ssl.key.password": "  ", "x.secret": "true"}) == "text"


@given(
    st.dictionaries(
        st.sampled_from(["sasl.password", "sasl.jaas.config", "sasl.oauthbearer.config", "a.url"]), st.text()
    )
)
def test_any_value_can_be_read(properties: dict[str, str]) -> None:
    assert isinstance(hidden("text", properties), str)


@given(st.text(min_size=4).filter(lambda s: s.strip().lower() not in {"true", "false", "none", "null", ""}))
def test_no_password_survives(password: str) -> None:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\015")
    for properties in (
        {"sasl.password": password},
        {"sasl.jaas.config": f'Module required password="{escaped}";'},
    ):
        # What stands in the secret's place must not be taken for it.
        assert hidden(f"<{password}>", properties) == f"<{HIDDEN}>"


LONG = 40_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", "a" * LONG),
        ("sasl.jaas.config", "a" * (LONG // 2) + " " * (LONG // 2)),
        ("sasl.jaas.config", 'a="' + "x" * LONG),
        ("sasl.jaas.config", 'a="' + "\\x" * (LONG // 2)),
        ("sasl.oauthbearer.config", "a=" * (LONG // 2)),
        ("sasl.oauthbearer.config", " " * LONG),
        ("sasl.oauthbearer.token.endpoint.url", "https://" + "?" * LONG),
        ("sasl.oauthbearer.token.endpoint.url", "https://" + "?a" * (LONG // 2)),
        ("sasl.oauthbearer.token.endpoint.url", "://a" * (LONG // 4)),
    ],
)
def test_the_secrets_of_a_long_value_are_found_in_time_that_grows_with_its_length(name: str, value: str) -> None:
    """It took a minute where every place was tried again from every other."""
    started = time.process_time()
    secrets_of({name: value})
    assert time.process_time() - started < 3


# -- object stores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY",
        "AZURE_CLIENT_SECRET", "GOOGLE_SERVICE_ACCOUNT_KEY",
    ],
)  # fmt: skip
def test_what_a_store_is_opened_with_by_the_environment_is_hidden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "hunter2")
    assert without_stores_secrets("refused: hunter2", ()) == f"refused: {HIDDEN}"


@pytest.mark.parametrize(
    "name",
    ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_SERVICE_ACCOUNT_PATH", "PASSWORD"],
)
def test_what_else_the_environment_says_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "eu-north-1")
    assert without_stores_secrets("eu-north-1", ()) == "eu-north-1"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("<Code>ExpiredToken</Code><Token-0>hunter2</Token-0>", "<Code>ExpiredToken</Code><Token-0>***</Token-0>"),
        ("<StringToSign>a\nhunter2</StringToSign><Code>x</Code>", "<StringToSign>***</StringToSign><Code>x</Code>"),
        ("<CanonicalRequest>GET\nx-amz-security-token:hunter2", "<CanonicalRequest>***</CanonicalRequest>"),
    ],
)
def test_what_a_store_repeats_of_a_request_is_hidden_whoever_gave_it(answer: str, told: str) -> None:
    """A token that a machine's role gives is in no connection and in no environment."""
    assert without_stores_secrets(answer) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("404 for https://hooks.example.com/services/T0/hunter2: gone", "404 for https://hooks.example.com/*** gone"),
        ("POST 'https://me:hunter2@example.com:8443/?a=b' failed", "POST 'https://example.com/***' failed"),
        ("https://me:hunt/er2@example.com", "https://me/***"),
        ("https://example.com?token=hunter2", "https://example.com/***"),
        ("no address", "no address"),
    ],
)
def test_of_an_address_only_its_host_is_left(text: str, told: str) -> None:
    assert without_addresses(text) == told


def test_addresses_are_found_in_time_that_grows_with_the_text() -> None:
    started = time.process_time()
    for text in ("a" * LONG, "a." * (LONG // 2), "a://" * (LONG // 4), "a://b@" * (LONG // 6), "://" * LONG):
        without_addresses(text)
        without_stores_secrets("<Token-0>" * (LONG // 9) + text)
    assert time.process_time() - started < 3
