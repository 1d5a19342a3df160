# SPDX-License-Identifier: Apache-2.0
"""How much of what the leaders of user partitions delete is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from airflow_provider_rlmm.core.base.documents import AtMost, LongText
from airflow_provider_rlmm.core.plans.counts import NOTHING, Count

MAX_REASONS: Final = 50
"""Reasons of a plan why nothing is told of leaders, the most frequent ones."""


class Certainty(StrEnum):
    """How much of what a leader deletes is told."""

    ALL = "all"  # what is told is all of it
    AT_LEAST = "at least"  # it may delete more
    UNRESOLVED = "unresolved"  # nothing is told


@dataclass(frozen=True, slots=True)
class LeadersTold:
    """
    What a plan tells of the leaders of living topics.

    :param all: user partitions of which all is told that their leaders delete.
    :param at_least: those whose leaders may delete more.
    :param unresolved: those of which it cannot be told; their rows, if any, are estimates.
    :param goes: segments that leaders delete for certain: the rows that are exact.
    :param not_tiered: segments of living topics that are not tiered any more: no leader deletes them.
    :param why: why nothing is told → of how many user partitions.
    """

    all: int = 0
    at_least: int = 0
    unresolved: int = 0
    goes: Count = NOTHING
    not_tiered: Count = NOTHING
    why: Annotated[Mapping[LongText, int], AtMost(MAX_REASONS)] = field(default_factory=dict)
