# SPDX-License-Identifier: Apache-2.0
"""
What a part that changes the world asks before it does. Each of the five says it beside its rules, as a :class:`Writer`.

The table of docs/proofs.md is these declarations, cell by cell. What is asked again before each batch goes through the
:class:`~airflow_provider_rlmm.core.world.gate.Gate`, which answers no question that its writer has not declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Question(StrEnum):
    """A question, by its name in docs/proofs.md, in the order of the table's rows."""

    SWITCH = "the switch"  # may anything be begun? (:mod:`~airflow_provider_rlmm.core.world.kill_switch`)
    HOLD = "the hold"  # has a person said that it stays? (:mod:`~airflow_provider_rlmm.core.world.hold`)
    TIME_OF_DAY = "the time of day"  # is the deletion window open? (``core.plans.deletion_window``)
    PACE = "the pace"  # how long does a batch rest, and has the run time for another?
    CLUSTER = "the cluster"  # is it the one whose log is read? (:mod:`~airflow_provider_rlmm.core.world.cluster_look`)
    ABSENCE = "absence"  # is the topic id gone? (:mod:`~airflow_provider_rlmm.core.world.absence`)
    DISKLESS = "topics without disks"  # has one of them the name? (:mod:`~airflow_provider_rlmm.core.world.diskless`)
    ARCHIVE = "the archive, or the catalogue"  # is it kept elsewhere? (``features.archiving.archive_guard``)
    LEADER = "the leader"  # what does the leader of a living topic say? (``core.log.living_leader``)
    ROOT = "the root"  # is the storage the one that brokers write to? (:mod:`~airflow_provider_rlmm.core.world.root_proof`)


@dataclass(frozen=True, slots=True)
class Writer:
    """
    A part that changes the world.

    :param name: its name in docs/proofs.md.
    :param asks: question → when it is asked, and how.
    :param does_not_ask: question → that it is not asked, and why where that is not plain. Each question is in one of the two.
    """

    name: str
    asks: Mapping[Question, str]
    does_not_ask: Mapping[Question, str]

    def says_of(self, question: Question) -> str:
        """Return what it says of a question: a cell of the table."""
        return self.asks[question] if question in self.asks else self.does_not_ask[question]
