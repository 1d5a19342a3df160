# SPDX-License-Identifier: Apache-2.0
"""What the documents of other features tell a catalogue: surveys, scrubs, archives. Who knows these documents reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.base.arrow_ids import IdSet
from airflow_provider_rlmm.core.plans.catalogue_document import EarlierSource

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.core.world.audit import SegmentKey


@dataclass(frozen=True, slots=True)
class Told:
    """What one source tells of the segments that lie in storage."""

    source: EarlierSource
    deleted: Mapping[SegmentKey, str] = field(default_factory=dict)  # segment → who says that it was deleted
    # Topic id and user partition → who says that the topic was deleted.
    gone: Mapping[tuple[bytes, int], str] = field(default_factory=dict)
    # Segments that it has as copied: what they are found by, and those of the columns of a snapshot that it has.
    copied: pa.Table | None = None


Documents = Callable[[str | None, IdSet], Iterable[Told]]
"""Reads all documents at hand: given the cluster, ``None`` for all, and the ids of the segments that lie in storage."""


def no_documents(cluster_id: str | None, ids: IdSet) -> Iterable[Told]:
    """Return nothing: a :data:`Documents`."""
    return ()
