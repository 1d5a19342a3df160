# SPDX-License-Identifier: Apache-2.0
"""
What scrubs leave: ``scrub.parquet`` and ``scrub.json`` in the folder of their run, and the name of the latest one in the
folder of the cluster.

The table is the record of since when an object has been without a record in the log: each scrub takes it over from the one
before it, and an object that one of them did not find so begins anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_provider_rlmm.core.base.arrow_groups import groups_of
from airflow_provider_rlmm.core.base.errors import PlanError
from airflow_provider_rlmm.core.plans.plan import PlanFile
from airflow_provider_rlmm.core.plans.plan_files import read_document, write_document
from airflow_provider_rlmm.core.plans.prices import StoragePrice
from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from airflow_provider_rlmm.core.runs.attention import Attention
from airflow_provider_rlmm.core.runs.table_pairs import write_pair
from airflow_provider_rlmm.features.scrub.comparison import Scrub
from airflow_provider_rlmm.features.scrub.first_seen import FirstSeen
from airflow_provider_rlmm.features.scrub.rules import LISTING_ENDED, LOST, ScrubClass
from airflow_provider_rlmm.features.scrub.scrub_summary import (
    FORGOTTEN,
    MAX_KEYS,
    MAX_LISTED,
    SCRUB_DOCUMENT,
    SCRUB_TABLE,
    ScrubSummary,
    Told,
    problems,
)
from airflow_provider_rlmm.features.scrub.scrub_table import ScrubTable, open_table, scrub_schema
from airflow_provider_rlmm.features.scrub.scrub_tally import ScrubTally
from airflow_provider_rlmm.features.scrub.unnamed import bar

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

LATEST = "latest-scrub.json"
"""Names the latest scrub of a cluster."""


@dataclass(frozen=True, slots=True)
class ScrubOrigin:
    """Of what and by whose time a scrub was made."""

    scrub_id: str  # names it
    cluster_id: str  # the cluster
    metadata_topic_id: UUID  # of the log that was read
    clock: str  # which clock was used, in words
    time_is_proven: bool  # whether waits may be measured by it
    root: Mapping[str, Any]  # what was seen of the storage root
    price: StoragePrice | None  # by which costs are reckoned


def write_scrub(uri: str, scrub: Scrub, origin: ScrubOrigin, earlier: ScrubTable | None) -> ScrubSummary:
    """
    Write the table and then the document, in the place of older ones.

    :param uri: of the run's folder.
    :param scrub: what was found.
    :param origin: of what it was made.
    :param earlier: the table of the scrub before it, ``None`` where none counts.
    :raises PlanError: if the document does not read back, or the earlier table cannot be read.
    :raises OSError: if they cannot be written; there is no scrub then.
    """
    tally = ScrubTally(scrub.unmarkable)

    def rows() -> Iterator[pa.Table]:
        since = FirstSeen(earlier, scrub.began_at_ms if origin.time_is_proven else None)
        for kind, found in scrub.tables():
            tally.note(kind, found)
            yield since.added_to(kind, found).select(scrub_schema().names)

    def summary(file: PlanFile) -> ScrubSummary:
        return _summary_of(scrub, tally, origin, file)

    written: ScrubSummary = write_pair(uri, (SCRUB_TABLE, scrub_schema()), rows(), (SCRUB_DOCUMENT, summary))
    return written


def _summary_of(scrub: Scrub, tally: ScrubTally, origin: ScrubOrigin, file: PlanFile) -> ScrubSummary:
    topics, unnamed = tally.topics(), tally.unnamed()
    incomplete = sorted(scrub.incomplete.items())
    return ScrubSummary(
        scrub_id=origin.scrub_id,
        cluster_id=origin.cluster_id,
        metadata_topic_id=kafka_uuid_str(origin.metadata_topic_id),
        began_at_ms=scrub.began_at_ms,
        clock=origin.clock,
        time_is_proven=origin.time_is_proven,
        read_until=scrub.read_until,
        root=origin.root,
        listed=scrub.listed,
        listed_segments=scrub.listed_segments,
        classes={ScrubClass.IN_USE.value: scrub.in_use} | tally.classes,
        topics=topics[:MAX_LISTED],
        topics_left_out=max(0, len(topics) - MAX_LISTED),
        unnamed=unnamed[:MAX_LISTED],
        unnamed_left_out=max(0, len(unnamed) - MAX_LISTED),
        incomplete=tuple(Told(folder, why) for folder, why in incomplete[:MAX_LISTED]),
        incomplete_left_out=max(0, len(incomplete) - MAX_LISTED),
        doubtful=scrub.doubtful,
        lost=scrub.lost,
        forgotten=scrub.forgotten,
        forgotten_left_out=scrub.forgotten_left_out,
        foreign_folders=len(scrub.foreign),
        unseen_folders=len(scrub.unseen),
        unseen=tuple(Told(folder, why) for folder, why in list(scrub.unseen.items())[:MAX_KEYS]),
        price_micros=origin.price.micros_per_gb_month if origin.price else None,
        storage_class=origin.price.storage_class if origin.price else None,
        file=file,
        era=scrub.era.told(),
    )


def problems_of(summary: ScrubSummary, rows: ScrubTable) -> list[Attention]:
    """
    Return what needs a person.

    :param summary: of the scrub.
    :param rows: its table.
    :raises PlanError: if it cannot be read.
    """
    missing, unknown = (list(islice(found, MAX_LISTED)) for found in (_missing(rows), _unknown(rows)))
    return list(problems(summary, missing, unknown))


def _missing(rows: ScrubTable) -> Iterator[dict[str, Any]]:
    """Yield the segments that lack an object."""
    for table in rows.of_class(ScrubClass.MISSING.value):
        for row in table.to_pylist():
            yield row | {"segment": kafka_uuid_str(UUID(bytes=row["segment_id"]))}


def _unknown(rows: ScrubTable) -> Iterator[dict[str, Any]]:
    """Yield a row for each topic, metadata partition and reason of what nothing can be told of."""
    import pyarrow.compute as pc

    names = ["topic_id", "topic", "metadata_partition", "why"]
    told: set[tuple[Any, ...]] = set()
    for table in rows.of_class(ScrubClass.UNKNOWN.value):
        # Those that bar others are told by name, as what storage holds and no record names.
        for row in groups_of(table.filter(pc.invert(bar(table))), names).keys(names).to_pylist():
            group = tuple(row.values())
            if group not in told and not _is_told_elsewhere(row["why"]):
                told.add(group)
                yield row | {"topic_id": kafka_uuid_str(UUID(bytes=row["topic_id"]))}


def _is_told_elsewhere(why: str) -> bool:
    """Tell whether something else is the problem: a folder that was not listed whole, lost records, a forgotten prefix."""
    return why in (LISTING_ENDED, LOST) or why.startswith(FORGOTTEN)


@contextmanager
def open_scrub(uri: str) -> Iterator[tuple[ScrubSummary, ScrubTable]]:
    """
    Open a scrub.

    :param uri: of the run's folder.
    :raises PlanError: if there is none, or it is not as it was written.
    """
    summary = ScrubSummary.from_json(read_document(uri, SCRUB_DOCUMENT))
    with open_table(uri, summary.file) as table:
        yield summary, table


def latest_scrub(
    cluster_uri: str, uri_of: Callable[[str], str], cluster_id: str, metadata_topic_id: UUID
) -> ScrubSummary | None:
    """
    Return the latest scrub of a cluster, ``None`` where none counts.

    :param cluster_uri: of the cluster's folder.
    :param uri_of: returns the folder of a run, and refuses what cannot be the name of one by ``ConfigurationError``.
    :param cluster_id: the cluster.
    :param metadata_topic_id: of the log: a scrub of another log proves nothing.
    """
    try:
        latest = json.loads(read_document(cluster_uri, LATEST, 2**16))
        summary = ScrubSummary.from_json(read_document(uri_of(latest["scrub_id"]), SCRUB_DOCUMENT))
        if summary.file.sha256 != latest["sha256"]:
            raise PlanError(f"scrub {summary.scrub_id} is not the one that was recorded")
    except (PlanError, ValueError, LookupError, TypeError) as e:
        _say_that_none_counts(e)
        return None
    same_log = (summary.cluster_id, summary.metadata_topic_id) == (cluster_id, kafka_uuid_str(metadata_topic_id))
    return summary if same_log else None


@contextmanager
def table_of_latest(latest: ScrubSummary | None, uri_of: Callable[[str], str]) -> Iterator[ScrubTable | None]:
    """
    Open the table of the latest scrub; ``None`` where none counts: the wait of its objects begins anew then.

    :param latest: what :func:`latest_scrub` returned.
    :param uri_of: as it takes it.
    """
    with ExitStack() as opened:
        table: ScrubTable | None = None
        if latest is not None:
            try:
                table = opened.enter_context(open_table(uri_of(latest.scrub_id), latest.file))
            except PlanError as e:
                _say_that_none_counts(e)
        yield table


def _say_that_none_counts(error: Exception) -> None:
    level = logging.INFO if isinstance(error.__cause__, FileNotFoundError) else logging.WARNING
    logger.log(level, "no earlier scrub counts, objects that no record names are waited for anew: %s", error)


def record_latest(cluster_uri: str, summary: ScrubSummary) -> None:
    """
    Record a scrub as the latest one of its cluster.

    :param cluster_uri: of the cluster's folder.
    :param summary: what :func:`write_scrub` returned.
    :raises OSError: if it cannot be written.
    """
    write_document(
        cluster_uri, LATEST, json.dumps({"scrub_id": summary.scrub_id, "sha256": summary.file.sha256}, indent=2)
    )
