# SPDX-License-Identifier: Apache-2.0
"""What the last task of a run does for the work folder, by Airflow's settings."""

from __future__ import annotations

import logging

from airflow_provider_rlmm.core.base.clock import system_clock
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.settings import keep_audit_days, keep_runs_days, work_uri

logger = logging.getLogger(__name__)


def tidy_up_after(name: str, cluster_id: str, since_ms: int) -> None:
    """
    Put the audit log's files of a run together, and remove what is old by the settings; what goes wrong is a line in the log.

    :param name: of the run's folder; its report is written.
    :param cluster_id: the cluster.
    :param since_ms: the run deleted nothing before, ms since the epoch.
    """
    from airflow_provider_rlmm.overview.housekeeping import tidy_up

    try:
        runs_days, audit_days = keep_runs_days(), keep_audit_days()
    except ConfigurationError as e:
        # What a person has misspelt must not remove more than was meant.
        logger.error("nothing old is removed: %s", e)
        runs_days = audit_days = 0
    tidy_up(
        work_uri(),
        cluster_id,
        name,
        since_ms=since_ms,
        keep_runs_days=runs_days,
        keep_audit_days=audit_days,
        clock=system_clock,
    )
