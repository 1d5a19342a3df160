# SPDX-License-Identifier: Apache-2.0
"""A topic in remote storage, cut into pieces that other machines read apart from each other: an export's, a DataFrame's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.segments.read_range import OffsetRange, ReadIsolation, ReadRange, split
from airflow_provider_rlmm.core.storage.secret_texts import is_public_option
from airflow_provider_rlmm.features.reading.steps import open_remote_log

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.records.records import RemoteLogSegmentId
    from airflow_provider_rlmm.core.runs.cleaner_session import CleanerSession
    from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
    from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog
    from airflow_provider_rlmm.features.reading.catalogued_storage import CataloguedObjects
    from airflow_provider_rlmm.features.reading.pieces import Piece, PieceReader, StorageToRead
    from airflow_provider_rlmm.features.reading.steps import RemoteLogOfTopic

PIECE_BYTES: Final = 2**30
"""About how many bytes of segments make a piece: one segment of Kafka's default size."""


@dataclass(frozen=True, slots=True)
class TopicInPieces:
    """
    What is to be read of a topic, before any of it is.

    :param cluster_id: the cluster.
    :param topic: name of the topic.
    :param topic_id: its id, in Kafka's text form.
    :param ranges: partition → the offsets that are read.
    :param reader: reads a piece, here or on another machine.
    :param pieces: by partition and offset.
    """

    cluster_id: str
    topic: str
    topic_id: str
    ranges: Mapping[int, OffsetRange]
    reader: PieceReader
    pieces: Sequence[Piece]


def cut_into_pieces(
    session: CleanerSession,
    topic: str,
    *,
    partitions: Collection[int] | None = None,
    wanted: ReadRange | None = None,
    isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
    allow_incomplete: bool = False,
    piece_bytes: int = PIECE_BYTES,
    bytes_per_second: int | None = None,
) -> TopicInPieces:
    """
    Read the metadata topic, and cut what is wanted of a topic into pieces.

    :param session: of the run.
    :param topic: its name or its id.
    :param partitions: of the topic, ``None`` for all.
    :param wanted: of each partition, ``None`` for all that is in remote storage.
    :param isolation: whether records of aborted transactions are read.
    :param allow_incomplete: take what there is of the range.
    :param piece_bytes: about how many bytes of segments make a piece.
    :param bytes_per_second: the most that each piece fetches in a second.
    :raises OffsetNotInRemoteLogError: if some of the range is not in remote storage.
    :raises TopicInDoubtError: if the metadata topic lost records, or has some that cannot be applied, or is compacted.
    :raises RemoteLogError: if the metadata topic does not name the topic.
    :raises ConfigurationError: if the storage can only be opened with a secret that other machines would not have.
    """
    storage = _storage_to_read(session.storage, session.access.get_connection_settings())
    log = open_remote_log(session, topic, partitions)
    of_range = _Cut(wanted or ReadRange(), isolation, allow_incomplete, piece_bytes, bytes_per_second)
    return of_range.cut(log, storage, session.cluster_id)


def cut_catalogued_into_pieces(
    access: StorageAccess,
    log: CataloguedLog,
    *,
    wanted: ReadRange | None = None,
    isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
    allow_incomplete: bool = False,
    piece_bytes: int = PIECE_BYTES,
    bytes_per_second: int | None = None,
) -> TopicInPieces:
    """
    Cut what is wanted of a topic into pieces, as a catalogue has it.

    :param access: opens the storage.
    :param log: the topic; what a person should decide is refused, not said.
    :param wanted: of each partition, ``None`` for all.
    :param isolation: whether records of aborted transactions are read.
    :param allow_incomplete: take what there is of the range.
    :param piece_bytes: about how many bytes of segments make a piece.
    :param bytes_per_second: the most that each piece fetches in a second.
    :raises OffsetNotInRemoteLogError: if some of the range cannot be read.
    :raises CatalogueError: if a segment is not as the catalogue says, or a person should decide what is read.
    :raises ConfigurationError: if the storage can only be opened with a secret that other machines would not have.
    """
    storage = _storage_to_read(access, access.get_connection_settings())
    of_range = _Cut(wanted or ReadRange(), isolation, allow_incomplete, piece_bytes, bytes_per_second)
    return of_range.cut(log, storage, log.cluster_id, log.storage.objects)


@dataclass(frozen=True, slots=True)
class _Cut:
    """What is wanted of each partition, and how it is read."""

    wanted: ReadRange
    isolation: ReadIsolation
    allow_incomplete: bool
    piece_bytes: int
    bytes_per_second: int | None

    def cut(
        self,
        log: RemoteLogOfTopic,
        storage: StorageToRead,
        cluster_id: str,
        catalogued: Mapping[RemoteLogSegmentId, CataloguedObjects] | None = None,
    ) -> TopicInPieces:
        from airflow_provider_rlmm.features.reading.pieces import Piece, PieceReader

        pieces, lineages, ranges = [], {}, {}
        for tip in log.partitions:
            offsets = log.offsets(tip, self.wanted, self.isolation, allow_incomplete=self.allow_incomplete)
            lineage = log.lineage(tip)
            if offsets is None or lineage is None:
                continue
            spans = log.reader.spans(tip, offsets, leader_epochs=lineage)
            sizes = [(span.offsets.start, span.metadata.segment_size_in_bytes) for span in spans]
            ranges[tip.partition] = offsets
            lineages[tip] = lineage
            pieces += [Piece(tip, piece) for piece in split(offsets, sizes, self.piece_bytes)]
        first = log.partitions[0]
        segments = log.known_segments.as_of_now()
        reader = PieceReader(storage, segments, lineages, self.isolation, self.bytes_per_second, catalogued)
        return TopicInPieces(cluster_id, first.topic, kafka_uuid_str(first.topic_id), ranges, reader, pieces)


def _storage_to_read(storage: StorageAccess, settings: RemoteLogSettings) -> StorageToRead:
    from airflow_provider_rlmm.features.reading.pieces import StorageToRead

    uri = settings.required_storage_uri()
    access, _ = storage.open_store(uri)
    options = {name: str(value) for name, value in access.options.items()}
    if secret := sorted(name for name, value in options.items() if not is_public_option(name, value)):
        raise ConfigurationError(
            f"the options {secret} of the object store may hold secrets, which are sent to no other machine: leave them out "
            "here, and give them to the executors in their environment, such as AWS_SECRET_ACCESS_KEY"
        )
    return StorageToRead(uri, settings.layout, settings.layout_options, options)
