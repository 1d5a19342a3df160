# SPDX-License-Identifier: Apache-2.0
"""From when on the doctor finds something wrong, declared."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_provider_rlmm.core.base.declarations import Declared, Whole
from airflow_provider_rlmm.core.plans import limits

MIN_AGE: Final[Declared[int]] = replace(limits.MIN_AGE, kind=Whole(unit="ms"))

MAX_COPY: Final[Declared[int]] = replace(
    limits.MAX_COPY,
    kind=Whole(unit="ms"),
    sentence="For how long a partition may begin copies and finish none",
)

LIMIT_PER_KIND: Final = Declared(
    name="limit_per_kind",
    kind=Whole(maximum=100_000),
    default=100,
    title="Findings of one kind",
    sentence="Findings of one kind that are listed; all are counted",
)
