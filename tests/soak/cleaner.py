# SPDX-License-Identifier: Apache-2.0
"""
One cleaner, a process of its own: it marks, plans and cleans again and again until there is nothing left to do.

What fails is tried again, as Airflow's retries do. Its last line is a JSON object: rounds, what it has done, errors by class.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from dev.s3 import BUCKET, store_options
from tests.integration.cleaning import Cleaning

BATCH_SEGMENTS = 100
MAX_ROUNDS = 400


def main(bootstrap_servers: str, cluster_id: str, folder: str, endpoint: str, key_prefix: str, number: str) -> None:
    """Clean to the end."""
    done, errors, reasons = Counter[str](), Counter[str](), Counter[str]()
    rounds, idle, last_error = 0, False, ""
    while not idle and rounds < MAX_ROUNDS:
        rounds += 1
        try:
            storage = ObjectStoreRemoteStorageManager(
                f"s3://{BUCKET}", AivenLayout(key_prefix), options=store_options(endpoint)
            )
            with Cleaning(
                bootstrap_servers, Path(folder), cluster_id, batch_segments=BATCH_SEGMENTS, storage=storage
            ) as cleaning:
                marked = len(cleaning.mark().marked)
                plan = cleaning.plan()
                idle = not marked and not plan.summary.by_metadata_partition
                # Each begins elsewhere, and meets the others' work later.
                totals = cleaning.clean(plan, first=int(number))
        except RlmmError as error:
            errors[type(error).__name__] += 1
            last_error = str(error)[:300]
            idle = False
            continue
        done += Counter({name: totals[name] for name in ("segments_deleted", "objects_deleted", "partitions_finished")})
        reasons += Counter(reason[:160] for reason in totals["reasons"])
    report = {"rounds": rounds, "idle": idle, **done, "errors": errors, "last_error": last_error, "reasons": reasons}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
