# SPDX-License-Identifier: Apache-2.0
"""
Restores a topic from an archive, or from a bucket by its catalogue, into another one: verified, measured, compared with what
the topic can hold, written, read back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import (
    ArchiveError,
    ConfigurationError,
    RestoreError,
    WritesNotAllowedError,
)
from airflow_provider_rlmm.core.base.given import argument
from airflow_provider_rlmm.core.base.quoting import human_bytes
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.world.kill_switch import require_not_stopped
from airflow_provider_rlmm.features.archiving.restore_document import (
    PromisedPartition,
    RestoreDocument,
    RestoreRun,
    offsets_uri_of,
    require_same,
    uri_of,
)
from airflow_provider_rlmm.features.archiving.restore_rules import (
    INCOMPLETE_ARCHIVE,
    INCOMPLETE_CATALOGUE,
    RecordsToRestore,
    Undecided,
    beginnings,
    holes,
    obstacles,
)
from airflow_provider_rlmm.features.archiving.restore_rules import (
    undecided as undecided_of,
)

if TYPE_CHECKING:
    from airflow_provider_rlmm.core.log.answers import TargetTopic
    from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueToRestore
    from airflow_provider_rlmm.features.archiving.restore_effects import RestoreEffects
    from airflow_provider_rlmm.features.archiving.restore_source import RestoreSource, SourceLog

_TIMES_READ: Final = 3
"""A source is read for its committed records, for all of them, and when it is written; a dry run leaves out the last."""

_SAID: Final = 10
"""So many things that an archive lacks are named in an error; the report names all."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """
    What was restored, or would be.

    :param cluster_id: the cluster that was written to.
    :param archived_cluster_id: the cluster that the archive is of.
    :param archived_topic: name of the archived topic.
    :param archived_topic_id: its id in Kafka's form.
    :param topic: the topic that was written to.
    :param topic_id: its id.
    :param dry_run: whether nothing was written.
    :param partitions: what was written, and read back with the same checksums.
    :param incomplete: what the source lacks, each a sentence; only an override restores from such a one.
    :param source: ``archive`` or ``catalogue``: the fields of the archive are those of the catalogue then.
    :param said: what was decided about how the source is read, and what it cannot hold, each a sentence.
    :param log_bytes: of the logs of the source that are read.
    :param undecided: what a person has said of transactions whose end no segment of the source has; ``None`` for nothing.
    :param offsets_uri: of the Parquet file that says which offset became which, ``None`` where nothing was written.
    """

    cluster_id: str
    archived_cluster_id: str
    archived_topic: str
    archived_topic_id: str
    topic: str
    topic_id: str
    dry_run: bool
    partitions: tuple[RecordsToRestore, ...]
    incomplete: tuple[str, ...] = ()
    source: str = "archive"
    said: tuple[str, ...] = ()
    log_bytes: int = 0
    undecided: Undecided | None = None
    offsets_uri: str | None = None

    @property
    def needs_person(self) -> bool:
        """Whether a person has to look: not all that was archived was restored, or it was not said what of it counts."""
        return bool(self.problems)

    @property
    def problems(self) -> list[str]:
        """What a person has to look at, each a sentence."""
        unasked = self.transactions if self.undecided is None else []
        advice = (
            f". It may have been committed; that cannot be told: say abort or keep, by {argument('undecided')}, and "
            "restore into a new topic where that is another answer"
        )
        return [
            *(f"the {self.source} is not whole: {why}" for why in self.incomplete),
            *(f"{why}{advice}" for why in unasked),
        ]

    @property
    def transactions(self) -> list[str]:
        """What becomes of transactions whose end no segment of the source has, each a sentence."""
        return undecided_of(self.partitions, self.undecided)

    @property
    def beginnings(self) -> list[str]:
        """Where partitions begin behind offset 0, each a sentence."""
        return beginnings(self.partitions)

    @property
    def reaches(self) -> list[str]:
        """How far each partition of a catalogue reaches, and where its offsets differ, each a sentence."""
        return [found.reaches for found in self.partitions] if self.source == "catalogue" else []

    def takes(self, bytes_per_second: int | None) -> str:
        """
        Return what reading the source takes: a sentence.

        :param bytes_per_second: the most that is fetched in a second, ``None`` for no limit.
        """
        what = f"{human_bytes(self.log_bytes)} of logs are read {_TIMES_READ} times"
        if bytes_per_second is None:
            return f"{what}; bytes_per_second bounds how fast"
        hours = self.log_bytes * _TIMES_READ / bytes_per_second / 3600
        return f"{what}, at {human_bytes(bytes_per_second)} a second in {hours:,.1f} hours or more"

    @property
    def records(self) -> int:
        """All records."""
        return sum(found.count for found in self.partitions)

    @property
    def left_out(self) -> int:
        """Records that were not restored, as no consumer with ``read_committed`` would have read them."""
        return sum(found.left_out for found in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {**asdict(self), "records": self.records, "left_out": self.left_out}


def restore(
    access: RemoteLogAccess,
    topic_id: str,
    topic: str,
    *,
    by: RestoreRun,
    archived_cluster_id: str | None = None,
    catalogue: CatalogueToRestore | None = None,
    overrides: Collection[str] = (),
    undecided: Undecided | None = None,
    offset_header: bool = False,
    dry_run: bool,
) -> RestoreReport:
    """
    Write the committed records of a topic into an empty one, each into its partition, with its time.

    :param access: opens the cluster that is written to; its storage is the one that a catalogue is of.
    :param topic_id: of the topic that the records are of, in Kafka's form.
    :param topic: the topic to write to; it exists, and is empty, or holds what a restore of the same was
        interrupted in.
    :param by: who restores, and where it is written down, so that it can go on where it was interrupted.
    :param archived_cluster_id: the cluster that the records are of; ``None`` takes that of the catalogue, and of an archive
        the one that is written to.
    :param catalogue: what is restored from a bucket; ``None`` restores an archive.
    :param overrides: out of :data:`~airflow_provider_rlmm.features.archiving.restore_rules.RESTORE_OVERRIDES`.
    :param undecided: what becomes of transactions whose end no segment of the source has; ``None`` counts them as aborted and
        has a person look at them.
    :param offset_header: whether each record gets a header with the offset that it had.
    :param dry_run: check all that can be checked, write nothing.
    :raises ConfigurationError: if no folder for archives is named, or an override is about another source.
    :raises WritesNotAllowedError: if the settings do not allow writes.
    :raises StoppedError: if the kill switch is on.
    :raises ArchiveError: if the archive is not as it was written, or lacks anything that its runs have named.
    :raises CatalogueError: if the topic may not be read by the catalogue, or a person should decide by what.
    :raises OffsetNotInRemoteLogError: if some of what is wanted is in no segment of the catalogue that can be read.
    :raises RestoreError: if the topic cannot hold the records as they were, or does not hold them afterwards.
    :raises EventLogError: if the cluster cannot be asked.
    """
    from airflow_provider_rlmm.core.log.kafka.restore_target import RestoreTarget
    from airflow_provider_rlmm.features.archiving.archive.measuring import measure
    from airflow_provider_rlmm.features.archiving.restore_progress import read_begun

    effects = _effects(access, topic, by, dry_run=dry_run)
    cluster_id = access.check_cluster()
    _require_fitting(overrides, INCOMPLETE_ARCHIVE if catalogue is None else INCOMPLETE_CATALOGUE)
    source = _source(access, catalogue, by, topic_id, cluster_id, archived_cluster_id, or_incomplete=bool(overrides))
    _require_whole(source.missing, overrides)
    with access.naming_connection(), RestoreTarget(access.get_client_config(), topic) as target:
        look = target.look()
        _require_another(look, source, cluster_id, topic_id)
        logs = [log.deciding(keep_undecided=undecided is Undecided.KEEP) for log in source.open()]
        measured = tuple(measure(log, look.begins.get(log.partition, 0), offset_header=offset_header) for log in logs)
        incomplete = [*source.missing, *holes(measured)]
        _require_whole(incomplete, overrides)
        choice = undecided or Undecided.ABORT
        document = _document(
            by, source, topic_id, cluster_id, look, logs, measured, choice, offset_header=offset_header
        )
        begun = read_begun(uri_of(by.work_uri, cluster_id, document.topic_id))
        if begun is not None:
            require_same(begun, document)
        if found := obstacles(look, measured, system_clock(), resumed=begun is not None):
            raise RestoreError("nothing was written: " + "; ".join(found))
        effects.write(target, look, logs, measured, document, resumed=begun is not None)
    return RestoreReport(
        cluster_id, source.cluster_id, source.topic, topic_id, topic, kafka_uuid_str(look.topic_id), effects.is_dry, measured,
        tuple(incomplete), source.kind, tuple(source.said), sum(log.log_bytes for log in logs),
        undecided, None if dry_run else offsets_uri_of(by.work_uri, document),
    )  # fmt: skip


def _source(
    access: RemoteLogAccess,
    catalogue: CatalogueToRestore | None,
    by: RestoreRun,
    topic_id: str,
    cluster_id: str,
    source_cluster_id: str | None,
    *,
    or_incomplete: bool,
) -> RestoreSource:
    """Open what is restored; a catalogue says itself of which cluster it is."""
    if catalogue is not None:
        from airflow_provider_rlmm.features.archiving.restore_catalogue import CatalogueSource

        return CatalogueSource(
            access.get_storage(), catalogue, by, source_cluster_id, topic_id, or_incomplete=or_incomplete
        )
    from airflow_provider_rlmm.features.archiving.restore_archive import ArchiveSource

    archive_uri = access.get_connection_settings().required_archive_uri()
    return ArchiveSource(archive_uri, source_cluster_id or cluster_id, topic_id)


def _document(
    by: RestoreRun,
    source: RestoreSource,
    topic_id: str,
    cluster_id: str,
    look: TargetTopic,
    logs: Sequence[SourceLog],
    measured: Sequence[RecordsToRestore],
    undecided: Undecided,
    *,
    offset_header: bool,
) -> RestoreDocument:
    """Return what is to be written: another source, start, lineage, choice or topic makes another document."""
    partitions = tuple(
        PromisedPartition(
            log.partition, look.begins.get(log.partition, 0), found.count, found.content_sha256, found.first_offset,
            found.end_offset, log.lineage.entries,
        )
        for log, found in zip(logs, measured, strict=True)
    )  # fmt: skip
    run = by.run
    return RestoreDocument(
        system_clock(), run.dag_id, run.run_id, run.artifact, run.triggered_by, cluster_id, look.topic,
        kafka_uuid_str(look.topic_id), source.kind, source.sha256, source.cluster_id, source.topic, topic_id, source.start,
        undecided, offset_header, partitions,
    )  # fmt: skip


def _require_another(look: TargetTopic, source: RestoreSource, cluster_id: str, topic_id: str) -> None:
    """Refuse to write records into the very topic that they are of: its offsets would say something else from then on."""
    if (source.cluster_id, topic_id) == (cluster_id, kafka_uuid_str(look.topic_id)):
        raise RestoreError(f"topic {look.topic} is the one that the records are of: restore into a new one")


def _require_fitting(overrides: Collection[str], fitting: str) -> None:
    """Refuse an override that is not about the source: it would allow nothing of what its name says."""
    if others := sorted(set(overrides) - {fitting}):
        raise ConfigurationError(f"the override {others[0]} is about another source: here it is {fitting}")


def _require_whole(missing: Sequence[str], overrides: Collection[str]) -> None:
    """Refuse an archive that is not whole, unless a person has said to take what there is."""
    if not missing or overrides:
        return
    more = f"; and {len(missing) - _SAID} more" if len(missing) > _SAID else ""
    raise ArchiveError(
        f"nothing was written: the archive is not whole: {'; '.join(missing[:_SAID])}{more}. Bring back what is missing, for "
        "example from a backup of the archive, or archive again where the segments are still there; the override "
        f"{INCOMPLETE_ARCHIVE} restores what there is"
    )


def _effects(access: RemoteLogAccess, topic: str, by: RestoreRun, *, dry_run: bool) -> RestoreEffects:
    """Make what writes: the only place where anything does that is not a dry run's."""
    from airflow_provider_rlmm.core.log.kafka.restoring import DELIVERY_TIMEOUT_S, RestoringTopic
    from airflow_provider_rlmm.features.archiving.restore_effects import DryRunRestoreEffects, RealRestoreEffects

    settings = access.get_connection_settings()
    settings.check_writable()
    if dry_run:
        return DryRunRestoreEffects()
    if not settings.allow_writes:
        with settings.naming():
            raise WritesNotAllowedError("allow_writes is off: nothing is written, and a restored topic would be")
    require_not_stopped(access.read_stop())
    cluster_id = access.check_cluster()
    return RealRestoreEffects(
        RestoringTopic(access.get_client_config(), cluster_id, topic), by.work_uri, DELIVERY_TIMEOUT_S
    )
