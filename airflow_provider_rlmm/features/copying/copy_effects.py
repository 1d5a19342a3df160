# SPDX-License-Identifier: Apache-2.0
"""What becomes of the user partitions of a disk, twice: they are copied, or it is only said what would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from airflow_provider_rlmm.core.base.errors import StorageRootError
from airflow_provider_rlmm.features.copying.copier import RemoteLogCopier
from airflow_provider_rlmm.features.copying.copy_context import CopyContext
from airflow_provider_rlmm.features.copying.copy_preview import preview
from airflow_provider_rlmm.features.copying.copy_source import CopySource
from airflow_provider_rlmm.features.copying.copy_writer import CopyWriter
from airflow_provider_rlmm.features.copying.topic_copy import PartitionCopy


class CopyEffects(Protocol):
    """What :func:`~airflow_provider_rlmm.features.copying.steps.copy_topic` does, or says."""

    is_dry: ClassVar[bool]

    def refuse_root(self, error: StorageRootError) -> str:
        """
        Return in words what a storage root that is not the brokers' keeps from being copied.

        :param error: why it is not.
        :raises StorageRootError: that one, where something would be copied.
        """

    def copy(self, context: CopyContext, source: CopySource) -> PartitionCopy:
        """
        Copy what may be copied of a user partition.

        :param context: what a copier works with.
        :param source: its log directory.
        :raises CopyRefusedError: if nothing of the user partition may be copied; the message says why.
        :raises RlmmError: if nothing could be begun; see
            :meth:`~airflow_provider_rlmm.features.copying.copier.RemoteLogCopier.copy`.
        """


@dataclass(frozen=True, slots=True)
class RealCopyEffects:
    """Segments are copied."""

    writer: CopyWriter  # all that writes
    is_dry: ClassVar[bool] = False

    def refuse_root(self, error: StorageRootError) -> str:
        """See :class:`CopyEffects`."""
        raise error

    def copy(self, context: CopyContext, source: CopySource) -> PartitionCopy:
        """See :class:`CopyEffects`."""
        tip = source.topic_id_partition
        return PartitionCopy(tip.topic, tip.partition, report=RemoteLogCopier(context, self.writer).copy(source))


@dataclass(frozen=True, slots=True)
class DryRunCopyEffects:
    """It is looked for what would be copied, with nothing at hand that writes."""

    is_dry: ClassVar[bool] = True

    def refuse_root(self, error: StorageRootError) -> str:
        """See :class:`CopyEffects`."""
        return f"a real run would be refused: {error}"

    def copy(self, context: CopyContext, source: CopySource) -> PartitionCopy:
        """See :class:`CopyEffects`."""
        tip = source.topic_id_partition
        return PartitionCopy(tip.topic, tip.partition, planned=preview(context, source))
