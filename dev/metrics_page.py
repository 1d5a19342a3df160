# SPDX-License-Identifier: Apache-2.0
"""
Makes the tables of ``docs/metrics.md`` from the code: ``python -m dev.metrics_page``.

A unit test compares the page with what this makes, so it cannot be stale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_rlmm.core.base.metric import PREFIX, Description
from airflow_provider_rlmm.core.segments.remote_log_metrics import REMOTE_LOG_METRICS
from airflow_provider_rlmm.overview.run_metrics import METRICS

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"

_TABLE = re.compile(r"^\| name \| type \|.*\n(?:\|.*\n)+", re.MULTILINE)


def table(metrics: Mapping[str, Description]) -> str:
    """
    Return a table of metrics.

    :param metrics: name → what it is.
    """
    lines = ["| name | type | told apart by | meaning |", "|---|---|---|---|"]
    for name, about in metrics.items():
        labels = ", ".join(f"`{label}`" for label in about.labels)
        lines.append(f"| `{PREFIX}.{name}` | {about.type} | {labels} | {about.meaning} |")
    return "".join(f"{line}\n" for line in lines)


def page() -> str:
    """Return the text of the page: what is around the tables stays as it is."""
    tables = iter([table(METRICS), table(REMOTE_LOG_METRICS)])
    return _TABLE.sub(lambda _: next(tables), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
