# SPDX-License-Identifier: Apache-2.0
"""
What switches off each protection by which a run goes by what one before it knew, alone;
:mod:`tests.simulation.protections` plays them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from airflow_provider_rlmm.core.log import floored_log
from airflow_provider_rlmm.core.runs import floors
from airflow_provider_rlmm.core.world import earlier_deletions, root_proof
from airflow_provider_rlmm.features.cleanup import eligibility
from airflow_provider_rlmm.features.cleanup.marker import DeletedPartitionMarker
from airflow_provider_rlmm.features.scrub import scrub_plan, unnamed_guard
from tests.simulation.folder_moves import AWAY, CLONE, COPY, CUT, HELD, PREFIX, REMADE


def _nothing(*_: object, **__: object) -> None:
    """Stand in for a rule that finds nothing wrong."""


def _any_prefix() -> Iterator[Any]:
    """Copies of living topics may lie where the connection does not look."""
    for user in ("airflow_provider_rlmm.core.world.root_proof", "airflow_provider_rlmm.core.world.known_places"):
        yield mock.patch(f"{user}.require_known_places", _nothing)


def _garbage_beside_strangers() -> Iterator[Any]:
    """That an object of a living topic has no record says nothing of the others that have none."""

    def none(rows: Any) -> Any:
        return rows.slice(0, 0)

    yield mock.patch.object(unnamed_guard, "that_bar", none)
    yield mock.patch.object(scrub_plan, "that_bar", none)


def _garbage() -> Iterator[Any]:
    """What no record has named at two scrubs is garbage."""
    yield from _garbage_beside_strangers()
    yield mock.patch.object(unnamed_guard, "why_kept", return_value=None)
    yield mock.patch.object(scrub_plan, "why_kept", return_value=None)


def _unasked_storage() -> Iterator[Any]:
    """Nobody asks whether storage holds what the log does not name before a partition is finished."""
    yield mock.patch.object(eligibility.CleaningContext, "unnamed", return_value=None)


def _no_floor() -> Iterator[Any]:
    """What earlier runs have read of the log is not asked."""
    yield mock.patch.object(floored_log, "_lost", return_value={})


def _any_topic() -> Iterator[Any]:
    """The metadata topic that is there is the one that runs have always worked with."""
    yield mock.patch.object(floors, "why_replaced", return_value=None)


def _gone_unseen() -> Iterator[Any]:
    """What a run of ours has begun to delete is gone where it is not seen, whatever the audit log says."""
    yield mock.patch.object(earlier_deletions.EarlierDeletions, "names", return_value=True)


def _held_is_marked() -> Iterator[Any]:
    """The marker does not ask whether a topic is held."""

    def all_of_them(marker: Any, work: Any, names: Any, refusals: Any) -> Any:
        return list(work)

    yield mock.patch.object(DeletedPartitionMarker, "_not_held", all_of_them)


def _no_copy() -> Iterator[Any]:
    """What holds everything that was copied to this day is the root that brokers write to."""
    yield mock.patch.object(root_proof, "why_not_current", return_value=None)


FOLDER_PROTECTIONS: dict[str, tuple[Callable[[], Iterator[Any]], str]] = {
    "a root is shown to be no current copy": (_no_copy, COPY),
    "the metadata topic is the one before": (_any_topic, REMADE),
    "the audit log knows what a run deleted": (_gone_unseen, AWAY),
    "storage is asked before every end": (_unasked_storage, CLONE),
    "a log holds what was read of it": (_no_floor, CUT),
    "one object without a record bars all of them": (_garbage_beside_strangers, CLONE),
    "what no record names is no garbage": (_garbage, CLONE),
    "a held topic is not marked": (_held_is_marked, HELD),
    "every place of living copies is known": (_any_prefix, PREFIX),
}
"""Name → what switches it off, and the move of the world that it is there for."""
