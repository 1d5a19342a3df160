# SPDX-License-Identifier: Apache-2.0
"""S3, STS and IAM of moto in this process, on a port of its own, which keeps in mind who has asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from werkzeug.serving import BaseWSGIServer, make_server

BUCKET = "tiered"
REGION = "eu-central-1"


class Asked(NamedTuple):
    """One request to S3."""

    method: str
    path: str
    access_key: str | None
    token: str | None
    payer: str | None  # who says to pay for it


class AwsServer:
    """
    :ivar asked: requests to S3, in order.
    :ivar access_keys: the only access keys that S3 takes, ``None`` for all.
    """

    def __init__(self) -> None:
        from moto.moto_server.threaded_moto_server import MotoRequestHandler
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self.asked: list[Asked] = []
        self.access_keys: set[str] | None = None
        self._clients: dict[str, Any] = {}
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._handler = MotoRequestHandler

    @contextmanager
    def running(self, certificate: tuple[str, str] | None, authority: str | None) -> Iterator[BaseWSGIServer]:
        """
        Serve until the block ends.

        :param certificate: PEM files of a certificate and its key, for TLS.
        :param authority: PEM file of who has signed it.
        """
        server = make_server(
            "127.0.0.1", 0, self, threaded=True, request_handler=self._handler, ssl_context=certificate
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        self._authority = authority
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
        try:
            yield server
        finally:
            while self._clients:
                self._clients.popitem()[1].close()
            server.shutdown()
            thread.join()
            server.server_close()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, authorization = environ["PATH_INFO"], environ.get("HTTP_AUTHORIZATION", "")
        if path.startswith(f"/{BUCKET}"):
            key = authorization.partition("Credential=")[2].partition("/")[0] or None
            token, payer = environ.get("HTTP_X_AMZ_SECURITY_TOKEN"), environ.get("HTTP_X_AMZ_REQUEST_PAYER")
            self.asked.append(Asked(environ["REQUEST_METHOD"], path, key, token, payer))
            if self.access_keys is not None and key not in self.access_keys:
                start_response("403 Forbidden", [("Content-Type", "application/xml")])
                return [f"<Error><Code>InvalidAccessKeyId</Code><Message>{authorization}</Message></Error>".encode()]
        answer: Iterable[bytes] = self._moto(environ, start_response)
        return answer

    def client(self, service: str = "s3") -> Any:
        """Return boto3's own client, always the same: making one takes longer than most of what it is asked for."""
        import boto3

        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.url,
                region_name=REGION,
                aws_access_key_id="the-test",
                aws_secret_access_key="the-test",
                verify=self._authority,
            )
        return self._clients[service]

    def put(self, *keys: str) -> None:
        """Write objects."""
        for key in keys:
            self.client().put_object(Bucket=BUCKET, Key=key, Body=b"x")
        self.asked.clear()

    def keys(self) -> set[str]:
        """List the bucket."""
        return {found["Key"] for found in self.client().list_objects_v2(Bucket=BUCKET).get("Contents", ())}

    def objects(self) -> dict[str, bytes]:
        """Return what is in the bucket: key → bytes."""
        return {key: self.client().get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in self.keys()}


@contextmanager
def running_aws_server(certificate: tuple[str, str] | None = None, authority: str | None = None) -> Iterator[AwsServer]:
    """Run a server with one empty bucket, see :meth:`AwsServer.running`. All servers of a process have the same objects."""
    aws = AwsServer()
    with aws.running(certificate, authority):
        s3 = aws.client()
        if BUCKET not in {found["Name"] for found in s3.list_buckets()["Buckets"]}:
            s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        aws.asked.clear()
        yield aws
        aws.access_keys = None
        for key in sorted(aws.keys()):
            s3.delete_object(Bucket=BUCKET, Key=key)
