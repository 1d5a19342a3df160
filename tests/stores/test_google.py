# SPDX-License-Identifier: Apache-2.0
"""Every form of a ``google_cloud_platform`` connection against a small server, behind a proxy that asks for its token."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from obstore.store import GCSStore

from airflow_provider_rlmm.core.base.errors import ConfigurationError, StorageAccessError
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from tests.contracts.remote_storage import segment
from tests.stores.conftest import LAYOUT, opened, told
from tests.stores.gcs_server import BUCKET, running_gcs_server
from tests.stores.recording_proxy import RecordingProxy, running_proxy

pytest.importorskip("airflow.providers.google")
pytestmark = pytest.mark.stores

URI = f"gs://{BUCKET}/kafka"
KEYS = [f"kafka/{key}" for key in LAYOUT.required_keys(segment(1))]
Connect = Callable[..., None]


class TokenServer(ThreadingHTTPServer):
    """
    What gives tokens: the OAuth server of a key, and the metadata server of a machine.

    :ivar given: the tokens, in order.
    :ivar lifetime_s: seconds for which the next tokens are good.
    :ivar refuses: whether none are given.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _TokenHandler)
        self.given: list[str] = []
        self.lifetime_s = 3600
        self.refuses = False


class _TokenHandler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        posted = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.server.refuses:
            self._answer(400, {"error": "invalid_grant", "error_description": f"not with {posted}"})
            return
        self._give()

    def do_GET(self) -> None:
        if "token" in self.path:
            self._give()
        elif "email" in self.path or "service-accounts" in self.path:
            self._answer(200, {"email": "machine@ours", "scopes": ["all"], "aliases": ["default"]})
        else:
            self._answer(200, "ours" if "project-id" in self.path else {})

    def _give(self) -> None:
        self.server.given.append(f"ya29.planted-token-{len(self.server.given)}")
        token = {"access_token": self.server.given[-1], "expires_in": self.server.lifetime_s, "token_type": "Bearer"}
        self._answer(200, token)

    def _answer(self, status: int, content: object) -> None:
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/text" if isinstance(content, str) else "application/json")
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[RecordingProxy]:
    with running_proxy() as proxy, running_gcs_server() as server:
        proxy.upstream = f"127.0.0.1:{server.server_port}"
        yield proxy


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with TokenServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def store(proxy: RecordingProxy) -> GCSStore:
    """obstore with a token that needs nobody to give it."""

    def token() -> Any:
        return {"token": "of the test", "expires_at": None}

    address = f"http://{proxy.address}"
    return GCSStore(BUCKET, base_url=address, credential_provider=token, client_options={"allow_http": True})


@pytest.fixture
def gcs(
    proxy: RecordingProxy, store: GCSStore, tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RecordingProxy]:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{proxy.address}")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    for key in KEYS:
        store.put(key, b"x")
    proxy.asked.clear()
    proxy.allows = lambda asked: (asked.authorization or "").removeprefix("Bearer ") in tokens.given
    yield proxy
    proxy.allows = lambda asked: True


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def key_file(private_key: str, tokens: TokenServer) -> dict[str, str]:
    return {
        "type": "service_account",
        "project_id": "ours",
        "private_key_id": "0123456789abcdef",
        "private_key": private_key,
        "client_email": "cleaner@ours.iam.gserviceaccount.com",
        "client_id": "1234567890",
        "token_uri": f"http://127.0.0.1:{tokens.server_port}/token",
    }


def clean(gcs: RecordingProxy, store: GCSStore) -> set[str]:
    """List and delete one segment; return the tokens that were used."""
    manager = opened()
    assert {stored.key for stored in manager.list_objects()} == {key.removeprefix("kafka/") for key in KEYS}
    assert manager.delete_log_segment_data(segment(1)).outcome is DeleteOutcome.GONE
    used = {(asked.authorization or "").removeprefix("Bearer ") for asked in gcs.asked}
    gcs.allows = lambda asked: True
    assert list(store.list()) == []
    return used


# -- the server itself, with plain obstore --------------------------------------------------------------------------


def test_the_server_lists_deletes_and_refuses_as_expected(gcs: RecordingProxy, store: GCSStore) -> None:
    gcs.allows = lambda asked: True
    assert sorted(meta["path"] for page in store.list() for meta in page) == sorted(KEYS)
    store.delete(KEYS)
    assert list(store.list()) == []
    with pytest.raises(FileNotFoundError):
        store.delete([KEYS[0]])


# -- forms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_text", [False, True])
def test_a_key_in_the_connection(
    gcs: RecordingProxy, store: GCSStore, tokens: TokenServer, connect: Connect, key_file: dict[str, str], as_text: bool
) -> None:
    key = json.dumps(key_file) if as_text else key_file
    connect(URI, "google_cloud_platform", {"project": "ours", "keyfile_dict": key})
    assert clean(gcs, store) == set(tokens.given)
    assert len(tokens.given) == 1


@pytest.mark.parametrize("by", ["key_path", "the environment"])
def test_a_key_in_a_file(
    gcs: RecordingProxy,
    store: GCSStore,
    tokens: TokenServer,
    connect: Connect,
    key_file: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(key_file))
    if by == "key_path":
        connect(URI.replace("gs:", "gcs:"), "google_cloud_platform", {"key_path": str(path)})
    else:
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        connect(URI, "google_cloud_platform")
    assert clean(gcs, store) == set(tokens.given)


def test_the_identity_of_the_machine(
    gcs: RecordingProxy,
    store: GCSStore,
    tokens: TokenServer,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from google.auth.compute_engine import _metadata

    # The library reads GCE_METADATA_HOST when it is imported.
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", f"127.0.0.1:{tokens.server_port}")
    monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{tokens.server_port}")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    connect(URI, "google_cloud_platform", {"project": "ours"})
    assert clean(gcs, store) <= set(tokens.given)


def test_without_credentials_one_may_only_look(gcs: RecordingProxy, connect: Connect) -> None:
    gcs.allows = lambda asked: asked.authorization is None
    connect(URI, "google_cloud_platform", {"is_anonymous": True})
    assert len(opened().list_objects()) == len(KEYS)


def test_a_token_is_renewed_before_it_ends(
    gcs: RecordingProxy, tokens: TokenServer, connect: Connect, key_file: dict[str, str]
) -> None:
    # Google's library renews a token that ends within four minutes.
    tokens.lifetime_s = 120
    connect(URI, "google_cloud_platform", {"keyfile_dict": key_file})
    manager = opened()
    while len(tokens.given) < 3:
        manager.list_objects()
    used = {(asked.authorization or "").removeprefix("Bearer ") for asked in gcs.asked}
    assert used == set(tokens.given)


# -- what is refused, and what nobody sees -----------------------------------------------------------------------------


def planted(key_file: dict[str, str], text: str) -> list[str]:
    lines = key_file["private_key"].splitlines()
    return [secret for secret in [*lines[1:-1], "ya29.planted-token"] if secret in text]


def test_secrets_reach_no_log_and_no_error(
    gcs: RecordingProxy,
    tokens: TokenServer,
    connect: Connect,
    key_file: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    connect(URI, "google_cloud_platform", {"keyfile_dict": key_file})
    gcs.allows = lambda asked: False
    manager = opened()
    texts = [repr(manager), repr(vars(manager))]
    for call in (manager.list_objects, lambda: manager.delete_log_segment_data(segment(1))):
        with pytest.raises(StorageAccessError) as caught:
            call()
        texts.append(told(caught.value))
    assert tokens.given
    assert not any(planted(key_file, text) for text in [*texts, caplog.text])


def test_a_key_that_is_not_taken_gives_no_credentials(
    gcs: RecordingProxy, tokens: TokenServer, connect: Connect, key_file: dict[str, str]
) -> None:
    tokens.refuses = True
    connect(URI, "google_cloud_platform", {"keyfile_dict": key_file})
    with pytest.raises(StorageAccessError, match="connection 'store' gives no credentials: RefreshError") as caught:
        opened().list_objects()
    assert not planted(key_file, told(caught.value))
    assert gcs.asked == []


@pytest.mark.parametrize("broken", ["private_key", "whole"])
def test_a_key_that_cannot_be_read_is_refused(connect: Connect, key_file: dict[str, str], broken: str) -> None:
    damaged = key_file | {"private_key": key_file["private_key"][:300]}
    key = damaged if broken == "private_key" else json.dumps(key_file)[:-9]
    connect(URI, "google_cloud_platform", {"keyfile_dict": key})
    with pytest.raises(ConfigurationError, match=r"^connection 'store': Airflow's hook .* refuses it") as caught:
        opened()
    assert not planted(key_file, told(caught.value))


def test_a_store_of_another_kind_is_refused(connect: Connect, key_file: dict[str, str]) -> None:
    connect("s3://tiered/kafka", "google_cloud_platform", {"keyfile_dict": key_file})
    with pytest.raises(ConfigurationError, match=r"its type 'google_cloud_platform' opens gs:// and not s3://"):
        opened()


def test_expiry_is_told_with_its_time_zone(
    gcs: RecordingProxy, connect: Connect, key_file: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk import BaseHook

    from airflow_provider_rlmm.hooks.stores.access import store_access

    connect(URI, "google_cloud_platform", {"keyfile_dict": key_file})
    access = store_access(URI, BaseHook.get_connection("store"))
    assert access.credentials is not None
    left = access.credentials()["expires_at"] - datetime.now(UTC)
    assert timedelta(minutes=55) < left <= timedelta(hours=1)
