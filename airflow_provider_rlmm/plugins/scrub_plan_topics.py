# SPDX-License-Identifier: Apache-2.0
"""What the plan of a scrub names, topic by topic: how many segments and objects, how large, and of which classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_rlmm.core.base.agreement import number_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.features.scrub.scrub_plan import ScrubPlan
from airflow_provider_rlmm.plugins.plan_rows import MAX_ROWS, id_text

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_rlmm.overview.tables import Rows

_TOPIC: Final = ["topic", "topic_id"]
_SEGMENT: Final = [*_TOPIC, "partition", "segment_id"]


@dataclass(frozen=True, slots=True)
class ScrubbedTopicRow:
    """What the plan of a scrub names of one topic."""

    topic: str
    topic_id: str
    segments: int
    objects: int
    bytes: int
    classes: Mapping[str, int]  # class → its objects


def scrubbed_topics(work_uri: str, plan: str, document: ScrubPlan, rows: int) -> Rows:
    """
    Return the largest topics that the plan of a scrub names (:class:`ScrubbedTopicRow`), and how many there are in all.

    :param work_uri: the work folder.
    :param plan: name of the plan.
    :param document: of the plan.
    :param rows: how many are returned, at most.
    :raises FileNotFoundError: if its table is gone.
    :raises DocumentError: if its table is not the one that the document names, or has more than
        :data:`~airflow_provider_rlmm.plugins.plan_rows.MAX_ROWS` rows.
    """
    import pyarrow.compute as pc

    from airflow_provider_rlmm.overview.tables import Rows, plain

    table = _table(work_uri, plan, document)
    every = table.group_by(_TOPIC).aggregate([([], "count_all"), ("bytes", "sum")])
    order = pc.array_sort_indices(every.column("bytes_sum").combine_chunks(), order="descending")
    largest = every.take(order.slice(0, rows))
    # Of those that are shown alone: there may be as many topics as objects.
    mine = table.filter(pc.is_in(_plain(table, "topic_id"), _plain(largest, "topic_id").combine_chunks()))
    segments = _counts(mine.group_by(_SEGMENT).aggregate([]), _TOPIC)
    classes: defaultdict[tuple[Any, ...], dict[str, int]] = defaultdict(dict)
    for (*topic, kind), count in sorted(_counts(mine, [*_TOPIC, "class"]).items()):
        classes[tuple(topic)][kind] = count
    found = tuple(
        ScrubbedTopicRow(
            topic=row["topic"] or "",
            topic_id=id_text(row["topic_id"]),
            segments=segments[row["topic"], row["topic_id"]],
            objects=row["count_all"],
            bytes=row["bytes_sum"] or 0,
            classes=classes[row["topic"], row["topic_id"]],
        )
        for row in plain(largest)
    )
    return Rows(found, every.num_rows)


def _plain(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return ids in the place of a dictionary."""
    return table.column(name).cast("binary")


def _counts(table: pa.Table, by: list[str]) -> dict[tuple[Any, ...], int]:
    from airflow_provider_rlmm.overview.tables import plain

    counted = plain(table.group_by(by).aggregate([([], "count_all")]))
    return {tuple(row[name] for name in by): row["count_all"] for row in counted}


def _table(work_uri: str, plan: str, document: ScrubPlan) -> pa.Table:
    from airflow_provider_rlmm.features.scrub.scrub_table import scrub_schema
    from airflow_provider_rlmm.overview.tables import Expected, whole_table

    file = document.file
    if file.rows > MAX_ROWS:
        raise DocumentError(
            f"the plan names {number_of(file.rows, 'object')}, and no page shows the topics of more than {MAX_ROWS:,}"
        )
    schema, wanted = scrub_schema(), {*_SEGMENT, "class", "bytes"}
    columns = [name for name in schema.names if name in wanted]
    expected = Expected(file.rows, file.bytes, file.sha256)
    return whole_table(work_uri, plan, file.name, schema=schema, expected=expected, columns=columns)
