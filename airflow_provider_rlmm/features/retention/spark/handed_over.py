# SPDX-License-Identifier: Apache-2.0
"""What is handed to the driver under the name of a file: settings that may hold secrets, which no command line may."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import local_path, read_file

PIPE_TIMEOUT_S = 30.0
"""How long what comes through a pipe may take."""

_PIPE_BYTES = 65_536


def read_handed_over(uri: str, what: str) -> bytes:
    """
    Read a file as the driver's machine sees it; a named pipe is read as far as its writer writes.

    :param uri: of the file.
    :param what: names it in messages.
    :raises ConfigurationError: if there is no such file, or no program writes to the pipe.
    """
    path = local_path(uri)
    try:
        if path is None:
            return bytes(read_file(uri).to_pybytes())
        return _read_pipe(path) if path.is_fifo() else path.read_bytes()
    except OSError as e:
        raise ConfigurationError(f"{what} cannot be read on the machine of the Spark driver: {e.strerror or e}") from e


def _read_pipe(path: Path) -> bytes:
    """Read to the end what another program writes; an ordinary read of a pipe whose writer is dead waits for ever."""
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
                # No program writes yet, or one still does.
                time.sleep(0.01)
    finally:
        os.close(pipe)
    raise TimeoutError(errno.ETIMEDOUT, f"its writer was not done within {PIPE_TIMEOUT_S:.0f} s")
