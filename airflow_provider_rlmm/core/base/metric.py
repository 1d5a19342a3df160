# SPDX-License-Identifier: Apache-2.0
"""A number that is told to a collector of metrics: its name, unit and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "rlmm"
"""Begins every name, behind the prefix that Airflow itself is told to use."""


class MetricType(StrEnum):
    """How values of one name go together."""

    GAUGE = "gauge"  # the newest one counts
    COUNTER = "counter"  # they add up


@dataclass(frozen=True, slots=True)
class Description:
    """What one name means."""

    type: MetricType  # how its values go together
    labels: tuple[str, ...]  # what tells its series apart, the cluster besides
    meaning: str  # in words, with the unit


@dataclass(frozen=True, slots=True)
class Metric:
    """
    One value of one series.

    :param name: one of :data:`METRICS`.
    :param value: 0 or more, in the unit that the name ends with.
    :param labels: label → value, those of its description, in that order.
    """

    name: str
    value: float
    labels: Mapping[str, str]
