# SPDX-License-Identifier: Apache-2.0
"""A server in the place of Google or Azure, which answers what a test has put down and keeps in mind what was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Question(NamedTuple):
    """One request."""

    path: str
    query: Mapping[str, str]
    authorization: str | None
    form: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    """
    :param status: of HTTP.
    :param body: text.
    :param headers: beside the length.
    """

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


class VendorServer(ThreadingHTTPServer):
    """
    :ivar replies: path, or path and ``?comp=`` of Azure's, → what is answered there; 404 elsewhere.
    :ivar asked: all requests, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: dict[str, Reply] = {}
        self.asked: list[Question] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: VendorServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        form = dict(parse_qsl(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()))
        self.server.asked.append(Question(parts.path, query, self.headers["Authorization"], form))
        name = "&".join([parts.path, *(f"{key}={query[key]}" for key in ("restype", "comp") if key in query)])
        reply = self.server.replies.get(name) or Reply(404)
        body = reply.body.encode()
        self.send_response(reply.status)
        for key, value in {**reply.headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the base class looks for this name

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def running_vendor() -> Iterator[VendorServer]:
    """Serve until the block ends."""
    with VendorServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
