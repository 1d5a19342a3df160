# SPDX-License-Identifier: Apache-2.0
"""A small S3 server in this process: one bucket in a dict, and the requests that obstore makes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

BUCKET = "bucket"
_PAGE = 1_000
_TIME = "2026-01-01T00:00:00.000Z"


class FolderObjects(MutableMapping[str, bytes]):
    """The files below a folder as the objects of a bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, key: str) -> bytes:
        path = self._folder / key
        if not path.is_file():
            raise KeyError(key)
        return path.read_bytes()

    def __setitem__(self, key: str, value: bytes) -> None:
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)

    def __delitem__(self, key: str) -> None:
        (self._folder / key).unlink()

    def __iter__(self) -> Iterator[str]:
        return (str(path.relative_to(self._folder)) for path in self._folder.rglob("*") if path.is_file())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class S3Server(ThreadingHTTPServer):
    """
    ``objects`` is the bucket, ``others`` holds those of other names, ``uploads`` the parts of unfinished uploads. Where
    ``read_only`` is set, writing is forbidden; where ``full``, there is no room. ``allowed`` holds the IAM actions that the
    client has in the bucket, ``None`` for all, ``allowed_in_others`` those in others; they decide as on S3, where a missing
    object is denied to whoever may not list the bucket. Where ``expired`` is set, each request is refused as S3 refuses a
    session that is over: its answer repeats the token. ``without_bulk`` is what it answers to DeleteObjects where it knows no
    such request. What is read was written just now.
    """

    daemon_threads = True

    def __init__(self, objects: MutableMapping[str, bytes] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: MutableMapping[str, bytes] = {} if objects is None else objects
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.full = False
        self.expired = False
        self.read_only = False
        self.without_bulk: tuple[int, str] | None = None
        self.allowed: frozenset[str] | None = None
        self.others: dict[str, dict[str, bytes]] = {}
        self.allowed_in_others: dict[str, frozenset[str]] = {}

    def allows(self, action: str, bucket: str) -> bool:
        """Tell whether the client may do this."""
        allowed = self.allowed if bucket == BUCKET else self.allowed_in_others.get(bucket)
        return allowed is None or action in allowed

    def objects_of(self, bucket: str) -> MutableMapping[str, bytes]:
        """Return what a bucket holds."""
        return self.objects if bucket == BUCKET else self.others.setdefault(bucket, {})

    @property
    def options(self) -> dict[str, str]:
        """What a store has to be opened with."""
        return {
            "aws_endpoint": f"http://127.0.0.1:{self.server_port}",
            "aws_access_key_id": "some-key-id",
            "aws_secret_access_key": "very-s3cret/value+",
            "AWS_ALLOW_HTTP": "true",
        }


@contextmanager
def running_s3_server(objects: MutableMapping[str, bytes] | None = None) -> Iterator[S3Server]:
    """Run a server for as long as this lasts."""
    with S3Server(objects) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: S3Server
    bucket = BUCKET

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.server.expired:
            self._body()
            token = self.headers.get("x-amz-security-token", "")
            why = (
                f"<Code>ExpiredToken</Code><Message>The provided token has expired.</Message><Token-0>{token}</Token-0>"
            )
            self._answer(400, f"<Error>{why}</Error>".encode())
        return not self.server.expired

    def do_GET(self) -> None:
        key, query = self._request()
        needed = {"s3:GetObject"} if key else {"s3:ListBucket"}
        if key and key not in self._objects:
            needed.add("s3:ListBucket")
        if not all(map(self._allows, needed)):
            self._error(403, "AccessDenied")
        elif not key:
            self._answer(200, self._listing(query))
        elif key not in self._objects:
            self._error(404, "NoSuchKey")
        else:
            self._send_object(self._objects[key])

    do_HEAD = do_GET  # noqa: N815 - the base class looks for this name

    def do_PUT(self) -> None:
        key, query = self._request()
        body = self._body()
        if self.server.full:
            self._error(507, "XMinioStorageFull")
        elif self.server.read_only or not self._allows("s3:PutObject"):
            self._error(403, "AccessDenied")
        elif self.headers.get("If-None-Match") == "*" and key in self._objects:
            self._error(412, "PreconditionFailed")
        elif "x-amz-copy-source" in self.headers:
            self._copy(unquote(self.headers["x-amz-copy-source"]), key)
        elif "uploadId" in query:
            self.server.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(200, b"", ETag='"part"')
        else:
            self._objects[key] = body
            self._answer(200, b"", ETag='"tag"')

    def _copy(self, source: str, key: str) -> None:
        bucket, _, from_key = source.removeprefix("/").partition("/")
        found = self.server.objects_of(bucket)
        if not self.server.allows("s3:GetObject", bucket):
            self._error(403, "AccessDenied")
        elif from_key not in found:
            self._error(404, "NoSuchKey")
        else:
            self._objects[key] = found[from_key]
            self._answer(200, b"<CopyObjectResult><ETag>tag</ETag></CopyObjectResult>")

    def do_DELETE(self) -> None:
        key, query = self._request()
        if "uploadId" in query:
            del self.server.uploads[query["uploadId"][0]]
        elif not self._allows("s3:DeleteObject"):
            self._error(403, "AccessDenied")
            return
        else:
            self._objects.pop(key, None)
        self._answer(204, b"")

    def do_POST(self) -> None:
        key, query = self._request()
        if "uploads" in query:
            upload = f"upload-{len(self.server.uploads)}"
            self.server.uploads[upload] = {}
            self._answer(200, f"<Upload><UploadId>{upload}</UploadId></Upload>".encode())
            return
        if "uploadId" in query:
            parts = self.server.uploads.pop(query["uploadId"][0])
            self._body()
            self._objects[key] = b"".join(parts[number] for number in sorted(parts))
            self._answer(200, b"<Done><ETag>tag</ETag></Done>")
            return
        if self.server.without_bulk:
            self._body()
            self._error(*self.server.without_bulk)
            return
        keys = re.findall("<Key>(.*?)</Key>", self._body().decode(), re.DOTALL)
        if not self._allows("s3:DeleteObject"):
            denied = "<Code>AccessDenied</Code><Message>refused by the test</Message>"
            refusals = "".join(f"<Error><Key>{key}</Key>{denied}</Error>" for key in keys)
            self._answer(200, f"<DeleteResult>{refusals}</DeleteResult>".encode())
            return
        for key in keys:
            self._objects.pop(unescape(key, {"&quot;": '"', "&apos;": "'"}), None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _send_object(self, data: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, data, ETag='"tag"', Last_Modified=formatdate(usegmt=True))
            return
        first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        if first >= len(data):
            self._error(416, "InvalidRange")
            return
        where = f"bytes {first}-{last}/{len(data)}"
        part = data[first : last + 1]
        self._answer(206, part, ETag='"tag"', Last_Modified=formatdate(usegmt=True), Content_Range=where)

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter, after, token = (
            query.get(name, [""])[0] for name in ("prefix", "delimiter", "start-after", "continuation-token")
        )
        keys = sorted(k for k in self._objects if k.startswith(prefix) and k > max(after, token))
        folders = sorted({prefix + k[len(prefix) :].partition("/")[0] + "/" for k in keys if "/" in k[len(prefix) :]})
        if delimiter:
            keys = [k for k in keys if "/" not in k[len(prefix) :]]
        page = keys[:_PAGE]
        parts = [
            f"<Contents><Key>{escape(k)}</Key><Size>{len(self._objects[k])}</Size>"
            f"<LastModified>{_TIME}</LastModified><ETag>tag</ETag></Contents>"
            for k in page
        ]
        if delimiter:
            parts += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
        if len(keys) > _PAGE:
            parts.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        return f"<ListBucketResult>{''.join(parts)}</ListBucketResult>".encode()

    def _request(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        self.bucket, _, key = unquote(parts.path.removeprefix("/")).partition("/")
        return key, parse_qs(parts.query, keep_blank_values=True)

    @property
    def _objects(self) -> MutableMapping[str, bytes]:
        return self.server.objects_of(self.bucket)

    def _allows(self, action: str) -> bool:
        return self.server.allows(action, self.bucket)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>refused by the test</Message></Error>".encode())

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass
