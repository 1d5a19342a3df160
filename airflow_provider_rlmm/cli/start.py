# SPDX-License-Identifier: Apache-2.0
"""Where the process of ``rlmm`` begins."""

from __future__ import annotations

from airflow_provider_rlmm.cli.without_pandas import hide_pandas


def main() -> None:
    """Run the command, and leave the process with its exit code."""
    hide_pandas()
    from airflow_provider_rlmm.cli.main import main

    main()
