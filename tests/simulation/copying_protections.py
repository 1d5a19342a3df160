# SPDX-License-Identifier: Apache-2.0
"""What switches off each protection of the copier, alone; :mod:`tests.simulation.protections` plays them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from airflow_provider_rlmm.core.log.in_process import METADATA_TOPIC_ID
from airflow_provider_rlmm.core.world import root_proof
from airflow_provider_rlmm.features.copying import copier, copy_situation, segment_copy
from airflow_provider_rlmm.features.copying import rules as copying
from airflow_provider_rlmm.features.copying.copy_replay import CopyBelief, CopyReplay
from airflow_provider_rlmm.features.copying.copy_situation import CopySituation
from airflow_provider_rlmm.features.copying.leader_comparison import LineageProof
from airflow_provider_rlmm.features.copying.rules import Candidates, CopyLimits
from airflow_provider_rlmm.features.copying.segment_copy import SegmentCopier

FAR_ABOVE = 1_000_000


def _never(*_: object, **__: object) -> None:
    """Stand in for a rule that finds nothing wrong."""


def _no_second_look() -> Iterator[Any]:
    """C2: what was seen before the announcement holds until COPY_SEGMENT_FINISHED."""
    look = SegmentCopier.look

    def remembering(self: Any, proven_end: int | None = None) -> CopySituation:
        self.latest = look(self, proven_end)
        return self.latest  # type: ignore[no-any-return]

    def believing(self: Any, finished: Any, proof: LineageProof, lease: Any) -> CopySituation:
        return replace(self.latest, proven_end=proof.end)

    yield mock.patch.object(SegmentCopier, "look", remembering)
    yield mock.patch.object(SegmentCopier, "_look_again", believing)


def _no_second_read() -> Iterator[Any]:
    """C2: only the leader is asked again, and the log is read once."""
    advance, look = CopyReplay.advance, SegmentCopier.look

    def first_of_all(self: Any) -> None:
        if not (self.only_looks and self._follower.positions[self.metadata_partition]):
            advance(self)

    def looking(self: Any, proven_end: int | None = None) -> CopySituation:
        self.replay.only_looks = True
        try:
            return look(self, proven_end)
        finally:
            self.replay.only_looks = False

    yield mock.patch.object(CopyReplay, "only_looks", new=False, create=True)
    yield mock.patch.object(CopyReplay, "advance", first_of_all)
    yield mock.patch.object(SegmentCopier, "look", looking)


def _any_cluster() -> Iterator[Any]:
    """C2: whoever answers is the leader."""
    yield mock.patch.object(CopyBelief, "cluster_asked", return_value=METADATA_TOPIC_ID)


def _any_configs() -> Iterator[Any]:
    """C2: the configs do not matter, nor whether the leader copies itself."""
    yield mock.patch.object(copy_situation, "may_write_about", _never)


def _declared_deleted() -> Iterator[Any]:
    """C3: that a partition was declared deleted does not matter as long as its topic is there."""
    yield mock.patch.object(CopyBelief, "was_deleted", return_value=False)


def _anybodys() -> Iterator[Any]:
    """C4: whatever dangles is taken back, whoever has begun it."""
    yield mock.patch.object(CopyReplay, "is_ours", return_value=True)


def _finished_is_taken_back() -> Iterator[Any]:
    """C5: a copy whose FINISHED was in doubt is taken back without a look at the log."""
    yield mock.patch.object(CopyReplay, "was_copied", return_value=False)


def _beside_others() -> Iterator[Any]:
    """C6: others may have begun to copy."""
    yield mock.patch.object(CopySituation, "_other_copies", _never)


def _any_lineage() -> Iterator[Any]:
    """C7: a replica's records are the leader's."""

    def proven(source: Any, segment: copying.LocalSegment, leader: Any, offsets: Any) -> LineageProof:
        return LineageProof(segment.end_offset + 1, None)

    yield mock.patch.object(segment_copy, "compare_with_leader", proven)


def _uncommitted() -> Iterator[Any]:
    """C7: what is not committed yet may be copied."""
    yield mock.patch.object(CopySituation, "committed_end", property(lambda self: FAR_ABOVE))


def _holes() -> Iterator[Any]:
    """C8: whatever the directory has is copied, whatever lies before."""

    def anything(segments: Any, *, from_offset: int, end_offset: int, active_offset: int) -> Candidates:
        return Candidates(tuple(s for s in segments if from_offset <= s.end_offset < end_offset), None)

    yield mock.patch.object(copy_situation, "candidates", anything)
    yield mock.patch.object(CopySituation, "_offsets", _never)


def _any_storage() -> Iterator[Any]:
    """C10: a storage need not hold what brokers have copied last."""
    yield mock.patch.object(root_proof, "require_brokers_root", _never)


def _endless_lease() -> Iterator[Any]:
    """C11: a run goes on with its copy however long it has slept."""
    yield mock.patch.object(CopyLimits, "still_ours", return_value=True)


def _no_lease() -> Iterator[Any]:
    """C11: what another run has begun is taken back at once."""
    yield mock.patch.object(CopyLimits, "is_abandoned", return_value=True)


def _silent_holes() -> Iterator[Any]:
    """What is about to expire is left out, and nobody is told to wait for it."""
    yield mock.patch.object(copier, "hole_ahead", return_value=None)


def _holes_that_a_directory_hides() -> Iterator[Any]:
    """What a log directory does not hold is not missed: only what is left out of it is told."""
    yield mock.patch.object(CopySituation, "hole", _never)


COPYING_PROTECTIONS: dict[str, Callable[[], Iterator[Any]]] = {
    "C2 a second look": _no_second_look,
    "C2 a second read": _no_second_read,
    "C2 the cluster's own leader": _any_cluster,
    "C2 configs": _any_configs,
    "C3 declared deleted": _declared_deleted,
    "C4 somebody else's": _anybodys,
    "C5 finished": _finished_is_taken_back,
    "C6 one at a time": _beside_others,
    "C7 the leader's records": _any_lineage,
    "C7 committed": _uncommitted,
    "C8 no hole": _holes,
    "C10 the brokers' storage": _any_storage,
    "C11 half a lease": _endless_lease,
    "C11 a whole lease": _no_lease,
    "a hole ahead needs a person": _silent_holes,
    "a hole is seen from every directory": _holes_that_a_directory_hides,
}
"""Name → what switches it off; every seed may find it missing."""
