# SPDX-License-Identifier: Apache-2.0
"""moto's S3 in this process, on a free port, behind a front that can refuse: keys, versions and locks are moto's."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs
from uuid import uuid4
from xml.sax.saxutils import unescape

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    from collections.abc import Iterable

REGION = "eu-central-1"
SECRET = "very-s3cret/value+"


class Request(NamedTuple):
    """A request of a client."""

    method: str
    path: str  # as in the URL, without the query
    query: dict[str, list[str]]
    body: bytes

    @property
    def is_delete(self) -> bool:
        """Whether it deletes objects."""
        return self.method == "DELETE" or (self.method == "POST" and "delete" in self.query)

    @property
    def is_listing(self) -> bool:
        """Whether it asks for a page of a listing."""
        return self.method == "GET" and "list-type" in self.query

    @property
    def keys(self) -> list[str]:
        """What a bulk deletion names."""
        return [unescape(key) for key in re.findall("<Key>(.*?)</Key>", self.body.decode(errors="replace"))]


class Answer(NamedTuple):
    """An answer in the place of S3's."""

    status: int
    body: str

    @classmethod
    def error(cls, status: int, code: str) -> Answer:
        """An error of a whole request."""
        return cls(status, f"<Error><Code>{code}</Code><Message>said by the test</Message></Error>")


SLOW_DOWN = Answer.error(503, "SlowDown")
Fault = Callable[[Request], Answer | None]
"""Answers in the place of S3, or ``None``."""


class MotoS3:
    """
    :ivar fault: is asked before each request.
    :ivar refuse_keys: key → code: refused in bulk deletions, which do all the rest.
    :ivar ignores_conditions: whether a put with a condition is done without looking, as by some gateways.
    :ivar page_size: objects in a page of a listing, ``None`` for S3's.
    :ivar requests: all so far.
    """

    def __init__(self) -> None:
        # Two seconds that only those pay who start it: files with quick tests import this module, too.
        from moto.server import DomainDispatcherApplication, create_backend_app

        self.fault: Fault | None = None
        self.refuse_keys: dict[str, str] = {}
        self.ignores_conditions = False
        self.page_size: int | None = None
        self.requests: list[Request] = []
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Silent)
        self._client: Any = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, str]:
        """What a store has to be opened with."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": "some-key-id",
            "aws_secret_access_key": SECRET,
            "aws_region": REGION,
            "allow_http": "true",
        }

    @property
    def environment(self) -> dict[str, str]:
        """What leads S3 clients here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "some-key-id",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }

    def client(self) -> Any:
        """Return boto3's client, always the same: making one takes longer than most of what it is asked for."""
        import boto3

        if self._client is None:
            self._client = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id="some-key-id",
                aws_secret_access_key=SECRET,
            )
        return self._client

    def bucket(self, **options: Any) -> str:
        """Create a bucket of its own and return its name."""
        name = f"bucket-{uuid4()}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}, **options)
        return name

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return what lies in a bucket: key → bytes."""
        found = self.client().list_objects_v2(Bucket=bucket).get("Contents", [])
        return {o["Key"]: self.client().get_object(Bucket=bucket, Key=o["Key"])["Body"].read() for o in found}

    def heal(self) -> None:
        """Answer as S3 does, and forget what was asked."""
        self.fault = None
        self.refuse_keys = {}
        self.page_size = None
        self.requests.clear()

    def count(self, kind: Callable[[Request], bool]) -> int:
        """Count requests of a kind."""
        return sum(map(kind, self.requests))

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], query, body)
        self.requests.append(request)
        answer = self.fault(request) if self.fault is not None else None
        refused = {key: self.refuse_keys[key] for key in request.keys if key in self.refuse_keys}
        if answer is None and request.is_delete and refused:
            answer = self._all_but(request, refused)
        if answer is None:
            environ["wsgi.input"] = io.BytesIO(body)
            if self.ignores_conditions:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            if request.is_listing and self.page_size is not None:
                environ["QUERY_STRING"] += f"&max-keys={self.page_size}"
            found: Iterable[bytes] = self._moto(environ, start_response)
            return found
        start_response(f"{answer.status} Said by the test", [("Content-Type", "application/xml")])
        return [answer.body.encode()]

    def _all_but(self, request: Request, refused: dict[str, str]) -> Answer:
        bucket, kept = request.path.split("/")[1], [key for key in request.keys if key not in refused]
        client = self.client()
        for key in kept:
            client.delete_object(Bucket=bucket, Key=key)
        gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in kept)
        errors = "".join(
            f"<Error><Key>{key}</Key><Code>{code}</Code><Message>said by the test of {key}</Message></Error>"
            for key, code in refused.items()
        )
        return Answer(200, f"<DeleteResult>{gone}{errors}</DeleteResult>")

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._server.shutdown()
        self._server.server_close()


class _Silent(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@contextmanager
def running_moto_s3() -> Iterator[MotoS3]:
    """Serve until the block ends."""
    s3 = MotoS3()
    thread = threading.Thread(target=s3.serve)
    thread.start()
    try:
        yield s3
    finally:
        s3.close()
        thread.join()
