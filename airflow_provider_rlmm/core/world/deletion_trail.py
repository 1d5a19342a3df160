# SPDX-License-Identifier: Apache-2.0
"""
What one batch of deletions leaves in the audit log: written down before anything of it goes, and when it ends, in any
way. Which columns there are, and what became of each segment, says the part that deletes: the cleaner knows offsets and
events, a scrub knows objects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import AuditError
from airflow_provider_rlmm.core.plans.refusals import Refusal, RefusalKind
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.core.world.audit import MAX_WHY
from airflow_provider_rlmm.core.world.audit_columns import Columns
from airflow_provider_rlmm.core.world.audit_log import AuditBatch, AuditLog

logger = logging.getLogger(__name__)

NOT_WRITTEN_ADVICE = (
    "see that the work folder has room and may be written; what was deleted is in this report, and what was begun in the "
    "batch's first file"
)


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a segment of a batch."""

    outcome: DeleteOutcome
    objects: int | None  # that were deleted, ``None`` where storage did not say
    bytes: int | None  # theirs
    why: Iterable[str]  # reasons for what is still there
    finished_offset: int | None = None  # of its acknowledged DELETE_SEGMENT_FINISHED


NOTHING_SAID = Fate(DeleteOutcome.UNKNOWN, None, None, ("storage did not say what became of it",))


@dataclass(frozen=True, slots=True)
class DeletionTrail:
    """
    A batch that is written down.

    :param log: the audit log.
    :param batch: what was written before.
    :param segments: how many it has.
    :param metadata_partition: of all of it, ``None`` where there are several.
    """

    log: AuditLog
    batch: AuditBatch
    segments: int
    metadata_partition: int | None

    @classmethod
    def begin(cls, log: AuditLog, columns: Columns, metadata_partition: int | None = None) -> DeletionTrail:
        """
        Write down what is about to be deleted.

        :param log: the audit log.
        :param columns: of all of it; ``segment_id`` is one of them.
        :param metadata_partition: of all of it, ``None`` where there are several.
        :raises AuditError: if it cannot be written: nothing of it may be deleted.
        """
        return cls(log, log.before(columns), len(columns["segment_id"]), metadata_partition)

    def end(self, fates: Sequence[Fate]) -> Refusal | None:
        """
        Write down what became of it.

        :param fates: of its segments, in the order of the columns.
        :return: what a person has to know where that failed.
        """
        outcomes: Columns = {
            "outcome": [fate.outcome.name for fate in fates],
            "objects": [fate.objects for fate in fates],
            "bytes": [fate.bytes for fate in fates],
            "finished_offset": [fate.finished_offset for fate in fates],
            "why": ["; ".join(sorted(set(fate.why)))[:MAX_WHY] or None for fate in fates],
        }
        try:
            self.log.after(self.batch, outcomes)
        except AuditError as e:
            logger.error("%s", e)
            what = f"outcomes of batch {self.batch.name}, {number_of(self.segments, 'segment')}"
            return Refusal(what, str(e), NOT_WRITTEN_ADVICE, RefusalKind.AUDIT, self.metadata_partition)
        return None
