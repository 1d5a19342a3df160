# SPDX-License-Identifier: Apache-2.0
"""The S3 server and the proxy that other tests believe in."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from dev.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoServer
from dev.s3_proxy import S3Proxy

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    with MotoServer(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture
def proxy(server: MotoServer) -> Iterator[S3Proxy]:
    with S3Proxy(server.port) as proxy:
        yield proxy


def store_at(endpoint: str) -> S3Store:
    return S3Store(
        BUCKET,
        endpoint=endpoint,
        region=REGION,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_what_is_written_through_the_proxy_is_on_the_server(server: MotoServer, proxy: S3Proxy) -> None:
    store = store_at(proxy.endpoint)
    keys = [f"a b/{number}=ü" for number in range(3)]
    for key in keys:
        obstore.put(store, key, key.encode())
    assert server.objects("a b/") == {key: len(key.encode()) for key in keys}
    assert bytes(obstore.get_range(store, keys[0], start=0, end=3)) == b"a b"
    assert obstore.head(store, keys[1])["size"] == len(keys[1].encode())
    obstore.delete(store, keys)
    assert server.objects("a b/") == {}
    assert (proxy.throttled, proxy.refused) == (0, 0)


def test_a_proxy_that_is_down_cuts_and_passes_nothing(server: MotoServer, proxy: S3Proxy) -> None:
    store = store_at(proxy.endpoint)
    proxy.down = True
    with pytest.raises(obstore.exceptions.GenericError):
        obstore.put(store, "down", b"x")
    assert proxy.refused
    assert server.objects("down") == {}
    proxy.down = False
    obstore.put(store, "down", b"x")
    assert server.objects("down") == {"down": 1}


def test_a_proxy_throttles_every_so_manyth_request(proxy: S3Proxy) -> None:
    store, answers = store_at(proxy.endpoint), list[bool]()
    proxy.throttle_every = 3
    for number in range(9):
        try:
            obstore.put(store, f"throttled/{number}", b"x")
            answers.append(True)
        except obstore.exceptions.GenericError as error:
            assert "SlowDown" in str(error)  # noqa: PT017 - not every one is to fail
            answers.append(False)
    assert answers == [True, True, False] * 3
    assert proxy.throttled == 3


def test_a_request_that_is_not_whole_is_not_passed_on(server: MotoServer, proxy: S3Proxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.server_port)
    connection.putrequest("PUT", f"/{BUCKET}/half")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"x" * 50)
    connection.sock.shutdown(1)
    with pytest.raises(http.client.RemoteDisconnected):
        connection.getresponse()
    connection.close()
    assert server.objects("half") == {}


def test_a_killed_moto_comes_back_at_the_same_address_with_nothing(tmp_path: Path) -> None:
    with MotoServer(tmp_path) as server:
        server.client.put_object(Bucket=BUCKET, Key="a", Body=b"x")
        server.kill()
        server.start()
        assert server.client.list_buckets()["Buckets"] == []
