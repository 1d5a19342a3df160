# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.no_waiting import nothing_is_synced  # noqa: F401  # a fixture
