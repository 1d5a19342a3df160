# SPDX-License-Identifier: Apache-2.0
"""
A server of a few lines that speaks as much of Google Cloud Storage's XML API as obstore asks for: S3's listing, conditions
and copies under headers of its own, and deletions one by one, where a missing object is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.contracts.s3_server import BUCKET, S3Server, _Handler

__all__ = ["BUCKET", "running_gcs_server"]


class _GcsHandler(_Handler):
    def do_PUT(self) -> None:  # noqa: N802 - the base class looks for this name
        if self.headers.get("x-goog-if-generation-match") == "0":
            self.headers["If-None-Match"] = "*"
        if source := self.headers.get("x-goog-copy-source"):
            self.headers["x-amz-copy-source"] = source
        super().do_PUT()

    def do_DELETE(self) -> None:  # noqa: N802 - the base class looks for this name
        key, _ = self._request()
        if self.server.objects.pop(key, None) is None:
            self._error(404, "NoSuchKey")
            return
        self.send_response(204)
        self.end_headers()


@contextmanager
def running_gcs_server() -> Iterator[S3Server]:
    """Serve one empty bucket until the block ends."""
    with S3Server() as server:
        server.RequestHandlerClass = _GcsHandler
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
