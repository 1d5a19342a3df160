# SPDX-License-Identifier: Apache-2.0
"""What one batch of a scrub's deletion leaves in the audit log: it knows objects, so offsets and events stay empty."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_rlmm.core.base.errors import AuditError
from airflow_provider_rlmm.core.plans.refusals import Refusal
from airflow_provider_rlmm.core.storage.remote_storage import DeleteOutcome
from airflow_provider_rlmm.core.world.audit import MAX_WHY
from airflow_provider_rlmm.core.world.audit_log import AuditBatch, AuditLog
from airflow_provider_rlmm.core.world.deletion_trail import NOTHING_SAID, not_written

logger = logging.getLogger(__name__)

Objects = Sequence[Mapping[str, Any]]
"""Rows of a scrub's plan, of one segment."""


@dataclass(frozen=True, slots=True)
class ScrubTrail:
    """
    A batch that is written down.

    :param log: the audit log.
    :param batch: what was written before.
    :param segments: the batch, segment by segment.
    """

    log: AuditLog
    batch: AuditBatch
    segments: Sequence[Objects]

    @classmethod
    def begin(cls, log: AuditLog, rows: Objects) -> ScrubTrail:
        """
        Write down what is about to be deleted, and as what the scrub has found it.

        :param log: the audit log.
        :param rows: of a scrub's plan.
        :raises AuditError: if it cannot be written.
        """
        grouped: dict[tuple[bytes, int, bytes], list[Mapping[str, Any]]] = {}
        for row in rows:
            grouped.setdefault((row["topic_id"], row["partition"], row["segment_id"]), []).append(row)
        segments = list(grouped.values())
        names = ("metadata_partition", "topic", "topic_id", "partition", "segment_id")
        columns: dict[str, Any] = {name: [objects[0][name] for objects in segments] for name in names}
        columns["why"] = [", ".join(sorted({row["class"] for row in objects})) for objects in segments]
        return cls(log, log.before(columns), segments)

    def end(self, left: Mapping[str, str] | None) -> Refusal | None:
        """
        Write down what became of it.

        :param left: key → why it is still there; ``None`` where storage did not say.
        :return: what a person has to know where that failed.
        """
        outcomes = [_outcome(objects, left) for objects in self.segments]
        names = ("outcome", "objects", "bytes", "why")
        try:
            self.log.after(self.batch, {name: [row[at] for row in outcomes] for at, name in enumerate(names)})
        except AuditError as e:
            logger.error("%s", e)
            return not_written(self.batch, len(self.segments), e, None)
        return None


def _outcome(objects: Objects, left: Mapping[str, str] | None) -> tuple[str, int | None, int | None, str | None]:
    if left is None:
        return DeleteOutcome.UNKNOWN.name, None, None, NOTHING_SAID
    gone = [row for row in objects if row["key"] not in left]
    kept = sorted({left[row["key"]] for row in objects if row["key"] in left})
    outcome = DeleteOutcome.PRESENT if kept else DeleteOutcome.GONE
    return outcome.name, len(gone), sum(row["bytes"] for row in gone), "; ".join(kept)[:MAX_WHY] or None
