# SPDX-License-Identifier: Apache-2.0
"""
S3 servers of this machine, as processes of this one: moto's, which forgets all when it ends, and versitygw's, over a folder.

moto keeps keys, versions and locks as S3 does and believes every signature. versitygw serves a folder, checks signatures, and
has everything when it is started again after a kill.
"""

from __future__ import annotations

import fcntl
import http.client
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dev import DEV_FOLDER, DevEnvironmentError
from dev.broker import await_condition, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
TARGET_FOLDER = DEV_FOLDER / "target"
REGION = "eu-central-1"
ACCESS_KEY, SECRET_KEY = "a-test-key-id", "a-test-secret-key"
BUCKET = "tiered"


class S3ServerError(RuntimeError):
    """An S3 server did not start; the message ends with what its log says."""


class S3Server(ABC):
    """
    A server with one bucket; as a context manager it starts on entry and is gone after the block.

    The port stays the same across :meth:`kill` and :meth:`start`.

    :param folder: for its log, and whatever it keeps.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @property
    def endpoint(self) -> str:
        """Address of the server, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()
        self._make_bucket()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self.kill()

    def start(self, timeout: float = 60.0) -> None:
        """
        Start the server and return when it answers.

        :param timeout: seconds.
        :raises S3ServerError: if it ends, or is too late.
        """
        log = self.folder / "server.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            await_condition(self._answers, f"the S3 server at {self.endpoint} answers", timeout)
        except TimeoutError as error:
            self.kill()
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise S3ServerError(f"{error}; from {log}:\n{tail}") from error

    def kill(self) -> None:
        """End it as a power failure would (SIGKILL). Does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def objects(self, prefix: str = "") -> dict[str, int]:
        """
        List the bucket, with another client than this package's.

        :param prefix: what the keys begin with.
        :return: key → size in bytes.
        """
        pages: Iterator[Any] = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", ())}

    @property
    def client(self) -> Any:
        """boto3's client of this server; it lives as long as the server's block."""
        if self._client is None:
            import boto3  # type: ignore[import-untyped]

            self._client = boto3.client(
                "s3",
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=ACCESS_KEY,
                aws_secret_access_key=SECRET_KEY,
            )
        return self._client

    def _make_bucket(self) -> None:
        place = {"LocationConstraint": REGION}
        self.client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise TimeoutError(f"the S3 server at {self.endpoint} ended while it started")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        except OSError:
            return False
        finally:
            connection.close()

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the command that runs it."""


class MotoServer(S3Server):
    """moto's server: nothing outlives it."""

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]


class VersityGateway(S3Server):
    """
    versitygw over a folder, which is all that it keeps; a file that is put into :attr:`bucket_folder` is an object.

    :param folder: for its log and the bucket.
    :raises DevEnvironmentError: if it cannot be built.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = ensure_versitygw()
        self.bucket_folder = folder / "buckets" / BUCKET

    def _make_bucket(self) -> None:
        pass  # the folder is the bucket

    def _command(self) -> Sequence[str]:
        self.bucket_folder.mkdir(parents=True, exist_ok=True)
        sidecar = self.folder / "sidecar"
        sidecar.mkdir(exist_ok=True)
        keys = ("--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION)
        # Not every file system has extended attributes, where it would keep them otherwise.
        posix = ("posix", "--sidecar", str(sidecar), str(self.bucket_folder.parent))
        return [str(self._program), "--quiet", *keys, "--port", f"127.0.0.1:{self.port}", *posix]


def store_options(endpoint: str) -> Mapping[str, str]:
    """
    Return obstore's options for a server here.

    :param endpoint: of the server, or of what stands before it.
    """
    return {
        "aws_endpoint": endpoint,
        "aws_region": REGION,
        "aws_access_key_id": ACCESS_KEY,
        "aws_secret_access_key": SECRET_KEY,
        "allow_http": "true",
    }


def ensure_versitygw() -> Path:
    """
    Build versitygw unless this version is there: 90 seconds of a processor.

    :return: the program.
    :raises DevEnvironmentError: if Go is missing, or fails.
    """
    folder = TARGET_FOLDER / VERSITYGW.rpartition("/")[2]
    program = folder / "versitygw"
    TARGET_FOLDER.mkdir(exist_ok=True)
    with (TARGET_FOLDER / "versitygw.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not program.exists():
            _install(VERSITYGW, folder)
    return program


def _install(package: str, folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise DevEnvironmentError(
            "no go in PATH: install Go (Debian, Ubuntu: apt install golang; macOS: brew install go)"
        )
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    environment = os.environ | {"GOBIN": str(fresh)}
    done = subprocess.run([go, "install", package], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise DevEnvironmentError(f"{package} could not be built (is the Go module proxy in reach?):\n{tail}")
    fresh.rename(folder)
