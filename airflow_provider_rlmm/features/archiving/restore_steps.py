# SPDX-License-Identifier: Apache-2.0
"""Restores an archived topic into another: verified, measured, compared with what the topic can hold, written, read back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ArchiveError, RestoreError, WritesNotAllowedError
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.access import RemoteLogAccess
from airflow_provider_rlmm.core.world.kill_switch import require_not_stopped
from airflow_provider_rlmm.features.archiving.restore_rules import (
    INCOMPLETE_ARCHIVE,
    RecordsToRestore,
    beginnings,
    holes,
    obstacles,
)

if TYPE_CHECKING:
    from airflow_provider_rlmm.features.archiving.archive.reading import ArchivedLog
    from airflow_provider_rlmm.features.archiving.restore_effects import RestoreEffects

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
    :param incomplete: what the archive lacks, each a sentence; only an override restores such an archive.
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

    @property
    def needs_person(self) -> bool:
        """Whether somebody has to look: what was restored is not all that was archived."""
        return bool(self.incomplete)

    @property
    def beginnings(self) -> list[str]:
        """Where partitions begin behind offset 0, each a sentence."""
        return beginnings(self.partitions)

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
    archived_cluster_id: str | None = None,
    overrides: Collection[str] = (),
    dry_run: bool,
) -> RestoreReport:
    """
    Write the committed records of an archived topic into an empty one, each into its partition, with its time.

    :param access: opens the cluster that is written to.
    :param topic_id: of the archived topic, in Kafka's form.
    :param topic: the topic to write to; it exists and is empty.
    :param archived_cluster_id: the cluster that the archive is of, ``None`` for the one that is written to.
    :param overrides: out of :data:`~airflow_provider_rlmm.features.archiving.restore_rules.RESTORE_OVERRIDES`.
    :param dry_run: check all that can be checked, write nothing.
    :raises ConfigurationError: if no folder for archives is named.
    :raises WritesNotAllowedError: if the settings do not allow writes.
    :raises StoppedError: if the kill switch is on.
    :raises ArchiveError: if the archive is not as it was written, or lacks anything that its runs have named.
    :raises RestoreError: if the topic cannot hold the records as they were, or does not hold them afterwards.
    :raises EventLogError: if the cluster cannot be asked.
    """
    from airflow_provider_rlmm.core.log.kafka.restore_target import RestoreTarget
    from airflow_provider_rlmm.features.archiving.archive.measuring import measure
    from airflow_provider_rlmm.features.archiving.archive.reading import open_topic

    effects = _effects(access, topic, dry_run=dry_run)
    cluster_id = access.check_cluster()
    source = archived_cluster_id or cluster_id
    archived = open_topic(access.get_connection_settings().required_archive_uri(), source, topic_id)
    logs = archived.logs
    _require_readable(logs)
    _require_whole(archived.missing, overrides)
    with access.naming_connection(), RestoreTarget(access.get_client_config(), topic) as target:
        look = target.look()
        for log in logs:
            log.verify()
        measured = tuple(measure(log) for log in logs)
        incomplete = [*archived.missing, *holes(measured)]
        _require_whole(incomplete, overrides)
        if found := obstacles(look, measured, system_clock()):
            raise RestoreError("nothing was written: " + "; ".join(found))
        effects.write(target, look, logs, measured)
    return RestoreReport(
        cluster_id,
        source,
        archived.topic,
        topic_id,
        topic,
        kafka_uuid_str(look.topic_id),
        effects.is_dry,
        measured,
        tuple(incomplete),
    )


def _require_readable(logs: Sequence[ArchivedLog]) -> None:
    """Refuse what nobody but a broker with the key can read: its records are in no file of the archive."""
    encrypted = [keys for log in logs for segment in log.segments if (keys := segment.keys)]
    if encrypted:
        key = next(iter(encrypted[0].values()))
        raise ArchiveError(
            f"nothing was written: {len(encrypted)} archived segments are encrypted, and their keys are with the brokers. "
            f"Their objects were archived as they are: put each file back under the key that its manifest names, such as "
            f"{key}; brokers that know the segment and have its key serve it then"
        )


def _require_whole(missing: Sequence[str], overrides: Collection[str]) -> None:
    """Refuse an archive that is not whole, unless somebody has named that they take what there is."""
    if not missing or INCOMPLETE_ARCHIVE in overrides:
        return
    more = f"; and {len(missing) - _SAID} more" if len(missing) > _SAID else ""
    raise ArchiveError(
        f"nothing was written: the archive is not whole: {'; '.join(missing[:_SAID])}{more}. Bring back what is missing, for "
        "example from a backup of the archive, or archive again where the segments are still there; the override "
        f"{INCOMPLETE_ARCHIVE} restores what there is"
    )


def _effects(access: RemoteLogAccess, topic: str, *, dry_run: bool) -> RestoreEffects:
    """Make what writes: the only place where anything does that is not a dry run's."""
    from airflow_provider_rlmm.core.log.kafka.restoring import RestoringTopic
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
    return RealRestoreEffects(RestoringTopic(access.get_client_config(), cluster_id, topic))
