# SPDX-License-Identifier: Apache-2.0
"""Which object of a segment is its log and which an index, where a layout has an object for each file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.records.records import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState
from airflow_provider_rlmm.core.storage.index_type import IndexType
from airflow_provider_rlmm.core.storage.layout import Layout

_READ: Final = (None, IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.LEADER_EPOCH)


@dataclass(frozen=True, slots=True)
class FileSuffixes:
    """The suffixes of the objects that are read of a segment without a manifest."""

    log: str
    offset: str
    timestamp: str
    leader_epoch: str
    transaction: str | None  # ``None`` where the layout does not say

    @property
    def needed(self) -> tuple[str, ...]:
        """Without these nothing is proved of a segment."""
        return self.log, self.offset, self.timestamp, self.leader_epoch


def file_suffixes(layout: Layout) -> FileSuffixes:
    """
    Return which objects hold log and indexes.

    :param layout: where objects lie.
    :raises ConfigurationError: if it does not say so, or its keys name no start offset.
    """
    found: dict[IndexType | None, str] = {}
    for kind in (*_READ, IndexType.TRANSACTION):
        try:
            # A key is the stem and a suffix, of this segment as of any other.
            found[kind] = layout.object_key(_ANY, kind).removeprefix(layout.segment_stem(_ANY))
        except ConfigurationError:
            continue
    if missing := [_NAMES[kind] for kind in _READ if kind not in found]:
        raise ConfigurationError(
            f"the storage layout {layout.name} has no catalogue: it does not say which object is {' or '.join(missing)} of a "
            "segment. Where each file is an object as it lay on the broker's disk, name them by key_suffixes: .log=log, "
            ".index=offset, .timeindex=timestamp, .epochs=leader_epoch, .txnindex?=transaction"
        )
    if layout.start_offset(layout.object_key(_ANY, None), layout.places[0]) is None:
        raise ConfigurationError(
            f"the storage layout {layout.name} has no catalogue: its keys name no {{start_offset}}, and no index proves it"
        )
    return FileSuffixes(
        found[None], found[IndexType.OFFSET], found[IndexType.TIMESTAMP], found[IndexType.LEADER_EPOCH],
        found.get(IndexType.TRANSACTION),
    )  # fmt: skip


_NAMES: Final[Mapping[IndexType | None, str]] = {None: "the log", **{kind: f"index {kind}" for kind in IndexType}}

_ANY: Final = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(TopicIdPartition(UUID(int=1), "t", 0), UUID(int=1)), 0, 0, -1, 0, 0, 0, None,
    RemoteLogSegmentState.COPY_SEGMENT_STARTED, ((0, 0),), True,
)  # fmt: skip
