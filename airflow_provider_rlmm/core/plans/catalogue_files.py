# SPDX-License-Identifier: Apache-2.0
"""Reads a catalogue: its document first, then its table, whole, once, and only if it is the one that the document names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import equals
from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.file_systems import read_file
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.plans.catalogue_document import (
    CATALOGUE_DOCUMENT,
    CATALOGUE_TABLE,
    Catalogue,
)
from airflow_provider_rlmm.core.plans.catalogue_rows import RECOVER_AGAIN, CatalogueRow
from airflow_provider_rlmm.core.plans.catalogue_table import ROWS_AS_OBJECTS, rows_of
from airflow_provider_rlmm.core.plans.plan_files import read_document

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CATALOGUE_DOCUMENT_BYTES = 64 * 2**20


class CatalogueFiles:
    """
    A catalogue that was opened: its table is in memory as it lay in its file, packed, and does not change any more.

    :param uri: of its folder.
    :raises CatalogueError: if there is none, or it is not as it was written.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        try:
            text = read_document(self.uri, CATALOGUE_DOCUMENT, MAX_CATALOGUE_DOCUMENT_BYTES)
        except PlanError as e:
            raise CatalogueError(
                f"there is no catalogue in {in_quotes(self.uri)} that can be read: {e.__cause__ or e}"
            ) from e
        self.document = Catalogue.from_json(text)
        """What it says of itself."""
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        """Of its document, lower-case hex."""
        self._table = self._read_table()

    def _read_table(self) -> pa.Buffer:
        file = self.document.file
        if file.name != CATALOGUE_TABLE:
            raise CatalogueError(
                f"the document in {in_quotes(self.uri)} names another table than {CATALOGUE_TABLE}; {RECOVER_AGAIN}"
            )
        try:
            data = read_file(f"{self.uri}/{file.name}", file.bytes)
            file.check(memoryview(data))
        except (OSError, ConfigurationError, PlanError) as e:
            why = "its size or its SHA-256 is another one" if isinstance(e, PlanError) else str(e)
            raise CatalogueError(
                f"the table of the catalogue in {in_quotes(self.uri)} is not the one that its document names ({why}); "
                f"{RECOVER_AGAIN}"
            ) from e
        return data

    def ids_of(self, name: str) -> list[UUID]:
        """
        Return the topic ids that have a name in some row, sorted.

        :param name: of a topic.
        :raises CatalogueError: if the table cannot be read.
        """
        import pyarrow.compute as pc

        found: set[bytes] = set()
        for batch in self._batches(["topic", "topic_id"]):
            named = batch.filter(equals(batch.column("topic"), name))
            found |= {value for value in pc.unique(named.column("topic_id")).to_pylist() if value is not None}
        return sorted(UUID(bytes=value) for value in found)

    def rows(self, topic_id: UUID) -> Iterator[CatalogueRow]:
        """
        Yield the rows of a topic id, in their order.

        :param topic_id: which topic.
        :raises CatalogueError: if the table cannot be read.
        """
        import pyarrow as pa

        for batch in self._batches(None):
            of_topic = batch.filter(equals(batch.column("topic_id"), topic_id.bytes))
            if of_topic.num_rows:
                yield from rows_of(pa.Table.from_batches([of_topic]))

    def _batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            parquet = pq.ParquetFile(pa.BufferReader(self._table))
            yield from parquet.iter_batches(10 * ROWS_AS_OBJECTS, columns=columns, use_threads=False)
        except (OSError, ValueError, LookupError, pa.ArrowException) as e:
            raise CatalogueError(
                f"the table of the catalogue in {in_quotes(self.uri)} cannot be read ({e}); {RECOVER_AGAIN}"
            ) from e
