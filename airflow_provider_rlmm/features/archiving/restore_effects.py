# SPDX-License-Identifier: Apache-2.0
"""What a restore does to the topic, twice: it writes and compares, or leaves it alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import RestoreError
from airflow_provider_rlmm.core.log.answers import TargetTopic
from airflow_provider_rlmm.features.archiving.restore_document import offsets_uri_of
from airflow_provider_rlmm.features.archiving.restore_progress import (
    at_rest,
    behind,
    columns_of,
    require_first_records,
    write_begun,
)
from airflow_provider_rlmm.features.archiving.restore_rules import RecordsToRestore

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.log.kafka.restore_target import RestoreTarget
    from airflow_provider_rlmm.core.log.kafka.restoring import RestoringTopic
    from airflow_provider_rlmm.features.archiving.archive.old_offsets import OffsetRuns
    from airflow_provider_rlmm.features.archiving.restore_document import RestoreDocument
    from airflow_provider_rlmm.features.archiving.restore_source import SourceLog

logger = logging.getLogger(__name__)


class RestoreEffects(Protocol):
    """What :func:`~airflow_provider_rlmm.features.archiving.restore_steps.restore` does, or leaves."""

    is_dry: ClassVar[bool]

    def write(
        self,
        target: RestoreTarget,
        look: TargetTopic,
        logs: Sequence[SourceLog],
        measured: Sequence[RecordsToRestore],
        document: RestoreDocument,
        *,
        resumed: bool,
    ) -> None:
        """
        Write partition by partition, and compare what is read back; at the end the topic must still be the same one.

        :param target: the topic, to look at it again.
        :param look: what it was found to be: it can hold the records, and is empty unless ``resumed``.
        :param logs: the logs of the source, by partition; they were verified.
        :param measured: what is to be written of each.
        :param document: what is promised: it is written down before the first record is.
        :param resumed: whether a restore goes on that has promised the same.
        :raises RestoreError: if the topic holds anything but the first records of the source, or afterwards
            not all of them, and nothing else.
        """


@dataclass(frozen=True, slots=True)
class RealRestoreEffects:
    """Records are written, and read back."""

    topic: RestoringTopic  # writes into the topic
    work_uri: str  # where the document of the restore goes
    rest_s: float  # for how long a topic must not grow before a restore into it goes on
    is_dry: ClassVar[bool] = False

    def write(
        self,
        target: RestoreTarget,
        look: TargetTopic,
        logs: Sequence[SourceLog],
        measured: Sequence[RecordsToRestore],
        document: RestoreDocument,
        *,
        resumed: bool,
    ) -> None:
        """See :class:`RestoreEffects`."""
        complete = all(look.ends[f.partition] - look.begins[f.partition] == f.count for f in measured)
        if resumed and not complete:
            # What the interrupted producer had sent may still arrive; where all has, there is nothing to wait for.
            look = at_rest(target, look, self.rest_s)
        elif not resumed:
            write_begun(self.work_uri, document)
        from airflow_provider_rlmm.features.archiving.archive.old_offsets import writing_runs

        with writing_runs(offsets_uri_of(self.work_uri, document)) as runs:
            for log, expected in zip(logs, measured, strict=True):
                self._write_partition(look, log, expected, runs)
        after = target.look()
        ends = {p: look.begins[p] for p in look.begins} | {
            f.partition: look.begins[f.partition] + f.count for f in measured
        }
        if (after.topic_id, after.ends) != (look.topic_id, ends):
            raise RestoreError(
                f"topic {look.topic} is not as it was left: it was replaced, or another producer has written into it; "
                "compare it with its source, or restore into a new one"
            )

    def _write_partition(self, look: TargetTopic, log: SourceLog, expected: RecordsToRestore, runs: OffsetRuns) -> None:
        """Write one partition, and compare what is read back."""
        from airflow_provider_rlmm.features.archiving.archive.content import ContentDigest
        from airflow_provider_rlmm.features.archiving.archive.old_offsets import with_header

        number, begin = log.partition, look.begins[log.partition]
        most = int(look.settings.get("max.message.bytes", 0))
        there = look.ends[number] - begin
        columns = columns_of(expected)
        if there:
            held = self._read_back(expected, begin, begin + there)
            require_first_records(f"{look.topic}-{number}", log.read(), held, there, columns)
            logger.info("%s-%d: %d records are there as in the source, and it goes on", look.topic, number, there)
        rest = behind(runs.following(number, begin, log.read()), there)
        if expected.offsets_sha256 is not None:
            rest = map(with_header, rest)
        written = there + self.topic.write(number, rest, begin + there, most)
        digest = ContentDigest(columns)
        for batch in self._read_back(expected, begin, begin + written):
            digest.update(batch)
        if (digest.count, digest.hexdigest()) != (expected.count, expected.written_sha256):
            raise RestoreError(
                f"{look.topic}-{number} does not hold what its source does: {number_of(digest.count, 'record')} with "
                f"the checksum {digest.hexdigest()[:12]}…, the source has {expected.count} with "
                f"{expected.written_sha256[:12]}…; delete the topic, and restore into a new one"
            )
        logger.info("%s-%d: %d records are restored and read back", look.topic, number, written)

    def _read_back(self, expected: RecordsToRestore, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield what the topic holds, as it was in the source: without the header that the restore has added."""
        from airflow_provider_rlmm.core.segments.record_batches.arrow_columns import SCHEMA
        from airflow_provider_rlmm.features.archiving.archive.old_offsets import without_header

        held = self.topic.read_back(expected.partition, begin, end, SCHEMA)
        return held if expected.offsets_sha256 is None else map(without_header, held)


@dataclass(frozen=True, slots=True)
class DryRunRestoreEffects:
    """All was checked that can be; nothing is at hand that writes."""

    is_dry: ClassVar[bool] = True

    def write(
        self,
        target: RestoreTarget,
        look: TargetTopic,
        logs: Sequence[SourceLog],
        measured: Sequence[RecordsToRestore],
        document: RestoreDocument,
        *,
        resumed: bool,
    ) -> None:
        """See :class:`RestoreEffects`."""
