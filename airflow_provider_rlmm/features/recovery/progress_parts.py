# SPDX-License-Identifier: Apache-2.0
"""
What a catalogue's run has read so far, as files beside where the catalogue comes to lie: ``progress-<SHA-256>.arrow``.

Each holds some thousand rows, and its name the hash of its bytes. It says what was asked for: what was read of another place,
or in another way, is no part of this catalogue.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.errors import CatalogueError
from airflow_provider_rlmm.core.base.file_systems import read_file, replace_file
from airflow_provider_rlmm.core.base.given import argument
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.catalogue_rows import CatalogueRow
from airflow_provider_rlmm.core.plans.catalogue_table import catalogue_schema, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

MAX_PART_BYTES: Final = 256 * 2**20
"""The largest part that is read."""

_NAME: Final = re.compile(r"progress-(?P<sha256>[0-9a-f]{64})\.arrow")
_METADATA: Final = b"rlmm"
_FURTHER: Final = ("key", "seen", "before_proof")


@dataclass(frozen=True, slots=True)
class Entry:
    """What was read of a segment, or proved of it."""

    key: str  # the first of its keys
    seen: bytes  # digest of its objects as they were listed
    before_proof: bytes | None  # of what was proved, digest of the row before; ``None`` of what was read
    row: CatalogueRow


@dataclass(frozen=True, slots=True)
class Part:
    """A file of entries."""

    rows: pa.Table
    begun_at_ms: int  # when the run that has left it began, ms since the epoch


def is_part(name: str) -> bool:
    """
    Tell whether a file is what an interrupted run has left.

    :param name: of the file.
    """
    return _NAME.fullmatch(name) is not None


def entries_schema() -> pa.Schema:
    """Return the Arrow schema of entries: what they are found by, then the columns of a catalogue."""
    import pyarrow as pa

    types = (pa.string(), pa.binary(), pa.binary())
    return pa.schema([*map(pa.field, _FURTHER, types), *catalogue_schema()])


def table_of_entries(entries: Sequence[Entry]) -> pa.Table:
    """
    Return entries as a table.

    :param entries: the entries.
    :return: with :func:`entries_schema`.
    """
    import pyarrow as pa

    schema = entries_schema()
    found = [array_of([getattr(one, name) for one in entries], schema.field(name).type) for name in _FURTHER]
    rows = table_of([one.row for one in entries])
    return pa.Table.from_arrays([*found, *rows.columns], schema=schema)


def write_part(uri: str, rows: pa.Table, asked: Mapping[str, str], begun_at_ms: int) -> None:
    """
    Write a part, whole or not at all.

    :param uri: of the folder.
    :param rows: with :func:`entries_schema`.
    :param asked: what was asked for.
    :param begun_at_ms: when the run began, ms since the epoch.
    :raises ConfigurationError: if the URI is not understood.
    :raises OSError: if it cannot be written.
    """
    import pyarrow as pa

    said = json.dumps({"asked": dict(asked), "begun_at_ms": begun_at_ms}, sort_keys=True)
    schema, sink = rows.schema.with_metadata({_METADATA: said.encode()}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows.replace_schema_metadata(schema.metadata))
    data = sink.getvalue()
    replace_file(f"{uri}/progress-{hashlib.sha256(data).hexdigest()}.arrow", [data])


def read_part(uri: str, name: str, asked: Mapping[str, str]) -> Part | str:
    """
    Read a part.

    :param uri: of the folder.
    :param name: of the part.
    :param asked: what is asked for now.
    :return: the part, or why it is not as it was written.
    :raises CatalogueError: if something else was asked for.
    """
    import pyarrow as pa

    found = _NAME.fullmatch(name)
    try:
        data = read_file(f"{uri}/{name}", MAX_PART_BYTES)
        if found is None or hashlib.sha256(data).hexdigest() != found["sha256"]:
            return "its bytes are not those that its name says"
        with pa.ipc.open_stream(data) as stream:
            said = json.loads((stream.schema.metadata or {})[_METADATA])
            _require_same(f"{uri}/{name}", said["asked"], asked)
            if not stream.schema.equals(entries_schema()):
                return "it has other columns"
            return Part(stream.read_all().replace_schema_metadata(None), int(said["begun_at_ms"]))
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as e:
        return f"it cannot be read: {e}"


def _require_same(uri: str, was: Mapping[str, str], now: Mapping[str, str]) -> None:
    others = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    if others:
        pairs = ((name, in_quotes(str(was.get(name))), in_quotes(str(now.get(name)))) for name in others)
        shown = "; ".join(f"{name} was {before} and is {after}" for name, before, after in pairs)
        raise CatalogueError(
            f"{in_quotes(uri)} is what an interrupted run has read that was asked for something else ({shown}): ask for the "
            f"same to go on with it, name another folder by {argument('output_uri')}, or remove it with the other files "
            "progress-*.arrow beside it to read all of it again"
        )
