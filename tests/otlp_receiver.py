# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry collector of the tests: it takes metrics over OTLP/HTTP and keeps the last value of each series."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

Series = tuple[str, frozenset[tuple[str, str]]]


class OtlpReceiver:
    """Keeps what was received in :attr:`values`: name and tags of a series → its last value."""

    def __init__(self) -> None:
        self.values: dict[Series, float] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._take(ExportMetricsServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="otlp", daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> OtlpReceiver:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def value(self, name: str, **tags: str) -> float | None:
        """Return the last value of a series."""
        return self.values.get((name, frozenset(tags.items())))

    def _take(self, request: ExportMetricsServiceRequest) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in (*metric.gauge.data_points, *metric.sum.data_points):
                        tags = frozenset((tag.key, tag.value.string_value) for tag in point.attributes)
                        self.values[metric.name, tags] = point.as_double or point.as_int
