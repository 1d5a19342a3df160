# SPDX-License-Identifier: Apache-2.0
"""Looks for secrets wherever Airflow, Spark and this package leave something behind."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import quote

import pyarrow.parquet as pq

_EVERY_S = 0.1


class Seen(NamedTuple):
    """Something that was left behind."""

    place: str  # its kind
    where: str
    data: bytes


class CommandLines:
    """Keeps the command line of every process that lives for longer than a moment."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="command lines", daemon=True)

    def __enter__(self) -> CommandLines:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for process in Path("/proc").glob("[0-9]*"):
                # It may have ended by now.
                with suppress(OSError):
                    self.seen.add((process / "cmdline").read_bytes())


def in_files(place: str, folder: Path, *, but: Iterable[Path] = ()) -> Iterator[Seen]:
    """
    Give what the files of a folder hold; of a Parquet file its rows.

    :param place: what kind of place that is.
    :param folder: with all folders in it.
    :param but: files that are left out.
    """
    left_out = set(but)
    for file in folder.rglob("*"):
        if file.is_file() and file not in left_out:
            data = file.read_bytes()
            if file.suffix == ".parquet":
                data += json.dumps(pq.read_table(file).to_pylist(), default=repr).encode()
            yield Seen(place, f"{file.relative_to(folder)}", file.name.encode() + b"\n" + data)


def in_database(file: Path) -> Iterator[Seen]:
    """
    Give each row of Airflow's database, compressed values unpacked; the table is the place. Left out is what Airflow notes of
    connections that this test has entered: that is masked by what the test has switched off.

    :param file: of SQLite.
    """
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in database.execute(f'SELECT * FROM "{table}"'):
                if "post_connection" not in row:
                    yield Seen(f"table {table}", f"{row[:4]}", b"\n".join(_bytes_of(value) for value in row))


def _bytes_of(value: object) -> bytes:
    if not isinstance(value, bytes):
        return str(value).encode()
    with suppress(zlib.error):
        return zlib.decompress(value)
    return value


def find(secrets: Mapping[str, str], everything: Iterable[Seen]) -> dict[str, dict[str, set[str]]]:
    """
    Return secret → place → where it was seen, in whatever form.

    :param secrets: name → text; of one with several lines each long one counts.
    :param everything: where to look.
    """
    names = {form: name for name, secret in secrets.items() for form in _forms(secret)}
    pattern = re.compile(b"|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    found: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in secrets}
    for seen in everything:
        for match in pattern.findall(seen.data):
            found[names[match]][seen.place].add(seen.where)
    return {name: dict(places) for name, places in found.items()}


def _forms(secret: str) -> Iterator[bytes]:
    for line in (part for part in secret.splitlines() if len(part) >= 16 and not part.startswith("-----")):
        yield line.encode()
        yield quote(line, safe="").encode()
        # What a longer text that holds it becomes in Base64, wherever in it the secret begins.
        for before in range(3):
            coded = base64.b64encode(b"\0" * before + line.encode())
            yield coded[4 if before else 0 : len(coded) - 4]
