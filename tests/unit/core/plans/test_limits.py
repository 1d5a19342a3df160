# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.declarations import Declared
from airflow_provider_rlmm.core.plans import limits
from airflow_provider_rlmm.core.plans.approval import ApprovalLimits
from airflow_provider_rlmm.core.plans.guards import BlastRadius, CleanerLimits, ScrubLimits


@pytest.mark.parametrize(
    ("kind", "declared"),
    [
        (CleanerLimits, limits.CLEANER),
        (ScrubLimits, limits.SCRUB),
        (BlastRadius, limits.BLAST_RADIUS),
        (ApprovalLimits, limits.APPROVAL),
    ],
)
def test_a_value_object_has_the_declared_fields_and_defaults(kind: Any, declared: Sequence[Declared[Any]]) -> None:
    assert {f.name: f.default for f in fields(kind)} == {d.name: d.default for d in declared}
