# SPDX-License-Identifier: Apache-2.0
"""Everything that deletes what a scrub has found does to the world, in one place, twice: for real, and as a dry run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.world.audit_log import AuditLog
from airflow_provider_rlmm.core.world.deletion_trail import DeletionTrail
from airflow_provider_rlmm.features.scrub.scrub_trail import Doomed, by_segment, columns_of, fates_of

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]

MOST_UNCONFIRMED: Final = 100_000
"""Objects that wait for the listing of their folder, some ten megabytes: a run that is killed leaves their fate open."""


class ScrubEffects(Protocol):
    """
    What :class:`~airflow_provider_rlmm.features.scrub.scrub_cleaner.ScrubCleaner` does, or says.

    A deletion is over when a listing has confirmed it. Where that takes a listing of the whole folder, however much lives
    there, it is made once behind many deletions.
    """

    is_dry: ClassVar[bool]

    def delete(self, going: Mapping[str, Row]) -> None:
        """
        Delete objects, and write that down.

        :param going: key → row of the plan.
        :raises WritesNotAllowedError: if nothing may be deleted.
        :raises StorageError: if storage is not the one that was proved.
        :raises AuditError: if what is about to be deleted cannot be written down.
        """

    def is_to_be_confirmed(self, *, folder_ends: bool) -> bool:
        """
        Tell whether :meth:`confirm` is due.

        :param folder_ends: whether the next deletion, if there is one, is in another folder.
        """

    def confirm(self, note_problem: Callable[[Refusal | None], object]) -> Iterator[tuple[Doomed, str | None]]:
        """
        Look for all that was deleted since the last time, and write down what became of it; it raises nothing.

        :param note_problem: told what a person has to know of the audit log.
        :return: each object, and why it is still there.
        """

    def rest(self, seconds: float) -> None:
        """
        Rest after a batch.

        :param seconds: for how long, by the pace.
        """

    def remove_empty_folders(self, keys: Callable[[], Sequence[str]]) -> Sequence[str]:
        """
        Remove what is empty by now.

        :param keys: returns the objects that lay there.
        :return: the folders that are gone.
        """


@dataclass(slots=True)
class _Begun:
    """A batch that is written down, and what the store said to its deletion: ``None`` until it has."""

    trail: DeletionTrail
    segments: Sequence[Sequence[Doomed]]
    failures: Mapping[str, str] | None = None


@dataclass(slots=True)
class RealScrubEffects:
    """
    :param storage: remote storage; its root was proved before.
    :param require_writes: raises where nothing may be deleted; gets what was to be done.
    :param audit: where every deletion is written down, before and after.
    :param sleep: waits for seconds, where the limits want a rest between batches.
    """

    storage: RemoteStorageManager
    require_writes: Callable[[str], None]
    audit: AuditLog
    sleep: Callable[[float], object] = time.sleep
    is_dry: ClassVar[bool] = False
    _begun: list[_Begun] = field(default_factory=list, init=False)
    _unconfirmed: int = field(default=0, init=False)

    def delete(self, going: Mapping[str, Row]) -> None:
        """See :class:`ScrubEffects`."""
        self.require_writes(f"delete {number_of(len(going), 'object')} that a scrub has found")
        segments = by_segment(going.values())
        trail = DeletionTrail.begin(self.audit, columns_of(segments))
        batch = _Begun(trail, [[Doomed.of(row) for row in objects] for objects in segments])
        self._begun.append(batch)
        self._unconfirmed += len(going)
        batch.failures = self.storage.delete_objects(tuple(going))
        logger.info("%d objects deleted; %d wait for the listing that confirms it", len(going), self._unconfirmed)

    def is_to_be_confirmed(self, *, folder_ends: bool) -> bool:
        """See :class:`ScrubEffects`."""
        is_late = self.storage.absence_takes_whole_folder and not folder_ends
        return self._unconfirmed >= MOST_UNCONFIRMED if is_late else self._unconfirmed > 0

    def confirm(self, note_problem: Callable[[Refusal | None], object]) -> Iterator[tuple[Doomed, str | None]]:
        """See :class:`ScrubEffects`."""
        begun, self._begun, self._unconfirmed = self._begun, [], 0
        answered = [batch for batch in begun if batch.failures is not None]
        failures = {key: why for batch in answered for key, why in (batch.failures or {}).items()}
        doomed = [one for batch in answered for objects in batch.segments for one in objects]
        left = self.storage.still_there([one.key for one in doomed], failures) if doomed else {}
        for batch in begun:
            note_problem(batch.trail.end(fates_of(batch.segments, None if batch.failures is None else left)))
        for one in doomed:
            if one.key not in left:
                logger.info("deleted %s (%s)", one.key, one.kind)
            yield one, left.get(one.key)

    def rest(self, seconds: float) -> None:
        """See :class:`ScrubEffects`."""
        if seconds > 0:
            self.sleep(seconds)

    def remove_empty_folders(self, keys: Callable[[], Sequence[str]]) -> Sequence[str]:
        """See :class:`ScrubEffects`."""
        return self.storage.remove_empty_folders(keys())


@dataclass(slots=True)
class DryRunScrubEffects:
    """Everything would go well, and nothing is done."""

    is_dry: ClassVar[bool] = True

    _going: list[Doomed] = field(default_factory=list, init=False)

    def delete(self, going: Mapping[str, Row]) -> None:
        """See :class:`ScrubEffects`."""
        self._going += map(Doomed.of, going.values())

    def is_to_be_confirmed(self, *, folder_ends: bool) -> bool:
        """See :class:`ScrubEffects`."""
        return bool(self._going)

    def confirm(self, note_problem: Callable[[Refusal | None], object]) -> Iterator[tuple[Doomed, str | None]]:
        """See :class:`ScrubEffects`."""
        going, self._going = self._going, []
        for one in going:
            yield one, None

    def rest(self, seconds: float) -> None:
        """See :class:`ScrubEffects`."""

    def remove_empty_folders(self, keys: Callable[[], Sequence[str]]) -> Sequence[str]:
        """See :class:`ScrubEffects`."""
        return ()
