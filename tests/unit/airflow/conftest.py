# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tests.airflow_home  # noqa: F401  # its import is what it is for
