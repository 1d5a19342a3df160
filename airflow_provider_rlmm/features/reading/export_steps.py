# SPDX-License-Identifier: Apache-2.0
"""An export of a topic in pieces that others read and write: what is planned before them, and what is said after them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError, RemoteLogError
from airflow_provider_rlmm.core.base.file_systems import create_file, list_files, remove_file, replace_file
from airflow_provider_rlmm.core.base.quoting import list_in_quotes
from airflow_provider_rlmm.core.base.strict_json import sealed
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange, split
from airflow_provider_rlmm.features.reading.steps import open_remote_log

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.features.reading.exporting import Exporter, ExportPiece, StorageToRead
    from airflow_provider_rlmm.features.reading.parquet import WrittenRecords

logger = logging.getLogger(__name__)

EXPORT_DOCUMENT: Final = "export.json"
"""Written last: without it a folder holds an export that has not ended."""

BEGUN_DOCUMENT: Final = "export-begun.json"
"""Written first, and never replaced: it says whose the files of the folder are."""

PIECE_BYTES: Final = 2**30
"""About how many bytes of segments make a piece: one segment of Kafka's default size."""

_VERSION: Final = 1
_NO_SECRETS: Final = frozenset(
    {
        "account_name", "allow_http", "aws_allow_http", "aws_conditional_put", "aws_endpoint", "aws_region",
        "aws_skip_signature", "aws_virtual_hosted_style_request", "azure_storage_account_name", "bucket", "endpoint",
        "region", "skip_signature", "virtual_hosted_style_request",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Export:
    """
    An export before its pieces are read.

    :param uri: folder of its files.
    :param cluster_id: the cluster.
    :param topic: name of the topic.
    :param topic_id: its id, in Kafka's text form.
    :param ranges: partition → the offsets that are exported.
    :param exporter: exports a piece, here or on another machine.
    :param pieces: by partition and offset.
    """

    uri: str
    cluster_id: str
    topic: str
    topic_id: str
    ranges: Mapping[int, OffsetRange]
    exporter: Exporter
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
            raise self._of_another(f"{len(strangers)} files that are not of this export", strangers)
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
            "isolation_level": self.exporter.isolation,
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
                "isolation_level": self.exporter.isolation,
                "records": sum(done.records for done in written),
                "partitions": {str(number): asdict(offsets) for number, offsets in self.ranges.items()},
                "files": files,
            },
            _VERSION,
        )
        replace_file(f"{self.uri}/{EXPORT_DOCUMENT}", [json.dumps(document, indent=2).encode()])
        return document


def plan_export(
    session: CleanerSession,
    topic: str,
    uri: str,
    *,
    partitions: Collection[int] | None = None,
    wanted: ReadRange | None = None,
    isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
    allow_incomplete: bool = False,
    piece_bytes: int = PIECE_BYTES,
    bytes_per_second: int | None = None,
) -> Export:
    """
    Read the metadata topic, and cut what is wanted of a topic into pieces.

    :param session: of the run.
    :param topic: its name or its id.
    :param uri: folder for the files.
    :param partitions: of the topic, ``None`` for all.
    :param wanted: of each partition, ``None`` for all that is in remote storage.
    :param isolation: whether records of aborted transactions are exported.
    :param allow_incomplete: take what there is of the range.
    :param piece_bytes: about how many bytes of segments make a piece.
    :param bytes_per_second: the most that each piece fetches in a second.
    :raises OffsetNotInRemoteLogError: if some of the range is not in remote storage.
    :raises RemoteLogError: if the metadata topic does not name the topic.
    :raises ConfigurationError: if the storage can only be opened with a secret that other machines would not have.
    """
    from airflow_provider_rlmm.features.reading.exporting import Exporter, ExportPiece

    uri = uri.rstrip("/")
    storage = _storage_to_read(session)
    log = open_remote_log(session, topic, partitions)
    pieces, lineages, ranges = [], {}, {}
    for tip in log.partitions:
        offsets = log.offsets(tip, wanted or ReadRange(), isolation, allow_incomplete=allow_incomplete)
        lineage = log.lineage(tip)
        if offsets is None or lineage is None:
            continue
        spans = log.reader.spans(tip, offsets, leader_epochs=lineage)
        sizes = [(span.offsets.start, span.metadata.segment_size_in_bytes) for span in spans]
        ranges[tip.partition] = offsets
        lineages[tip] = lineage
        pieces += [
            ExportPiece(tip, piece, f"{uri}/partition-{tip.partition}-{piece.start:020}-{piece.end:020}.parquet")
            for piece in split(offsets, sizes, piece_bytes)
        ]
    first = log.partitions[0]
    exporter = Exporter(storage, log.known_segments.as_of_now(), lineages, isolation, bytes_per_second)
    return Export(uri, session.cluster_id, first.topic, kafka_uuid_str(first.topic_id), ranges, exporter, pieces)


def _storage_to_read(session: CleanerSession) -> StorageToRead:
    from airflow_provider_rlmm.features.reading.exporting import StorageToRead

    settings = session.access.get_connection_settings()
    uri = settings.required_storage_uri()
    access, _ = session.storage.open_store(uri)
    options = {name: str(value) for name, value in access.options.items()}
    if secret := sorted(name for name in options if name.lower() not in _NO_SECRETS):
        raise ConfigurationError(
            f"the options {secret} of the object store may hold secrets, which are sent to no other machine: leave them out "
            "here, and give them to the executors in their environment, such as AWS_SECRET_ACCESS_KEY"
        )
    return StorageToRead(uri, settings.layout, settings.layout_options, options)
