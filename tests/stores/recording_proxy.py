# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that passes every request on, keeps in mind who has asked, and may refuse."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

_OF_ONE_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    authorization: str | None


class RecordingProxy(ThreadingHTTPServer):
    """
    :ivar upstream: host and port to pass requests on to.
    :ivar asked: the requests, in order.
    :ivar allows: tells whether a request is passed on; otherwise it is answered with 403.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = ""
        self.asked: list[Asked] = []
        self.allows: Callable[[Asked], bool] = lambda asked: True

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RecordingProxy

    def _pass_on(self) -> None:
        body = self._body()
        asked = Asked(self.command, self.path, self.headers.get("Authorization"))
        self.server.asked.append(asked)
        if not self.server.allows(asked):
            self._answer(403, [], f"<Error><Code>AccessDenied</Code>{asked.authorization}</Error>".encode())
            return
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=30)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_HOP}
            upstream.request(self.command, self.path, body, {**headers, "Host": self.headers["Host"]})
            answer = upstream.getresponse()
            content = answer.read()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_ONE_HOP]
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self._answer(answer.status, kept, content, length)
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - the base class looks for these names

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, length: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running_proxy() -> Iterator[RecordingProxy]:
    """Serve until the block ends."""
    with RecordingProxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
