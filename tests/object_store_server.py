# SPDX-License-Identifier: Apache-2.0
"""A server of a few lines that speaks as much of S3 as single objects need, on a port of its own, and can misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


def s3_environment(port: int) -> dict[str, str]:
    """What leads S3 clients to a server on this machine."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "a-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_REGION": "eu-central-1",
    }


class ObjectStoreServer(ThreadingHTTPServer):
    """
    :ivar objects: path (``/bucket/key``) → bytes.
    :ivar requests: method and path of each request, in order.
    :ivar lost_answers: how many of the next writes are done and answered with an error all the same.
    :ivar forbidden: whether everything is answered with 403.
    :ivar ignores_conditions: whether a put with a condition is done without looking.
    :ivar forgets_after: before this many further puts what is there is gone, as if somebody had removed it.
    :ivar expired: whether everything is answered as S3 answers where a session is over: the token is repeated.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.lost_answers = 0
        self.forbidden = False
        self.expired = False
        self.ignores_conditions = False
        self.forgets_after: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What leads S3 clients here."""
        return s3_environment(self.server_port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStoreServer

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self._refused():
            return
        if self.server.forgets_after is not None:
            self.server.forgets_after -= 1
            if self.server.forgets_after < 0:
                self.server.objects.clear()
                self.server.forgets_after = None
        conditional = self.headers.get("If-None-Match") == "*" and not self.server.ignores_conditions
        if conditional and unquote(self.path) in self.server.objects:
            self._answer(412)
            return
        self.server.objects[unquote(self.path)] = data
        if self.server.lost_answers:
            self.server.lost_answers -= 1
            self._answer(500)
            return
        self._answer(200)

    def do_GET(self) -> None:
        if self._refused():
            return
        data = self.server.objects.get(unquote(self.path))
        self._answer(404 if data is None else 200, data or b"")

    def do_HEAD(self) -> None:
        if not self._refused():
            self._answer(200 if unquote(self.path) in self.server.objects else 404)

    def do_POST(self) -> None:
        """Delete the objects that the body names, the only POST that is asked for."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self._refused():
            return
        bucket = self.path.partition("?")[0].rstrip("/")
        keys = [part.partition("</Key>")[0] for part in body.split("<Key>")[1:]]
        for key in keys:
            self.server.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _refused(self) -> bool:
        self.server.requests.append((self.command, self.path))
        if self.server.forbidden:
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        elif self.server.expired:
            token = self.headers.get("x-amz-security-token", "")
            self._answer(400, f"<Error><Code>ExpiredToken</Code><Token-0>{token}</Token-0></Error>".encode())
        return self.server.forbidden or self.server.expired

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running_object_store() -> Iterator[ObjectStoreServer]:
    """Serve until the block ends."""
    with ObjectStoreServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
