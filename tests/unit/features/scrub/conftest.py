# SPDX-License-Identifier: Apache-2.0
"""Scrubs that look at seven rows at a time, on disk: what is one table with a few objects are many here, as with millions."""

from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.base import spool
from airflow_provider_rlmm.core.runs import listed_objects, table_pairs
from airflow_provider_rlmm.features.scrub import comparison, stored_segments


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (listed_objects, comparison, stored_segments):
        monkeypatch.setattr(module, "SPOOLED_ROWS", 7)
    monkeypatch.setattr(table_pairs, "ROW_GROUP_ROWS", 7)
    for name, small in {"SPOOLED_ROWS": 7, "_IN_MEMORY": 1, "_SAMPLED": 1, "_BUCKET_ROWS": 7}.items():
        monkeypatch.setattr(spool, name, small)
