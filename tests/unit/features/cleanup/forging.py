# SPDX-License-Identifier: Apache-2.0
"""What somebody may write in the place of what the log says: other records of a deleted topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_rlmm.core.records.serde import deserialize, serialize
from airflow_provider_rlmm.core.records.states import RemoteLogSegmentState as S
from tests.builders import add, tip, update

GONE = tip()
MADE_UP = tip("made-up", 0, 77)

Records = list[bytes]


def without(*segments: int) -> Callable[[Records], Records]:
    """Leave out all records about some segments of the deleted topic."""
    ids = {add(GONE, number).remote_log_segment_id for number in segments}
    return lambda records: [r for r in records if getattr(deserialize(r), "remote_log_segment_id", None) not in ids]


def beside(*events: Any) -> Callable[[Records], Records]:
    """Write some events behind the others."""
    return lambda records: [*records, *map(serialize, events)]


def finished(number: int) -> tuple[Any, Any]:
    """Return the end of a segment of the deleted topic."""
    return update(GONE, number, S.DELETE_SEGMENT_STARTED), update(GONE, number, S.DELETE_SEGMENT_FINISHED)
