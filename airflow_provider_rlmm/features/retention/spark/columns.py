# SPDX-License-Identifier: Apache-2.0
"""The columns of the data set of segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_rlmm.core.plans.plan import PLAN_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

SEGMENT = "segment"
"""A segment that is not finished, with all columns but ``error``; ``reason`` may be null."""

UNRESOLVED = "unresolved"
"""A segment whose state is not certain: an update came without its add, or an event that no broker can apply."""

QUARANTINED = "quarantined"
"""A record that cannot be applied, at ``event_offset``; ``error`` says why."""

SEGMENT_COLUMNS: tuple[tuple[str, str], ...] = (
    ("kind", "string"),
    *(column for column in PLAN_COLUMNS if column[0] not in ("reason", "exact")),
    ("segment_leader_epochs", "epochs"),
    ("added_offset", "int64"),  # of the record that added it
    ("event_offset", "int64"),  # of the last record that changed it
    ("listed", "bool"),  # whether its topic id is in the listing of the cluster
    ("may_be_orphaned", "bool"),  # not listed, and all its events are older than the listing
    ("reason", "string"),  # a Reason, never ORPHANED: that takes the cluster's answer to the name, after the read
    ("exact", "bool"),  # of the reason, and of ORPHANED where it may be orphaned
    ("error", "string"),
)
"""Name and Arrow type of every column; any may be null."""

KINDS = (SEGMENT, UNRESOLVED, QUARANTINED)
"""All kinds of rows of the data set."""

EVENT_COLUMNS: tuple[tuple[str, str], ...] = (
    ("metadata_partition", "int32"),
    ("offset", "int64"),
    ("timestamp_ms", "int64"),  # of the record
    ("api_key", "int8"),
    ("state", "int8"),
    ("topic_id", "binary"),
    ("topic", "string"),
    ("partition", "int32"),
    ("segment_id", "binary"),
    ("start_offset", "int64"),
    ("end_offset", "int64"),
    ("max_timestamp_ms", "int64"),
    ("segment_size_in_bytes", "int64"),
    ("segment_leader_epochs", "epochs"),
    ("broker_id", "int32"),
    ("broker_leader_epoch", "int32"),
    ("event_timestamp_ms", "int64"),
    ("custom_metadata", "binary"),
    ("txn_idx_empty", "bool"),
    ("error_code", "int8"),  # an ErrorCode
    ("error", "string"),
)
"""Name and Arrow type of what tasks tell of single records; all but the first two and ``error_code`` may be null."""

WHAT_IF_COLUMNS: tuple[tuple[str, str], ...] = (
    ("scenario", "int32"),
    ("topic", "string"),
    ("reason", "string"),
    ("segments", "int64"),
    ("bytes", "int64"),
)
"""Name and Arrow type of what tasks tell of other retention settings: per scenario, topic and reason what would go."""

PLANNED_COLUMNS: tuple[tuple[str, str], ...] = (
    ("metadata_partition", "int32"),
    ("reason", "string"),
    ("exact", "bool"),
    ("segments", "int64"),
    ("bytes", "int64"),
    ("file", "string"),
    ("file_bytes", "int64"),
    ("sha256", "string"),
)
"""Name and Arrow type of what tasks tell of a plan: the segments per reason and certainty, and the file that lists them."""

UNLISTED_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic_id", "binary"),
    ("topic", "string"),
    ("segments", "int64"),
    ("bytes", "int64"),
)
"""Name and Arrow type of what tasks tell of topics that the listing lacks: their segments that may be orphaned."""

UNCERTAIN_COLUMNS: tuple[tuple[str, str], ...] = (
    ("metadata_partition", "int32"),
    ("topic_id", "binary"),
    ("topic", "string"),
    ("partition", "int32"),
    ("segments", "int64"),
)
"""Name and Arrow type of what tasks tell of user partitions: their segments whose state is not certain."""

AGE_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic_id", "binary"),
    ("topic", "string"),
    ("age", "int8"),  # number of its range in RANGES of record_ages
    ("segments", "int64"),
    ("bytes", "int64"),
)
"""Name and Arrow type of what tasks tell of topics: their segments by the age of the newest record."""

LEADER_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic_id", "binary"),
    ("topic", "string"),
    ("partition", "int32"),
    ("certainty", "string"),  # a Certainty, or NOT_TIERED
    ("why", "string"),  # why nothing is told, null where something is
    ("segments", "int64"),  # that the leader deletes for certain; of a topic that is not tiered: all
    ("bytes", "int64"),
)
"""Name and Arrow type of what tasks tell of the user partitions of listed topics: what is known of their leaders."""

NOT_TIERED = "not tiered"
"""In the place of a certainty: the topic has no remote storage any more, so no leader deletes anything of it."""

_SPARK_TYPES = {
    "int8": "byte",
    "int32": "int",
    "int64": "long",
    "bool": "boolean",
    "string": "string",
    "binary": "binary",
    "epochs": "array<struct<leader_epoch: int, start_offset: long>>",
}


def spark_schema(columns: tuple[tuple[str, str], ...]) -> str:
    """Return columns, by name and Arrow type, as a Spark schema."""
    return ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in columns)


def arrow_schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    """Return columns, by name and Arrow type each, as an Arrow schema."""
    import pyarrow as pa

    epochs = pa.list_(pa.struct({"leader_epoch": pa.int32(), "start_offset": pa.int64()}))
    return pa.schema([(name, epochs if kind == "epochs" else pa.type_for_alias(kind)) for name, kind in columns])
