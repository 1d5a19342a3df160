# SPDX-License-Identifier: Apache-2.0
"""A table and the document that names it: Parquet, written some ten thousand rows at a time and hashed while it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError
from airflow_provider_rlmm.core.base.file_systems import remove_file, replacing
from airflow_provider_rlmm.core.plans.plan import ROW_GROUP_ROWS, PlanFile
from airflow_provider_rlmm.core.plans.plan_files import write_document

if TYPE_CHECKING:
    import pyarrow as pa


def write_pair(uri: str, table: tuple[str, pa.Schema], rows: Iterable[pa.Table], document: tuple[str, Any]) -> Any:
    """
    Write a table and the document that names it: the older document goes first, the new one comes last.

    :param uri: of the folder.
    :param table: its name and its columns.
    :param rows: with these columns, in their order; what reads them may count them.
    :param document: its name, and what makes it of the file as it was written: it has ``to_json``.
    :return: the document.
    :raises PlanError: if the URI is not understood.
    :raises OSError: if they cannot be written; there is no such document then.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from airflow_provider_rlmm.core.generations.files import HashedFile

    (name, schema), (document_name, made_of) = table, document
    try:
        remove_file(f"{uri}/{document_name}")
        with replacing(f"{uri}/{name}") as stream:
            file, count = HashedFile(name, stream), 0
            with pq.ParquetWriter(pa.PythonFile(file, "w"), schema) as writer:
                for part in rows:
                    writer.write_table(part, row_group_size=ROW_GROUP_ROWS)
                    count += part.num_rows
    except ConfigurationError as e:
        raise PlanError(str(e)) from e
    written = file.described()
    made = made_of(PlanFile(name, count, written.bytes, written.sha256))
    write_document(uri, document_name, made.to_json())
    return made
