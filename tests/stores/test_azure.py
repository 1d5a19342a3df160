# SPDX-License-Identifier: Apache-2.0
"""Every form of a ``wasb`` connection against Azurite, which checks keys, signatures and what a token says of itself."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from obstore.store import AzureStore

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError, StorageUnavailableError
from airflow_provider_rlmm.core.storage.hidden_copies import Freed
from airflow_provider_rlmm.core.storage.opening import location_of, open_store
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.hooks.storage import RemoteStorageHook
from tests.certificates import Authority
from tests.contracts.remote_storage import segment
from tests.stores.azurite import running_azurite
from tests.stores.conftest import LAYOUT, opened, told

pytest.importorskip("airflow.providers.microsoft.azure")
pytestmark = pytest.mark.stores

# Azurite's own account, of its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER, URI = "tiered", f"abfss://tiered@{ACCOUNT}.dfs.core.windows.net/kafka"
KEYS = [f"kafka/{key}" for key in LAYOUT.required_keys(segment(1))]
Connect = Callable[..., None]


class Azurite:
    """
    :param address: of the emulator, with the scheme.
    :param authority: certificate of who has signed the emulator's, PEM.
    """

    def __init__(self, address: str, authority: Path | None = None) -> None:
        from azure.storage.blob import BlobServiceClient

        self.host = f"{address}/{ACCOUNT}"
        client: dict[str, Any] = {"allow_http": True}
        if authority is not None:
            client = {"root_certificate": authority.read_text()}
        self.store = AzureStore(
            CONTAINER, account_name=ACCOUNT, account_key=KEY, endpoint=self.host, client_options=client
        )
        verify = {"connection_verify": str(authority)} if authority else {}
        BlobServiceClient(self.host, KEY, **verify).create_container(CONTAINER).close()

    def fill(self) -> None:
        for key in KEYS:
            self.store.put(key, b"x")

    def clean(self) -> None:
        """List and delete one segment."""
        self.fill()
        manager = opened()
        assert {stored.key for stored in manager.list_objects()} == {key.removeprefix("kafka/") for key in KEYS}
        assert manager.delete_log_segment_data(segment(1)).outcome is DeleteOutcome.GONE
        assert list(self.store.list()) == []


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    with running_azurite() as address:
        yield Azurite(address)


def signature(permissions: str = "rwdl", **kwargs: Any) -> str:
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    return generate_container_sas(
        ACCOUNT,
        CONTAINER,
        account_key=KEY,
        permission=ContainerSasPermissions.from_string(permissions),
        expiry=datetime.now(UTC) + timedelta(hours=1),
        **kwargs,
    )


# -- the emulator itself, with plain obstore --------------------------------------------------------------------------


def test_the_emulator_lists_deletes_and_refuses_as_expected(azurite: Azurite) -> None:
    azurite.fill()
    assert sorted(meta["path"] for page in azurite.store.list() for meta in page) == sorted(KEYS)
    azurite.store.delete(KEYS)
    assert list(azurite.store.list()) == []
    azurite.store.put(KEYS[1], b"x")
    with pytest.raises(FileNotFoundError):
        azurite.store.delete(KEYS[:2])
    # The others are gone all the same.
    assert list(azurite.store.list()) == []


# -- forms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", [URI, URI.replace("abfss", "abfs"), URI.replace("abfss", "wasbs"), "az://tiered/kafka"])
def test_a_connection_string_and_every_spelling_of_the_uri(azurite: Azurite, connect: Connect, uri: str) -> None:
    text = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={azurite.host};"
    connect(uri, "wasb", {"connection_string": text})
    azurite.clean()


@pytest.mark.parametrize("where", ["password", "shared_access_key", "account_key"])
def test_an_account_key(azurite: Azurite, connect: Connect, where: str) -> None:
    fields: dict[str, Any] = {"password": KEY} if where == "password" else {"extra": {where: KEY}}
    connect(URI, "wasb", host=azurite.host, login=ACCOUNT, **fields)
    azurite.clean()


def test_a_shared_access_signature(azurite: Azurite, connect: Connect) -> None:
    connect(URI, "wasb", {"sas_token": signature()}, host=azurite.host)
    azurite.clean()


def test_a_signature_within_a_connection_string(azurite: Azurite, connect: Connect) -> None:
    text = f"BlobEndpoint={azurite.host};SharedAccessSignature={signature()}"
    connect(URI, "wasb", {"connection_string": text})
    azurite.clean()


def test_options_of_obstore(azurite: Azurite, connect: Connect) -> None:
    connect(URI, "generic", {"azure_endpoint": azurite.host, "allow_http": True}, login=ACCOUNT, password=KEY)
    azurite.clean()


# -- what Azure refuses ---------------------------------------------------------------------------------------------------


def test_a_blob_with_a_snapshot_is_foretold_and_stays_with_what_to_do(azurite: Azurite, connect: Connect) -> None:
    from azure.storage.blob import BlobServiceClient

    connect(URI, "wasb", host=azurite.host, login=ACCOUNT, password=KEY)
    azurite.fill()
    with BlobServiceClient(azurite.host, KEY) as service, service.get_blob_client(CONTAINER, KEYS[1]) as blob:
        assert "none of" in opened().deletion_effect().why
        inspector = opened().inspector
        assert inspector is not None
        assert inspector.is_flat(), "the emulator has no folders"
        blob.create_snapshot()
        effect = opened().deletion_effect()
        assert f"1 of {len(KEYS)} blobs has snapshots" in effect.why
        assert f"such as {KEYS[1]}" in effect.refused
        deletion = opened().delete_log_segment_data(segment(1))
        assert deletion.outcome is DeleteOutcome.PRESENT
        assert [meta["path"] for page in azurite.store.list() for meta in page] == [KEYS[1]]
        assert "has snapshots" in str(deletion)
        assert "delete its snapshots by 'az storage blob delete --delete-snapshots only'" in str(deletion)
        blob.delete_blob(delete_snapshots="only")
        assert opened().delete_log_segment_data(segment(1)).outcome is DeleteOutcome.GONE


def test_what_a_signature_may_not_ask_is_said(azurite: Azurite, connect: Connect) -> None:
    connect(URI, "wasb", {"sas_token": signature()}, host=azurite.host)
    said = opened().deletion_effect().sentence
    assert (
        "legal hold or an immutability policy is not known (HttpResponseError, AuthorizationPermissionMismatch)" in said
    )
    assert "whether soft delete keeps what is deleted is not known (" in said
    assert "none of 0 blobs has a snapshot" in said
    inspector = opened().inspector
    assert inspector is not None
    assert not inspector.is_flat(), "the emulator tells it of accounts only, which this may not ask"
    assert "sig=" not in said


class ContainerHandler(BaseHTTPRequestHandler):
    """A service whose one container has what :attr:`properties` say, no blob, and no soft delete."""

    properties: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        asked = urlsplit(self.path).query
        body = b"<StorageServiceProperties/>" if "comp=properties" in asked else b""
        if "comp=list" in asked:
            body = b"<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>"
        self.send_response(200)
        for name, value in self.properties.items():
            self.send_header(f"x-ms-{name}", value)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def container(connect: Connect) -> Iterator[dict[str, str]]:
    """What the properties of a container say, which a connection leads to."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ContainerHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        connect(URI, "wasb", host=f"http://127.0.0.1:{server.server_port}/{ACCOUNT}", login=ACCOUNT, password=KEY)
        ContainerHandler.properties.clear()
        yield ContainerHandler.properties
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("named", "freed"),
    [
        ("has-legal-hold", Freed.REFUSED),
        ("has-immutability-policy", Freed.REFUSED),
        ("immutable-storage-with-versioning-enabled", Freed.NEVER),
    ],
)
def test_azures_client_reads_holds_and_policies(container: dict[str, str], named: str, freed: Freed) -> None:
    names = ("has-legal-hold", "has-immutability-policy", "immutable-storage-with-versioning-enabled")
    container |= dict.fromkeys(names, "false")
    assert opened().deletion_effect().freed is Freed.UNKNOWN
    container[named] = "true"
    assert opened().deletion_effect().freed is freed


# -- tokens ---------------------------------------------------------------------------------------------------------------


def token(lifetime_s: int = 3600) -> str:
    """A token as Azurite reads it: it looks at what it says, and at no signature."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com", "iss": "https://sts.windows.net/ours/", "iat": now - 60, "nbf": now - 60,
        "exp": now + lifetime_s,
    }  # fmt: skip
    parts = [{"alg": "none", "typ": "JWT"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "pl4ntedS1gnature"])


class IdentityServer(ThreadingHTTPServer):
    """
    The identity of a machine, as Azure's App Service gives it.

    :ivar given: the tokens.
    :ivar refuses: whether none are given.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _IdentityHandler)
        self.given: list[str] = []
        self.asked: list[str] = []
        self.refuses = False


class _IdentityHandler(BaseHTTPRequestHandler):
    server: IdentityServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.refuses:
            self.send_response(400)
            body = b'{"error": "no such identity"}'
        else:
            self.send_response(200)
            self.server.given.append(token())
            expires = int(time.time()) + 3600
            body = json.dumps(
                {"access_token": self.server.given[-1], "expires_on": str(expires), "token_type": "Bearer"}
            ).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityServer]:
    with IdentityServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{server.server_port}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "pl4nted-identity-header")
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Azurite, Path]]:
    """An emulator that takes tokens, which it does with TLS only."""
    authority = Authority(tmp_path_factory.mktemp("ca"))
    with running_azurite(authority.certificate("127.0.0.1")) as address:
        yield Azurite(address, authority.path), authority.path


@pytest.fixture
def trusting(secured: tuple[Azurite, Path], monkeypatch: pytest.MonkeyPatch) -> Azurite:
    """The same, its authority among the system's."""
    azurite, authority = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    return azurite


@pytest.mark.parametrize("client_id", [None, "00000000-0000-0000-0000-000000000007"])
def test_a_managed_identity(
    trusting: Azurite, identity: IdentityServer, connect: Connect, client_id: str | None
) -> None:
    extra = {"managed_identity_client_id": client_id, "workload_identity_tenant_id": "ours"} if client_id else {}
    connect(URI, "wasb", extra, host=trusting.host)
    trusting.clean()
    assert len(identity.given) == 1
    assert all((client_id or "") in asked for asked in identity.asked)


def test_a_service_principal(trusting: Azurite, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.core.credentials import AccessToken
    from azure.identity import ClientSecretCredential

    scopes: list[str] = []

    def get_token(self: Any, *asked: str, **kwargs: Any) -> AccessToken:
        scopes.extend(asked)
        # It ends so soon that obstore asks for each request.
        return AccessToken(token(), int(time.time()) + 60)

    monkeypatch.setattr(ClientSecretCredential, "get_token", get_token)
    tenant = {"tenant_id": "00000000-0000-0000-0000-000000000001"}
    connect(URI, "wasb", tenant, host=trusting.host, login="client", password="pl4nted-client-secret")
    trusting.clean()
    manager = opened()
    while len(scopes) < 3:
        manager.list_objects()
    assert set(scopes) == {"https://storage.azure.com/.default"}


def test_an_identity_that_does_not_exist_gives_no_credentials(
    trusting: Azurite, identity: IdentityServer, connect: Connect
) -> None:
    identity.refuses = True
    connect(URI, "wasb", {"managed_identity_client_id": "x" * 12}, host=trusting.host)
    with pytest.raises(StorageAccessError, match="connection 'store' gives no credentials") as caught:
        opened().list_objects()
    assert "pl4nted" not in told(caught.value)


def test_a_certificate_that_nobody_knows_is_refused(
    secured: tuple[Azurite, Path], identity: IdentityServer, connect: Connect
) -> None:
    connect(URI, "wasb", host=secured[0].host)
    with pytest.raises(StorageUnavailableError):
        opened().list_objects()


# -- what is refused, and what nobody sees -----------------------------------------------------------------------------


def test_another_account_than_the_uris_is_refused(azurite: Azurite, connect: Connect) -> None:
    connect(URI.replace(ACCOUNT, "another"), "wasb", host=azurite.host, login=ACCOUNT, password=KEY)
    with pytest.raises(ConfigurationError, match=f"is of the storage account '{ACCOUNT}', .* names 'another'"):
        opened()


def test_no_account_is_refused(connect: Connect) -> None:
    connect("az://tiered/kafka", "wasb", host="https://storage.example", password=KEY)
    with pytest.raises(ConfigurationError, match=r"^connection 'store': ") as caught:
        opened()
    assert KEY not in told(caught.value)


def test_the_public_address_of_an_account_is_no_place_of_its_own(connect: Connect) -> None:
    """However the account is named, a stamp says the same."""
    host = "https://account.blob.core.windows.net"
    uri = "abfss://tiered@account.dfs.core.windows.net/kafka"
    places = set()
    for conn_type, fields in (
        ("wasb", {"host": host, "password": KEY}),
        ("wasb", {"login": "account", "password": KEY}),
        ("generic", {"login": "account", "password": KEY}),
    ):
        connect(uri, conn_type, **fields)
        places.add(str(location_of(opened_store(), "")))
    assert places == {"az://tiered/kafka?endpoint=account"}


def opened_store() -> Any:
    from airflow.sdk import BaseHook

    from airflow_provider_rlmm.hooks.stores.access import store_access

    uri = RemoteStorageHook().get_connection_settings().required_storage_uri()
    access = store_access(uri, BaseHook.get_connection("store"))
    return open_store(uri, access.options, access.credentials)


def secrets_in(text: str) -> list[str]:
    return [s for s in (KEY, KEY.rstrip("="), "pl4nted", "sig=") if s in text]


@pytest.mark.parametrize("form", ["connection_string", "password", "sas_token"])
def test_secrets_reach_no_log_and_no_error(
    azurite: Azurite, connect: Connect, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    caplog.set_level(logging.DEBUG)
    azurite.fill()
    wrong = base64.b64encode(b"pl4nted key that is not the account's own").decode()
    # A signature that may only read: everything else is refused.
    reading = signature("r")
    if form == "connection_string":
        text = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={wrong};BlobEndpoint={azurite.host};"
        connect(URI, "wasb", {"connection_string": text})
    elif form == "password":
        connect(URI, "wasb", host=azurite.host, login=ACCOUNT, password=wrong)
    else:
        connect(URI, "wasb", {"sas_token": reading}, host=azurite.host)
    manager = opened()
    texts = [repr(manager), repr(vars(manager))]
    for call in (manager.list_objects, lambda: manager.delete_log_segment_data(segment(1))):
        with pytest.raises(StorageAccessError) as caught:
            call()
        texts.append(told(caught.value))
    hidden = [wrong, reading.partition("sig=")[2]]
    assert not [text for text in [*texts, caplog.text] if any(secret in text for secret in hidden)]


@pytest.mark.parametrize("text", ["AccountKey=pl4nted-secret", "AccountName=a;AccountKey", f"AccountKey={KEY}"])
def test_a_connection_string_that_cannot_be_read_is_refused(connect: Connect, text: str) -> None:
    connect(URI, "wasb", {"connection_string": text})
    with pytest.raises(ConfigurationError, match=r"^connection 'store': Airflow's hook .* wasb refuses it") as caught:
        opened()
    assert not secrets_in(told(caught.value))
