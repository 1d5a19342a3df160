# SPDX-License-Identifier: Apache-2.0
"""
One piece of an export: what a Spark executor does with what it reads.

A piece becomes one Parquet file, whole or not at all. A second try writes the same file.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rlmm.features.reading.parquet import WrittenRecords, write_records
from airflow_provider_rlmm.features.reading.pieces import Piece, PieceReader


@dataclass(frozen=True, slots=True)
class ExportPiece(Piece):
    """A part of an export."""

    file: str  # URI of the Parquet file


def export_piece(reader: PieceReader, piece: ExportPiece) -> WrittenRecords:
    """
    Read a piece and write its file.

    :param reader: reads it.
    :param piece: the piece.
    :raises RlmmError: if storage cannot be read, or is damaged; no file is left then, or the older one.
    :raises OSError: if the file cannot be written.
    """
    return write_records(reader.read(piece), piece.file)
