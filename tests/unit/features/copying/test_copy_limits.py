# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.features.copying.rules import COPY, CopyLimits


def test_a_copier_s_limits_have_the_declared_fields_and_defaults() -> None:
    assert {f.name: f.default for f in fields(CopyLimits)} == {d.name: d.default for d in COPY}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"retention_margin_ms": -1}, "retention_margin_ms must be an integer from 0 to"),
        ({"lease_ms": 1}, "lease_ms must be an integer from 2 to"),
        ({"bytes_per_second": 0}, "bytes_per_second must be an integer from 1 to"),
        ({"max_segments": 0}, "max_segments must be an integer from 1 to"),
        ({"overrides": frozenset({"settle_missing"})}, "unknown overrides .*: a copier knows"),
    ],
    ids=repr,
)
def test_a_limit_of_a_copier_out_of_range_is_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        CopyLimits(**limits)
