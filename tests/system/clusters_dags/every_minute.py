# SPDX-License-Identifier: Apache-2.0
"""Two more cleaners, which the schedule of each minute starts and not a plan."""

from __future__ import annotations

import os

from airflow_provider_rlmm.dag_factory.cleaner import remote_log_cleaner

os.environ["AIRFLOW__RLMM__CLEANER_SCHEDULE"] = "* * * * *"

dags = [remote_log_cleaner(conn_id) for conn_id in ("east_dry", "west_real")]
