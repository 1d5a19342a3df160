# SPDX-License-Identifier: Apache-2.0
"""The settings of Kafka's Java clients in a Spark job: how they get there."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_rlmm.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOTSTRAP_SERVERS = "bootstrap.servers"

PIPE_TIMEOUT_S = 30.0
"""How long properties that come through a pipe may take."""

_PIPE_BYTES = 65_536


def load_properties(spark: SparkSession, path: Path) -> dict[str, str]:
    """
    Read a Java properties file of Kafka client settings, secrets included.

    :param spark: the session; Java's own reader is used, so line continuations and escapes mean what they do in Kafka.
    :param path: the file, on the driver's machine; a named pipe is read as far as its writer writes.
    :raises ConfigurationError: if there is no such file, or nobody writes to the pipe.
    """
    try:
        data = _read_pipe(path) if path.is_fifo() else path.read_bytes()
    except OSError as e:
        raise ConfigurationError(
            f"Kafka properties file {path} cannot be read on the machine of the Spark driver: {e.strerror}"
        ) from e
    # A Spark Connect session has none.
    jvm = spark._jvm
    properties = jvm.java.util.Properties()
    properties.load(jvm.java.io.InputStreamReader(jvm.java.io.ByteArrayInputStream(bytearray(data)), "UTF-8"))
    return {name: properties.getProperty(name) for name in properties.stringPropertyNames()}


def _read_pipe(path: Path) -> bytes:
    """Read to the end what somebody writes; opened in the ordinary way, a pipe whose writer is dead would wait for ever."""
    data, deadline = bytearray(), time.monotonic() + PIPE_TIMEOUT_S
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while time.monotonic() < deadline:
            try:
                part = os.read(pipe, _PIPE_BYTES)
            except BlockingIOError:
                part = None
            if part:
                data += part
            elif part == b"" and data:
                return bytes(data)
            else:
                # Nobody writes yet, or still does.
                time.sleep(0.01)
    finally:
        os.close(pipe)
    raise TimeoutError(errno.ETIMEDOUT, f"its writer was not done within {PIPE_TIMEOUT_S:.0f} s")
