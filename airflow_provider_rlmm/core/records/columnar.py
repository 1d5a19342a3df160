# SPDX-License-Identifier: Apache-2.0
"""
Many records of ``__remote_log_metadata`` at once, as Arrow columns.

:func:`decode` turns values into columns (schema: :func:`decoded_schema`), :func:`iter_events` turns these into records,
and :class:`ColumnarState` replays them. Needs numpy and pyarrow, nothing else.
"""

from __future__ import annotations

from airflow_provider_rlmm.core.records.decoding.decode import decode, decoded_schema, iter_events
from airflow_provider_rlmm.core.records.fold.state import ApplyReport, ColumnarState
from airflow_provider_rlmm.core.records.outcomes import ErrorCode

__all__ = ["ApplyReport", "ColumnarState", "ErrorCode", "decode", "decoded_schema", "iter_events"]
