# SPDX-License-Identifier: Apache-2.0
"""Everything that deletes what a scrub has found does to the world, in one place, twice: for real, and as a dry run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.storage.remote_storage import RemoteStorageManager
from airflow_provider_rlmm.core.world.audit_log import AuditLog
from airflow_provider_rlmm.core.world.deletion_trail import DeletionTrail
from airflow_provider_rlmm.features.scrub.scrub_trail import by_segment, columns_of, fates_of

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]


class ScrubEffects(Protocol):
    """What :class:`~airflow_provider_rlmm.features.scrub.scrub_cleaner.ScrubCleaner` does, or says."""

    is_dry: ClassVar[bool]

    def delete(self, going: Mapping[str, Row], note_problem: Callable[[Refusal | None], object]) -> Mapping[str, str]:
        """
        Delete objects, and write down that and what became of them.

        :param going: key → row of the plan.
        :param note_problem: told what a person has to know of the audit log, also where an error ends the work.
        :return: key → why it is still there.
        :raises WritesNotAllowedError: if nothing may be deleted.
        :raises StorageError: if storage is not the one that was proved.
        :raises AuditError: if what is about to be deleted cannot be written down.
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


@dataclass(frozen=True, slots=True)
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

    def delete(self, going: Mapping[str, Row], note_problem: Callable[[Refusal | None], object]) -> Mapping[str, str]:
        """See :class:`ScrubEffects`."""
        self.require_writes(f"delete {len(going)} objects that a scrub has found")
        segments = by_segment(going.values())
        trail = DeletionTrail.begin(self.audit, columns_of(segments))
        try:
            left = self.storage.delete_objects(tuple(going))
        except RlmmError:
            note_problem(trail.end(fates_of(segments, None)))
            raise
        note_problem(trail.end(fates_of(segments, left)))
        for key, row in going.items():
            if key not in left:
                logger.info("deleted %s (%s)", key, row["class"])
        return left

    def rest(self, seconds: float) -> None:
        """See :class:`ScrubEffects`."""
        if seconds > 0:
            self.sleep(seconds)

    def remove_empty_folders(self, keys: Callable[[], Sequence[str]]) -> Sequence[str]:
        """See :class:`ScrubEffects`."""
        return self.storage.remove_empty_folders(keys())


@dataclass(frozen=True, slots=True)
class DryRunScrubEffects:
    """Everything would go well, and nothing is done."""

    is_dry: ClassVar[bool] = True

    def delete(self, going: Mapping[str, Row], note_problem: Callable[[Refusal | None], object]) -> Mapping[str, str]:
        """See :class:`ScrubEffects`."""
        return {}

    def rest(self, seconds: float) -> None:
        """See :class:`ScrubEffects`."""

    def remove_empty_folders(self, keys: Callable[[], Sequence[str]]) -> Sequence[str]:
        """See :class:`ScrubEffects`."""
        return ()
