# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from airflow_provider_rlmm.core.storage.layout import Layout
from airflow_provider_rlmm.core.storage.layouts import LocalTieredStorageLayout


@pytest.fixture
def layout() -> Layout:
    """The layout under test; a class may have another one."""
    return LocalTieredStorageLayout()
