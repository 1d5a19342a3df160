# SPDX-License-Identifier: Apache-2.0
"""The emulators of Google Cloud Storage and Azure Blob Storage, as processes on free ports of 127.0.0.1."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

_TARGET = Path(__file__).parents[2] / "dev" / "target"
_START_S = 60.0


@contextmanager
def running_fake_gcs(public_host: str) -> Iterator[str]:
    """
    Run fake-gcs-server, empty.

    :param public_host: host and port by which clients know it.
    :return: host and port at which it listens.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(_TARGET / "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
        "-backend", "memory", "-public-host", public_host, "-external-url", f"http://{public_host}",
    ]  # fmt: skip
    with _process(command, re.compile(rf"server started at .*:{port}")):
        yield f"127.0.0.1:{port}"


@contextmanager
def running_azurite(folder: Path, certificate: tuple[str, str] | None = None) -> Iterator[str]:
    """
    Run Azurite's blob service, empty.

    :param folder: where it may write.
    :param certificate: PEM files of a certificate and its key: then it takes bearer tokens, too.
    :return: its address, with the scheme.
    """
    script = _TARGET / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    tls = ["--cert", certificate[0], "--key", certificate[1], "--oauth", "basic"] if certificate else []
    command = [
        "node", str(script), "--blobHost", "127.0.0.1", "--blobPort", "0", "--location", str(folder),
        "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", *tls,
    ]  # fmt: skip
    with _process(
        command, re.compile(r"successfully (?:listening|listens) (?:at|on) (https?://127\.0\.0\.1:\d+)")
    ) as said:
        yield said[1]


@contextmanager
def _process(command: Sequence[str], ready: re.Pattern[str]) -> Iterator[re.Match[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: Queue[str] = Queue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    try:
        yield _await(process, lines, ready)
    finally:
        process.terminate()
        process.wait(timeout=30)
        reader.join()


def _read(process: subprocess.Popen[str], lines: Queue[str]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)


def _await(process: subprocess.Popen[str], lines: Queue[str], ready: re.Pattern[str]) -> re.Match[str]:
    said: list[str] = []
    while True:
        try:
            said.append(lines.get(timeout=_START_S))
        except Empty:
            raise AssertionError(f"{process.args} did not start: {''.join(said)}") from None
        if found := ready.search(said[-1]):
            return found
