# SPDX-License-Identifier: Apache-2.0
"""Opens a catalogue for reading: which topic is meant, whether it may be read, and who reads, on the audit log first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.clock import Clock, system_clock
from airflow_provider_rlmm.core.base.errors import CatalogueError, ConfigurationError
from airflow_provider_rlmm.core.base.file_systems import read_file
from airflow_provider_rlmm.core.base.quoting import in_quotes
from airflow_provider_rlmm.core.base.work_folder import cluster_folder
from airflow_provider_rlmm.core.plans.catalogue_files import CatalogueFiles
from airflow_provider_rlmm.core.plans.catalogue_rows import RECOVER_AGAIN
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    TopicIdPartition,
    kafka_uuid_str,
    parse_kafka_uuid,
)
from airflow_provider_rlmm.core.segments.read_range import ReadIsolation, ReadRange
from airflow_provider_rlmm.core.world.catalogue_leave import CatalogueLeave, ids_of_list, topics_of
from airflow_provider_rlmm.core.world.catalogue_reads import AuditedRange, CatalogueRead, write_catalogue_read
from airflow_provider_rlmm.core.world.run_identity import RunIdentity
from airflow_provider_rlmm.features.reading.catalogue_rules import PartitionRows, by_partition, cache_of

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.runs.settings import RemoteLogSettings
    from airflow_provider_rlmm.core.runs.storage_access import StorageAccess
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog
    from airflow_provider_rlmm.features.reading.catalogued_storage import CataloguedObjects

MAX_LIST_BYTES: Final = 64 * 2**20
"""Of a list of erased ids."""

_MAX_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueAsked:
    """
    What is asked of a catalogue, and what a person says with it.

    :param uri: path or URI of its folder.
    :param was_not_deleted: topic ids of which the person says that they were not deleted, in Kafka's form.
    :param deleted: path or URI of a file with erased ids, of topics and of segments, one a line; ``None`` for none.
    :param lineages: ids of segments whose lineages are to be read, in Kafka's form.
    :param or_doubtful: whether what a person should decide is read by the rule and said; it is refused otherwise.
    """

    uri: str
    was_not_deleted: Collection[str] = ()
    deleted: str | None = None
    lineages: Collection[str] = ()
    or_doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueReader:
    """
    Who reads, for the audit log.

    :param run: the run.
    :param work_uri: the work folder.
    :param what: what the records are read for.
    :param clock: ms since the epoch.
    """

    run: RunIdentity
    work_uri: str
    what: str
    clock: Clock = system_clock


def open_catalogued_log(
    storage: StorageAccess,
    asked: CatalogueAsked,
    reader: CatalogueReader,
    topic: str,
    partitions: Collection[int] | None = None,
    *,
    wanted: Callable[[int], ReadRange] = lambda _: ReadRange(),
    isolation: ReadIsolation = ReadIsolation.READ_UNCOMMITTED,
    bytes_per_second: int | None = None,
) -> CataloguedLog:
    """
    Return what a catalogue has of a topic. It is on the audit log before an object is asked for.

    :param storage: opens the storage.
    :param asked: the catalogue, and what a person says with it.
    :param reader: who reads.
    :param topic: id of the topic, or a name that no other topic id has.
    :param partitions: of the topic, ``None`` for all that the catalogue names.
    :param wanted: which records of a partition are to be read, for the audit log.
    :param isolation: by which they are read.
    :param bytes_per_second: the most that is fetched in a second, ``None`` for as much as the store gives.
    :raises CatalogueError: if the catalogue cannot be read, is of another storage or cluster, does not name the topic, names
        several ids by that name, or the topic may not be read.
    :raises ConfigurationError: if an id or the list of erased ids cannot be read.
    :raises AuditError: if the audit log cannot be written: nothing is read then.
    """
    from airflow_provider_rlmm.core.log.known_segments import KnownSegments
    from airflow_provider_rlmm.features.reading.catalogued_log import CataloguedLog
    from airflow_provider_rlmm.features.reading.catalogued_storage import CataloguedStorage
    from airflow_provider_rlmm.features.reading.reader import RemoteLogReader

    settings = storage.get_connection_settings()
    leave = CatalogueLeave(
        topics_of(settings.allow_catalogue),
        _ids(asked.was_not_deleted, "was_not_deleted"),
        _erased(asked.deleted),
    )
    lineages = _ids(asked.lineages, "lineage")
    catalogue = CatalogueFiles(asked.uri)
    cluster_id = _cluster_of(catalogue, settings)
    _require_same_storage(catalogue, settings)
    topic_id = _topic_id(catalogue, topic)
    rows = list(catalogue.rows(topic_id))
    name = next((row.topic for row in rows if row.topic is not None), None)
    certain = name is not None and _why_uncertain(catalogue, name) is None
    leave.require(name, topic_id, name_is_certain=certain)
    if name is None:
        raise CatalogueError(
            f"the catalogue has no whole segment of topic id {kafka_uuid_str(topic_id)}: nothing can be read"
        )
    opened = storage.get_storage_manager()
    places = [place.name for place in opened.layout.places]
    everything = by_partition(rows, name, topic_id, leave.erased, places)
    found = _wanted_partitions(everything, topic, partitions)
    tips = [TopicIdPartition(topic_id, name, number) for number in sorted(found)]
    write_catalogue_read(
        f"{reader.work_uri.rstrip('/')}/{cluster_folder(cluster_id)}",
        CatalogueRead.of(
            reader.run, reader.what, reader.clock(), cluster_id=cluster_id, catalogue=catalogue.uri, sha256=catalogue.sha256,
            topic_id=topic_id, topic=name, isolation=isolation,
            ranges=[AuditedRange.of(number, wanted(number)) for number in sorted(found)],
        ),
    )  # fmt: skip
    segments = KnownSegments({tip: cache_of(found[tip.partition].metadata()) for tip in tips})
    source = CataloguedStorage(opened, _objects(found))
    log_reader = RemoteLogReader(segments, source, bytes_per_second=bytes_per_second, to_the_end=True)
    return CataloguedLog(
        log_reader,
        segments,
        tips,
        everything,
        cluster_id=cluster_id,
        storage=source,
        named=lineages,
        unseen=_unseen(catalogue),
        or_doubtful=asked.or_doubtful,
    )


def _ids(texts: Collection[str], what: str) -> frozenset[UUID]:
    return ids_of_list("\n".join(texts), what)


def _erased(uri: str | None) -> frozenset[UUID]:
    if uri is None:
        return frozenset()
    try:
        text = bytes(read_file(uri, MAX_LIST_BYTES)).decode()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigurationError(
            f"the list of erased ids {in_quotes(uri)} cannot be read ({e}): nothing is read"
        ) from e
    return ids_of_list(text, f"the list of erased ids {in_quotes(uri)}")


def _cluster_of(catalogue: CatalogueFiles, settings: RemoteLogSettings) -> str:
    """Return of which cluster the segments are: the audit log of that one says what was read."""
    said, expected = catalogue.document.cluster_id, settings.expected_cluster_id
    if said is None and expected is None:
        raise CatalogueError(
            "the catalogue does not say of which cluster its segments are, and what is read is written down there: name it "
            "by expected_cluster_id"
        )
    if said is not None and expected is not None and said != expected:
        raise CatalogueError(
            f"the catalogue is of cluster {in_quotes(said)}, and {in_quotes(expected)} is expected: correct it"
        )
    return str(said or expected)


def _require_same_storage(catalogue: CatalogueFiles, settings: RemoteLogSettings) -> None:
    document = catalogue.document
    here = (settings.required_storage_uri().rstrip("/"), settings.layout)
    if (document.storage.rstrip("/"), document.layout) != here:
        raise CatalogueError(
            f"the catalogue is of the storage {document.storage} with the layout {document.layout}, and the settings name "
            f"{here[0]} with {here[1]}: correct them, or {RECOVER_AGAIN} from there"
        )


def _topic_id(catalogue: CatalogueFiles, topic: str) -> UUID:
    """Return the topic id that is meant; a name that may have been used twice means nothing."""
    named = catalogue.ids_of(topic)
    ids = set(named)
    with suppress(ValueError):
        ids |= {found} if next(catalogue.rows(found := parse_kafka_uuid(topic)), None) else set()
    if not ids:
        raise CatalogueError(f"the catalogue names no topic {in_quotes(topic)}, by name or by id")
    if len(ids) > 1:
        shown = ", ".join(sorted(map(kafka_uuid_str, ids))[:_MAX_SHOWN])
        raise CatalogueError(
            f"{in_quotes(topic)} is the name of {number_of(len(ids), 'topic id')}: {shown}. One of them may be of a "
            "topic that was deleted: give the id that you mean"
        )
    (topic_id,) = ids
    if named and (why := _why_uncertain(catalogue, topic)) is not None:
        raise CatalogueError(
            f"{in_quotes(topic)} may be the name of more topic ids than the catalogue names, {why}: give the id that you "
            f"mean, {kafka_uuid_str(topic_id)} or another one"
        )
    return topic_id


def _why_uncertain(catalogue: CatalogueFiles, name: str) -> str | None:
    """Return why a name may have more topic ids than the catalogue says, ``None`` where it has exactly one."""
    document = catalogue.document
    if len(catalogue.ids_of(name)) > 1:
        return "which names several"
    if document.asked_for and name not in document.asked_for:
        return "as it was made of some topic ids only"
    if document.incomplete:
        return "as not all folders were listed whole"
    return None


def _wanted_partitions(
    found: dict[int, PartitionRows], topic: str, partitions: Collection[int] | None
) -> dict[int, PartitionRows]:
    if partitions is None:
        return found
    if missing := sorted(set(partitions) - found.keys()):
        there = f"It names {len(found)}, from {min(found)} to {max(found)}" if found else "It names none"
        raise CatalogueError(f"the catalogue names no partitions {missing[:_MAX_SHOWN]} of {in_quotes(topic)}. {there}")
    return {number: found[number] for number in partitions}


def _unseen(catalogue: CatalogueFiles) -> str | None:
    """Return why there may be segments that the catalogue does not name, ``None`` where it names all."""
    document = catalogue.document
    count = len(document.incomplete) + document.incomplete_left_out
    if not count:
        return None
    return (
        f"{number_of(count, 'folder was', 'folders were')} not listed whole when the catalogue was made, "
        f"{in_quotes(document.incomplete[0].folder)} first: there may be segments that it does not name"
    )


def _objects(found: dict[int, PartitionRows]) -> dict[RemoteLogSegmentId, CataloguedObjects]:
    from airflow_provider_rlmm.features.reading.catalogued_storage import CataloguedObjects

    return {
        segment_id: CataloguedObjects(row.place or "", row.keys, row.stored_bytes)
        for partition in found.values()
        for segment_id, row in partition.segments.items()
    }
