# SPDX-License-Identifier: Apache-2.0
"""An export of a topic in pieces that others read and write: what is planned before them, and what is said after them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RemoteLogError
from airflow_provider_rlmm.core.base.file_systems import create_file, list_files, remove_file, replace_file
from airflow_provider_rlmm.core.base.quoting import list_in_quotes
from airflow_provider_rlmm.core.base.strict_json import sealed

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.segments.read_range import OffsetRange
    from airflow_provider_rlmm.features.reading.cutting import TopicInPieces
    from airflow_provider_rlmm.features.reading.exporting import ExportPiece
    from airflow_provider_rlmm.features.reading.parquet import WrittenRecords
    from airflow_provider_rlmm.features.reading.pieces import Piece, PieceReader

EXPORT_DOCUMENT: Final = "export.json"
"""Written last: without it a folder holds an export that has not ended."""

BEGUN_DOCUMENT: Final = "export-begun.json"
"""Written first, and never replaced: it says whose the files of the folder are."""

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Export:
    """
    An export before its pieces are read.

    :param uri: folder of its files.
    :param cluster_id: the cluster.
    :param topic: name of the topic.
    :param topic_id: its id, in Kafka's text form.
    :param ranges: partition → the offsets that are exported.
    :param reader: reads a piece, here or on another machine.
    :param pieces: by partition and offset, each with its file.
    """

    uri: str
    cluster_id: str
    topic: str
    topic_id: str
    ranges: Mapping[int, OffsetRange]
    reader: PieceReader
    pieces: Sequence[ExportPiece]

    def begin(self) -> None:
        """
        Take the folder: no other export may write there from now on, and this one has not ended.

        :raises RemoteLogError: if it holds files of another export, also of one that is under way.
        :raises OSError: if it cannot be read or written.
        """
        own = {BEGUN_DOCUMENT, EXPORT_DOCUMENT, *(self._name_of(piece) for piece in self.pieces)}
        names = list_files(self.uri)
        if strangers := [name for name in names if name not in own]:
            raise self._of_another(
                f"{number_of(len(strangers), 'file that is', 'files that are')} not of this export", strangers
            )
        if names and BEGUN_DOCUMENT not in names:
            raise self._of_another("files of which nothing says whose they are", names)
        try:
            create_file(f"{self.uri}/{BEGUN_DOCUMENT}", [self._identity()])
        except FileExistsError:
            raise self._of_another("another export, which has written there first", [BEGUN_DOCUMENT]) from None
        remove_file(f"{self.uri}/{EXPORT_DOCUMENT}")

    def _identity(self) -> bytes:
        """Return what makes it this export: two whose files have the same names may hold other records."""
        document = {
            "cluster_id": self.cluster_id,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "isolation_level": self.reader.isolation,
            "files": [self._name_of(piece) for piece in self.pieces],
        }
        return json.dumps(sealed(document, _VERSION), indent=2).encode()

    def _name_of(self, piece: ExportPiece) -> str:
        return piece.file.removeprefix(f"{self.uri}/")

    def _of_another(self, what: str, names: Sequence[str]) -> RemoteLogError:
        return RemoteLogError(
            f"the folder {self.uri} has {what}, such as {list_in_quotes(names[:3])}: take an empty one"
        )

    def end(self, written: Sequence[WrittenRecords]) -> dict[str, Any]:
        """
        Write the document of the export, after all pieces are there.

        :param written: what lies in the file of each piece, in their order.
        :return: the document.
        :raises OSError: if it cannot be written.
        """
        files = [
            {
                "file": self._name_of(piece),
                "partition": piece.tip.partition,
                "start_offset": piece.offsets.start,
                "end_offset": piece.offsets.end,
                **asdict(done),
            }
            for piece, done in zip(self.pieces, written, strict=True)
        ]
        document = sealed(
            {
                "cluster_id": self.cluster_id,
                "topic": self.topic,
                "topic_id": self.topic_id,
                "isolation_level": self.reader.isolation,
                "records": sum(done.records for done in written),
                "partitions": {str(number): asdict(offsets) for number, offsets in self.ranges.items()},
                "files": files,
            },
            _VERSION,
        )
        replace_file(f"{self.uri}/{EXPORT_DOCUMENT}", [json.dumps(document, indent=2).encode()])
        return document


def plan_export(source: TopicInPieces, uri: str) -> Export:
    """
    Say which file each piece of a topic becomes.

    :param source: the topic, cut into pieces.
    :param uri: folder for the files.
    """
    from airflow_provider_rlmm.features.reading.exporting import ExportPiece

    uri = uri.rstrip("/")
    pieces = [ExportPiece(piece.tip, piece.offsets, f"{uri}/{_file_name(piece)}") for piece in source.pieces]
    return Export(uri, source.cluster_id, source.topic, source.topic_id, source.ranges, source.reader, pieces)


def _file_name(piece: Piece) -> str:
    offsets = piece.offsets
    return f"partition-{piece.tip.partition}-{offsets.start:020}-{offsets.end:020}.parquet"
