# SPDX-License-Identifier: Apache-2.0
"""The snapshot that a restarted manager resumes from: the one of the whole topic."""

from airflow_provider_rlmm.core.log.snapshot import Snapshot

__all__ = ["Snapshot"]
