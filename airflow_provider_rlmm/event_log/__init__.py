# SPDX-License-Identifier: Apache-2.0
"""The metadata event log: what it answers, the guard before its writes, the replayed state, snapshots, a fake."""

from airflow_provider_rlmm.event_log.in_process import InProcessMetadataEventLog, InProcessOffsetStore
from airflow_provider_rlmm.event_log.protocol import MetadataEventLog, OffsetStore

__all__ = ["InProcessMetadataEventLog", "InProcessOffsetStore", "MetadataEventLog", "OffsetStore"]
