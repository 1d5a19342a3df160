# SPDX-License-Identifier: Apache-2.0
"""What stands between S3 clients and an S3 server: it can be cut, throttle, forbid, and be far away."""

from __future__ import annotations

import http.client
import itertools
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_NOT_PASSED_ON = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
_DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class S3Proxy(ThreadingHTTPServer):
    """
    Passes requests on to a server of this machine; as a context manager it serves for the length of the block.

    :param port: the server's, on 127.0.0.1.
    :ivar down: whether every connection is cut, as if nobody were there.
    :ivar throttle_every: every so manyth request is answered with 503 SlowDown and goes no further; 0 for none.
    :ivar latency_s: seconds that each request takes more.
    :ivar refused: requests that were cut, also because the server was not there.
    :ivar throttled: requests that were answered with SlowDown.
    :ivar methods: requests that the server answered, by method.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_behind = port
        self.down = False
        self.throttle_every = 0
        self.latency_s = 0.0
        self.refused = self.throttled = 0
        self.methods: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def endpoint(self) -> str:
        """Where clients are to connect to."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def passed(self) -> int:
        """Requests that the server answered."""
        return self.methods.total()

    def throttles(self) -> bool:
        """Tell whether the next request is one too many."""
        number = next(self._numbers)
        return bool(self.throttle_every) and number % self.throttle_every == 0

    def denies(self, method: str, path: str, status: int | None) -> bool:
        """
        Tell whether a request is answered with 403 AccessDenied: no policy is in force here.

        :param method: of the request.
        :param path: its path and query, as it was sent.
        :param status: what the server has answered, ``None`` before it is asked.
        """
        return False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about clients that went away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: S3Proxy

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        time.sleep(self.server.latency_s)
        # Whoever is killed while it sends must not be taken at its word.
        if self.server.down or len(body) < length:
            self._cut()
        elif self.server.throttles():
            self.server.throttled += 1
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
        elif self.server.denies(self.command, self.path, None):
            self._answer(403, {"Content-Type": "application/xml"}, _DENIED)
        else:
            self._ask_server(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - the base class looks for these names

    def _ask_server(self, body: bytes) -> None:
        # The signature is over the host that the client knows: all headers go on as they are.
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_behind, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _NOT_PASSED_ON:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            self._cut()
            return
        finally:
            connection.close()
        self.server.methods[self.command] += 1
        if self.server.denies(self.command, self.path, answer.status):
            self._answer(403, {"Content-Type": "application/xml"}, _DENIED)
            return
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _NOT_PASSED_ON}
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self._answer(answer.status, headers, data, length)

    def _answer(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _cut(self) -> None:
        self.server.refused += 1
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""
