# SPDX-License-Identifier: Apache-2.0
"""Logins as the vendors' own commands leave them on a machine: by their files, and a server in the place of the vendor."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.credentials import SSOProvider
from botocore.tokens import SSOTokenProvider

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError
from airflow_provider_rlmm.core.storage.credentials import StoreAccess
from airflow_provider_rlmm.core.storage.logins.aws import options_of
from airflow_provider_rlmm.core.storage.logins.login import with_login

S3, GS, AZ = "s3://bucket/tiered", "gs://bucket/tiered", "az://container/tiered"
LATER = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
KEYS = {"AccessKeyId": "GIVEN-KEY-ID", "SecretAccessKey": "given-s3cret", "SessionToken": "given-token"}
ROLE = "arn:aws:iam::123456789012:role/cleaner"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nobody has logged in yet."""
    for name in os.environ:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "CLOUDSDK_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class Vendor(ThreadingHTTPServer):
    """Whoever gives credentials: knows STS, the portal of SSO, and what a container is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Vendor

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        action = next(part.removeprefix("Action=") for part in body.split("&") if part.startswith("Action="))
        self.server.asked.append(action)
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in (KEYS | {"Expiration": LATER}).items())
        result = f"<{action}Result><Credentials>{fields}</Credentials></{action}Result>"
        self._answer(f"<{action}Response>{result}</{action}Response>", "text/xml")

    def do_PUT(self) -> None:
        self.server.asked.append("the role of the machine")
        self._answer("a-token", "text/plain")

    def do_GET(self) -> None:
        self.server.asked.append(self.path.partition("?")[0])
        lower = {name[0].lower() + name[1:]: value for name, value in KEYS.items()}
        if self.path.startswith("/federation/credentials"):
            found: dict[str, Any] = {"roleCredentials": lower | {"expiration": 4_000_000_000_000}}
        else:
            found = {**KEYS, "Token": KEYS["SessionToken"], "Expiration": LATER}
        self._answer(json.dumps(found), "application/json")

    def _answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with Vendor() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def keys_of(access: StoreAccess) -> tuple[str, str, str | None]:
    assert access.credentials is not None
    given = access.credentials()
    return given["access_key_id"], given["secret_access_key"], given["token"]


GIVEN = KEYS["AccessKeyId"], KEYS["SecretAccessKey"], KEYS["SessionToken"]
PROFILES = """
[default]
aws_access_key_id = DEFAULT-KEY-ID
aws_secret_access_key = default-s3cret
[operations]
aws_access_key_id = OPERATIONS-KEY-ID
aws_secret_access_key = operations-s3cret
"""


# --- nothing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "store", "advice"),
    [(S3, "S3", "aws sso login"), (GS, "Google Cloud Storage", "gcloud auth"), (AZ, "Azure Blob Storage", "az login")],
)
def test_no_credentials_is_a_sentence_and_no_address_is_asked(uri: str, store: str, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no credentials for {store}: ") as refused:
        with_login(uri, {})
    for told in (advice, "169.254.169.254", '"instance_metadata": true', "skip_signature=true"):
        assert told in str(refused.value)


def test_the_machine_is_not_asked_for_its_role(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", vendor.address)
    with pytest.raises(ConfigurationError, match="no credentials"):
        with_login(S3, {})
    assert vendor.asked == []


@pytest.mark.parametrize("uri", [S3, GS, AZ])
def test_the_role_of_the_machine_is_asked_for_where_it_is_allowed(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    assert with_login(uri, {"instance_metadata": "true"}) == StoreAccess({})
    assert "asking 169.254.169.254" in caplog.text
    with pytest.raises(ConfigurationError, match=r"instance_metadata.*true or false"):
        with_login(uri, {"instance_metadata": "perhaps"})


def test_a_folder_needs_no_login() -> None:
    assert with_login("file:///mnt/tiered", {}) == StoreAccess({})


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        (S3, {"aws_access_key_id": "id", "aws_secret_access_key": "s3cret"}),
        (S3, {"SKIP_SIGNATURE": "true"}),
        (S3, {"aws_metadata_endpoint": "http://127.0.0.1:1"}),
        (GS, {"google_service_account": "/etc/account.json"}),
        (GS, {"skip_signature": "true"}),
        (GS, {"bearer_token": "token"}),
        (AZ, {"azure_storage_account_key": "key"}),
        (AZ, {"azure_use_azure_cli": "true"}),
    ],
)
def test_credentials_among_the_options_are_all_that_is_used(
    uri: str, options: dict[str, str], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(home / ".aws/credentials", PROFILES)
    assert with_login(uri, {**options, "instance_metadata": "true"}) == StoreAccess(options)
    assert not caplog.text


@pytest.mark.parametrize(
    ("uri", "variable"),
    [
        (S3, "AWS_ACCESS_KEY_ID"),
        (GS, "GOOGLE_SERVICE_ACCOUNT"),
        (AZ, "AZURE_STORAGE_ACCOUNT_KEY"),
        (AZ, "AZURE_CLIENT_ID"),
    ],
)
def test_what_the_environment_names_obstore_reads_itself(
    uri: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "something")
    assert with_login(uri, {"region": "x"}) == StoreAccess({"region": "x"})


# --- AWS ----------------------------------------------------------------------------------------------------------------


def test_the_default_profile_is_used_unasked(home: Path) -> None:
    write(home / ".aws/credentials", PROFILES)
    write(home / ".aws/config", "[default]\nregion = eu-central-1\n")
    access = with_login(S3, {})
    assert access.options == {"region": "eu-central-1"}
    assert keys_of(access) == ("DEFAULT-KEY-ID", "default-s3cret", None)


@pytest.mark.parametrize("by_option", [True, False])
def test_a_profile_is_named_by_option_or_environment(
    by_option: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_option:
        # A profile that is named wins over keys in the environment, one in the environment does not: so does AWS's command.
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER-KEY-ID")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other-s3cret")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(write(home / "elsewhere", PROFILES)))
    config = "[profile operations]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:9000\n"
    write(home / ".aws/config", config + "s3 =\n  addressing_style = virtual\n")
    if not by_option:
        monkeypatch.setenv("AWS_PROFILE", "operations")
    access = with_login(S3, {"profile": "operations"} if by_option else {})
    assert access.options == {"region": "eu-west-1", "endpoint": "http://127.0.0.1:9000", "allow_http": "true"} | (
        {"virtual_hosted_style_request": "true"}
    )
    assert keys_of(access)[0] == "OPERATIONS-KEY-ID"


def test_options_win_over_a_profile(home: Path) -> None:
    write(home / ".aws/credentials", PROFILES)
    write(home / ".aws/config", "[default]\nregion = eu-central-1\nendpoint_url = https://one.example\n")
    given = {"aws_region": "eu-north-1", "endpoint": "https://two.example"}
    assert with_login(S3, given).options == given


def test_a_role_of_a_profile_is_assumed_and_the_host_is_told(
    home: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(home / ".aws/credentials", PROFILES)
    write(home / ".aws/config", f"[profile role]\nrole_arn = {ROLE}\nsource_profile = operations\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", vendor.address)
    access = with_login(S3, {"aws_profile": "role"})
    assert vendor.asked == []
    assert keys_of(access) == keys_of(access) == GIVEN
    assert vendor.asked == ["AssumeRole"]
    assert caplog.messages.count("asking 127.0.0.1 for the credentials of S3") == 1


def test_a_web_identity_is_exchanged(home: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(write(home / "token", "a.web.token")))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", vendor.address)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert keys_of(with_login(S3, {})) == GIVEN
    assert vendor.asked == ["AssumeRoleWithWebIdentity"]


def test_a_container_is_asked_where_the_environment_names_it(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{vendor.address}/container")
    assert keys_of(with_login(S3, {})) == GIVEN
    assert vendor.asked == ["/container"]


def test_a_process_gives_credentials(home: Path) -> None:
    script = write(home / "give", f"#!{sys.executable}\nprint({json.dumps(json.dumps(KEYS | {'Version': 1}))})\n")
    script.chmod(0o755)
    write(home / ".aws/config", f"[default]\ncredential_process = {script}\n")
    assert keys_of(with_login(S3, {})) == GIVEN


def sso(home: Path, expires: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (SSOTokenProvider, SSOProvider):
        # It looks for the home of the user when it is imported.
        monkeypatch.setattr(reader, "_SSO_TOKEN_CACHE_DIR", str(home / ".aws/sso/cache"))
    config = "[profile people]\nsso_session = company\nsso_account_id = 123456789012\nsso_role_name = Operators\n"
    company = "[sso-session company]\nsso_start_url = https://company.example/start\nsso_region = eu-west-1\n"
    write(home / ".aws/config", config + company)
    name = hashlib.sha1(b"company").hexdigest()
    token = {"startUrl": "https://company.example/start", "accessToken": "sso-s3cret-token", "expiresAt": expires}
    write(home / f".aws/sso/cache/{name}.json", json.dumps(token))


def test_a_login_of_sso_is_used(home: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    sso(home, LATER, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", vendor.address)
    assert keys_of(with_login(S3, {"profile": "people"})) == GIVEN
    assert vendor.asked == ["/federation/credentials"]


def test_a_login_of_sso_that_is_over_says_how_to_log_in_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sso(home, "2020-01-01T00:00:00Z", monkeypatch)
    access = with_login(S3, {"profile": "people"})
    assert access.credentials is not None
    with pytest.raises(StorageAccessError, match="aws sso login --profile people") as refused:
        access.credentials()
    assert "sso-s3cret-token" not in str(refused.value)


@pytest.mark.parametrize(
    ("profile", "told"), [("unheard-of", "unheard-of"), ("empty", "profile 'empty' .* holds no credentials")]
)
def test_a_profile_that_gives_nothing_is_refused(profile: str, told: str, home: Path) -> None:
    write(home / ".aws/config", "[profile empty]\nregion = eu-west-1\n")
    with pytest.raises(ConfigurationError, match=told):
        with_login(S3, {"profile": profile, "instance_metadata": "true"})


def test_a_profile_and_a_key_are_one_too_many() -> None:
    with pytest.raises(ConfigurationError, match="a profile and a key: keep one"):
        with_login(S3, {"profile": "x", "access_key_id": "id"})


def test_files_of_aws_need_botocore(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigurationError, match="no credentials for S3"):
        with_login(S3, {})
    write(home / ".aws/credentials", PROFILES)
    with pytest.raises(ConfigurationError, match=r"install airflow-provider-rlmm\[aws\]"):
        with_login(S3, {})
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")
    assert with_login(S3, {}) == StoreAccess({})


@pytest.mark.parametrize("options", [{}, {"access_key_id": "id", "secret_access_key": "s3cret"}])
def test_authorities_are_those_of_awss_own_tools(
    options: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / ".aws/credentials", PROFILES)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(write(home / "ca.pem", "a certificate")))
    assert with_login(S3, options).options["root_certificate"] == "a certificate"
    assert with_login(S3, {**options, "root_certificate": "mine"}).options["root_certificate"] == "mine"
    monkeypatch.setenv("AWS_CA_BUNDLE", str(home / "not-there.pem"))
    with pytest.raises(ConfigurationError, match=r"AWS_CA_BUNDLE.*not-there\.pem"):
        with_login(S3, options)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (Config(), {}),
        (Config(s3={"addressing_style": "path"}), {"virtual_hosted_style_request": "false"}),
        (Config(s3={"addressing_style": "auto"}), {}),
        (Config(proxies={"https": "http://proxy:3128"}), {"proxy_url": "http://proxy:3128"}),
    ],
)
def test_what_a_configuration_of_botocore_says_of_addresses(config: Config, options: dict[str, str]) -> None:
    assert options_of(config) == options


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (Config(use_fips_endpoint=True), "use_fips_endpoint"),
        (Config(use_dualstack_endpoint=True), "use_dualstack_endpoint"),
        (Config(s3={"use_accelerate_endpoint": True}), "s3.use_accelerate_endpoint"),
        (Config(client_cert="/etc/client.pem"), "client_cert"),
        (Config(proxies={"https": "http://one:1", "http": "http://two:2"}), "proxies for several schemes"),
    ],
)
def test_what_obstore_cannot_do_is_refused(config: Config, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"obstore knows no {named}: .*s3-fips"):
        options_of(config)


def test_a_profile_that_wants_what_obstore_cannot_do_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".aws/credentials", PROFILES)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    with pytest.raises(ConfigurationError, match="use_fips_endpoint"):
        with_login(S3, {})
    write(home / ".aws/config", "[default]\nendpoint_url = https://s3-fips.eu-central-1.amazonaws.com\n")
    assert with_login(S3, {}).options == {"endpoint": "https://s3-fips.eu-central-1.amazonaws.com"}


@pytest.mark.parametrize("name", ["AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT"])
@pytest.mark.parametrize(
    "options", [{"access_key_id": "id", "secret_access_key": "s3cret"}, {"instance_metadata": "true"}]
)
def test_an_address_in_the_environment_is_not_passed_over(
    options: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "true")
    with pytest.raises(ConfigurationError, match=name.removeprefix("AWS_").lower()):
        with_login(S3, options)
    assert with_login(S3, {**options, "endpoint": "https://one.example"}).options["endpoint"] == "https://one.example"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://two.example")
    assert "endpoint" not in with_login(S3, options).options


# --- Google and Azure ---------------------------------------------------------------------------------------------------

USER = json.dumps({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"})
ADC = "application_default_credentials.json"


def test_the_file_of_gcloud_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".config/gcloud" / ADC, USER)
    assert with_login(GS, {}) == StoreAccess({})
    elsewhere = write(home / "cloudsdk" / ADC, USER)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(elsewhere.parent))
    assert with_login(GS, {}).options == {"application_credentials": str(elsewhere)}


def test_a_file_of_google_that_is_named_must_be_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(home / "not-there.json"))
    with pytest.raises(ConfigurationError, match=r"not-there.json' is no readable file"):
        with_login(GS, {"instance_metadata": "true"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(write(home / "account.json", USER)))
    assert with_login(GS, {}) == StoreAccess({})


def test_other_files_of_google_need_its_library(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    write(home / ".config/gcloud" / ADC, json.dumps({"type": "external_account"}))
    with pytest.raises(ConfigurationError, match=r"'external_account'.*install airflow-provider-rlmm\[gcs\]"):
        with_login(GS, {})


def test_the_command_of_azure_is_asked(home: Path) -> None:
    command = write(home / "bin/az", "#!/bin/sh\n")
    command.chmod(0o755)
    assert with_login(AZ, {"account_name": "account"}).options == {"account_name": "account", "use_azure_cli": "true"}
