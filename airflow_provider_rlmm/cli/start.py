# SPDX-License-Identifier: Apache-2.0
"""Where the process of ``rlmm`` begins."""

from __future__ import annotations

from airflow_provider_rlmm.cli.own_process import begin_process, end_by_interrupts


def main() -> None:
    """Run the command, and leave the process with its exit code."""
    end_by_interrupts()
    begin_process()
    from airflow_provider_rlmm.cli.main import main

    main()
