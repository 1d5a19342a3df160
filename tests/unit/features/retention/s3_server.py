# SPDX-License-Identifier: Apache-2.0
"""A server of a few lines that speaks as much of S3 as pyarrow needs: chunked puts, parts, listings, bulk deletion."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from tests.object_store_server import s3_environment

BUCKET = "bucket"
_TIME = "2026-01-01T00:00:00.000Z"
_CHUNK = re.compile(rb"([0-9a-fA-F]+)[^\r\n]*\r\n")


class PyarrowS3Server(ThreadingHTTPServer):
    """
    :ivar objects: key → bytes.
    :ivar requests: method and key of each request, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.parts: dict[tuple[str, int], bytes] = {}
        self.requests: list[tuple[str, str]] = []

    @property
    def environment(self) -> dict[str, str]:
        """What leads S3 clients here."""
        return {**s3_environment(self.server_port), "AWS_EC2_METADATA_DISABLED": "true"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PyarrowS3Server

    def do_PUT(self) -> None:
        key, query = self._asked()
        data = self._body()
        if "partNumber" in query:
            self.server.parts[key, int(query["partNumber"][0])] = data
        elif self.headers.get("If-None-Match") == "*" and key in self.server.objects:
            self._answer(412)
            return
        else:
            self.server.objects[key] = data
        self._answer(200)

    def do_POST(self) -> None:
        key, query = self._asked()
        body = self._body().decode()
        if "uploads" in query:
            self._answer(200, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
        elif "uploadId" in query:
            numbers = sorted(number for k, number in self.server.parts if k == key)
            self.server.objects[key] = b"".join(self.server.parts.pop((key, number)) for number in numbers)
            self._answer(200, "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
        else:
            for name in re.findall(r"<Key>(.*?)</Key>", body):
                self.server.objects.pop(unescape(name), None)
            self._answer(200, "<DeleteResult></DeleteResult>")

    def do_GET(self) -> None:
        key, query = self._asked()
        if not key:
            self._answer(200, self._listing(query))
        elif key in self.server.objects:
            self._answer(200, self.server.objects[key])
        else:
            self._answer(404, "<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        key, _ = self._asked()
        found = self.server.objects.get(key)
        self._answer(404 if key and found is None else 200, found or b"")

    def do_DELETE(self) -> None:
        key, _ = self._asked()
        self.server.objects.pop(key, None)
        self._answer(204)

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        self.server.requests.append((self.command, key))
        return key, parse_qs(parts.query, keep_blank_values=True)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _without_chunks(data) if "aws-chunked" in self.headers.get("Content-Encoding", "") else data

    def _listing(self, query: dict[str, list[str]]) -> str:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        keys, folders = [], set()
        for key in sorted(key for key in self.server.objects if key.startswith(prefix)):
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append(key)
        contents = "".join(
            f"<Contents><Key>{escape(k)}</Key><Size>{len(self.server.objects[k])}</Size>"
            f"<LastModified>{_TIME}</LastModified><ETag>x</ETag></Contents>"
            for k in keys
        )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in sorted(folders))
        count = len(keys) + len(folders)
        return (
            f"<ListBucketResult><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{contents}{common}"
            "</ListBucketResult>"
        )

    def _answer(self, status: int, body: str | bytes = b"") -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def _without_chunks(data: bytes) -> bytes:
    """Return what was sent in signed chunks."""
    found, at = b"", 0
    while (head := _CHUNK.match(data, at)) and (size := int(head[1], 16)):
        found += data[head.end() : head.end() + size]
        at = head.end() + size + 2
    return found


@contextmanager
def pyarrow_s3_server() -> Iterator[PyarrowS3Server]:
    """Run a server while the block lasts."""
    with PyarrowS3Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
