# SPDX-License-Identifier: Apache-2.0
"""Airflow hooks."""

from __future__ import annotations

from airflow_provider_rlmm.core.base.extras import require_airflow

require_airflow()
