# SPDX-License-Identifier: Apache-2.0
"""When each segment was last looked at: a file of the cluster in the work folder, so that samples cover all in turn."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_arrays import array_of
from airflow_provider_rlmm.core.base.errors import RlmmError
from airflow_provider_rlmm.core.base.file_systems import read_file, replacing

logger = logging.getLogger(__name__)

LAST_LOOKS: Final = "contents-last-looks.parquet"

_MAX_BYTES: Final = 1 << 30


def read_last_looks(cluster_uri: str) -> dict[UUID, int]:
    """
    Return segment → when its contents were last looked at, ms since the epoch.

    Where that cannot be read a sample begins anew: it may look again at what was looked at lately, nothing worse.

    :param cluster_uri: the folder of the cluster.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(read_file(f"{cluster_uri}/{LAST_LOOKS}", _MAX_BYTES)))
        ids, times = (table.column(name).to_pylist() for name in ("segment_id", "looked_at_ms"))
        return {UUID(bytes=segment): time for segment, time in zip(ids, times, strict=True)}
    except FileNotFoundError:
        return {}
    except (OSError, RlmmError, ValueError, KeyError, TypeError, pa.ArrowException) as e:
        logger.warning("when segments were last looked at cannot be read, and is forgotten: %s", e)
        return {}


def keep_last_looks(cluster_uri: str, looks: Mapping[UUID, int], there: Collection[UUID]) -> None:
    """
    Keep it, in the place of what was kept before; where that cannot be done the log says so.

    :param cluster_uri: the folder of the cluster.
    :param looks: segment → ms since the epoch.
    :param there: segments that there still are; the others are forgotten.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = {segment: time for segment, time in looks.items() if segment in there}
    table = pa.table(
        {
            "segment_id": array_of([segment.bytes for segment in kept], pa.binary()),
            "looked_at_ms": array_of(list(kept.values()), pa.int64()),
        }
    )
    try:
        with replacing(f"{cluster_uri}/{LAST_LOOKS}") as stream:
            pq.write_table(table, stream)
    except (OSError, RlmmError) as e:
        logger.warning("when segments were last looked at is not kept, so a later sample may look at them again: %s", e)
